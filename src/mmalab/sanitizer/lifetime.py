"""Clusters: shared memory of another CTA exists from that CTA's start to its exit.

A remote access needs to know that the other CTA has started, which any synchronisation with it
tells, and must be known to the other CTA when it exits::

    CTA 0: mapa; ld.shared::cluster [peer]     CTA 1: ret
        unless a cluster barrier stands between the load and CTA 1's exit: cluster-lifetime

A read is done when its value is there, so that order in time is enough for it; a write must be
ordered in HARD. A copy from the own CTA to another one reads until the other's mbarrier completes,
which the own CTA has to hear of before it exits. Copies into the own CTA that nobody waited for at
exit are a warning (decision S3).
"""

from __future__ import annotations

from typing import NamedTuple

from mmalab.emulator.events import Async
from mmalab.sanitizer.agents import Agent
from mmalab.sanitizer.clocks import HARD, TIME, lanes_of, mask_of
from mmalab.sanitizer.mbarrier import Mbarriers
from mmalab.sanitizer.phases import Object, Place
from mmalab.sanitizer.world import World

__all__ = ["Lifetimes"]


class _Remote(NamedTuple):
    """An access to another CTA's shared memory: whose epoch its exit has to know."""

    cta: int
    row: int
    mask: int
    clock: int
    relation: int
    place: Place


class Lifetimes:
    """Checks remote accesses against the start and the exit of their CTA."""

    def __init__(self, world: World, mbarriers: Mbarriers) -> None:
        self._world = world
        self._mbarriers = mbarriers
        #: Owner CTA -> the latest access of each actor and instruction.
        self._remote: dict[int, dict[tuple[int, ...], _Remote]] = {}
        self._exited: set[int] = set()

    def touches(self, cta: int, warp: int, mask: int, site: int, owner: int, *, write: bool,
                ) -> None:
        """Threads touch the shared memory of CTA `owner`, which is not theirs."""
        self.started(cta, warp, mask, site, owner)
        clock = self._world.clock(cta, warp)
        relation = HARD if write else TIME
        place = Place(cta, warp, int(lanes_of(mask)[0]), site)
        self._remote.setdefault(owner, {})[cta, warp, site, mask, relation] = _Remote(
            cta, warp, mask, clock.now, relation, place)

    def lands(self, owner: int, agent: Agent, epoch: int, event: Async) -> None:
        """A copy will write shared memory of CTA `owner`."""
        self._flies(owner, agent, epoch, event, HARD)

    def leaves(self, agent: Agent, epoch: int, event: Async) -> None:
        """A copy will read the issuer's shared memory, and tell another CTA when it has."""
        self._flies(event.cta, agent, epoch, event, TIME)

    def _flies(self, owner: int, agent: Agent, epoch: int, event: Async, relation: int) -> None:
        place = Place(event.cta, event.warp, event.lane, event.site)
        key = agent.cta, agent.row, agent.lane, event.site, relation
        self._remote.setdefault(owner, {})[key] = _Remote(
            agent.cta, agent.row, 1 << agent.lane, epoch, relation, place)

    def started(self, cta: int, warp: int, mask: int, site: int, owner: int) -> None:
        """The accessing lanes must know that the owner runs, and it must not have exited."""
        place = Place(cta, warp, int(lanes_of(mask)[0]), site)
        if owner in self._exited:
            self._exit_missed(owner, place)
            return
        for lanes, knowledge in self._world.clock(cta, warp).parts:
            part = knowledge.parts.get(owner)
            if lanes & mask and (part is None or not part[TIME].any()):
                world = self._world
                world.reports.raced(cta, site)
                world.report(
                    "cluster-lifetime", "error",
                    f"{world.named(site)} reaches the shared memory of CTA {world.place(owner)}, "
                    "which may not have started. Repair: barrier.cluster.arrive and wait before "
                    f"line {world.line(site)}",
                    cta=cta, warp=warp, site=site, lane=place.lane, key=("start",),
                    witness={"owner": world.place(owner)})
                return

    def exit(self, cta: int) -> None:
        """All threads of a CTA have ended."""
        self._exited.add(cta)
        known = self._world.cta(cta).ended.peek()
        for access in self._remote.pop(cta, {}).values():
            clocks = known.row(access.relation, access.cta, access.row)
            if access.mask & mask_of(clocks < access.clock):
                self._exit_missed(cta, access.place)
        for target in self._mbarriers.of(cta):
            if not target.copies:
                continue
            if not self._mbarriers.protocol.check_announced(target):
                continue
            phase = max(target.copies)
            # The CTA's own copies need only be over: nobody reads them after the exit.
            relation = TIME if target.copies[phase].cta == cta else HARD
            counts = known.row(relation, target.agent.cta, target.agent.row)
            if counts[target.agent.lane] < target.base + phase + 1:
                self._in_flight(target, phase)

    def _exit_missed(self, owner: int, place: Place) -> None:
        world = self._world
        world.reports.raced(place.cta, place.site)
        world.report(
            "cluster-lifetime", "error",
            f"{world.named(place.site)} reaches the shared memory of CTA {world.place(owner)}, "
            "which may have exited by then. Repair: barrier.cluster.arrive after line "
            f"{world.line(place.site)}, and wait before any CTA of the cluster exits",
            cta=place.cta, warp=place.warp, site=place.site, lane=place.lane, key=("exit",),
            witness={"owner": world.place(owner)})

    def _in_flight(self, target: Object, phase: int) -> None:
        world, place = self._world, target.copies[phase]
        if place.cta != target.owner:
            self._exit_missed(target.owner, place)
            return
        world.report(
            "async-outlives-cta", "warning",
            f"the CTA may exit while {world.named(place.site)} still writes into its shared "
            f"memory. Repair: wait on the mbarrier at shared {target.address:#x} for parity "
            f"{phase & 1} before the exit",
            cta=place.cta, warp=place.warp, site=place.site, lane=place.lane,
            witness={"address": target.address, "phase": phase})
