"""What the mbarrier protocol forbids, and how a breach is told.

Whoever breaks the protocol gets one finding; races that follow from it in the same CTA are taken as
explained. The byte rule: from the moment the last arrival of a phase is in, what was announced must
cover the bytes of the copies that were issued for the phase (decision M3)::

    copy of 512 bytes, then arrive.expect_tx 512     silent: the arrival was still outstanding
    copy of 512 bytes, then arrive                   tx-mismatch: 0 announced, 512 bound
    arrive.expect_tx 256, then a copy of 512         tx-mismatch: the phase can end half-way

Two copies under the announcement of one: the first may end the phase before the second is issued,
whose bytes then count in the next. It is the same fault, told the same way, if who issues the
second cannot know of the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from mmalab.sanitizer.clocks import TIME, lanes_of, mask_of
from mmalab.sanitizer.phases import Object, Place, Seen
from mmalab.sanitizer.world import World

__all__ = ["MbarrierProtocol"]

_MOST = (1 << 20) - 1


class MbarrierProtocol:
    """Checks one step of an object at a time; keeps nothing itself."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _breach(self, code: str, place: Place, address: int, fault: str) -> None:
        world = self._world
        world.breach(code, f"{world.named(place.site)} on the mbarrier at shared {address:#x}: "
                     f"{fault}", cta=place.cta, warp=place.warp, site=place.site, lane=place.lane,
                     warps=frozenset(range(world.warps)), witness={"address": address})

    # -- life ------------------------------------------------------------------------------------

    def initialised(self, place: Place, address: int, count: int, earlier: Object | None) -> bool:
        """mbarrier.init, on what may be a live object; whether the count is legal."""
        if earlier is not None:
            self._breach("mbarrier-lifetime", place, address,
                         f"the mbarrier is still live from "
                         f"{self._world.named(earlier.init_site)}. Repair: mbarrier.inval first")
        fits = 1 <= count <= _MOST
        if not fits:
            self._breach("mbarrier-count", place, address,
                         f"a count of {count} (legal: 1 to {_MOST})")
        return fits

    def uninitialised(self, place: Place, address: int) -> None:
        """A use where no live object is."""
        self._breach("mbarrier-uninitialised", place, address,
                     "nothing has initialised it by now. Repair: mbarrier.init by one thread, then "
                     "bar.sync")

    def overwritten(self, place: Place, target: Object) -> None:
        """An ordinary store hits the object."""
        world = self._world
        world.breach(
            "mbarrier-lifetime", f"{world.named(place.site)} overwrites the live mbarrier at "
            f"shared {target.address:#x} ({world.named(target.init_site)}). Repair: "
            "mbarrier.inval first, or other bytes",
            cta=place.cta, warp=place.warp, site=place.site,
            warps=frozenset(range(world.warps)), witness={"address": target.address})

    def peeked(self, place: Place, target: Object) -> None:
        """An ordinary load looks at the object: harmless, but its bits are nobody's business."""
        world = self._world
        world.report(
            "mbarrier-lifetime", "warning", f"{world.named(place.site)} reads the live mbarrier at "
            f"shared {target.address:#x} ({world.named(target.init_site)}), whose bits are opaque. "
            "Repair: mbarrier.test_wait, or other bytes",
            cta=place.cta, warp=place.warp, site=place.site, witness={"address": target.address})

    # -- counts and bytes ------------------------------------------------------------------------

    def check_count(self, place: Place, target: Object, count: int, *, ends: bool) -> None:
        """`count` arrivals come; `ends`: they complete the phase, which .noComplete forbids."""
        if count > target.pending and not target.broken:
            target.broken = True
            if target.pending or not target.copies:
                self._breach("mbarrier-count", place, target.address,
                             f"{count} arrivals, but the phase waits for {target.pending} more")
            else:
                self._breach("mbarrier-phase", place, target.address,
                             f"all arrivals of phase {target.phase} are in, its copies may still "
                             "be under way: this one belongs to the phase after it. Repair: wait "
                             f"for parity {target.phase & 1} before it")
        if ends:
            self._breach("mbarrier-count", place, target.address,
                         "the arrival completes the phase, which .noComplete must not do. Repair: "
                         "drop .noComplete from the last arrival")

    def check_bytes(self, place: Place, target: Object) -> None:
        """Once all arrivals are in, the announced bytes must cover the bound ones."""
        if target.pending <= 0 and target.bytes.short and not target.broken:
            self._short(place, target, target.phase, target.bytes.announced, target.bytes.bound)

    def check_late_copy(self, place: Place, target: Object, size: int) -> None:
        """A copy counts in a phase whose beginning its issuer cannot know: the one before was
        announced too few bytes, and ended early."""
        announced = target.before.announced
        if not announced.total() or self._knows_end(place, target):
            return
        target.late[place.site] += size
        if target.bytes.short and (target.excess or not target.broken):
            target.broken = True
            self._short(place, target, target.phase - 1, announced,
                        target.before.bound + target.late)

    def _knows_end(self, place: Place, target: Object) -> bool:
        """Whether somebody saw the phase before the open one complete, and the issuer knows."""
        clock, by = self._world.clock(place.cta, place.warp), np.array([place.lane])
        return any(
            int(clock.unknown(TIME, by, seen.cta, seen.warp, seen.clock)[0]) & seen.mask
            != seen.mask for seen in target.seen.get(target.phase - 1, ()))

    def _short(self, place: Place, target: Object, phase: int, announced: Counter[int],
               bound: Counter[int]) -> None:
        """Fewer bytes than the copies bring: one finding for a phase, with what it sums up to."""
        first = target.excess = target.excess or place
        world, some, brought = self._world, announced.total(), bound.total()
        warps = frozenset(range(world.warps))
        world.reports.breach(place.cta, warps)
        where = f" ({_lines(map(world.line, announced))})" if some else ""
        repair = (f"announce {brought} bytes{' in all' if len(announced) > 1 else ''} at "
                  f"{_lines(map(world.line, announced))}" if some else
                  f"mbarrier.arrive.expect_tx of {brought} bytes as the last arrival, or before it")
        world.breach(
            "tx-mismatch",
            f"{world.named(first.site)} on the mbarrier at shared {target.address:#x}: phase "
            f"{phase} was announced {some} bytes{where}, and its copies, which no other expect_tx "
            f"covers, bring {brought} ({_lines(map(world.line, bound))}): it can complete before "
            f"they are there. Repair: {repair}",
            cta=first.cta, warp=first.warp, site=first.site, lane=first.lane,
            warps=warps, amends=True,
            witness={"address": target.address, "phase": phase, "announced_bytes": some,
                     "delivered_bytes": brought, "repair": repair})

    def check_announced(self, target: Object) -> bool:
        """The CTA ends: whether the bytes of the open phase's copies were announced at all."""
        if not target.bytes.short or (target.broken and not target.excess):
            return True
        if target.excess:
            return False
        announced, bound = target.bytes.announced.total(), target.bytes.bound.total()
        self._breach(
            "tx-mismatch", target.copies.get(target.phase, target.last), target.address,
            f"phase {target.phase} counts {bound} bytes of its copies, of which "
            f"{announced} were announced when the CTA ends. Repair: "
            f"mbarrier.arrive.expect_tx of {bound} bytes, not a plain arrive, for the phase "
            "of the copy")
        return False

    # -- phases ----------------------------------------------------------------------------------

    def check_observed(self, place: Place, target: Object) -> None:
        """Decision M1: an arrival in a phase although nobody saw the one before complete."""
        if target.phase - 1 <= target.observed or target.broken:
            return
        world = self._world
        world.report(
            "mbarrier-phase", "warning",
            f"{world.named(place.site)} arrives in phase {target.phase} of the mbarrier at shared "
            f"{target.address:#x} although nobody has seen phase {target.phase - 1} complete. "
            f"Repair: wait for parity {(target.phase - 1) & 1} before, or for an mbarrier on which "
            "those who waited say so (in a ring with a parity that flips each time round)",
            cta=place.cta, warp=place.warp, site=place.site,
            witness={"address": target.address, "phase": target.phase})

    def check_seen(self, target: Object) -> None:
        """The open phase completes: all who saw the one before are known to have done so (M1')."""
        known = target.gathered.peek()
        for seen in target.seen.pop(target.phase - 1, ()):
            clocks = known.row(TIME, seen.cta, seen.warp)
            late = seen.mask & mask_of(clocks < seen.clock)
            if late and not target.broken:
                self._aliased(target, seen, late)

    def _aliased(self, target: Object, seen: Seen, late: int) -> None:
        world, place = self._world, target.last
        world.breach(
            "mbarrier-phase",
            f"phase {target.phase} of the mbarrier at shared {target.address:#x} completes with "
            f"{world.named(place.site)} while warp {seen.warp} may still be waiting for phase "
            f"{target.phase - 1} in {world.named(seen.site)}: the parity repeats and the waiter "
            "sleeps through its phase. Repair: let the waiters arrive on a second mbarrier, or "
            "synchronise them, before the phase after theirs can complete",
            cta=place.cta, warp=place.warp, site=place.site, key=(seen.site,),
            warps=frozenset(range(world.warps)),
            witness={"address": target.address, "phase": target.phase,
                     "waiting_line": world.line(seen.site),
                     "waiting_lanes": lanes_of(late).tolist()})

    def check_late(self, place: Place, target: Object, phase: int) -> None:
        """A wait comes true for a phase that is not the last complete one."""
        if target.phase <= phase + 1 or target.broken:
            return
        self._breach("mbarrier-phase", place, target.address,
                     f"it waits for phase {phase}, but phase {target.phase - 1} is complete "
                     "already. Repair: wait for each phase before the next one can complete")


def _lines(numbers: Iterable[int]) -> str:
    """PTX lines in words: ``line 26``, ``lines 27, 28``."""
    shown = sorted(set(numbers))
    return f"line{'' if len(shown) == 1 else 's'} {', '.join(map(str, shown))}"
