"""Vector clocks: what joins, what a route moves, what a lane knows of itself."""

from __future__ import annotations

import numpy as np

from mmalab.sanitizer.clocks import (
    EXECUTION,
    FENCED_HARD,
    HARD,
    OFFERED_HARD,
    PRACTISED,
    RELATIONS,
    SCOPELESS,
    Knowledge,
    Level,
    lanes_of,
    mask_of,
    routes,
)
from mmalab.sanitizer.lanes import COPIES, WARP, WarpClock

FULL = 0xFFFFFFFF


def knowledge(cta: int, **rows: int) -> Knowledge:
    """One warp's clocks, all lanes of a relation at one value."""
    part = np.zeros((RELATIONS, 2, 32), np.uint32)
    for name, value in rows.items():
        part[globals()[name], 0] = value
    return Knowledge({cta: part})


def one(value: int) -> np.ndarray:
    return np.array([value], np.int64)


def test_masks_and_lanes_are_inverse():
    """Bit l is lane l."""
    for mask in (0, 1, 0x80000000, 0x00FF00F0, FULL):
        flags = np.zeros(32, bool)
        flags[lanes_of(mask)] = True
        assert mask_of(flags) == mask


def test_a_join_takes_the_later_of_both_per_component_and_keeps_its_arguments():
    """Component-wise maximum; CTAs that only one side knows come along."""
    left, right = knowledge(0, HARD=3, EXECUTION=1), knowledge(0, HARD=2, EXECUTION=5)
    joined = left.joined(right).joined(knowledge(4, HARD=9))
    assert joined.row(HARD, 0, 0)[0] == 3
    assert joined.row(EXECUTION, 0, 0)[0] == 5
    assert joined.row(HARD, 4, 0)[0] == 9
    assert left.row(EXECUTION, 0, 0)[0] == 1
    assert left.joined(left) is left


def route(**options):
    defaults = {"releasing": True, "acquiring": True, "write_level": Level.GPU,
                "read_level": Level.GPU, "distance": Level.GPU}
    return dict(routes(**defaults | options))


def test_release_to_acquire_moves_every_row_as_it_is():
    """Sufficient scopes, both ends: HARD comes from HARD."""
    assert route() == {row: row for row in range(RELATIONS)}


def test_a_relaxed_write_publishes_what_was_fenced_at_the_distance():
    """HARD comes from the FENCED row of the reader's distance; EXECUTION always moves."""
    relaxed = route(releasing=False)
    assert relaxed[HARD] == FENCED_HARD + Level.GPU
    assert relaxed[EXECUTION] == EXECUTION
    assert route(releasing=False, distance=Level.CTA)[HARD] == FENCED_HARD + Level.CTA


def test_a_relaxed_read_parks_until_a_fence():
    """Nothing reaches HARD; it waits in the OFFERED row of the distance."""
    parked = route(acquiring=False)
    assert HARD not in parked
    assert parked[OFFERED_HARD + Level.GPU] == HARD


def test_a_narrow_scope_leaves_only_words():
    """Either side too narrow: SCOPELESS and EXECUTION, no order."""
    for options in ({"write_level": Level.CTA}, {"read_level": Level.CTA}):
        narrow = route(**options)
        assert HARD not in narrow
        assert PRACTISED not in narrow
        assert narrow[SCOPELESS] == SCOPELESS


def covers(clock: WarpClock, relation: int, by: int, row: int, lane: int, epoch: int) -> bool:
    return bool(clock.covers(relation, one(by), one(0), one(row), one(lane), one(epoch))[0])


def test_a_lane_knows_itself_and_its_siblings_only_in_lockstep():
    """The own epoch is known without synchronisation, a sibling's only in PRACTISED."""
    clock = WarpClock(0, 0, 1, FULL, Knowledge())
    assert covers(clock, HARD, 3, WARP, 3, 1)
    assert not covers(clock, HARD, 3, WARP, 4, 1)
    assert covers(clock, PRACTISED, 3, WARP, 4, 1)
    clock.sync(FULL)
    assert covers(clock, HARD, 3, WARP, 4, 1)
    assert not covers(clock, HARD, 3, WARP, 4, clock.now)


def test_a_finished_copy_is_its_lanes_own_knowledge():
    """The diagonal of the copy agent: lane 3's copies say nothing about lane 4's."""
    clock = WarpClock(0, 0, 1, FULL, Knowledge())
    clock.own[:4, COPIES, 3] = 7
    assert covers(clock, HARD, 3, 1, 3, 7)
    assert not covers(clock, HARD, 3, 1, 3, 8)
    assert not covers(clock, HARD, 4, 1, 3, 7)
    assert covers(clock, PRACTISED, 4, 1, 3, 7)


def test_lanes_that_learn_apart_come_together_at_the_next_sync():
    """An elected acquire splits the warp's knowledge, a full sync makes it one again."""
    clock = WarpClock(0, 0, 1, FULL, Knowledge())
    clock.receive(1, knowledge(5, HARD=2), routes(
        releasing=True, acquiring=True, write_level=Level.GPU, read_level=Level.GPU,
        distance=Level.GPU))
    assert len(clock.parts) == 2
    assert clock.unknown(HARD, np.array([0, 1]), 5, 0, 2).tolist() == [0, FULL]
    clock.sync(FULL)
    assert len(clock.parts) == 1
    assert clock.unknown(HARD, np.array([0, 1]), 5, 0, 2).tolist() == [0, 0]
