"""CTA barriers: bar.sync, bar.red, bar.arrive and the barrier.* forms.

A *generation* of barrier b gathers what its arrivals know; those that wait leave with the join,
those that only arrive do not. Example: producers ``bar.arrive 1, 64`` and consumers ``bar.sync 1,
64``: the consumer's lanes leave knowing the producer's stores; the producer learns nothing, not
even that the barrier completed, so a second ``bar.arrive`` right away may still fall into the first
generation. That is what ``barrier-overrun`` and ``barrier-shared-id`` report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mmalab.emulator.events import BarrierArrive, BarrierRelease
from mmalab.sanitizer.clocks import LANES, PRACTISED, lanes_of
from mmalab.sanitizer.copies import CopyQueues
from mmalab.sanitizer.gathering import Gathering
from mmalab.sanitizer.world import World

__all__ = ["CtaBarriers"]

_BARRIERS = 16


class _Arrival(NamedTuple):
    warp: int
    mask: int
    #: The warp's epoch at the arrival.
    clock: int
    site: int
    threads: int
    waits: bool


@dataclass(slots=True)
class _Barrier:
    """One barrier of one CTA: the generation that gathers, and the one before."""

    gathering: Gathering = field(default_factory=Gathering)
    arrivals: list[_Arrival] = field(default_factory=list)
    previous: list[_Arrival] = field(default_factory=list)


class CtaBarriers:
    """Orders what barriers order and checks how they are used."""

    def __init__(self, world: World, queues: CopyQueues) -> None:
        self._world = world
        self._queues = queues
        self._barriers: dict[tuple[int, int], _Barrier] = {}

    def arrive(self, event: BarrierArrive) -> None:
        """A warp, or the lanes of it that stand here, arrives."""
        barrier = self._barriers.setdefault((event.cta, event.barrier), _Barrier())
        clock = self._world.clock(event.cta, event.warp)
        self._check_count(event, barrier)
        self._check_overrun(event, barrier)
        self._check_sharing(event, barrier)
        barrier.gathering.add(clock, event.mask)
        barrier.arrivals.append(_Arrival(event.warp, event.mask, clock.now, event.site,
                                         event.count, event.kind != "arrive"))
        queue = self._queues.issued(event.cta, event.warp)
        if queue is not None:
            queue.barrier(event.site)
        clock.bump()

    def release(self, event: BarrierRelease) -> None:
        """The generation is complete: those that waited know what all arrivals knew."""
        barrier = self._barriers.setdefault((event.cta, event.barrier), _Barrier())
        cta = self._world.cta(event.cta)
        if any(arrival.threads == 0 for arrival in barrier.arrivals):
            barrier.gathering.join(cta.ended.peek())
        joined = barrier.gathering.knowledge()
        for warp in event.warps:
            mask = 0
            for arrival in barrier.arrivals:
                if arrival.warp == warp and arrival.waits:
                    mask |= arrival.mask
            if mask:
                cta.clocks[warp].sync(mask, joined)
        self._barriers[event.cta, event.barrier] = _Barrier(previous=barrier.arrivals)

    # -- protocol --------------------------------------------------------------------------------

    def _warps(self, event: BarrierArrive, barrier: _Barrier) -> frozenset[int]:
        arrivals = (*barrier.arrivals, *barrier.previous)
        return frozenset((event.warp, *(arrival.warp for arrival in arrivals)))

    def _check_count(self, event: BarrierArrive, barrier: _Barrier) -> None:
        fault = self._count_fault(event, barrier)
        if fault:
            self._world.breach(
                "barrier-count", f"{self._world.named(event.site)}: {fault}", cta=event.cta,
                warp=event.warp, site=event.site, warps=self._warps(event, barrier),
                witness={"barrier": event.barrier, "threads": event.count})

    def _count_fault(self, event: BarrierArrive, barrier: _Barrier) -> str:
        if not 0 <= event.barrier < _BARRIERS:
            return f"barrier {event.barrier} does not exist (legal: 0 to {_BARRIERS - 1})"
        if event.count % LANES:
            return f"{event.count} threads is not a multiple of the warp size {LANES}"
        most = self._world.warps * LANES
        if event.count > most:
            return f"{event.count} threads are named, the CTA has {self._world.threads}"
        for arrival in barrier.arrivals:
            if arrival.threads != event.count:
                return (f"names {event.count or 'all'} threads for barrier {event.barrier}, but "
                        f"{self._world.named(arrival.site)} names {arrival.threads or 'all'}")
        return ""

    def _check_overrun(self, event: BarrierArrive, barrier: _Barrier) -> None:
        for arrival in barrier.arrivals:
            if arrival.warp == event.warp and arrival.mask & event.mask:
                self._world.breach(
                    "barrier-overrun",
                    f"{self._world.named(event.site)}: warp {event.warp} arrives again at barrier "
                    f"{event.barrier} before the generation that it joined with "
                    f"{self._world.named(arrival.site)} is complete: both arrivals count for one "
                    "generation. Repair: wait for the barrier before arriving again",
                    cta=event.cta, warp=event.warp, site=event.site,
                    warps=self._warps(event, barrier), witness={"barrier": event.barrier})
                return

    def _check_sharing(self, event: BarrierArrive, barrier: _Barrier) -> None:
        lanes = lanes_of(event.mask).astype(np.int64)
        clock = self._world.clock(event.cta, event.warp)
        for arrival in barrier.previous:
            if arrival.warp == event.warp and arrival.waits:
                return
        for arrival in barrier.previous:
            missing = clock.unknown(PRACTISED, lanes, event.cta, arrival.warp, arrival.clock)
            if (missing & np.uint32(arrival.mask)).any():
                self._report_sharing(event, barrier, arrival)
                return

    def _report_sharing(self, event: BarrierArrive, barrier: _Barrier, arrival: _Arrival) -> None:
        self._world.breach(
            "barrier-shared-id",
            f"{self._world.named(event.site)}: warp {event.warp} uses barrier {event.barrier} "
            f"without knowing that the generation of warp {arrival.warp} "
            f"({self._world.named(arrival.site)}) is complete: which warps meet is luck. "
            "Repair: another barrier number, or a barrier of all of them in between",
            cta=event.cta, warp=event.warp, site=event.site, warps=self._warps(event, barrier),
            key=(arrival.site,),
            witness={"barrier": event.barrier, "other_warp": arrival.warp})
