"""Fixtures for all tests: where the handed material lies, and what the machine lacks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parent.parent


def _shared_folder() -> Path | None:
    named = os.environ.get("MMALAB_SHARED")
    folder = Path(named) if named else _REPOSITORY.parent / "shared"
    return folder if (folder / "design.md").exists() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recordings and fact matrices; skips, and says so, where it is absent."""
    folder = _shared_folder()
    if folder is None:
        pytest.skip("the shared material is not beside this clone (set MMALAB_SHARED)")
    return folder
