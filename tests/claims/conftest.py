"""Claims without an assembler, and a cache of this run's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mmalab.claims import assembled
from mmalab.claims.topics import MODULES
from mmalab.errors import ToolError


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Entries of earlier runs must not decide today's result."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMALAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def _absent(name: str, toolkit: str | None = None) -> None:
    raise ToolError(name if toolkit is None else f"{name} of toolkit {toolkit}",
                    "is not installed", legal="pip install 'mmalab[toolchain]'")


@pytest.fixture(scope="module")
def no_tools() -> Iterator[None]:
    """As on a machine where no ptxas is installed; shared computations start afresh."""
    shared = [value for module in (assembled, *MODULES) for value in vars(module).values()
              if hasattr(value, "cache_clear")]
    with pytest.MonkeyPatch.context() as patch:
        for module in (assembled, *MODULES):
            if hasattr(module, "find"):
                patch.setattr(module, "find", _absent)
        for value in shared:
            value.cache_clear()
        yield
    for value in shared:
        value.cache_clear()
