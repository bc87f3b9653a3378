"""Fixtures for all tests: where the handed material lies, and what the machine lacks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from mmalab.toolchain.locate import tools

_REPOSITORY = Path(__file__).resolve().parent.parent
#: No test depends on how fast the machine is today.
settings.register_profile("mmalab", deadline=None)
settings.load_profile("mmalab")
_TOOLS = ("ptxas", "nvdisasm", "cuobjdump")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without the toolkit its tests skip; where it is required (``make test``) they fail."""
    if item.get_closest_marker("toolkit") is None:
        return
    missing = [name for name in _TOOLS if not tools(name)]
    if not missing:
        return
    words = f"{', '.join(missing)} not installed: pip install 'mmalab[toolchain]'"
    if os.environ.get("MMALAB_REQUIRE_TOOLKIT") == "1":
        pytest.fail(words, pytrace=False)
    pytest.skip(words)


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
