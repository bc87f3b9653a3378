"""Instructions of a warpgroup: its four warps execute the same ones, in the same order.

``wgmma`` and ``setmaxnreg`` are ``.aligned`` for the *warpgroup*: PTX leaves undefined what a part
of it does. Warps get to them one after the other, so each warp has its place in one common list::

    list        fence (1)   product (2)   commit (3)   wait (4)
    warps 0-2   ........................................ behind (4)
    warp 3      .......... skips the product: its second is line 3, theirs was line 2

A warp that ends before the end of the list has left the others alone, and so has one that had ended
when the list grew. Two setmaxnreg of one warpgroup need a synchronisation of its warps in between.

In a CTA of 64 threads there is no warpgroup, and in one of 192 the last two warps are none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from mmalab.emulator.events import SetRegisters, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from mmalab.sanitizer.clocks import EXECUTION, LANES, lanes_of
from mmalab.sanitizer.warps import ranges
from mmalab.sanitizer.world import World

__all__ = ["WarpgroupRule"]

_WARPS = 4
Step: TypeAlias = SetRegisters | Wgmma | WgmmaCommit | WgmmaFence | WgmmaWait


class _Done(NamedTuple):
    """Who executed an entry of the list first, and where."""

    site: int
    warp: int


@dataclass(slots=True)
class _List:
    """What a warpgroup executes; entries that all of its warps have passed are forgotten."""

    entries: dict[int, _Done] = field(default_factory=dict)
    length: int = 0
    #: How many entries each warp has executed, and with how many it ended.
    places: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    #: Each warp's last setmaxnreg: how many it has executed, its epoch, the site, the
    #: registers asked for.
    registers: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    broken: bool = False

    def enter(self, warp: int, site: int) -> _Done:
        """The warp executes its next entry; what stands there."""
        place = self.places.get(warp, 0)
        if place == self.length:
            self.entries[place] = _Done(site, warp)
            self.length += 1
        self.places[warp] = place + 1
        found = self.entries[place]
        if len(self.places) == _WARPS:
            for old in [n for n in self.entries if n < min(self.places.values())]:
                del self.entries[old]
        return found


class WarpgroupRule:
    """Compares what the warps of each warpgroup execute."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lists: dict[tuple[int, int], _List] = {}

    def step(self, event: Step) -> None:
        """A warp executes an instruction of its warpgroup."""
        group = self._list(event.cta, event.warp)
        if group.broken:
            return
        if self._first(event.warp) + _WARPS > self._world.warps:
            self._too_few(event, group)
            return
        self._whole_warp(event, group)
        done = group.enter(event.warp, event.site)
        if done.site != event.site:
            self._apart(event, group, done)
        else:
            lost = [warp for warp, place in group.ended.items()
                    if place < group.places[event.warp]]
            if lost:
                self._left(event.cta, lost, event.site, event.warp, group)

    def set_registers(self, event: SetRegisters) -> None:
        """setmaxnreg is such an instruction, and needs more."""
        self.step(event)
        group = self._list(event.cta, event.warp)
        clock = self._world.clock(event.cta, event.warp)
        count, _, _, held = group.registers.get(event.warp, (0, 0, 0, 0))
        for warp, (others, epoch, site, _) in group.registers.items():
            if event.count == held:  # no register changes hands
                break
            if warp != event.warp and others >= count > 0 and not group.broken:
                lane = int(lanes_of(event.mask)[0])
                known = clock.covers(EXECUTION, np.array([lane]), None, np.array([warp]),
                                     np.array([lane]), np.array([epoch]))
                if others == count and not known.all():
                    self._unsynchronised(event, group, warp, site)
        group.registers[event.warp] = count + 1, clock.now, event.site, event.count

    def exit(self, cta: int, warp: int) -> None:
        """All lanes of a warp have ended."""
        group = self._list(cta, warp)
        if group.broken:
            return
        place = group.ended[warp] = group.places.setdefault(warp, 0)
        if place < group.length:
            done = group.entries[place]
            self._left(cta, [warp], done.site, done.warp, group)

    def retire(self, cta: int) -> None:
        """All threads of a CTA have ended."""
        for first in range(0, self._world.warps, _WARPS):
            self._lists.pop((cta, first), None)

    def _list(self, cta: int, warp: int) -> _List:
        """The list of the warp's warpgroup."""
        return self._lists.setdefault((cta, self._first(warp)), _List())

    @staticmethod
    def _first(warp: int) -> int:
        return warp // _WARPS * _WARPS

    # -- findings --------------------------------------------------------------------------------

    def _too_few(self, event: Step, group: _List) -> None:
        """What setmaxnreg does without a warpgroup no document says; wgmma needs all four warps."""
        group.broken = True
        world = self._world
        last = world.warps - self._first(event.warp)
        world.report(
            "divergent-collective",
            "warning" if isinstance(event, SetRegisters) else "error",
            f"{world.named(event.site)} is .aligned for a warpgroup, four warps: the CTA has "
            f"{world.warps} warps, {last} in the last warpgroup. Repair: a block of "
            f"{(self._first(event.warp) + _WARPS) * LANES} threads, or a branch around it",
            cta=event.cta, warp=event.warp, site=event.site, witness={"warps": last})

    def _whole_warp(self, event: Step, group: _List) -> None:
        absent = ~event.mask & 0xFFFFFFFF
        if absent:
            lanes = lanes_of(absent).tolist()
            self._report(event.cta, event.warp, event.site, group,
                         f"all threads of its warpgroup must execute it, and lanes "
                         f"{ranges(lanes)} of warp {event.warp} are elsewhere or have ended",
                         {"absent_lanes": lanes})

    def _apart(self, event: Step, group: _List, done: _Done) -> None:
        world = self._world
        self._report(event.cta, event.warp, event.site, group,
                     f"the warps of a warpgroup execute the same instructions in the same order: "
                     f"warp {done.warp} has executed {world.named(done.site)} in its place",
                     {"warp": done.warp, "line": world.line(done.site)})

    def _left(self, cta: int, lost: list[int], site: int, warp: int, group: _List) -> None:
        few = f"warp {lost[0]}" if len(lost) == 1 else f"warps {', '.join(map(str, lost))}"
        self._report(cta, warp, site, group,
                     f"all warps of a warpgroup must execute it: warp {warp} did, {few} ended "
                     "without it", {"ended_warps": lost})

    def _unsynchronised(self, event: SetRegisters, group: _List, warp: int, site: int) -> None:
        world = self._world
        group.broken = True
        world.report(
            "divergent-collective", "warning",
            f"{world.named(event.site)}: the warps of a warpgroup must synchronise between two "
            f"setmaxnreg, and nothing has ordered this one behind {world.named(site)} of warp "
            f"{warp}. Repair: bar.sync of the warpgroup's 128 threads between the two lines",
            cta=event.cta, warp=event.warp, site=event.site, witness={"warp": warp})

    def _report(self, cta: int, warp: int, site: int, group: _List, why: str,
                witness: dict[str, object]) -> None:
        group.broken = True
        world = self._world
        world.breach(
            "divergent-collective",
            f"{world.named(site)} is .aligned for a warpgroup: {why}. Repair: a branch that all "
            "four warps take the same way", cta=cta, warp=warp, site=site,
            warps=frozenset(range(world.warps)), witness=witness)
