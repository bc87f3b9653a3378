"""mbarriers: what phases order, and the protocol around them."""

from __future__ import annotations

import numpy as np
import pytest
from scenario import BAR, FULL, ROWS, TILE, Scenario

LAST = 1 << 31


def ready(count=32, threads=64) -> Scenario:
    """An initialised mbarrier that everybody knows."""
    s = Scenario(threads=threads)
    s.mbarrier("init", 0, mask=1, count=count)
    s.barrier(*range(threads // 32))
    return s


def produce(s, *, semantics="weak", mask=FULL, completed=LAST, phase=0, text=None):
    """Warp 0 stores and arrives; by default its last lane completes the phase."""
    s.store(0, TILE, "st.tile")
    s.mbarrier("arrive", 0, mask=mask, completed=completed, phase=phase, semantics=semantics,
               text=text)


def test_a_wait_orders_what_arrived():
    """32 releasing arrivals, then an acquiring wait in the other warp."""
    s = ready()
    produce(s)
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE)
    assert s.codes() == []


def test_a_false_wait_orders_nothing():
    """try_wait that returns false gives no edge."""
    s = ready()
    produce(s)
    s.mbarrier("try_wait", 1, completed=0)
    s.load(1, TILE)
    assert s.codes() == ["missing-mbarrier-wait"]
    assert s.repair("missing-mbarrier-wait") == (
        "wait on the mbarrier at shared 0x2400 for parity 0 before line 6")


@pytest.mark.parametrize(("arrive", "wait", "codes"), [
    ("relaxed", "weak", ["missing-release"]),
    ("weak", "relaxed", ["missing-acquire"]),
    ("relaxed", "relaxed", ["missing-release"]),
])
def test_relaxed_ends_publish_or_acquire_nothing(arrive, wait, codes):
    """Each relaxed half is named; the arriving one first."""
    s = ready()
    produce(s, semantics=arrive)
    s.mbarrier("try_wait", 1, completed=FULL, semantics=wait)
    s.load(1, TILE)
    assert s.codes() == codes


def test_fences_make_relaxed_arrivals_and_waits_good():
    """fence before the relaxed arrive, fence after the relaxed wait."""
    s = ready()
    s.store(0, TILE)
    s.fence(0, "acq_rel", "cta")
    s.mbarrier("arrive", 0, completed=LAST, semantics="relaxed")
    s.mbarrier("try_wait", 1, completed=FULL, semantics="relaxed")
    s.fence(1, "acq_rel", "cta")
    s.load(1, TILE)
    assert s.codes() == []


def test_an_elected_arrive_needs_bar_warp_sync():
    """One lane arrives for its warp: clean with bar.warp.sync, W1 without."""
    for sync, codes in ((True, []), (False, ["warp-sync-missing"])):
        s = ready(count=1)
        s.store(0, TILE)
        if sync:
            s.warp_sync(0)
        s.mbarrier("arrive", 0, mask=1, completed=1)
        s.mbarrier("try_wait", 1, completed=FULL)
        s.load(1, TILE)
        assert s.codes() == codes


def test_use_without_init_and_use_that_is_not_ordered_after_it():
    """Never initialised, and initialised by a thread that the user does not know of."""
    never, unordered = Scenario(), Scenario()
    never.mbarrier("arrive", 1)
    assert never.codes() == ["mbarrier-uninitialised"]
    unordered.mbarrier("init", 0, mask=1, count=32)
    unordered.mbarrier("arrive", 1, completed=LAST)
    assert unordered.codes() == ["mbarrier-init-order"]


def test_the_bytes_of_a_live_object_are_taken():
    """Re-init, a store and an early inval are mbarrier-lifetime; after inval all is free."""
    again, store, early, free = ready(), ready(), ready(), ready()
    again.mbarrier("init", 0, mask=1, count=32, text="mbarrier.init again")
    store.store(0, BAR, mask=1)
    early.mbarrier("try_wait", 1)
    early.mbarrier("inval", 0, mask=1)
    free.mbarrier("inval", 0, mask=1)
    free.store(0, BAR, mask=1)
    free.warp_sync(0)
    free.mbarrier("init", 0, mask=1, count=32, text="mbarrier.init again")
    for s in (again, store, early):
        assert s.codes() == ["mbarrier-lifetime"]
    assert free.codes() == []


def test_counts_must_fit():
    """Zero at init, and more arrivals than the phase waits for."""
    zero, many = Scenario(), ready(count=2)
    zero.mbarrier("init", 0, mask=1, count=0)
    many.mbarrier("arrive", 0, mask=1, count=3)
    assert zero.codes() == ["mbarrier-count"]
    assert many.codes() == ["mbarrier-count"]


def test_arriving_in_a_phase_before_anybody_saw_the_last_is_a_warning():
    """Decision M1, and its clean twin."""
    for observed, codes in ((False, ["mbarrier-phase"]), (True, [])):
        s = ready()
        produce(s)
        if observed:
            s.mbarrier("try_wait", 0, completed=FULL)
        s.mbarrier("arrive", 0, completed=LAST, phase=1)
        assert s.codes() == codes
        assert not s.codes() or s.severity("mbarrier-phase") == "warning"


def test_a_phase_must_not_complete_past_a_waiter():
    """Warp 1 saw phase 0, but nothing says so before phase 1 completes (M1')."""
    s = ready()
    produce(s)
    s.mbarrier("try_wait", 1, completed=FULL)
    s.mbarrier("arrive", 0, completed=LAST, phase=1, text="arrive again")
    (finding,) = s.findings()
    assert (finding.code, finding.severity) == ("mbarrier-phase", "error")
    assert "warp 1 may still be waiting for phase 0" in finding.message


def test_a_ring_lets_phases_pass_in_order():
    """Full and empty barriers: three rounds of one stage are clean."""
    empty = BAR + np.uint64(8)
    s = Scenario()
    s.mbarrier("init", 0, mask=1, count=32)
    s.mbarrier("init", 0, mask=1, count=32, addresses=empty)
    s.barrier(0, 1)
    for turn in range(3):
        if turn:
            s.mbarrier("try_wait", 0, completed=FULL, phase=turn - 1, addresses=empty, text="w0")
        s.store(0, TILE, "st.tile")
        s.mbarrier("arrive", 0, completed=LAST, phase=turn, text="a0")
        s.mbarrier("try_wait", 1, completed=FULL, phase=turn, text="w1")
        s.load(1, TILE)
        s.mbarrier("arrive", 1, completed=LAST, phase=turn, addresses=empty, text="a1")
    assert s.codes() == []


def test_copies_arrive_when_they_are_done():
    """cp.async.mbarrier.arrive orders the lane's copies; a plain arrive does not."""
    asynchronous, plain = ready(), ready()
    for s in (asynchronous, plain):
        s.copy(0)
    asynchronous.copies_arrive(0, completed=LAST)
    plain.mbarrier("arrive", 0, completed=LAST)
    for s in (asynchronous, plain):
        s.mbarrier("try_wait", 1, completed=FULL)
        s.load(1, ROWS)
    assert asynchronous.codes() == []
    assert plain.codes() == ["missing-cp-async-wait"]


def test_copies_that_arrive_do_not_publish_the_issuers_stores():
    """The asynchronous arrive covers copies, nothing else of the thread."""
    s = ready()
    s.store(0, TILE + np.uint64(4096))
    s.copy(0)
    s.copies_arrive(0, completed=LAST)
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE + np.uint64(4096))
    assert s.codes() == ["missing-release"]
