"""Who is ordered with whom: one test per edge and per decision of the ordering model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scenario import (
    BAR,
    DATA,
    FLAG,
    FULL,
    HIGH,
    LANES,
    LOW,
    ROWS,
    TILE,
    Launch,
    Listing,
    Scenario,
)

from mmalab.emulator.events import Access
from mmalab.emulator.program import Addr, Reg, Site
from mmalab.isa.form import Evidence, Form, Source
from mmalab.sanitizer.model import HappensBefore


def words(values) -> np.ndarray:
    """[32, 4] bytes of 32 words."""
    return np.broadcast_to(np.asarray(values, np.uint32), 32).copy().view(np.uint8).reshape(32, 4)


# -- barriers ------------------------------------------------------------------------------------

def test_a_barrier_orders_a_write_before_another_warps_read():
    """Write, barrier, read of another warp's word: nothing to report."""
    s = Scenario()
    s.store(0, TILE)
    s.barrier(0, 1)
    s.load(1, TILE)
    assert s.codes() == []


def test_no_barrier_is_a_missing_barrier_with_both_places():
    """Without the barrier the pair is reported once, with lines, lanes, bytes and a count."""
    s = Scenario()
    s.store(0, TILE, "st.shared [a]")
    s.load(1, TILE, "ld.shared [a]")
    s.load(1, TILE, "ld.shared [a]")
    (finding,) = s.findings()
    assert (finding.code, finding.severity) == ("missing-barrier", "error")
    assert (finding.where.warp, finding.where.line) == (1, 2)
    earlier, later = finding.witness["earlier"], finding.witness["later"]
    assert (earlier["warp"], earlier["line"], earlier["text"]) == (0, 1, "st.shared [a]")
    assert (later["warp"], later["lanes"]) == (1, list(range(32)))
    assert earlier["bytes"] == [1024, 1028]
    assert finding.witness["count"] == 2
    assert finding.witness["repair"] == "bar.sync between lines 1 and 2"


def test_the_race_is_found_when_the_read_comes_first():
    """The schedule does not matter: a read that is not ordered before the write is found too."""
    s = Scenario()
    s.barrier(0, 1)
    s.load(1, TILE)
    s.store(0, TILE)
    assert s.codes() == ["missing-barrier"]


def test_an_early_read_is_a_race_and_not_an_uninitialised_read():
    """Unwritten bytes that a racing write fills are reported as the race alone."""
    s = Scenario()
    s.load(1, TILE)
    s.store(0, TILE)
    assert s.codes() == ["missing-barrier"]


def test_write_after_read_needs_a_barrier_across_warps():
    """Overwriting what another warp reads needs an order as well."""
    s = Scenario()
    s.store(0, TILE)
    s.barrier(0, 1)
    s.load(1, TILE)
    s.store(0, TILE, "st.again")
    assert s.codes() == ["missing-barrier"]


def test_every_reader_is_remembered_not_only_the_last():
    """A write that is ordered after one reader but not after another is a race."""
    s = Scenario(threads=96)
    s.store(0, TILE)
    s.barrier(0, 1, 2)
    s.load(1, TILE, "ld.one")
    s.load(2, TILE, "ld.two")
    s.barrier(0, 2, ident=1, count=64)
    s.store(0, TILE, "st.again")
    (finding,) = s.findings()
    assert finding.witness["earlier"]["text"] == "ld.one"


def test_bar_arrive_releases_but_does_not_acquire():
    """The producer that only arrives learns nothing of the consumer."""
    s = Scenario()
    s.store(0, TILE)
    s.store(1, TILE + np.uint64(128))
    s.arrive(0, 1, 64, "arrive")
    s.arrive(1, 1, 64)
    s.release(1, ident=1)
    s.load(1, TILE)
    assert s.codes() == []
    s.load(0, TILE + np.uint64(128), "ld.other")
    assert s.codes() == ["missing-barrier"]


def test_threads_that_ended_count_as_arrived():
    """What an ended warp wrote is ordered by a barrier without a count (decision C1)."""
    s = Scenario()
    s.store(1, TILE)
    s.exit(1)
    s.arrive(0)
    s.release(0)
    s.load(0, TILE)
    assert s.codes() == []


def test_narrow_accesses_refine_the_cells():
    """Bytes of one word written by different warps do not conflict."""
    s = Scenario()
    s.store(0, np.uint64(1024) + 2 * LANES, size=1)
    s.store(1, np.uint64(1025) + 2 * LANES, size=1)
    assert s.codes() == []
    s.load(0, np.uint64(1024) + 4 * LANES, "ld.u16", mask=1, size=2)
    assert s.codes() == ["missing-barrier"]


# -- inside a warp -------------------------------------------------------------------------------

def swapped(addresses):
    return addresses[LANES.astype(int) ^ 1]


def test_w1_lockstep_is_a_warning():
    """Lanes of a converged warp that exchange words without bar.warp.sync: a warning (W1)."""
    s = Scenario(threads=32)
    s.store(0, TILE)
    s.load(0, swapped(TILE))
    assert s.codes() == ["warp-sync-missing"]
    assert s.severity("warp-sync-missing") == "warning"


def test_w1_a_shuffle_is_no_memory_order():
    """shfl.sync between store and load changes nothing."""
    s = Scenario(threads=32)
    s.store(0, TILE)
    s.collective(0)
    s.load(0, swapped(TILE))
    assert s.codes() == ["warp-sync-missing"]


def test_bar_warp_sync_orders_the_lanes():
    """With bar.warp.sync the exchange is clean, and so is a lane's own word without it."""
    s = Scenario(threads=32)
    s.store(0, TILE)
    s.load(0, TILE)
    s.warp_sync()
    s.load(0, swapped(TILE))
    assert s.codes() == []


def test_bar_warp_sync_orders_only_its_lanes():
    """Lanes outside the mask are not ordered by it."""
    s = Scenario(threads=32)
    s.store(0, TILE)
    s.warp_sync(mask=LOW)
    s.load(0, swapped(TILE), mask=LOW)
    assert s.codes() == []
    s.load(0, swapped(TILE), "ld.high", mask=HIGH)
    assert s.codes() == ["warp-sync-missing"]


def test_w1_on_paths_that_have_not_met_is_an_error():
    """Divergent lanes have no order at all (W1')."""
    s = Scenario(threads=32)
    s.diverge(LOW, HIGH)
    s.store(0, TILE, mask=LOW)
    s.load(0, np.roll(TILE, 16), mask=HIGH)
    assert s.codes() == ["missing-barrier"]
    assert s.severity("missing-barrier") == "error"


def test_after_reconvergence_lockstep_holds_again():
    """What diverged lanes wrote is behind the point where they meet: a warning only."""
    s = Scenario(threads=32)
    s.diverge(LOW, HIGH)
    s.store(0, TILE, mask=LOW)
    s.reconverge()
    s.load(0, np.roll(TILE, 16))
    assert s.codes() == ["warp-sync-missing"]


def test_what_happened_before_a_split_stays_in_lockstep_order():
    """A write before the branch is in lockstep order for both sides."""
    s = Scenario(threads=32)
    s.store(0, TILE)
    s.diverge(LOW, HIGH)
    s.load(0, np.roll(TILE, 16), mask=HIGH)
    assert s.codes() == ["warp-sync-missing"]


def test_a_converged_mask_alone_tells_who_split_off():
    """A machine that only says who runs together now has said who does not."""
    s = Scenario(threads=32)
    s.reconverge(LOW)
    s.store(0, TILE, mask=LOW)
    s.reconverge(HIGH)
    s.load(0, np.roll(TILE, 16), mask=HIGH)
    assert s.codes() == ["missing-barrier"]


def test_lanes_that_execute_together_have_met():
    """An instruction of all lanes shows that the warp has reconverged, without a word of it."""
    s = Scenario(threads=32)
    s.diverge(LOW, HIGH)
    s.store(0, TILE, mask=LOW)
    s.store(0, TILE, "st.high", mask=HIGH)
    s.load(0, np.roll(TILE, 16))
    assert s.codes() == ["warp-sync-missing"]
    s.store(0, TILE, "st.again")
    assert s.codes() == ["warp-sync-missing"]


def test_w2_write_after_read_in_one_warp_is_silent():
    """A converged warp may overwrite what another lane of it has read (W2)."""
    s = Scenario(threads=32)
    s.store(0, TILE)
    s.warp_sync()
    s.load(0, swapped(TILE))
    s.store(0, TILE, "st.again")
    assert s.codes() == []


def test_w3_equal_values_are_silent_and_different_ones_a_warning():
    """All lanes store to one word: the same value is fine, different values are not (W3)."""
    same, different = Scenario(threads=32), Scenario(threads=32)
    same.store(0, np.full(32, 1024), values=words(7))
    different.store(0, np.full(32, 1024), values=words(np.arange(32)))
    assert same.codes() == []
    assert different.codes() == ["lane-collision"]
    assert different.severity("lane-collision") == "warning"


def test_an_elected_release_does_not_cover_the_other_lanes():
    """Lane 0 publishes for its warp without bar.warp.sync: the others' stores are W1."""
    s = Scenario(threads=32, ctas=2)
    s.store(0, DATA)
    s.store(0, FLAG, "st.release", mask=1, semantics="release", scope="gpu")
    s.load(0, FLAG, "ld.acquire", cta=1, semantics="acquire", scope="gpu")
    s.load(0, DATA, cta=1, mask=1)
    assert s.codes() == []
    s.load(0, DATA, "ld.others", cta=1, mask=0xFFFFFFFE)
    assert s.codes() == ["warp-sync-missing"]


def test_an_elected_fence_does_not_cover_the_other_lanes():
    """The same through fence and relaxed flag."""
    s = Scenario(threads=32, ctas=2)
    s.store(0, DATA)
    s.fence(0, mask=1)
    s.store(0, FLAG, "st.relaxed", mask=1, semantics="relaxed", scope="gpu")
    s.load(0, FLAG, "ld.acquire", cta=1, semantics="acquire", scope="gpu")
    s.load(0, DATA, cta=1)
    assert s.codes() == ["warp-sync-missing"]


# -- release and acquire -------------------------------------------------------------------------

def message(write, read, *, fence_before=None, fence_after=None, early=False, ctas=2):
    """Message passing from CTA 0 to the last CTA; `write` and `read` are (semantics, scope)."""
    s = Scenario(threads=32, ctas=ctas)
    if fence_before and early:
        s.fence(0, *fence_before, mask=1)
    s.store(0, DATA, "st.data", mask=1)
    if fence_before and not early:
        s.fence(0, *fence_before, mask=1)
    s.store(0, FLAG, "st.flag", mask=1, semantics=write[0], scope=write[1])
    s.load(0, FLAG, "ld.flag", cta=1, mask=1, semantics=read[0], scope=read[1])
    if fence_after:
        s.fence(0, *fence_after, cta=1, mask=1)
    s.load(0, DATA, "ld.data", cta=1, mask=1)
    return s


RELEASE, ACQUIRE, RELAXED = ("release", "gpu"), ("acquire", "gpu"), ("relaxed", "gpu")
FENCE = ("acq_rel", "gpu")


@pytest.mark.parametrize(("arguments", "options"), [
    ((RELEASE, ACQUIRE), {}),
    ((RELAXED, RELAXED), {"fence_before": FENCE, "fence_after": FENCE}),
    ((RELAXED, ACQUIRE), {"fence_before": FENCE}),
    ((RELEASE, RELAXED), {"fence_after": FENCE}),
    ((("volatile", ""), ("volatile", "")),
     {"fence_before": ("sc", "gpu"), "fence_after": ("sc", "gpu")}),
    ((("release", "sys"), ("acquire", "sys")), {}),
])
def test_release_patterns_that_order(arguments, options):
    """Every release pattern with every acquire pattern of sufficient scope orders the data."""
    assert message(*arguments, **options).codes() == []


@pytest.mark.parametrize(("arguments", "options", "code"), [
    ((RELAXED, ACQUIRE), {}, "missing-release"),
    ((RELEASE, RELAXED), {}, "missing-acquire"),
    ((RELAXED, RELAXED), {"fence_before": FENCE}, "missing-acquire"),
    ((RELAXED, RELAXED), {"fence_after": FENCE}, "missing-release"),
    ((RELAXED, RELAXED), {"fence_before": FENCE, "fence_after": FENCE, "early": True},
     "missing-release"),
    ((RELAXED, RELAXED), {"fence_before": ("acq_rel", "cta"), "fence_after": FENCE},
     "scope-too-narrow"),
    ((("release", "cta"), ACQUIRE), {}, "scope-too-narrow"),
    ((RELEASE, ("acquire", "cta")), {}, "scope-too-narrow"),
    ((("weak", ""), ACQUIRE), {}, "data-race"),
])
def test_release_patterns_that_do_not(arguments, options, code):
    """One missing half, or one scope too narrow, is named."""
    assert code in message(*arguments, **options).codes()


def test_a_value_that_was_not_read_gives_no_edge():
    """An acquire before the release has observed nothing."""
    s = Scenario(threads=32, ctas=2)
    s.load(0, FLAG, "ld.flag", cta=1, semantics="acquire", scope="gpu")
    s.store(0, DATA)
    s.store(0, FLAG, "st.flag", semantics="release", scope="gpu", mask=1)
    s.load(0, DATA, cta=1, mask=1)
    assert "data-race" in s.codes()


def test_atomics_continue_a_release_sequence():
    """The reader of a counter acquires from every CTA that bumped it."""
    s = Scenario(threads=32, ctas=3)
    for cta in (0, 1):
        s.store(0, DATA + np.uint64(4096 * cta), cta=cta, mask=1)
        s.atom(0, FLAG, cta=cta, mask=1, semantics="release")
    s.load(0, FLAG, "ld.flag", cta=2, mask=1, semantics="acquire", scope="gpu")
    for cta in (0, 1):
        s.load(0, DATA + np.uint64(4096 * cta), cta=2, mask=1)
    assert s.codes() == []


def test_a_plain_strong_store_ends_the_sequence():
    """Whoever overwrites the flag relaxed publishes nothing of the first release."""
    s = Scenario(threads=32, ctas=3)
    s.store(0, DATA, mask=1)
    s.store(0, FLAG, "st.flag", mask=1, semantics="release", scope="gpu")
    s.store(0, FLAG, "st.over", cta=1, mask=1, semantics="relaxed", scope="gpu")
    s.load(0, FLAG, "ld.flag", cta=2, mask=1, semantics="acquire", scope="gpu")
    s.load(0, DATA, cta=2, mask=1)
    assert "data-race" in s.codes()


def test_red_does_not_acquire():
    """red publishes; it never receives."""
    s = Scenario(threads=32, ctas=2)
    s.store(0, DATA, mask=1)
    s.atom(0, FLAG, mask=1, semantics="release")
    s.atom(0, FLAG, "red.add.u32", cta=1, mask=1, semantics="acq_rel")
    s.load(0, DATA, cta=1, mask=1)
    assert "data-race" in s.codes()


def last_block(*, writer_fences, reader_fences, one_fences):
    """Partial results, barrier, one thread bumps a counter, barrier, the last CTA reads."""
    s = Scenario(threads=64, ctas=2)
    for cta in (0, 1):
        mine = DATA + np.uint64(4096 * cta)
        for warp in (0, 1):
            s.store(warp, mine + np.uint64(128 * warp), "st.partial", cta=cta)
            if writer_fences:
                s.fence(warp, cta=cta)
        s.barrier(0, 1, cta=cta)
        if one_fences:
            s.fence(0, cta=cta, mask=1)
        s.atom(0, FLAG, cta=cta, mask=1)
        if one_fences:
            s.fence(0, cta=cta, mask=1)
        s.barrier(0, 1, cta=cta)
    for warp in (0, 1):
        if reader_fences:
            s.fence(warp, cta=1)
        s.load(warp, DATA + np.uint64(128 * warp), "ld.partial", cta=1)
    return s.codes()


def test_a4_fences_in_one_thread_or_in_each_order_the_last_block():
    """The counter thread's own fences, or the older idiom of everybody's fences (A4)."""
    assert last_block(writer_fences=False, reader_fences=False, one_fences=True) == []
    assert last_block(writer_fences=True, reader_fences=True, one_fences=False) == []


def test_a4_half_of_the_fences_is_not_enough():
    """Without one half of the idiom the other half is named."""
    assert last_block(writer_fences=True, reader_fences=False, one_fences=False) == [
        "missing-acquire"]
    assert last_block(writer_fences=False, reader_fences=True, one_fences=False) == [
        "missing-release"]


def test_a1_atomics_do_not_race_unless_their_scope_is_too_narrow():
    """Two atomics on one word are fine at gpu scope and not at cta scope (A1)."""
    wide, narrow = Scenario(threads=32, ctas=2), Scenario(threads=32, ctas=2)
    for cta in (0, 1):
        wide.atom(0, FLAG, cta=cta, mask=1)
        narrow.atom(0, FLAG, cta=cta, mask=1, scope="cta")
    assert wide.codes() == []
    assert narrow.codes() == ["scope-too-narrow"]


def test_an_atomic_and_a_store_race_both_ways():
    """Weak against strong is a race, whichever comes first."""
    for first in ("atom", "store"):
        s = Scenario(threads=32, ctas=2)
        for cta, kind in enumerate(("atom", "store") if first == "atom" else ("store", "atom")):
            getattr(s, kind)(0, FLAG, cta=cta, mask=1)
        assert s.codes() == ["data-race"]


def test_a_weak_access_must_be_ordered_after_every_atomic():
    """Knowing the last of several atomics is not knowing all of them."""
    s = Scenario(threads=32, ctas=3)
    word = np.full(32, 20 << 40, np.uint64)
    s.atom(0, word, cta=0, mask=1)
    s.atom(0, word, cta=1, mask=1)
    s.atom(0, FLAG, "atom.release", cta=1, mask=1, semantics="release")
    s.load(0, FLAG, "ld.flag", cta=2, mask=1, semantics="acquire", scope="gpu")
    s.load(0, word, "ld.weak", cta=2, mask=1)
    (finding,) = s.findings()
    assert finding.code == "missing-release"
    assert finding.witness["earlier"]["cta"] == (0, 0, 0)


def test_a2_equal_values_are_a_warning_different_ones_an_error():
    """Two CTAs initialise one word: the same value is a warning (A2)."""
    same, different = Scenario(threads=32, ctas=2), Scenario(threads=32, ctas=2)
    for cta in (0, 1):
        same.store(0, FLAG, cta=cta, mask=1, values=words(7))
        different.store(0, FLAG, cta=cta, mask=1, values=words(7 + cta))
    assert (same.codes(), same.severity("data-race")) == (["data-race"], "warning")
    assert different.severity("data-race") == "error"


def test_replicated_stores_of_one_value_to_shared_memory_are_silent():
    """Warps that hold copies of a value store it all: as compilers do; other values race."""
    for second, codes in ((7, []), (8, ["missing-barrier"])):
        s = Scenario()
        s.store(0, TILE, values=words(7))
        s.store(1, TILE, values=words(second))
        assert s.codes() == codes


def test_a_guess_that_compare_and_swap_checks_is_silent():
    """The load in front of a compare-and-swap loop may be old (the CUDA guide's pattern)."""
    loaded, wanted = Reg("r", 3, 32), Reg("r", 4, 32)
    for compared, codes in ((loaded, []), (wanted, ["data-race"])):
        listing = Listing()
        load = Form("ld.global.u32", "ld", {}, (), "sm_80", (7, 0), Source("test"),
                    Evidence.DOCUMENTED)
        swap = replace(load, key="atom.cas.b32", family="atom", modifiers={"op": "cas"})
        where = Addr(Reg("q", 0, 64), 0)
        listing.sites += [Site(0, 1, load, (loaded, where), None, "ld"),
                          Site(1, 2, swap, (wanted, where, compared, wanted), None, "atom")]
        model = HappensBefore(listing, Launch((2, 1, 1), (32, 1, 1)))
        for cta in (0, 1):
            model.on(Access(cta, 0, 0, 1, "read", "global", FLAG, 4))
            model.on(Access(cta, 0, 1, 1, "atomic", "global", FLAG, 4, "relaxed", "gpu"))
        assert [finding.code for finding in model.findings()][:1] == codes


def test_reads_before_the_first_write_of_a_buffer_are_not_lost():
    """Reads of a buffer nobody has written yet are checked when a write comes."""
    s = Scenario(threads=32, ctas=2)
    s.load(0, DATA)
    s.store(0, DATA, cta=1)
    assert s.codes() == ["data-race"]
    own = Scenario(threads=32)
    own.load(0, DATA)
    own.store(0, DATA)
    assert own.codes() == []


def test_fence_sc_follows_fence_sc():
    """Sequentially consistent fences order what came before the first with what comes after."""
    s = Scenario(threads=32, ctas=2)
    s.store(0, DATA)
    s.fence(0, "sc", "gpu")
    s.fence(0, "sc", "gpu", cta=1)
    s.load(0, DATA, cta=1)
    assert s.codes() in ([], ["warp-sync-missing"])
    narrow = Scenario(threads=32, ctas=2)
    narrow.store(0, DATA)
    narrow.fence(0, "sc", "cta")
    narrow.fence(0, "sc", "cta", cta=1)
    narrow.load(0, DATA, cta=1)
    assert narrow.codes() == ["data-race"]


def test_a_warp_may_mix_lanes_that_know_different_things():
    """An elected lane that acquired knows more than its siblings until they synchronise."""
    s = Scenario(threads=32, ctas=2)
    s.store(0, DATA, mask=1)
    s.store(0, FLAG, "st.flag", mask=1, semantics="release", scope="gpu")
    s.load(0, FLAG, "ld.flag", cta=1, mask=2, semantics="acquire", scope="gpu")
    s.load(0, np.full(32, DATA[0]), "ld.two", cta=1, mask=2)
    assert s.codes() == []
    s.load(0, np.full(32, DATA[0]), "ld.others", cta=1, mask=FULL & ~2)
    assert s.codes() == ["warp-sync-missing"]
    s.warp_sync(cta=1)
    s.load(0, np.full(32, DATA[0]), "ld.all", cta=1)
    assert len(s.findings()) == 1


def test_a_barrier_carries_what_one_thread_acquired():
    """Acquire in one thread, barrier, read in another warp."""
    s = Scenario(threads=64, ctas=2)
    s.store(1, DATA, mask=1)
    s.store(1, FLAG, "st.flag", mask=1, semantics="release", scope="gpu")
    s.load(0, FLAG, "ld.flag", cta=1, mask=1, semantics="acquire", scope="gpu")
    s.barrier(0, 1, cta=1)
    s.load(1, DATA, cta=1, mask=1)
    assert s.codes() == []


def test_mbarrier_bytes_and_tiles_do_not_meet():
    """The scenario's mbarrier lies outside its tiles, so tests do not report by accident."""
    assert int(BAR[0]) >= int(ROWS[-1]) + 16
    assert int(BAR[0]) >= int(TILE[-1]) + 4 + 128
