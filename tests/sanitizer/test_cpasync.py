"""cp.async: what a wait covers, for whom, and the words for what it does not."""

from __future__ import annotations

import numpy as np
from scenario import LANES, ROWS, SOURCE, TILE, Scenario

WORDS = np.uint64(1024) + 16 * LANES


def test_wait_and_barrier_order_the_copy():
    """Copy, commit, wait, barrier, read by another warp."""
    s = Scenario()
    s.copy(0)
    s.commit(0)
    s.wait(0)
    s.barrier(0, 1)
    s.load(1, WORDS)
    assert s.codes() == []


def test_the_issuer_needs_the_wait_too():
    """A thread reads back its own copy: only after its own wait."""
    with_wait, without = Scenario(), Scenario()
    for s in (with_wait, without):
        s.copy(0)
        s.commit(0)
    with_wait.wait(0)
    for s in (with_wait, without):
        s.load(0, WORDS)
    assert with_wait.codes() == []
    assert without.codes() == ["missing-cp-async-wait"]
    assert without.repair("missing-cp-async-wait").startswith("cp.async.wait_group 0")


def test_a_wait_that_is_too_loose_says_how_tight_it_must_be():
    """wait_group 1 leaves the only group pending."""
    s = Scenario()
    s.copy(0)
    s.commit(0)
    s.wait(0, 1)
    s.barrier(0, 1)
    s.load(1, WORDS)
    assert s.codes() == ["missing-cp-async-wait"]
    assert s.repair("missing-cp-async-wait").startswith(
        "cp.async.wait_group 0 instead of 1 in line 3, or 1 more cp.async.commit_group")


def test_an_uncommitted_copy_is_not_covered():
    """wait_group covers committed groups only, wait_all everything."""
    group, everything = Scenario(), Scenario()
    for s, newest in ((group, 0), (everything, -1)):
        s.copy(0)
        s.wait(0, newest)
        s.barrier(0, 1)
        s.load(1, WORDS)
    assert everything.codes() == []
    assert group.codes() == ["missing-cp-async-wait"]
    assert group.repair("missing-cp-async-wait") == (
        "cp.async.commit_group before the wait in line 2")


def test_wait_group_covers_older_groups_only():
    """Two groups in flight: wait 1 reaches the first, an empty commit shifts the count."""
    for commits, clean in ((0, False), (1, True)):
        s = Scenario()
        s.copy(0)
        s.commit(0)
        s.copy(0, ROWS + np.uint64(2048))
        s.commit(0)
        s.wait(0, 1)
        s.load(0, WORDS)
        assert s.codes() == []
        for _ in range(commits):
            s.commit(0)
        s.wait(0, 1)
        s.load(0, WORDS + np.uint64(2048), "ld.second")
        assert (s.codes() == []) is clean


def test_copies_issued_after_a_wait_are_not_covered_by_it():
    """wait_all ends an epoch even without a commit."""
    s = Scenario()
    s.copy(0)
    s.wait(0, -1)
    s.copy(0, text="cp.async again")
    s.load(0, WORDS)
    assert s.codes() == ["missing-cp-async-wait"]


def test_another_warps_wait_does_not_help():
    """Every thread waits for its own copies only; without a barrier nobody learns of them."""
    s = Scenario()
    for warp in (0, 1):
        s.copy(warp, ROWS + np.uint64(512 * warp))
        s.commit(warp)
        s.wait(warp)
    s.load(1, WORDS)
    assert s.codes() == ["missing-barrier"]
    assert s.repair("missing-barrier") == "bar.sync after the wait in line 3"


def test_barrier_before_the_wait_is_told_to_swap():
    """The right instructions in the wrong order."""
    s = Scenario()
    s.copy(0)
    s.commit(0)
    s.barrier(0, 1)
    s.wait(0)
    s.load(1, WORDS)
    assert s.codes() == ["missing-barrier"]
    assert s.repair("missing-barrier") == "swap the barrier in line 3 and the wait in line 4"


def test_lanes_of_a_warp_wait_each_for_themselves():
    """Another lane's copy after a warp-wide wait: lockstep only."""
    s = Scenario()
    s.copy(0)
    s.commit(0)
    s.wait(0)
    s.load(0, np.roll(WORDS, 1))
    assert s.codes() == ["warp-sync-missing"]


def test_the_source_must_not_change_while_it_is_read():
    """Overwriting the source before the wait."""
    early, late = Scenario(), Scenario()
    for s, wait_first in ((early, False), (late, True)):
        s.copy(0)
        s.commit(0)
        if wait_first:
            s.wait(0)
        s.store(0, SOURCE, "st.source")
    assert early.codes() == ["missing-cp-async-wait"]
    assert late.codes() == []


def test_bytes_that_are_not_read_may_change():
    """Zero fill reads only `read_size` bytes of the source."""
    s = Scenario()
    s.copy(0, read=8)
    s.store(0, SOURCE + np.uint64(8), "st.unread")
    assert s.codes() == []
    s.store(0, SOURCE + np.uint64(4), "st.read")
    assert s.codes() == ["missing-cp-async-wait"]


def test_two_copies_onto_the_same_bytes_overlap():
    """No order among copies of a thread: overlapping destinations."""
    s = Scenario()
    s.copy(0)
    s.copy(0, text="cp.async again")
    assert s.codes() == ["async-overlap"]


def test_refilling_needs_the_readers_to_be_done():
    """The copy that refills a buffer is checked against reads of other warps."""
    for barrier, codes in ((True, []), (False, ["missing-barrier"])):
        s = Scenario()
        s.copy(0)
        s.commit(0)
        s.wait(0)
        s.barrier(0, 1)
        s.load(1, WORDS)
        if barrier:
            s.barrier(0, 1)
        s.copy(0, text="cp.async refill")
        assert s.codes() == codes


def test_the_copy_starts_after_its_issuers_earlier_stores():
    """A thread may copy from where it has just stored."""
    s = Scenario()
    s.store(0, SOURCE)
    s.copy(0)
    assert s.codes() == []
    s.copy(1, TILE + np.uint64(4096), text="cp.async other", size=4, read=4)
    assert s.codes() == ["data-race"]
