"""mbarrier objects: phases that gather what arrivals know, and the rules of their use.

Each phase is a join, like a barrier generation, and the next phase starts from the last: arrivals
are read-modify-writes of one object. A wait that returns true for phase n receives everything that
arrived in the phases 0..n. Example, count 32, one warp arrives, another waits:

    warp 0: st.shared [tile], mbarrier.arrive [bar]     phase 0 gathers warp 0, epoch 1
    warp 1: mbarrier.try_wait.parity [bar], 0 -> true   warp 1 knows warp 0 up to epoch 1

What the protocol asks beyond that: the object is initialised, and that is known to who uses it; its
bytes are used for nothing else until mbarrier.inval; counts fit; nobody arrives in phase n + 1
before somebody saw phase n (decision M1, a warning); and whoever saw phase n is done with it before
phase n + 1 completes, because only a parity tells phases apart (decision M1', an error).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import CpAsyncArrive, Mbarrier
from mmalab.sanitizer.clocks import (
    EXECUTION,
    HARD,
    LANES,
    ORDER,
    RELATIONS,
    Knowledge,
    Level,
    lanes_of,
    level_of,
    mask_of,
    routes,
)
from mmalab.sanitizer.copies import CopyQueues
from mmalab.sanitizer.lanes import Gathering
from mmalab.sanitizer.races import Races
from mmalab.sanitizer.touch import Touch
from mmalab.sanitizer.world import World

__all__ = ["Mbarriers"]

_MOST = (1 << 20) - 1
_WAITS = ("test_wait", "try_wait")
_ARRIVES = ("arrive", "arrive_drop")
#: The instruction whose arrival comes later than its issue.
_FIRING = "cp.async.mbarrier.arrive"


class _Seen(NamedTuple):
    """Lanes of a warp that saw a phase complete, at this epoch of theirs."""

    warp: int
    mask: int
    clock: int
    site: int


@dataclass(slots=True)
class _Object:
    """One live mbarrier."""

    expected: int
    pending: int
    init_site: int
    phase: int = 0
    gathered: Gathering = field(default_factory=Gathering)
    #: What the completed phases gathered, by phase, each including the ones before.
    complete: dict[int, Knowledge] = field(default_factory=dict)
    observed: int = -1
    #: A count was wrong: what follows from that is not reported on top.
    broken: bool = False
    seen: dict[int, list[_Seen]] = field(default_factory=dict)

    def advance(self, phase: int) -> None:
        """The machine is in `phase`: those before it are complete."""
        while self.phase < phase:
            self.complete[self.phase] = self.gathered.knowledge()
            fresh = Gathering()
            fresh.join(self.complete[self.phase])
            self.gathered = fresh
            self.complete.pop(self.phase - 3, None)
            self.phase += 1
            self.pending = self.expected

    def through(self, phase: int) -> Knowledge:
        """What arrived in the phases up to `phase`."""
        self.advance(phase + 1)
        return self.complete.get(phase, Knowledge())


class Mbarriers:
    """Follows all mbarrier objects of a run."""

    def __init__(self, world: World, races: Races, queues: CopyQueues) -> None:
        self._world = world
        self._races = races
        self._queues = queues
        self._objects: dict[tuple[int, int], _Object] = {}

    def on(self, event: Mbarrier) -> None:
        """An mbarrier operation, address by address."""
        if self._world.family(event.site) == _FIRING:
            self._fired(event)
            return
        self._touch(event)
        for address, mask in _by_address(event.mask, event.addresses).items():
            if event.op == "init":
                self._init(event, address, mask)
                continue
            target = self._objects.get((event.cta, address))
            if target is None:
                self._uninitialised(event, address)
            elif event.op == "inval":
                del self._objects[event.cta, address]
            elif event.op in _ARRIVES:
                self._arrive(event, target, mask)
            elif event.op in _WAITS:
                self._wait(event, target, mask & event.completed)
        if event.op not in _WAITS:
            self._world.clock(event.cta, event.warp).bump()

    def _touch(self, event: Mbarrier | CpAsyncArrive) -> None:
        """The object's bytes: init and inval write them, all else is atomic.

        Operations on the object do not exclude each other, and ending it needs no more than their
        order in lockstep, so that all but init and inval count as strong reads of its bytes.
        """
        cta = self._world.cta(event.cta)
        clock = cta.clocks[event.warp]
        lanes = lanes_of(event.mask)
        addresses = event.addresses[lanes].astype(np.int64)
        if (addresses % 8).any():
            return
        ordinary = isinstance(event, Mbarrier) and event.op in ("init", "inval")
        self._races.touch(Touch(
            clock=clock, row=event.warp, epoch=clock.now, site=event.site, space="shared",
            write=ordinary, strength=0 if ordinary else 1 + Level.CLUSTER, addresses=addresses,
            mask=event.mask, size=8), cta.shared)

    # -- life ------------------------------------------------------------------------------------

    def _init(self, event: Mbarrier, address: int, mask: int) -> None:
        lane = int(lanes_of(mask)[0])
        count = int(event.counts[lane])
        world = self._world
        earlier = self._objects.get((event.cta, address))
        if earlier is not None:
            self._breach(event, "mbarrier-lifetime", address,
                         f"the mbarrier is still live from {world.named(earlier.init_site)}. "
                         "Repair: mbarrier.inval first")
        if not 1 <= count <= _MOST:
            self._breach(event, "mbarrier-count", address,
                         f"a count of {count} (legal: 1 to {_MOST})")
        self._objects[event.cta, address] = _Object(count, count, event.site,
                                                    broken=not 1 <= count <= _MOST)

    def _uninitialised(self, event: Mbarrier | CpAsyncArrive, address: int) -> None:
        self._breach(event, "mbarrier-uninitialised", address,
                     "nothing has initialised it by now. Repair: mbarrier.init by one thread, then "
                     "bar.sync")

    def _breach(self, event: Mbarrier | CpAsyncArrive, code: str, address: int, fault: str) -> None:
        world = self._world
        world.breach(code, f"{world.named(event.site)} on the mbarrier at shared {address:#x}: "
                     f"{fault}", cta=event.cta, warp=event.warp, site=event.site,
                     lane=int(lanes_of(event.mask)[0]), warps=frozenset(range(world.warps)),
                     witness={"address": address})

    def stored(self, cta: int, warp: int, site: int, addresses: NDArray[np.int64], size: int,
               ) -> bool:
        """An ordinary store: does it hit a live mbarrier? Reports it if so."""
        if not self._objects:
            return False
        low, high = int(addresses.min()), int(addresses.max()) + size
        if not any(owner == cta and low - 8 < address < high for owner, address in self._objects):
            return False
        words = {int(word) for word in
                 np.unique((addresses[:, None] + np.arange(0, size, min(size, 8))) // 8)}
        hit = [address for owner, address in self._objects
               if owner == cta and address // 8 in words]
        if hit:
            world = self._world
            init = self._objects[cta, hit[0]].init_site
            world.breach(
                "mbarrier-lifetime", f"{world.named(site)} overwrites the live mbarrier at shared "
                f"{hit[0]:#x} ({world.named(init)}). Repair: mbarrier.inval first, or other bytes",
                cta=cta, warp=warp, site=site, warps=frozenset(range(world.warps)),
                witness={"address": hit[0]})
        return bool(hit)

    # -- arrivals --------------------------------------------------------------------------------

    def _arrive(self, event: Mbarrier, target: _Object, mask: int) -> None:
        phases = event.phases[lanes_of(mask)]
        for phase in np.unique(phases).tolist():
            here = mask & _where(event.phases == phase)
            target.advance(phase)
            self._check_observed(event, target)
            self._count(event, target, here)
            self._gather(event, target, here)
            if here & event.completed:
                self._check_seen(event, target)
                target.advance(phase + 1)

    def _gather(self, event: Mbarrier, target: _Object, mask: int) -> None:
        clock = self._world.clock(event.cta, event.warp)
        if event.semantics != "relaxed":
            target.gathered.add(clock, mask)
            return
        route = routes(releasing=False, acquiring=True, write_level=Level.CLUSTER,
                       read_level=Level.CLUSTER, distance=Level.CTA)
        target.gathered.join(Knowledge().received(clock.released(mask), route))

    def _count(self, event: Mbarrier, target: _Object, mask: int) -> None:
        count = int(event.counts[lanes_of(mask)].sum())
        address = int(event.addresses[lanes_of(mask)[0]])
        if count > target.pending and not target.broken:
            target.broken = True
            self._breach(event, "mbarrier-count", address,
                         f"{count} arrivals, but the phase waits for {target.pending} more")
        target.pending -= count
        if event.op == "arrive_drop":
            target.expected -= count
        key = self._world.program.sites[event.site].form.key
        if mask & event.completed and "noComplete" in key:
            self._breach(event, "mbarrier-count", address,
                         "the arrival completes the phase, which .noComplete must not do. Repair: "
                         "drop .noComplete from the last arrival")

    def _check_observed(self, event: Mbarrier, target: _Object) -> None:
        if target.phase - 1 <= target.observed or target.broken:
            return
        world = self._world
        address = int(event.addresses[lanes_of(event.mask)[0]])
        world.report(
            "mbarrier-phase", "warning",
            f"{world.named(event.site)} arrives in phase {target.phase} of the mbarrier at shared "
            f"{address:#x} although nobody has seen phase {target.phase - 1} complete. Repair: "
            f"wait for parity {(target.phase - 1) & 1} before",
            cta=event.cta, warp=event.warp, site=event.site,
            witness={"address": address, "phase": target.phase})

    def _check_seen(self, event: Mbarrier, target: _Object) -> None:
        """Phase n + 1 completes: all who saw phase n must be known to have done so."""
        known = target.gathered.peek()
        for seen in target.seen.pop(target.phase - 1, ()):
            clocks = known.row(EXECUTION, event.cta, seen.warp)
            late = seen.mask & _where(clocks < seen.clock)
            if late and not target.broken:
                self._aliased(event, target, seen, late)

    def _aliased(self, event: Mbarrier, target: _Object, seen: _Seen, late: int) -> None:
        world = self._world
        address = int(event.addresses[lanes_of(event.mask)[0]])
        self._world.breach(
            "mbarrier-phase",
            f"phase {target.phase} of the mbarrier at shared {address:#x} completes with "
            f"{world.named(event.site)} while warp {seen.warp} may still be waiting for phase "
            f"{target.phase - 1} in {world.named(seen.site)}: the parity repeats and the waiter "
            "sleeps through its phase. Repair: let the waiters arrive on a second mbarrier, or "
            "synchronise them, before the phase after theirs can complete",
            cta=event.cta, warp=event.warp, site=event.site, key=(seen.site,),
            warps=frozenset(range(world.warps)),
            witness={"address": address, "phase": target.phase, "waiting_line":
                     world.line(seen.site), "waiting_lanes": lanes_of(late).tolist()})

    def copies_arrive(self, event: CpAsyncArrive) -> None:
        """cp.async.mbarrier.arrive: the lane's earlier copies join the phase when they are done."""
        self._touch(event)
        queue = self._queues.of(event.cta, event.warp)
        for address, mask in _by_address(event.mask, event.addresses).items():
            target = self._objects.get((event.cta, address))
            if target is None:
                self._uninitialised(event, address)
                continue
            lanes = lanes_of(mask)
            if event.phases is not None:
                target.advance(int(event.phases[lanes].max()))
            target.gathered.join(self._copied(event, lanes, queue.close(lanes)))
            if not event.noinc:
                target.pending += len(lanes)
        self._world.clock(event.cta, event.warp).bump()

    def _fired(self, event: Mbarrier) -> None:
        """The asynchronous arrive happens: what it brings joined the phase at its issue."""
        for address, mask in _by_address(event.mask, event.addresses).items():
            target = self._objects.get((event.cta, address))
            if target is None:
                continue
            lanes = lanes_of(mask)
            for phase in np.unique(event.phases[lanes]).tolist():
                here = mask & _where(event.phases == phase)
                target.advance(phase)
                target.pending -= here.bit_count()
                if here & event.completed:
                    self._check_seen(event, target)
                    target.advance(phase + 1)

    def _copied(self, event: CpAsyncArrive, lanes: NDArray[np.intp], epochs: NDArray[np.int64],
                ) -> Knowledge:
        clock = self._world.clock(event.cta, event.warp)
        part = np.zeros((RELATIONS, 2 * clock.warps, LANES), np.uint32)
        for relation in ORDER:
            part[relation, clock.warps + event.warp, lanes] = epochs
        mask = sum(1 << lane for lane in lanes.tolist())
        return Knowledge({event.cta: part}).received(
            clock.released(mask), ((EXECUTION, EXECUTION),))

    def published(self, cta: int, row: int, lane: int, clock: int) -> tuple[int, int] | None:
        """The (address, phase) of a live mbarrier that has received this epoch."""
        for (owner, address), target in self._objects.items():
            if owner != cta:
                continue
            phases = {**target.complete, target.phase: target.gathered.peek()}
            for phase in sorted(phases):
                if phases[phase].row(HARD, cta, row)[lane] >= clock:
                    return address, phase
        return None

    # -- waits -----------------------------------------------------------------------------------

    def _wait(self, event: Mbarrier, target: _Object, mask: int) -> None:
        if not mask:
            return
        clock = self._world.clock(event.cta, event.warp)
        phases = event.phases[lanes_of(mask)]
        for phase in np.unique(phases).tolist():
            if phase < 0:
                continue
            here = mask & _where(event.phases == phase)
            knowledge = target.through(phase)
            relaxed = event.semantics == "relaxed"
            route = routes(releasing=True, acquiring=not relaxed, write_level=Level.CLUSTER,
                           read_level=level_of(event.scope, Level.CLUSTER), distance=Level.CTA)
            self._check_late(event, target, phase)
            target.observed = max(target.observed, phase)
            target.seen.setdefault(phase, []).append(
                _Seen(event.warp, here, clock.now, event.site))
            if not relaxed and len(clock.parts) == 1 and here == clock.live:
                clock.assign(here, clock.parts[0][1].joined(knowledge))
            else:
                clock.receive(here, knowledge, route)

    def _check_late(self, event: Mbarrier, target: _Object, phase: int) -> None:
        if target.phase <= phase + 1 or target.broken:
            return
        address = int(event.addresses[lanes_of(event.mask)[0]])
        self._breach(event, "mbarrier-phase", address,
                     f"it waits for phase {phase}, but phase {target.phase - 1} is complete "
                     "already. Repair: wait for each phase before the next one can complete")


def _by_address(mask: int, addresses: NDArray[np.uint64]) -> dict[int, int]:
    """Address -> mask of the lanes that name it."""
    masks: dict[int, int] = {}
    for lane in lanes_of(mask).tolist():
        address = int(addresses[lane])
        masks[address] = masks.get(address, 0) | 1 << lane
    return masks


def _where(flags: NDArray[np.bool_]) -> int:
    return mask_of(np.asarray(flags, np.bool_))
