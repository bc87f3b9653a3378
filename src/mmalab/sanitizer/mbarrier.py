"""mbarrier objects: phases that gather what arrivals know, and the rules of their use.

Each phase is a join, like a barrier generation, and the next phase starts from the last: arrivals
are read-modify-writes of one object. A wait that returns true for phase n receives everything that
arrived in the phases 0..n. Example, count 32, one warp arrives, another waits:

    warp 0: st.shared [tile], mbarrier.arrive [bar]     phase 0 gathers warp 0, epoch 1
    warp 1: mbarrier.try_wait.parity [bar], 0 -> true   warp 1 knows warp 0 up to epoch 1

What the protocol asks beyond that: the object is initialised, and that is known to who uses it; its
bytes are used for nothing else until mbarrier.inval; counts and bytes fit; nobody arrives in phase
n + 1 before somebody saw phase n (decision M1, a warning); and whoever saw phase n is done with it
before phase n + 1 completes, because only a parity tells phases apart (decision M1', an error).

An arrival of another CTA, or a wait for one, that writes no scope is taken as wide enough (decision
M2); ``.cta`` on one of them leaves out the other CTA.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Async, CpAsyncArrive, Mbarrier, Signal
from mmalab.errors import LimitExceeded
from mmalab.sanitizer.agents import Agents, Proxy
from mmalab.sanitizer.clocks import (
    EXECUTION,
    HARD,
    LANES,
    ORDER,
    RELATIONS,
    TIME,
    Knowledge,
    Level,
    lanes_of,
    level_of,
    mask_of,
    mask_of_lanes,
    routes,
)
from mmalab.sanitizer.copies import CopyQueues
from mmalab.sanitizer.gathering import Gathering
from mmalab.sanitizer.phases import Object, Place, Seen
from mmalab.sanitizer.protocol import MbarrierProtocol
from mmalab.sanitizer.races import Races
from mmalab.sanitizer.sweep import Sweeps
from mmalab.sanitizer.touch import Sweep, Touch
from mmalab.sanitizer.world import World

__all__ = ["Mbarriers"]

_WAITS = ("test_wait", "try_wait")
_ARRIVES = ("arrive", "arrive_drop")
#: The instruction whose arrival comes later than its issue.
_FIRING = "cp.async.mbarrier.arrive"
#: A strong access at cluster scope: operations on the object do not exclude each other.
_STRONG = 1 + Level.CLUSTER
#: What the issuer of a copy passes on: order in time, not of memory.
_IN_TIME = (EXECUTION, TIME)
#: Bytes that the clocks of all live objects may take, and clocks that one keeps.
_ROOM, _CLOCKS = 1 << 32, 4


class Mbarriers:
    """Follows all mbarrier objects of a run."""

    def __init__(self, world: World, races: Races, sweeps: Sweeps, agents: Agents,
                 queues: CopyQueues) -> None:
        self._world = world
        self._races = races
        self._sweeps = sweeps
        self._agents = agents
        self._queues = queues
        self.protocol = MbarrierProtocol(world)
        self.objects: dict[tuple[int, int], Object] = {}
        #: CTA -> addresses of its live objects.
        self._live: dict[int, set[int]] = {}
        #: The agents' latest epochs of objects that ended.
        self._bases: dict[tuple[int, int], int] = {}

    def on(self, event: Mbarrier) -> None:
        """An mbarrier operation, object by object."""
        if self._world.family(event.site) == _FIRING:
            self._fired(event)
            return
        for (owner, address), mask in _by_object(event).items():
            self._touch(event, owner, mask)
            if event.op == "init":
                self._init(event, owner, address, mask)
                continue
            target = self.objects.get((owner, address))
            if target is None:
                self.protocol.uninitialised(_place(event, mask), address)
            elif event.op == "inval":
                self._end(target)
            elif event.op in _ARRIVES:
                self._arrive(event, target, mask)
            elif event.op in _WAITS:
                self._wait(event, target, mask & event.completed)
            else:
                self._bytes(event, target, mask)
        if event.op not in _WAITS:
            self._world.clock(event.cta, event.warp).bump()

    def _touch(self, event: Mbarrier | CpAsyncArrive, owner: int, mask: int) -> None:
        """The object's bytes: init and inval write them, all else is atomic.

        Operations on the object do not exclude each other, and ending it needs no more than their
        order in lockstep, so that all but init and inval count as strong reads of its bytes.
        """
        clock = self._world.clock(event.cta, event.warp)
        addresses = event.addresses[lanes_of(mask)].astype(np.int64)
        if (addresses % 8).any():
            return
        ordinary = isinstance(event, Mbarrier) and event.op in ("init", "inval")
        self._races.touch(Touch(
            clock=clock, row=event.warp, epoch=clock.now, site=event.site, space="shared",
            write=ordinary, strength=0 if ordinary else _STRONG, addresses=addresses,
            mask=mask, size=8), self._world.cta(owner).shared)

    # -- life ------------------------------------------------------------------------------------

    def _init(self, event: Mbarrier, owner: int, address: int, mask: int) -> None:
        count = int(event.counts[lanes_of(mask)[0]])
        self._check_room()
        place, earlier = _place(event, mask), self.objects.get((owner, address))
        fits = self.protocol.initialised(place, address, count, earlier)
        if earlier is not None:
            self._end(earlier)
        self.objects[owner, address] = Object(
            owner, address, count, count, event.site, self._agents.mbarrier(owner, address),
            self._bases.get((owner, address), 0), place, broken=not fits)
        self._live.setdefault(owner, set()).add(address)

    def _check_room(self) -> None:
        each = RELATIONS * 2 * self._world.warps * LANES * 4 * _CLOCKS
        if len(self.objects) * each >= _ROOM:
            raise LimitExceeded(
                f"{len(self.objects) + 1} live mbarriers in CTAs of {self._world.warps} warps",
                "their clocks do not fit the sanitizer's memory", legal=f"{_ROOM // each}, or "
                "sanitize=False")

    def _end(self, target: Object) -> None:
        self._bases[target.owner, target.address] = target.epoch
        del self.objects[target.owner, target.address]
        self._live[target.owner].discard(target.address)

    def retire(self, cta: int) -> None:
        """Nobody can reach the shared memory of this CTA any more."""
        for address in tuple(self._live.get(cta, ())):
            self._end(self.objects[cta, address])
        self._live.pop(cta, None)

    def of(self, cta: int) -> list[Object]:
        """The live objects in a CTA's shared memory."""
        return [self.objects[cta, address] for address in sorted(self._live.get(cta, ()))]

    def touched(self, cta: int, warp: int, site: int, addresses: NDArray[np.int64], size: int, *,
                write: bool) -> bool:
        """An ordinary access: does it hit a live mbarrier? Reports it if so."""
        live = self._live.get(cta)
        if not live:
            return False
        low, high = int(addresses.min()), int(addresses.max()) + size
        near = [address for address in live if low - 8 < address < high]
        if not near:
            return False
        words = {int(word) for word in
                 np.unique((addresses[:, None] + np.arange(0, size, min(size, 8))) // 8)}
        hit = [address for address in near if address // 8 in words]
        if hit:
            tell = self.protocol.overwritten if write else self.protocol.peeked
            tell(Place(cta, warp, 0, site), self.objects[cta, hit[0]])
        return bool(hit)

    def copied_over(self, owner: int, starts: NDArray[np.int64], size: int, place: Place) -> None:
        """An asynchronous operation writes `size` bytes from each of the ascending `starts`."""
        for address in self._live.get(owner, ()):
            at = int(np.searchsorted(starts, address + 7, "right")) - 1
            if at >= 0 and address < starts[at] + size:
                self.protocol.overwritten(place, self.objects[owner, address])
                return

    def advance(self, target: Object, phase: int) -> None:
        """The machine is in `phase`: those before it are complete."""
        while target.phase < phase:
            self.protocol.check_seen(target)
            target.close()

    # -- arrivals --------------------------------------------------------------------------------

    def _arrive(self, event: Mbarrier, target: Object, mask: int) -> None:
        phases = event.phases[lanes_of(mask)]
        for phase in np.unique(phases).tolist():
            here = mask & _where(event.phases == phase)
            self.advance(target, phase)
            place = target.last = _place(event, here)
            self.protocol.check_observed(place, target)
            if event.expected is not None:
                target.bytes.announced[event.site] += int(event.expected[lanes_of(here)].sum())
            self._count(event, target, here, place)
            self._gather(event, target, here)
            if here & event.completed:
                self.advance(target, phase + 1)

    def _count(self, event: Mbarrier, target: Object, mask: int, place: Place) -> None:
        count = int(event.counts[lanes_of(mask)].sum())
        key = self._world.program.sites[event.site].form.key
        self.protocol.check_count(place, target, count,
                                   ends="noComplete" in key and bool(mask & event.completed))
        target.pending -= count
        if event.op == "arrive_drop":
            target.expected -= count
        self.protocol.check_bytes(place, target)

    def _gather(self, event: Mbarrier, target: Object, mask: int) -> None:
        clock = self._world.clock(event.cta, event.warp)
        remote = event.cta != target.owner
        distance = self._world.distance(event.cta, target.owner)
        reach = level_of(event.scope, Level.CLUSTER)
        into = target.gathering(remote=remote)
        if event.semantics != "relaxed" and reach >= distance:
            for gathering in into:
                gathering.add(clock, mask)
            return
        route = routes(releasing=event.semantics != "relaxed", acquiring=True, write_level=reach,
                       read_level=Level.GPU, distance=distance)
        published = Knowledge().received(clock.released(mask), route)
        for gathering in into:
            gathering.join(published)

    def _bytes(self, event: Mbarrier, target: Object, mask: int) -> None:
        """expect_tx announces, complete_tx stands for a copy: bytes only."""
        lanes = lanes_of(mask)
        self.advance(target, int(event.phases[lanes].max()))
        amount = int(event.counts[lanes].sum())
        place = _place(event, mask)
        if event.op == "expect_tx":
            target.bytes.announced[event.site] += amount
        else:
            target.bytes.bound[event.site] += amount
            self.protocol.check_bytes(place, target)
        if mask & event.completed:
            target.last = place
            self.advance(target, target.phase + 1)

    # -- asynchronous arrivals -------------------------------------------------------------------

    def signalled(self, event: Async, signal: Signal) -> Object | None:
        """A copy will count its bytes here: its epoch joins the phase. None: no object is there."""
        target = self.objects.get((signal.owner, signal.address))
        clock = self._world.clock(event.cta, event.warp)
        place = Place(event.cta, event.warp, event.lane, event.site)
        if target is None:
            self.protocol.uninitialised(place, signal.address)
            return None
        self.advance(target, signal.phase)
        target.last = target.copies[target.phase] = place
        target.copies.pop(target.phase - 4, None)
        self._sweeps.sweep(Sweep(
            clock, event.lane, target.agent, target.epoch, event.site, "shared", False,
            np.array([signal.address], np.int64), 8, _STRONG, Proxy.GENERIC, counts=True),
            self._world.cta(signal.owner).shared)
        target.bytes.bound[event.site] += signal.bytes
        self.protocol.check_bytes(place, target)
        self.protocol.check_late_copy(place, target, signal.bytes)
        for gathering in target.gathering(remote=False):
            gathering.learn(*target.agent.place, target.epoch)
            gathering.add_executed(clock, 1 << event.lane, _IN_TIME)
        return target

    def copies_arrive(self, event: CpAsyncArrive) -> None:
        """cp.async.mbarrier.arrive: the lane's earlier copies join the phase when they are done."""
        queue = self._queues.of(event.cta, event.warp)
        for (owner, address), mask in _by_object(event).items():
            self._touch(event, owner, mask)
            target = self.objects.get((owner, address))
            if target is None:
                self.protocol.uninitialised(_place(event, mask), address)
                continue
            lanes = lanes_of(mask)
            if event.phases is not None:
                self.advance(target, int(event.phases[lanes].max()))
            copied = self._copied(event, lanes, queue.close(lanes))
            for gathering in target.gathering(remote=False):
                gathering.join(copied)
            if not event.noinc:
                target.pending += len(lanes)
        self._world.clock(event.cta, event.warp).bump()

    def _fired(self, event: Mbarrier) -> None:
        """The asynchronous arrive happens: what it brings joined the phase at its issue."""
        for key, mask in _by_object(event).items():
            target = self.objects.get(key)
            if target is None:
                continue
            for phase in np.unique(event.phases[lanes_of(mask)]).tolist():
                here = mask & _where(event.phases == phase)
                self.advance(target, phase)
                target.last = _place(event, here)
                target.pending -= here.bit_count()
                if here & event.completed:
                    self.advance(target, phase + 1)

    def _copied(self, event: CpAsyncArrive, lanes: NDArray[np.intp], epochs: NDArray[np.int64],
                ) -> Knowledge:
        clock = self._world.clock(event.cta, event.warp)
        part = np.zeros((RELATIONS, 2 * clock.warps, LANES), np.uint32)
        for relation in ORDER:
            part[relation, clock.warps + event.warp, lanes] = epochs
        gathering = Gathering()
        gathering.join(Knowledge({event.cta: part}))
        gathering.add_executed(clock, mask_of_lanes(lanes), _IN_TIME)
        return gathering.knowledge()

    def published(self, cta: int, row: int, lane: int, clock: int) -> tuple[int, int] | None:
        """The (address, phase) of a live mbarrier that has received this epoch."""
        for (owner, address), target in self.objects.items():
            if self._world.distance(owner, cta) > Level.CLUSTER:
                continue
            phases = {**{k: done.everything for k, done in target.complete.items()},
                      target.phase: target.gathered.peek()}
            for phase in sorted(phases):
                if phases[phase].row(HARD, cta, row)[lane] >= clock:
                    return address, phase
        return None

    def delivered(self, agent: tuple[int, int, int], epoch: int) -> tuple[int, int] | None:
        """The (address, phase) whose copies an epoch of an agent (CTA, row, lane) delivers."""
        for (_, address), target in self.objects.items():
            if target.agent.place == agent and epoch > target.base:
                return address, epoch - target.base - 1
        return None

    # -- waits -----------------------------------------------------------------------------------

    def _wait(self, event: Mbarrier, target: Object, mask: int) -> None:
        if not mask:
            return
        clock = self._world.clock(event.cta, event.warp)
        phases = event.phases[lanes_of(mask)]
        for phase in np.unique(phases).tolist():
            if phase < 0:
                continue
            here = mask & _where(event.phases == phase)
            self.advance(target, phase + 1)
            self.protocol.check_late(_place(event, here), target, phase)
            target.observed = max(target.observed, phase)
            target.saw(phase, Seen(event.cta, event.warp, here, clock.now, event.site))
            self._acquire(event, target, phase, here)

    def _acquire(self, event: Mbarrier, target: Object, phase: int, mask: int) -> None:
        clock = self._world.clock(event.cta, event.warp)
        done = target.through(phase)
        relaxed = event.semantics == "relaxed"
        reach = level_of(event.scope, Level.CLUSTER)
        near = done.near if reach == Level.CTA else None
        if not relaxed and near is None and len(clock.parts) == 1 and mask == clock.live:
            clock.assign(mask, clock.parts[0][1].joined(done.everything))
            return
        if near is not None:
            clock.receive(mask, near, routes(
                releasing=True, acquiring=not relaxed, write_level=Level.CLUSTER,
                read_level=reach, distance=Level.CTA))
        clock.receive(mask, done.everything, routes(
            releasing=True, acquiring=not relaxed, write_level=Level.CLUSTER, read_level=reach,
            distance=Level.CTA if near is None else Level.CLUSTER))


def _place(event: Mbarrier | CpAsyncArrive, mask: int) -> Place:
    return Place(event.cta, event.warp, int(lanes_of(mask)[0]), event.site)


def _by_object(event: Mbarrier | CpAsyncArrive) -> dict[tuple[int, int], int]:
    """(CTA, address) -> mask of the lanes that name it."""
    masks: dict[tuple[int, int], int] = {}
    for lane in lanes_of(event.mask).tolist():
        owner = event.cta if event.owners is None else int(event.owners[lane])
        key = (owner, int(event.addresses[lane]))
        masks[key] = masks.get(key, 0) | 1 << lane
    return masks


def _where(flags: NDArray[np.bool_]) -> int:
    return mask_of(np.asarray(flags, np.bool_))
