"""A cache of this test run's own: what is compared is what the assembler says now."""

from __future__ import annotations

import pytest

from mmalab.atlas.releases import release
from mmalab.errors import ToolError
from mmalab.toolchain.locate import Tool


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(params=["12.9", "13.0", "13.5"])
def ptxas(request: pytest.FixtureRequest) -> Tool:
    """Each release that is installed."""
    try:
        return release(request.param)
    except ToolError:
        pytest.skip(f"ptxas {request.param} is not installed")
