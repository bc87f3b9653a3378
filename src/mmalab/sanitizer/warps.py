"""Rules inside one warp: lane masks, collectives that not all lanes reach, colliding lanes.

An ``.aligned`` instruction must be executed by all lanes of its warp together. The machine waits
for lanes that are still under way, as hardware reconverges; an event whose mask lacks a lane
therefore means that this lane came to stand somewhere else. Lanes that ended count as arrived at a
barrier, but mma, ldmatrix and their kin are undefined when a lane of the warp has ended. A block of
48 threads has a warp of 16: their matrices lack what the other lanes would hold, a warning.

A ``.sync`` instruction names its lanes: ``shfl.sync ..., 0x0000ffff`` executed by lane 20 leaves
lane 20 out of its own mask.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access, BarrierArrive, Collective, WarpSync
from mmalab.emulator.program import Program
from mmalab.sanitizer.clocks import LANES, lanes_of
from mmalab.sanitizer.world import World

__all__ = ["WarpRules", "ranges", "torn"]

_ALL = 0xFFFFFFFF


def torn(program: Program, threads: int) -> bool:
    """Whether the last warp of a CTA lacks lanes for matrices that the program has."""
    return bool(threads % LANES) and any(
        site.form.family.startswith(_MATRICES) for site in program.sites)


#: What spreads a matrix over the lanes of a warp.
_MATRICES = ("mma.", "wmma.", "ldmatrix", "stmatrix", "movmatrix")


class WarpRules:
    """Checks collectives of a warp and moves its lanes' clocks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def sync(self, event: WarpSync) -> None:
        """bar.warp.sync: memory order among the lanes that came and were named."""
        self._check_members(event, event.members)
        clock = self._world.clock(event.cta, event.warp)
        clock.sync(event.mask & event.members if event.members else event.mask)

    def collective(self, event: Collective) -> None:
        """shfl, vote, ldmatrix, mma ...: the lanes meet, memory order is not promised."""
        if "aligned" in self._world.program.sites[event.site].form.modifiers:
            exists = self._world.clock(event.cta, event.warp).exists
            self._check_aligned(event, exists)
            if exists != _ALL:
                self._too_few(event, exists)
        self._check_members(event, event.members)
        if event.inactive:
            self._source_inactive(event)
        self._world.clock(event.cta, event.warp).meet(event.mask, stay=False)

    def barrier(self, event: BarrierArrive) -> None:
        """An aligned barrier is a collective of the warp as well."""
        if event.aligned:
            self._check_aligned(event, self._world.clock(event.cta, event.warp).live)

    def _check_aligned(self, event: Collective | BarrierArrive, wanted: int) -> None:
        absent = wanted & ~event.mask
        if not absent:
            return
        world = self._world
        lanes = lanes_of(absent).tolist()
        world.breach(
            "divergent-collective",
            f"{world.named(event.site)} is .aligned: all lanes of warp {event.warp} must "
            f"execute it together, lanes {ranges(lanes)} are elsewhere or have ended. "
            "Repair: move it out of the branch",
            cta=event.cta, warp=event.warp, site=event.site, lane=lanes[0],
            warps=frozenset(range(world.warps)), witness={"absent_lanes": lanes})

    def _too_few(self, event: Collective, exists: int) -> None:
        world = self._world
        count = exists.bit_count()
        world.report(
            "divergent-collective", "warning",
            f"{world.named(event.site)} is for a warp of {LANES} lanes, which hold a matrix "
            f"together: warp {event.warp} has {count}. Repair: a block of "
            f"{(event.warp + 1) * LANES} threads, or a branch around it",
            cta=event.cta, warp=event.warp, site=event.site, witness={"lanes": count})

    def _check_members(self, event: WarpSync | Collective, members: int) -> None:
        strangers = event.mask & ~members if members else 0
        if not strangers:
            return
        world = self._world
        lanes = lanes_of(strangers).tolist()
        world.breach(
            "warp-sync-mask",
            f"{world.named(event.site)}: lanes {ranges(lanes)} execute it, but the mask "
            f"{members:#010x} does not name them. Repair: mask {event.mask:#010x}",
            cta=event.cta, warp=event.warp, site=event.site, lane=lanes[0],
            warps=frozenset((event.warp,)),
            witness={"members": members, "executing": event.mask})

    def _source_inactive(self, event: Collective) -> None:
        world = self._world
        lanes = lanes_of(event.inactive).tolist()
        world.breach(
            "warp-sync-mask",
            f"{world.named(event.site)}: lanes {ranges(lanes)} read from a lane that does not "
            "take part, the result is undefined. Repair: name a source lane inside the mask",
            cta=event.cta, warp=event.warp, site=event.site, lane=lanes[0], key=("source",),
            warps=frozenset((event.warp,)), witness={"reading_lanes": lanes})

    def collisions(self, event: Access, addresses: NDArray[np.int64]) -> None:
        """Lanes of one store [n] that write different values to one address (decision W3)."""
        if event.values is None or len(addresses) < 2:
            return
        if (addresses[1:] - addresses[:-1] >= event.size).all():
            return
        order = np.argsort(addresses, kind="stable")
        if (np.diff(addresses[order]) >= event.size).all():
            return
        lanes = lanes_of(event.mask)
        covered = (addresses[:, None] + np.arange(event.size)).reshape(-1)
        values = event.values[lanes].reshape(-1)
        order = np.argsort(covered, kind="stable")
        same = covered[order][1:] == covered[order][:-1]
        differ = same & (values[order][1:] != values[order][:-1])
        self._world.reports.excused |= not differ.any()
        if differ.any():
            at = int(np.flatnonzero(differ)[0])
            pair = [int(lanes[order[k] // event.size]) for k in (at, at + 1)]
            self._report_collision(event, int(covered[order[at]]), pair)

    def _report_collision(self, event: Access, address: int, lanes: list[int]) -> None:
        world = self._world
        world.report(
            "lane-collision", "warning",
            f"{world.named(event.site)}: lanes {lanes[0]} and {lanes[1]} write different values "
            f"to {event.space} byte {address:#x}: one of them wins, which one is not specified. "
            "Repair: let one lane write",
            cta=event.cta, warp=event.warp, site=event.site, lane=lanes[1],
            witness={"address": address, "space": event.space, "lanes": lanes})


def ranges(lanes: list[int]) -> str:
    """Lane numbers in short: [0, 1, 2, 8] -> "0-2, 8"."""
    parts: list[str] = []
    start = previous = lanes[0]
    for lane in [*lanes[1:], -1]:
        if lane == previous + 1:
            previous = lane
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = lane
    return ", ".join(parts)
