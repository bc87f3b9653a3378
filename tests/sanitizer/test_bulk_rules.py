"""Bulk and tensor copies: what an mbarrier or a bulk group orders, byte by byte and byte count."""

from __future__ import annotations

import numpy as np
import pytest
from scenario import BAR, BAR_AT, FULL, OUT_AT, TILE, TILE_AT, TILE_BYTES, Scenario

from mmalab.emulator import events as ev
from mmalab.errors import LimitExceeded
from mmalab.findings import CODES
from mmalab.sanitizer import mbarrier

OUT = np.uint64(OUT_AT) + 4 * np.arange(32, dtype=np.uint64)


def ready(count=1, threads=64, **launch) -> Scenario:
    """An initialised mbarrier that everybody knows."""
    s = Scenario(threads=threads, **launch)
    s.mbarrier("init", 0, mask=1, count=count)
    s.barrier(*range(threads // 32))
    return s


def loaded(**options) -> Scenario:
    """A tile that warp 0 fetched, announced in full."""
    s = ready()
    s.expect()
    s.bulk_load(**options)
    return s


def written(*, fence=True) -> Scenario:
    """A tile that the lanes of warp 0 wrote, fenced for the async proxy."""
    s = Scenario()
    s.store(0, TILE)
    if fence:
        s.proxy_fence(0)
    s.warp_sync(0)
    return s


# --- copies on an mbarrier ------------------------------------------------------------------------

def test_an_acquired_phase_brings_the_copy():
    """Readers need the wait and no proxy fence."""
    s = loaded()
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE)
    assert s.codes() == []


def test_a_copy_that_nobody_waited_for():
    """A barrier of the CTA does not wait for it; the repair names barrier, parity and line."""
    s = loaded()
    s.barrier(0, 1)
    s.load(1, TILE)
    assert s.codes() == ["missing-mbarrier-wait"]
    assert s.repair("missing-mbarrier-wait") == (
        "wait on the mbarrier at shared 0x2400 for parity 0 before line 5")


def test_the_issuer_is_not_ordered_by_the_copy():
    """What the issuer wrote before is not published by complete_tx."""
    s = ready()
    s.expect()
    s.store(0, TILE + np.uint64(4096), "st.other", mask=1)
    s.bulk_load()
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE + np.uint64(4096), "ld.other", mask=1)
    assert s.codes() == ["missing-release"]


def test_a_reader_that_came_before_the_first_copy():
    """The read precedes the copy in this run, and nothing orders them: it should have waited."""
    s = ready()
    s.load(1, TILE)
    s.expect()
    s.bulk_load()
    assert "missing-mbarrier-wait" in s.codes()


def test_two_copies_in_flight_onto_the_same_bytes():
    """Which ends last is not defined."""
    s = ready()
    s.expect(size=2 * TILE_BYTES)
    s.bulk_load()
    s.bulk_load(at=TILE_AT + 64, text="cp.async.bulk again")
    assert s.codes() == ["async-overlap"]


def test_copies_next_to_each_other_do_not_overlap():
    """The twin: adjacent bytes."""
    s = ready()
    s.expect(size=2 * TILE_BYTES)
    s.bulk_load()
    s.bulk_load(at=TILE_AT + TILE_BYTES, text="cp.async.bulk again")
    assert s.codes() == []


# --- the byte ledger ------------------------------------------------------------------------------

def test_bytes_may_be_bound_before_they_are_announced_while_an_arrival_is_out():
    """Decision M3: the phase cannot complete in between."""
    s = ready()
    s.bulk_load()
    s.expect()
    assert s.codes() == []


@pytest.mark.parametrize("announced", [0, 64])
def test_too_few_bytes_are_announced(announced):
    """From the last arrival on, the announced bytes must cover the bound ones, in both orders."""
    before, after = ready(), ready()
    before.bulk_load()
    before.expect(size=announced)
    after.expect(size=announced)
    after.bulk_load()
    assert before.codes() == ["tx-mismatch"]
    assert after.codes() == (["tx-mismatch"])
    assert "128" in before.findings()[0].message


def test_an_announcement_may_be_larger_while_copies_come():
    """Two copies under one announcement."""
    s = ready()
    s.expect(size=2 * TILE_BYTES)
    s.bulk_load()
    s.bulk_load(at=TILE_AT + 4096, text="cp.async.bulk second")
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE)
    assert s.codes() == []


@pytest.mark.parametrize("late", [0, 1])
def test_copies_that_one_announcement_was_too_small_for(late):
    """Whether the first copy is done before the others are issued makes no difference."""
    s = ready()
    s.expect(size=TILE_BYTES)
    s.bulk_load()
    for number in (1, 2):
        s.bulk_load(at=TILE_AT + 1024 * number, phase=late, text=f"cp.async.bulk {number}")
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE + np.uint64(1024))
    s.exit(0)
    s.exit(1)
    (finding,) = s.findings()
    assert finding.code == "tx-mismatch"
    assert finding.witness["announced_bytes"] == TILE_BYTES
    assert finding.witness["delivered_bytes"] == 3 * TILE_BYTES
    assert finding.witness["repair"] == f"announce {3 * TILE_BYTES} bytes at line 3"


@pytest.mark.parametrize("told", [False, True])
def test_a_copy_that_counts_in_the_next_phase(told):
    """Its issuer must know that the phase before has ended: its own wait, or who waited tells."""
    s = ready()
    s.expect(size=TILE_BYTES)
    s.bulk_load()
    s.mbarrier("try_wait", 1, completed=FULL)
    if told:
        s.barrier(0, 1)
    s.bulk_load(phase=1)
    s.expect(phase=1)
    s.mbarrier("try_wait", 1, phase=1, completed=FULL)
    s.exit(0)
    s.exit(1)
    assert ("tx-mismatch" in s.codes()) == (not told)


def test_bytes_that_were_never_announced_are_told_when_the_cta_ends():
    """A plain arrive let the phase pass; the copy's bytes belong to a phase without arrivals."""
    s = ready()
    s.mbarrier("arrive", 0, mask=1, completed=1)
    s.mbarrier("try_wait", 0, completed=FULL)
    s.bulk_load(phase=1)
    s.exit(0)
    s.exit(1)
    assert s.codes() == ["tx-mismatch"]


def test_a_copy_on_no_mbarrier():
    """Neither initialised nor live any more."""
    s = Scenario()
    s.bulk_load(phase=-1)
    assert s.codes() == ["mbarrier-uninitialised"]


@pytest.mark.parametrize("warp", [0, 1])
def test_a_copy_needs_no_fence_after_the_initialisation(warp):
    """It signals through the generic proxy: program order does, or a barrier of the CTA."""
    s = Scenario()
    s.mbarrier("init", 0, mask=1)
    if warp:
        s.barrier(0, 1)
    s.expect(warp)
    s.bulk_load(warp)
    assert s.codes() == []


def test_a_copy_needs_the_initialisation_in_order():
    """Its issuer is another warp, without a barrier after mbarrier.init."""
    s = Scenario()
    s.mbarrier("init", 0, mask=1)
    s.expect(1)
    s.bulk_load(1)
    assert s.codes() == ["mbarrier-init-order"]


def test_an_arrival_of_the_next_phase_while_copies_hold_this_one_open():
    """All arrivals are in and the bytes are not there: the code does not depend on the schedule."""
    s = loaded()
    s.expect(phase=0)
    assert s.codes() == ["mbarrier-phase"]


# --- bulk groups ----------------------------------------------------------------------------------

def test_a_source_is_free_after_wait_group_read():
    """Decision S1."""
    s = written()
    s.bulk_store()
    s.bulk_commit()
    s.bulk_wait(read=True)
    s.warp_sync(0)
    s.store(0, TILE, "st.again")
    assert s.codes() == []


@pytest.mark.parametrize(("steps", "repair"), [
    ((), ("cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0 before the bytes "
          "are used")),
    (("wait",), "cp.async.bulk.commit_group before the wait in line 5"),
    (("commit", "loose"), "wait_group 0 instead of 1 in line 6"),
    (("commit",), "cp.async.bulk.wait_group.read 0 in the thread that committed, then a barrier"),
])
def test_a_source_that_is_not_free(steps, repair):
    """Nothing, uncommitted, N too large, no wait: the repair says which."""
    s = written()
    s.bulk_store()
    for step in steps:
        if step == "commit":
            s.bulk_commit()
        else:
            s.bulk_wait(newest=int(step == "loose"), read=True)
    s.store(0, TILE, "st.again", mask=1)
    assert s.codes() == ["missing-bulk-wait"]
    assert s.repair("missing-bulk-wait") == repair


def test_only_the_thread_that_committed_can_wait():
    """Another lane's wait covers nothing."""
    s = written()
    s.bulk_store()
    s.bulk_commit()
    s.bulk_wait(mask=2, read=True)
    s.store(0, TILE, "st.again", mask=2)
    assert s.codes() == ["missing-bulk-wait"]


def test_the_other_threads_must_be_told():
    """The committing lane has waited; the rest of the CTA needs a barrier after the wait."""
    for told, codes in ((True, []), (False, ["missing-barrier"])):
        s = written()
        s.bulk_store()
        s.bulk_commit()
        s.bulk_wait(read=True)
        if told:
            s.barrier(0, 1)
        s.store(1, TILE, "st.again", mask=1)
        assert s.codes() == codes


def test_the_result_needs_the_full_wait():
    """`.read` says that the source was read, not that the result is there."""
    for read, codes in ((False, []), (True, ["missing-bulk-wait"])):
        s = written()
        s.bulk_store()
        s.bulk_commit()
        s.bulk_wait(read=read)
        s.load(0, OUT, "ld.global", mask=1)
        assert s.codes() == codes
    assert s.repair("missing-bulk-wait") == "cp.async.bulk.wait_group instead of .read in line 6"


def test_a_thread_must_not_end_before_its_sources_are_read():
    """Decision S2: with `.read` silent, without it an error."""
    for waits, codes in ((True, []), (False, ["missing-bulk-wait"])):
        s = written()
        s.bulk_store()
        s.bulk_commit()
        if waits:
            s.bulk_wait(read=True)
        s.exit(0)
        assert s.codes() == codes


def test_reductions_do_not_exclude_each_other():
    """Two CTAs add to one tile: relaxed atomics at gpu scope. Stores of two CTAs race."""
    for reduces, codes in ((True, []), (False, ["data-race"])):
        s = Scenario(ctas=2)
        for cta in range(2):
            s.store(0, TILE, cta=cta)
            s.proxy_fence(0, cta=cta)
            s.warp_sync(0, cta=cta)
            s.bulk_store(cta=cta, reduces=reduces)
        assert s.codes() == codes


@pytest.mark.parametrize(("told", "waits", "codes"), [
    (False, False, ["data-race"]), (True, False, ["missing-bulk-wait"]), (True, True, []),
    (False, True, ["data-race"]),
])
def test_a_store_of_another_cta(told, waits, codes):
    """Ordered behind its issue, what lacks is the wait; behind nothing at all, the order."""
    s = Scenario(ctas=2)
    flag = np.full(32, OUT_AT + 4096, np.uint64)
    s.store(0, TILE)
    s.proxy_fence(0)
    s.warp_sync(0)
    s.bulk_store()
    s.bulk_commit()
    if waits:
        s.bulk_wait()
    if told:
        s.store(0, flag, "st.release", mask=1, semantics="release", scope="gpu")
        s.load(0, flag, "ld.acquire", cta=1, mask=1, semantics="acquire", scope="gpu")
    s.load(0, OUT, "ld.global", cta=1, mask=1)
    assert s.codes() == codes


def test_a_ring_of_stores_and_loads_is_clean():
    """Load, wait, store from the same bytes, wait for the read, load again: no proxy fence."""
    s = loaded()
    for phase in range(3):
        s.mbarrier("try_wait", 0, mask=1, completed=1, phase=phase)
        s.bulk_store(target=OUT_AT + 4096 * phase)
        s.bulk_commit()
        s.bulk_wait(read=True)
        s.expect(phase=phase + 1)
        s.bulk_load(phase=phase + 1)
    s.mbarrier("try_wait", 1, completed=FULL, phase=3)
    assert s.codes() == []


def test_every_lane_may_issue_copies_of_its_own():
    """32 lanes store 32 rows in bulk groups of their own and wait for them."""
    s = Scenario()
    rows = np.uint64(1024) + 256 * np.arange(32, dtype=np.uint64)
    s.store(0, rows, size=4)
    s.proxy_fence(0)
    for lane in range(32):
        s.bulk_store(lane=lane, at=1024 + 256 * lane, size=16, target=OUT_AT + 256 * lane)
    s.bulk_commit(mask=FULL)
    s.bulk_wait(mask=FULL)
    s.store(0, rows, "st.again")
    s.exit(0)
    assert s.codes() == []


def test_more_mbarriers_than_one_row_of_agents():
    """300 mbarriers, each with its copy: waits order their own copies."""
    s = Scenario()
    bars = [BAR + np.uint64(8 * k) for k in range(300)]
    for bar in bars:
        s.mbarrier("init", 0, mask=1, addresses=bar)
    s.barrier(0, 1)
    for k, bar in enumerate(bars):
        s.mbarrier("arrive", 0, mask=1, addresses=bar, expected=16, text="expect")
        span = ev.Span("shared", 0, "write", np.array([32768 + 16 * k]), 16)
        s.model.on(ev.Async(0, 0, s.site("cp.async.bulk"), 0, (span,), (
            ev.Signal(0, BAR_AT + 8 * k, 0, 16, (0,)),)))
        s.mbarrier("try_wait", 1, completed=FULL, addresses=bar)
        s.load(1, np.full(32, 32768 + 16 * k, np.uint64))
    assert s.codes() == []


def test_the_exit_of_a_cta_with_copies_into_it():
    """Decision S3: a warning for the own CTA's copies; awaited ones are fine."""
    for waits, codes in ((True, []), (False, ["async-outlives-cta"])):
        s = loaded()
        if waits:
            s.mbarrier("try_wait", 0, completed=FULL)
        s.exit(0)
        s.exit(1)
        assert s.codes() == codes
    assert s.severity("async-outlives-cta") == "warning"


def test_a_copy_over_a_live_mbarrier():
    """Its tile reaches the object's bytes; next to them is fine."""
    for at, codes in ((BAR_AT - 64, ["mbarrier-lifetime"]), (BAR_AT - TILE_BYTES, []),
                      (BAR_AT + 8, [])):
        s = ready()
        s.expect()
        s.bulk_load(at=at)
        assert [code for code in s.codes() if code == "mbarrier-lifetime"] == codes


def test_live_mbarriers_are_bounded(monkeypatch):
    """Their clocks take memory: an error, not an endless run."""
    monkeypatch.setattr(mbarrier, "_ROOM", 1 << 20)
    s = Scenario()

    def many():
        for k in range(1000):
            s.mbarrier("init", 0, mask=1, addresses=BAR + np.uint64(8 * k))

    with pytest.raises(LimitExceeded, match="live mbarriers"):
        many()


# --- swizzles -------------------------------------------------------------------------------------

@pytest.mark.parametrize(("brought", "read", "codes"), [
    ("128B", "128B", []), ("128B", "64B", ["swizzle-mismatch"]), ("none", "32B",
                                                                  ["swizzle-mismatch"]),
    ("128B", "", []), ("", "128B", []),
])
def test_readers_agree_with_the_tensor_copy_on_the_swizzle(brought, read, codes):
    """SD04: a product, and a tensor store, over bytes that came in another swizzle."""
    for reader in ("product", "store"):
        s = ready(threads=128)
        s.expect()
        s.bulk_load(swizzle=brought)
        for warp in range(4):
            s.mbarrier("try_wait", warp, completed=FULL)
        if reader == "product":
            s.wgmma_fence(0, 1, 2, 3)
            s.wgmma(0, 1, 2, 3, swizzle=read)
        else:
            s.bulk_store(swizzle=read)
        assert s.codes() == codes
        if codes:
            (finding,) = s.findings()
            assert finding.witness["written"] == brought
            assert finding.witness["read"] == read
    assert "swizzle-mismatch" in CODES


def test_bytes_that_threads_wrote_over_have_no_swizzle():
    """The last writer decides."""
    s = ready()
    s.expect()
    s.bulk_load(swizzle="128B")
    s.mbarrier("try_wait", 0, completed=FULL)
    s.store(0, TILE)
    s.proxy_fence(0)
    s.warp_sync(0)
    s.bulk_store(swizzle="64B")
    assert s.codes() == []
