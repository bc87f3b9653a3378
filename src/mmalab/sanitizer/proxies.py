"""Proxy fences: what the async proxy, a tensor map's reader, or a remote mbarrier user may rely on.

``fence.proxy.async`` acts on what its thread has observed: everything that it knows in HARD goes
into the PROXY rows of the state spaces named, and these travel along every later synchronisation.
So the fence may stand with each writer, before the barrier, or with the issuer, after it (P1).

A tensor map in global memory is read through a proxy of its own and needs two fences::

    st.global [map + ...]                                    the change
    fence.proxy.tensormap::generic.release.gpu               MAPS row := HARD row
    ... barrier ...
    fence.proxy.tensormap::generic.acquire.gpu [map], 128    remembers its MAPS row, for this map
    cp.async.bulk.tensor ... [map, ...]                      after one such acquire: clean
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Fence
from mmalab.sanitizer.clocks import (
    INITIALISED,
    MAPS,
    PRACTISED,
    PROXY_GLOBAL,
    PROXY_SHARED,
    Knowledge,
    lanes_of,
)
from mmalab.sanitizer.touch import Sweep
from mmalab.sanitizer.world import World

__all__ = ["ProxyFences"]

#: Acquires that are remembered for one map, and maps.
_KEPT, _MAPS = 32, 4096


class _Acquired(NamedTuple):
    """An acquire of a tensor map: by whom, in which epoch, and what was released to it."""

    cta: int
    warp: int
    mask: int
    clock: int
    knowledge: Knowledge


class ProxyFences:
    """Follows the fences between proxies."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._acquired: dict[int, deque[_Acquired]] = {}

    def on(self, event: Fence) -> None:
        """A fence that names a proxy, or the initialisation of mbarriers."""
        clock = self._world.clock(event.cta, event.warp)
        kind, _, space = event.proxy.partition(".")
        if kind == "mbarrier_init":
            clock.carry(event.mask, (INITIALISED,))
        elif kind.startswith("tensormap"):
            if event.semantics != "acquire":
                clock.carry(event.mask, (MAPS,))
            if event.semantics != "release":
                self._acquire(event)
        elif kind.startswith("async"):
            clock.carry(event.mask, _rows(space or event.restrict))

    def _acquire(self, event: Fence) -> None:
        clock = self._world.clock(event.cta, event.warp)
        if event.addresses is None:
            return
        lanes = lanes_of(event.mask)
        named = event.addresses[lanes].astype(np.int64)
        for address in np.unique(named).tolist():
            mask = sum(1 << lane for lane in lanes[named == address].tolist())
            if address not in self._acquired and len(self._acquired) >= _MAPS:
                self._acquired.pop(next(iter(self._acquired)))
            self._acquired.setdefault(address, deque(maxlen=_KEPT)).append(
                _Acquired(event.cta, event.warp, mask, clock.now, clock.released(mask)))
        clock.bump()

    def map_known(self, sweep: Sweep, cta: NDArray[np.int64], row: NDArray[np.int64],
                  lane: NDArray[np.int64], clock: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which writes [n] to the map were acquired by the sweep's lane, or in order before it."""
        known = np.zeros(len(cta), np.bool_)
        for entry in self._acquired.get(int(sweep.starts[0]), ()):
            missing = sweep.clock.unknown(PRACTISED, np.array([sweep.lane]), entry.cta, entry.warp,
                                          entry.clock)
            if entry.mask & ~int(missing[0]):
                known |= entry.knowledge.look(MAPS, cta, row, lane) >= clock
        return known


def _rows(space: str) -> tuple[int, ...]:
    """The rows of the state spaces that a fence is limited to: both if it names none."""
    if not space:
        return (PROXY_SHARED, PROXY_GLOBAL)
    return (PROXY_GLOBAL,) if space == "global" else (PROXY_SHARED,)
