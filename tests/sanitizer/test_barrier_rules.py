"""Barrier protocol: counts, double arrivals, shared numbers, divergence."""

from __future__ import annotations

import pytest
from scenario import LOW, TILE, Scenario


@pytest.mark.parametrize("count", [48, 96])
def test_a_count_that_does_not_fit_is_reported(count):
    """Not a multiple of 32, or more than the CTA has."""
    s = Scenario(threads=64)
    s.arrive(0, 1, count)
    assert s.codes() == ["barrier-count"]


def test_arrivals_must_agree_on_the_count():
    """64 here and all threads there."""
    s = Scenario(threads=96)
    s.arrive(0, 1, 64)
    s.arrive(1, 1, 96)
    assert s.codes() == ["barrier-count"]


def test_a_barrier_number_beyond_15_is_reported():
    """There are sixteen barriers."""
    s = Scenario()
    s.arrive(0, 16, 64)
    assert s.codes() == ["barrier-count"]


def test_arriving_twice_in_one_generation_is_an_overrun():
    """The producer's second bar.arrive falls into the first generation."""
    s = Scenario()
    s.store(0, TILE)
    s.arrive(0, 1, 64, "arrive")
    s.arrive(0, 1, 64, "arrive", text="bar.arrive again")
    assert s.codes() == ["barrier-overrun"]


def test_an_overrun_explains_the_races_of_its_warps():
    """One cause, one finding: the consumer's race is not reported as well."""
    s = Scenario()
    s.arrive(0, 1, 64, "arrive")
    s.store(0, TILE)
    s.arrive(1, 1, 64)
    s.release(1, ident=1)
    s.arrive(0, 1, 64, "arrive", text="bar.arrive again")
    s.arrive(0, 1, 64, "arrive", text="bar.arrive again")
    s.load(1, TILE)
    assert s.codes() == ["barrier-overrun", "barrier-shared-id"]


def test_two_groups_with_their_own_numbers_are_clean():
    """Warps 0, 1 on barrier 1 and warps 2, 3 on barrier 2."""
    s = Scenario(threads=128)
    s.barrier(0, 1, ident=1, count=64)
    s.barrier(2, 3, ident=2, count=64)
    assert s.codes() == []


def test_two_groups_on_one_number_are_reported():
    """The second group does not know that the first is through (C3)."""
    s = Scenario(threads=128)
    s.barrier(0, 1, ident=1, count=64)
    s.barrier(2, 3, ident=1, count=64)
    assert s.codes() == ["barrier-shared-id"]


def test_a_number_may_change_hands_after_a_common_barrier():
    """With a barrier of all warps in between the number is free again."""
    s = Scenario(threads=128)
    s.barrier(0, 1, ident=1, count=64)
    s.barrier(0, 1, 2, 3)
    s.barrier(2, 3, ident=1, count=64)
    assert s.codes() == []


def test_the_same_warps_may_use_a_number_again_and_again():
    """A loop of barriers is no sharing."""
    s = Scenario()
    for _ in range(4):
        s.barrier(0, 1)
    assert s.codes() == []


def test_an_aligned_barrier_with_half_a_warp_is_divergent():
    """The other half stands elsewhere."""
    s = Scenario()
    s.arrive(0, mask=LOW)
    (finding,) = s.findings()
    assert finding.code == "divergent-collective"
    assert finding.witness["absent_lanes"] == list(range(16, 32))


def test_lanes_that_ended_are_not_missed():
    """Only live lanes must come (C1)."""
    s = Scenario()
    s.exit(0, mask=0xFFFF0000)
    s.arrive(0, mask=LOW)
    assert s.codes() == []


def test_a_barrier_that_is_not_aligned_may_be_reached_in_parts():
    """barrier.sync on two paths of one warp orders both halves."""
    s = Scenario()
    s.store(0, TILE)
    s.store(1, TILE + 128)
    for warp in (0, 1):
        s.diverge(LOW, 0xFFFF0000, warp=warp)
        for mask in (LOW, 0xFFFF0000):
            s.arrive(warp, mask=mask, text=f"barrier.sync 0 {mask}", aligned=False)
    s.release(0, 1)
    s.load(1, TILE)
    s.load(0, TILE + 128)
    assert s.codes() == []
