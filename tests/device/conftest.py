"""Tests marked gpu need a device; without one they skip, and say what is missing."""

from __future__ import annotations

import pytest

from mmalab.device import info


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    found = info()
    if "capability" not in found:
        pytest.skip(f"no GPU: {found['problems']['cuda']}")
