"""PTX to assemble, and a cache that lasts for the session only."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory):
    """Entries of earlier runs must not decide today's result."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMALAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
