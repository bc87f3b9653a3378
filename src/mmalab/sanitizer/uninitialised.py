"""Shared and local bytes that are read before anything wrote them.

Shared memory of a CTA and local memory of a thread begin undefined. One flag per byte says whether
it was written: by a store, an atomic, a copy (zero fill included) or mbarrier.init. Registers are
the machine's business; global memory always has the host's values.

A read that *races* with the write it should have come after finds the bytes unwritten as well: the
race is then the finding, so these reports wait until the end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access, CpAsync, Mbarrier
from mmalab.sanitizer.clocks import LANES, lanes_of
from mmalab.sanitizer.world import World

__all__ = ["Uninitialised"]

#: Stretches up to this size are looked at whole before single bytes are.
_SPAN = 1 << 13


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
        self._shared: dict[int, NDArray[np.bool_]] = {}
        self._local: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self._early: dict[tuple[int, int], _Early] = {}

    def on(self, event: Access, owner: int) -> None:
        """A shared or local access; `owner` is the CTA whose shared memory it touches."""
        lanes = lanes_of(event.mask)
        size = event.size
        first = event.addresses[lanes].astype(np.int64)
        if event.space == "local":
            flags = self._flags_of_thread(event, int(first.max()) + size)
            places = ((first[:, None] + np.arange(size)) * LANES + lanes[:, None])
        else:
            low, high = int(first.min()), int(first.max()) + size
            flags = self._flags(owner, high)
            if high - low <= _SPAN and flags[low:high].all():
                return
            places = first[:, None] + np.arange(size)
        if event.kind != "write":
            written = flags[places]
            if not written.all():
                self._report(event, lanes, first, written)
        if event.kind != "read":
            flags[places] = True

    def _flags(self, cta: int, size: int) -> NDArray[np.bool_]:
        flags = self._shared.get(cta)
        if flags is None or len(flags) < size:
            grown = np.zeros(max(size, 1 << 12, 0 if flags is None else 2 * len(flags)), np.bool_)
            if flags is not None:
                grown[: len(flags)] = flags
            flags = self._shared[cta] = grown
        return flags

    def _flags_of_thread(self, event: Access, size: int) -> NDArray[np.bool_]:
        key = (event.cta, event.warp)
        flags = self._local.get(key)
        if flags is None or len(flags) < size * LANES:
            grown = np.zeros(max(size, self._world.program.local_bytes) * LANES, np.bool_)
            if flags is not None:
                grown[: len(flags)] = flags
            flags = self._local[key] = grown
        return flags

    def _report(self, event: Access, lanes: NDArray[np.intp], first: NDArray[np.int64],
                written: NDArray[np.bool_]) -> None:
        early = self._early.get((event.cta, event.site))
        if early is not None:
            early.count += 1
            return
        access, byte = (int(k[0]) for k in np.nonzero(~written))
        self._early[event.cta, event.site] = _Early(
            event.warp, int(lanes[access]), int(first[access]) + byte, event.space)

    def copied(self, event: CpAsync) -> None:
        """cp.async: the whole destination will be written."""
        self._mark(event.cta, event.destinations[lanes_of(event.mask)], event.size)

    def initialised(self, event: Mbarrier) -> None:
        """mbarrier.init."""
        self._mark(event.cta, event.addresses[lanes_of(event.mask)], 8)

    def _mark(self, cta: int, addresses: NDArray[np.uint64], size: int) -> None:
        first = addresses.astype(np.int64)
        self._flags(cta, int(first.max()) + size)[first[:, None] + np.arange(size)] = True

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
