"""CTA barriers 0 to 15: who has arrived, who waits, when a generation completes.

Arrival is counted per warp (32 threads): a warp has arrived when all its live lanes have. Without
a count the barrier completes when every live warp of the CTA has arrived, and warps that end are
no longer waited for; with a count, when so many threads have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import BarrierArrive, BarrierRelease
from mmalab.emulator.gather import is_aligned
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Site
from mmalab.emulator.state import Status, pack, unpack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["BARRIERS", "Barrier", "CtaBarriers"]

BARRIERS = 16
Kind = Literal["sync", "arrive", "red"]


@dataclass(slots=True)
class Barrier:
    """One generation of one barrier of one CTA. `expected` 0 means all live warps."""

    expected: int = 0
    threads: int = 0
    #: Warps that arrived completely, by row.
    arrived: set[int] = field(default_factory=set)
    #: Lanes that arrived, of warps of which others have not.
    partial: dict[int, int] = field(default_factory=dict)
    #: row -> lanes that wait for the completion.
    waiting: dict[int, int] = field(default_factory=dict)
    #: Reductions: (row, lanes, site) that get the result, and the predicates that go in.
    reductions: list[tuple[int, int, Site]] = field(default_factory=list)
    votes: list[tuple[int, int]] = field(default_factory=list)
    generation: int = 0
    line: int = 0


class CtaBarriers:
    """All barriers of the resident CTAs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.barriers: dict[tuple[int, int], Barrier] = {}

    def arrive(self, site: Site, row: int, lanes: int, ident: int, count: int, kind: Kind, *,
               votes: int = 0) -> None:
        """The `lanes` (mask) of the warp `row` arrive at barrier `ident` with thread `count`."""
        machine = self._machine
        cta = row // machine.shape.warps
        barrier = self.barriers.setdefault((cta, ident), Barrier())
        self._check_count(barrier, site, row, ident, count)
        if not barrier.threads and not barrier.partial:
            barrier.expected, barrier.line = -(-count // 32) * 32, site.line
        if kind != "arrive":
            state = machine.state
            state.status[row][unpack(np.uint32(lanes))] = Status.BARRIER
            barrier.waiting[row] = barrier.waiting.get(row, 0) | lanes
        if kind == "red":
            barrier.reductions.append((row, lanes, site))
            barrier.votes.append((lanes, votes & lanes))
        if machine.observed:
            linear, warp = machine.state.where(row)
            machine.emit(BarrierArrive(linear, warp, site.index, lanes, ident, count, kind,
                                       is_aligned(site)))
        if kind != "arrive":
            machine.counters["barrier.waits"] += 1
        self._count(barrier, site, row, lanes, ident)
        self._complete(cta, ident, barrier)
        machine.version += 1

    def _check_count(self, barrier: Barrier, site: Site, row: int, ident: int, count: int) -> None:
        report = self._machine.report
        if not 0 <= ident < BARRIERS:
            report("illegal-value", f"barrier {ident}: there are barriers 0 to 15", site=site,
                   row=row, fatal=True)
        elif count % 32:
            report("barrier-count", f"barrier {ident} with {count} threads: the count is not a"
                   " multiple of the warp size", site=site, row=row, witness={"count": count})
        elif (barrier.threads or barrier.partial) and count != barrier.expected:
            report("barrier-count", f"barrier {ident}: {_threads(count)} here, but"
                   f" {_threads(barrier.expected)} in line {barrier.line}", site=site, row=row,
                   witness={"count": count, "expected": barrier.expected})

    def _count(self, barrier: Barrier, site: Site, row: int, lanes: int, ident: int) -> None:
        live = int(pack(self._machine.state.live[row]))
        together = barrier.partial.pop(row, 0) | lanes
        if not is_aligned(site) and together & live != live:
            barrier.partial[row] = together
            return
        if row in barrier.arrived:
            self._machine.report(
                "barrier-overrun", f"the warp arrives at barrier {ident} again before the barrier"
                " has completed", site=site, row=row, witness={"barrier": ident})
        barrier.arrived.add(row)
        barrier.threads += 32

    def _complete(self, cta: int, ident: int, barrier: Barrier) -> None:
        if barrier.expected:
            done = barrier.threads >= barrier.expected
        else:
            live = self._live_rows(cta)
            done = barrier.threads > 0 and live <= barrier.arrived
        if not done or barrier.partial:
            return
        self.barriers[cta, ident] = Barrier(generation=barrier.generation + 1)
        machine = self._machine
        self._deliver(barrier)
        for row, lanes in barrier.waiting.items():
            status = machine.state.status[row]
            status[unpack(np.uint32(lanes)) & (status == Status.BARRIER)] = Status.RUNNING
        machine.version += 1
        if machine.observed:
            rows = sorted(barrier.waiting)
            machine.emit(BarrierRelease(int(machine.state.ctas[cta]), ident,
                                        tuple(row % machine.shape.warps for row in rows)))

    def _deliver(self, barrier: Barrier) -> None:
        """bar.red: every participant gets the reduction over all of them."""
        if not barrier.reductions:
            return
        total = sum(yes.bit_count() for _, yes in barrier.votes)
        every = all(yes == lanes for lanes, yes in barrier.votes)
        for row, lanes, site in barrier.reductions:
            mask = unpack(np.array([lanes], np.uint32))
            view = Lanes(self._machine, site, np.array([row]), mask)
            op = site.form.modifiers["op"]
            if op == "popc":
                view.write(0, np.full(mask.shape, total, np.uint32))
            else:
                view.write(0, np.full(mask.shape, every if op == "and" else total > 0))

    def pending(self) -> bool:
        """Whether any barrier has arrivals and has not completed."""
        return any(b.threads or b.partial for b in self.barriers.values())

    def after_exit(self, rows: NDArray[np.int64]) -> None:
        """Lanes of `rows` ended: complete what waited only for them."""
        warps = self._machine.shape.warps
        ctas = {int(row) // warps for row in rows}
        for (cta, ident), barrier in list(self.barriers.items()):
            if cta not in ctas or not (barrier.threads or barrier.partial):
                continue
            for row, lanes in list(barrier.partial.items()):
                live = int(pack(self._machine.state.live[row]))
                if lanes & live == live:
                    del barrier.partial[row]
                    barrier.arrived.add(row)
                    barrier.threads += 32
            self._complete(cta, ident, barrier)

    def _live_rows(self, cta: int) -> set[int]:
        warps = self._machine.shape.warps
        live = self._machine.state.live[cta * warps : (cta + 1) * warps].any(axis=1)
        return {cta * warps + int(w) for w in np.nonzero(live)[0]}

    def explain(self, row: int, lane: int) -> dict[str, Any]:
        """Which barrier a lane waits at, who has arrived and who is missing."""
        warps = self._machine.shape.warps
        for (cta, ident), barrier in self.barriers.items():
            if cta == row // warps and barrier.waiting.get(row, 0) >> lane & 1:
                missing = self._live_rows(cta) - barrier.arrived
                return {
                    "barrier": ident, "phase": barrier.generation,
                    "expected_threads": barrier.expected or "all live warps",
                    "arrived_threads": barrier.threads,
                    "arrived_warps": sorted(r % warps for r in barrier.arrived),
                    "missing_warps": sorted(r % warps for r in missing),
                    "line": barrier.line,
                }
        return {}


def _threads(count: int) -> str:
    return f"{count} threads" if count else "all threads of the CTA"
