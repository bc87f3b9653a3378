"""Who of a warpgroup has issued which wgmma, and what a warp's wait_group waits for.

Four warps issue one product, each when it gets there; the last to arrive starts it. A warp numbers
its products, and those of the four warps with one number are one operation. Groups belong to a
warp: its ``wait_group N`` completes the products before its N newest commits::

    warp 0   wgmma (0)  wgmma (1)  commit  wait_group 0     needs products 0 and 1
    warp 3   wgmma (0)                                      has not issued 1: warp 0 waits for it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.async_engine import Queue
from mmalab.emulator.program import Site
from mmalab.emulator.state import Status

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["WARPS", "Part", "Product", "Warpgroups"]

#: Warps of a warpgroup.
WARPS = 4


@dataclass(frozen=True, slots=True)
class Part:
    """What one warp says when it issues: the site, its operands by name, its metadata [32]."""

    site: Site
    operands: tuple[tuple[str, int], ...]
    metadata: NDArray[np.uint32] | None = None


@dataclass(slots=True)
class Product:
    """One wgmma of the warpgroup whose first row is `first`; parts by warp of the warpgroup."""

    first: int
    index: int
    parts: dict[int, Part] = field(default_factory=dict)

    @property
    def part(self) -> Part:
        """The part of the warp that came first: it speaks for the others."""
        return next(iter(self.parts.values()))


class Warpgroups:
    """The products in flight, by warpgroup."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        rows = machine.state.rows
        #: Products that each warp has issued.
        self.issued = np.zeros(rows, np.int64)
        #: For each warp, how many products it had issued at each commit that may still be open.
        self._marks: list[list[int]] = [[] for _ in range(rows)]
        #: Products that not all four warps have issued.
        self._partial: dict[tuple[int, int], Product] = {}
        #: What executors found out about a site, by its index.
        self.plans: dict[int, Any] = {}
        self.tiles: dict[int, Any] = {}
        self.operands: dict[tuple[int, str, int], Any] = {}
        self.spans: dict[tuple[int, int, int], Any] = {}
        #: Products that are being collected, to be done together.
        self.batch: Any = None

    def first_of(self, row: int) -> int:
        """The first row of the warpgroup of a row."""
        warps = self._machine.shape.warps
        cta, warp = divmod(row, warps)
        return cta * warps + warp // WARPS * WARPS

    def queue_of(self, row: int) -> Queue:
        """The queue of the warpgroup's tasks."""
        return "wgmma", self.first_of(row), 0

    def issue(self, row: int, part: Part) -> Product:
        """A warp issues its part; complete when the product has :data:`WARPS` parts."""
        first, index = self.first_of(row), int(self.issued[row])
        self.issued[row] += 1
        product = self._partial.setdefault((first, index), Product(first, index))
        product.parts[row - first] = part
        if len(product.parts) == WARPS:
            del self._partial[first, index]
        self._machine.version += 1
        return product

    def commit(self, row: int) -> None:
        """Close the warp's group."""
        self._marks[row].append(int(self.issued[row]))

    def behind(self, rows: NDArray[np.int64]) -> list[int]:
        """For each warp how many products all warps of its warpgroup have issued."""
        warps = self._machine.shape.warps
        if warps % WARPS:
            return [min(self.issued[first : first + WARPS].tolist())
                    for first in map(self.first_of, rows.tolist())]
        least: list[int] = self.issued.reshape(-1, WARPS).min(axis=1)[rows // WARPS].tolist()
        return least

    def wait(self, row: int, newest: int, behind: int) -> bool:
        """Complete all but the warp's `newest` groups; False while other warps are behind: those of
        its warpgroup have issued `behind` products."""
        marks = self._marks[row]
        if len(marks) <= newest:
            return True
        bound = marks[-newest - 1]
        engine = self._machine.engine
        if len(engine.queue):
            engine.wait_groups(self.queue_of(row), max(0, behind - bound))
        if behind < bound or self._incomplete(row):
            return False
        self._marks[row] = marks[len(marks) - newest :]
        return True

    def _incomplete(self, row: int) -> bool:
        warps = self._machine.shape.warps
        return warps % WARPS != 0 and self.first_of(row) % warps + WARPS > warps

    def explain(self, row: int) -> dict[str, Any]:
        """For a warp that waits: which warps have not issued their part, and which have ended."""
        first, machine = self.first_of(row), self._machine
        last = min(first + WARPS, first // machine.shape.warps * machine.shape.warps
                   + machine.shape.warps)
        most = int(self.issued[row])
        missing = [other for other in range(first, last) if self.issued[other] < most]
        ended = [other for other in missing
                 if (machine.state.status[other] == Status.EXITED).all()]
        warps = machine.shape.warps
        return {"wgmma": "wait_group", "issued": most, "warps": last - first,
                "missing_warps": [other % warps for other in missing],
                "ended_warps": [other % warps for other in ended]}
