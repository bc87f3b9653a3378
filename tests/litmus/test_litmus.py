"""The litmus set: every kernel gets its verdict, under every schedule."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from litmus_kernels import KERNELS, check_verdict, launch

from mmalab.sanitizer.run import emulate

SCHEDULES: list[str | int] = ["eager", "lazy", 1, 2, 3]
CLEAN = [name for name, row in KERNELS.items() if row["expect"]["verdict"] == "clean"]


@cache
def run(name: str, schedule: str | int) -> tuple[Any, list[np.ndarray]]:
    """One run of one kernel, shared by the tests that look at it."""
    return launch(emulate, name, schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", KERNELS)
def test_verdict(name: str, schedule: str | int) -> None:
    """The verdict, one of the accepted codes, and the severity are as the manifest says."""
    check_verdict(name, run(name, schedule)[0].findings)


@pytest.mark.parametrize("name", CLEAN)
def test_clean_kernels_give_one_result(name: str) -> None:
    """A clean kernel's outputs do not depend on the schedule."""
    first = run(name, SCHEDULES[0])[1]
    for schedule in SCHEDULES[1:]:
        for one, other in zip(first, run(name, schedule)[1], strict=True):
            np.testing.assert_array_equal(one, other)


def test_files_and_rows_belong_together() -> None:
    """Every row has its kernel, every clean twin is a clean row."""
    for name, row in KERNELS.items():
        assert row["file"] == f"{name}.ptx"
        assert row["clean_twin"] is None or row["clean_twin"] in CLEAN, name
