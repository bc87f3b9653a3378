"""Many kernels in one module."""

from __future__ import annotations

import pytest

from mmalab.claims.probe import WARP_MMA, WARPGROUP, Probe, warp_kernels
from mmalab.claims.together import join_kernels, read_together


def test_join() -> None:
    """One header with the newest version and the first target; kernels in order."""
    joined = join_kernels([WARP_MMA, WARPGROUP, Probe().text()])
    assert joined.startswith(".version 8.6\n.target sm_80\n.address_size 64\n")
    assert joined.count(".version") == 1
    assert [joined.index(f".entry kernel_{at}(") for at in range(3)] == sorted(
        joined.index(f".entry kernel_{at}(") for at in range(3))


def test_join_needs_headers() -> None:
    """What is no module is no kernel of one."""
    with pytest.raises(ValueError, match="module 1 has no header"):
        join_kernels([WARP_MMA, "ret;"])


@pytest.mark.toolkit
def test_read_together() -> None:
    """A kernel reads as it does alone; one that is refused leaves its words, and the others."""
    found = read_together(warp_kernels(), "sm_89", "13.5")
    assert found["f16"].products[0].startswith("HMMA.16816.F32 ")
    assert found["e4m3"].products[0].startswith("QMMA.16832.F32.E4M3.E4M3 ")
    assert found["nvfp4"].function is None
    assert "sm_89" in found["nvfp4"].message
    assert found["nvfp4"].opcodes == []
