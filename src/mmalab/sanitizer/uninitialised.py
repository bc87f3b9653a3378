"""Shared and local bytes that are read before anything wrote them.

Shared memory of a CTA and local memory of a thread begin undefined. For shared memory the shadow
knows what was written: a cell without any write in it was not, be it by a store, an atomic, a copy
(zero fill included) or mbarrier.init. Local memory is private to its thread and has no shadow: one
flag per byte and lane. Registers are the machine's business; global memory always has the host's
values.

A read that *races* with the write it should have come after finds the bytes unwritten as well: the
race is then the finding, so these reports wait until the end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access
from mmalab.sanitizer.clocks import LANES, lanes_of
from mmalab.sanitizer.shadow import Page
from mmalab.sanitizer.touch import Touch
from mmalab.sanitizer.world import World

__all__ = ["Uninitialised"]


@dataclass(slots=True)
class _Early:
    """The first read of unwritten bytes at one instruction of a CTA."""

    warp: int
    lane: int
    address: int
    space: str
    count: int = 1


class Uninitialised:
    """Which shared and local bytes were written so far."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: (CTA, warp) -> [byte * 32 + lane] whether it was written.
        self._local: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._early: dict[tuple[int, int], _Early] = {}

    def read(self, touch: Touch, page: Page, cells: NDArray[np.intp], by: NDArray[np.int64],
             stamps: NDArray[np.int32]) -> None:
        """A read of shared cells [n] by lanes [n], some without an ordinary write."""
        missing = stamps == 0
        for slot in page.slots.values():
            if slot.key.write:
                missing &= slot.records.take(cells) == 0
        if touch.space == "shared" and missing.any():
            at = int(missing.argmax())
            self._note(touch.clock.cta, touch.clock.warp, touch.site, int(by[at]),
                       page.base + int(cells[at]) * page.granule, "shared")

    def local(self, event: Access) -> None:
        """An access to local memory."""
        lanes = lanes_of(event.mask)
        first = event.addresses[lanes].astype(np.int64)
        flags = self._flags(event.cta, event.warp, int(first.max()) + event.size)
        places = (first[:, None] + np.arange(event.size)) * LANES + lanes[:, None]
        if event.kind != "write" and not flags[places].all():
            access, byte = (int(k[0]) for k in np.nonzero(~flags[places]))
            self._note(event.cta, event.warp, event.site, int(lanes[access]),
                       int(first[access]) + byte, "local")
        if event.kind != "read":
            flags[places] = True

    def _flags(self, cta: int, warp: int, size: int) -> NDArray[np.bool_]:
        flags = self._local.get((cta, warp))
        if flags is None or len(flags) < size * LANES:
            grown = np.zeros(max(size, self._world.program.local_bytes) * LANES, np.bool_)
            if flags is not None:
                grown[: len(flags)] = flags
            flags = self._local[cta, warp] = grown
        return flags

    def _note(self, cta: int, warp: int, site: int, lane: int, address: int, space: str) -> None:
        early = self._early.get((cta, site))
        if early is None:
            self._early[cta, site] = _Early(warp, lane, address, space)
        else:
            early.count += 1

    def finish(self) -> None:
        """Report what was not explained by a race."""
        world = self._world
        for (cta, site), early in self._early.items():
            if world.reports.in_race(cta, site):
                continue
            world.report(
                "uninitialised-read", "error",
                f"{world.named(site)} reads {early.space} byte {early.address:#x}, which nothing "
                "wrote before. Repair: write it first (zero fill), or do not read it",
                cta=cta, warp=early.warp, lane=early.lane, site=site,
                witness={"address": early.address, "space": early.space, "reads": early.count})
        self._early.clear()
