"""The barrier of a cluster: every live lane of its CTAs arrives, then waits.

A lane's wait is over when the generation in which it arrived has completed. Lanes that ended count
as arrived. Arriving twice without a wait, or waiting without an arrival, is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import ClusterArrive, ClusterWait
from mmalab.emulator.program import Site
from mmalab.emulator.state import Status, pack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["ClusterBarriers"]

_NOT_ARRIVED = -1


@dataclass(slots=True)
class _Cluster:
    """Generations completed, and the line of the last arrival."""

    generation: int = 0
    line: int = 0


class ClusterBarriers:
    """One barrier per resident cluster; `pending` [rows, 32] is the generation that a lane
    arrived in and has not waited for, -1 if none."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        rows = machine.state.rows
        self._size = machine.space.cluster_size * machine.shape.warps
        self._clusters = [_Cluster() for _ in range(-(-rows // self._size))]
        self.pending = np.full((rows, 32), _NOT_ARRIVED, np.int64)
        self._waits = np.zeros((rows, 32), bool)
        #: The site at which each lane waits.
        self._sites = np.zeros((rows, 32), np.int32)

    def arrive(self, site: Site, rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        """The lanes of `mask` [warps, 32] arrive."""
        again = mask & (self.pending[rows] != _NOT_ARRIVED)
        self._report(site, rows, again, "arrives at the cluster barrier again without a wait")
        number = rows // self._size
        generation = self._generations(rows)
        for index in np.unique(number).tolist():
            cluster = self._clusters[index]
            cluster.line = site.line
            if self._machine.observed:
                self._tell_arrivals(site, rows, mask & (number == index)[:, None],
                                    cluster.generation)
        self.pending[rows] = np.where(mask, generation, self.pending[rows])
        for index in np.unique(number).tolist():
            self._complete(index)
        self._machine.version += 1

    def wait(self, site: Site, rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        """The lanes of `mask` wait for the generation that they arrived in."""
        machine = self._machine
        alone = mask & (self.pending[rows] == _NOT_ARRIVED)
        self._report(site, rows, alone, "waits at the cluster barrier without an arrival")
        passed = mask & (self.pending[rows] < self._generations(rows))
        self._tell_passed(site.index, rows, passed)
        self.pending[rows] = np.where(passed, _NOT_ARRIVED, self.pending[rows])
        held = mask & ~passed & ~alone
        self._sites[rows] = np.where(held, np.int32(site.index), self._sites[rows])
        status = machine.state.status
        status[rows] = np.where(held, np.uint8(Status.BARRIER), status[rows])
        self._waits[rows] |= held
        machine.counters["barrier.waits"] += int(mask.any(axis=1).sum())

    def _generations(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[warps, 1] the open generation of each row's cluster."""
        every = np.array([cluster.generation for cluster in self._clusters])
        return every[rows // self._size][:, None]

    def _complete(self, index: int) -> None:
        """Finish the generation if every live lane of the cluster has arrived in it."""
        cluster, machine = self._clusters[index], self._machine
        rows = slice(index * self._size, (index + 1) * self._size)
        live = machine.state.live[rows]
        pending = self.pending[rows]
        arrived = pending == cluster.generation
        if not arrived.any() or (live & ~arrived).any():
            return
        cluster.generation += 1
        released = self._waits[rows] & arrived
        self._tell_released(rows.start, released)
        status = machine.state.status[rows]
        status[released & (status == Status.BARRIER)] = Status.RUNNING
        pending[released] = _NOT_ARRIVED
        self._waits[rows] &= ~released
        machine.version += 1

    # --- what the listeners are told ----------------------------------------------------------

    def _tell_arrivals(self, site: Site, rows: NDArray[np.int64], mask: NDArray[np.bool_],
                       generation: int) -> None:
        semantics: Any = site.form.modifiers.get("sem", "release")
        for row, lanes in _warps(rows, mask):
            cta, warp = self._machine.state.where(row)
            self._machine.emit(ClusterArrive(cta, warp, site.index, lanes, generation, semantics))

    def _tell_passed(self, site: int, rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        """Waits that are over, by the generation that each lane had arrived in."""
        if not self._machine.observed:
            return
        for generation in np.unique(self.pending[rows][mask]).tolist():
            some = mask & (self.pending[rows] == generation)
            for row, lanes in _warps(rows, some):
                cta, warp = self._machine.state.where(row)
                self._machine.emit(ClusterWait(cta, warp, site, lanes, generation))

    def _tell_released(self, first: int, released: NDArray[np.bool_]) -> None:
        """Lanes that waited go on; each where it stands."""
        if not self._machine.observed or not released.any():
            return
        rows = first + np.nonzero(released.any(axis=1))[0]
        for site in np.unique(self._sites[first : first + len(released)][released]).tolist():
            here = released[rows - first] & (self._sites[rows] == site)
            self._tell_passed(site, rows, here)

    def after_exit(self, rows: NDArray[np.int64]) -> None:
        """Lanes of `rows` ended: complete what waited only for them."""
        self.pending[rows] = np.where(self._machine.state.live[rows], self.pending[rows],
                                      _NOT_ARRIVED)
        for index in np.unique(rows // self._size).tolist():
            self._complete(index)

    def explain(self, row: int, lane: int) -> dict[str, Any]:
        """Who is missing, if the lane waits here."""
        if not self._waits[row, lane]:
            return {}
        index = row // self._size
        rows = slice(index * self._size, (index + 1) * self._size)
        live, pending = self._machine.state.live[rows], self.pending[rows]
        missing = (live & (pending != self._clusters[index].generation)).any(axis=1)
        names = [self._machine.state.where(index * self._size + int(r))
                 for r in np.nonzero(missing)[0]]
        return {"barrier": "cluster", "phase": self._clusters[index].generation,
                "missing": [{"cta": c, "warp": w} for c, w in names],
                "line": self._clusters[index].line}

    def _report(self, site: Site, rows: NDArray[np.int64], lanes: NDArray[np.bool_],
                what: str) -> None:
        for position in np.nonzero(lanes.any(axis=1))[0][:1].tolist():
            self._machine.report("cluster-barrier", f"the warp {what}", site=site,
                                 row=int(rows[position]),
                                 lane=int(np.nonzero(lanes[position])[0][0]),
                                 witness={"lanes": int(pack(lanes[position]))})


def _warps(rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """(row, lane mask) of the warps that have lanes in `mask` [warps, 32]."""
    for position in np.nonzero(mask.any(axis=1))[0].tolist():
        yield int(rows[position]), int(pack(mask[position]))
