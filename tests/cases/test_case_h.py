"""H: launches that ask for too much shared memory."""

from __future__ import annotations

import pytest
from cases.pipelines import TWINS

import mmalab
from mmalab.errors import MmalabError


def test_h05_told_before_the_launch(ask) -> None:
    """H05: 240 KiB on a chip with 227, and the launch fails silently. Here it does not."""
    with pytest.raises(MmalabError, match="245760 dynamic"):
        mmalab.emulate(TWINS["c01_ring"](), [], dynamic_shared=240 * 1024)
    assert ask("run", "c01_ring.ptx", "--shared", 200 * 1024).code == 0
    said = ask("plan", "occupancy", "--registers", 32, "--shared", 240 * 1024, "--threads", 128,
               "--target", "sm_90a")
    assert said.code == 1
    assert "13312 too many" in said.text
