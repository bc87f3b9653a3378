"""The clock probe: two readings of each SM's counters, and the mean between them."""

from __future__ import annotations

import numpy as np
import pytest

import mmalab
from mmalab.bench.clock import SLOTS, mean_mhz, probe_kernel


def readings(at: dict[int, tuple[int, int]]) -> list[list[int]]:
    return [list(at.get(sm, (0, 0))) for sm in range(4)]


def test_mean_between_two_probes() -> None:
    """1.3e6 clocks in 1 ms are 1300 MHz; SMs that never wrote do not count."""
    before = readings({0: (1000, 5000), 1: (77, 5100)})
    after = readings({0: (1000 + 1_300_000, 1_005_000), 1: (77 + 1_310_000, 1_005_100)})
    assert mean_mhz(before, after) == pytest.approx(1305.0)


def test_too_short_says_nothing() -> None:
    """The timer moves in steps; a distance of a few steps is no measurement."""
    assert mean_mhz(readings({0: (0, 1)}), readings({0: (19, 11)})) is None
    assert mean_mhz(readings({}), readings({})) is None


@pytest.mark.parametrize("wait", [0, 3000])
def test_the_probe_writes_where_its_sm_is(wait: int) -> None:
    """In the emulator: one reading for each SM that ran a CTA, later readings are later."""
    kernel = probe_kernel(2, 0)
    early, late = (np.zeros((SLOTS, 2), np.uint64) for _ in range(2))
    mmalab.emulate(kernel, [early, 0])
    mmalab.emulate(kernel, [late, wait])
    assert 1 <= np.count_nonzero(early[:, 1]) <= 2


@pytest.mark.toolkit
def test_the_probe_assembles_with_its_loop() -> None:
    cubin = mmalab.assemble(probe_kernel(132, 0).ptx, "sm_90")
    assert cubin.bytes
