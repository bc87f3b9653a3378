"""The warpgroup that fills the ring: one thread, one TMA copy of each operand a slice.

In a cluster the CTAs share a row of tiles (and so A) or a column (and so B). Each copies its part
of the shared operand to all of them, at the same place and counted by each one's own barrier.
Rows that no tensor map can describe are gathered by threads instead (see `gather`). Where lines
are in place (see `windowed`) a part is two copies: of those, and of the others from their window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmalab.kernels.sm90_wgmma.maps import maps_of
from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import EXPERT_ROWS, SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor
from mmalab.kernels.sm90_wgmma.windowed import Windowed
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Immediate, Register

__all__ = ["Producer"]

_At = Register | Immediate


class Producer:
    """Fills stages for one tile after the other."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers, shared: Register,
                 maps: dict[str, Register], rank: Register | None,
                 experts: Register | None = None,
                 window: Windowed | None = None) -> None:
        """`experts`: the address of the array that names each row block's B; `window`: what both
        operands come through."""
        self.experts, self.window = experts, window
        self.b, self.problem, self.shared, self.rank = b, problem, shared, rank
        self.addresses, self.shapes = maps, maps_of(problem)
        self.cursor = Cursor(b, barriers)

    def tile(self, place: Place) -> None:
        """All slices of a tile."""
        b, problem, plan = self.b, self.problem, self.problem.plan
        operands = self._operands()
        lines = self._lines(place)
        places = [self._part(operand, first)
                  for operand, first in zip(operands, lines, strict=True)]
        at = b.mov("u32", 0)
        with b.loop(problem.copied_slices, unroll=False):
            if self.window is not None:
                self.window.wait_late(at)
            full = self.cursor.wait_empty()
            b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(full),
                   plan.stage_bytes)
            stage = b.mad_lo("u32", self.cursor.stage, plan.stage_bytes, self.shared)
            for operand, (corner, part) in zip(operands, places, strict=True):
                to = b.add("u32", stage, part) if part is not None else stage
                self._copy(operand, to, [at, *corner], full)
            b.add("u32", at, problem.values, out=at)
            self.cursor.advance()

    def _operands(self) -> list[_Operand]:
        """What is copied of a slice."""
        problem, plan = self.problem, self.problem.plan
        made = []
        for operand in (_Operand("a", 0, plan.tile[0], plan.cluster[1]),
                        _Operand("b", plan.a_bytes, plan.tile[1], plan.cluster[0])):
            made.append(operand)
            if problem.in_place:
                before = operand.lines // operand.copies // problem.phases
                made.append(replace(operand, name=f"{operand.name}_others",
                                    offset=operand.offset + before * SLICE))
        return made

    def _lines(self, place: Place) -> tuple[Register, ...]:
        """Where the tile's first lines of the operands lie."""
        if self.window is not None:
            row, line = self.window.lines_of(place)
            return (place.m, row, place.n, line) if self.problem.in_place else (row, line)
        return place.line(self.b, place.m, self.problem.m), self._line_of_b(place)

    def _line_of_b(self, place: Place) -> Register:
        b, n = self.b, self.problem.n
        if self.experts is None:
            return place.line(b, place.n, n)
        block = b.div("u32", place.m, EXPERT_ROWS)
        expert = b.ld("global.u32", b.at(b.mad_wide("u32", block, 4, self.experts)))
        return b.mad_lo("u32", expert, n, place.n)

    def _part(self, operand: _Operand, first: Register) -> tuple[list[_At], Register | None]:
        """Where this CTA's copies begin: coordinates behind the first, and bytes in the stage."""
        b, line, shape = self.b, first, self.shapes[operand.name]
        if shape.lines > 1:
            line = b.div("u32", first, shape.lines)
        corner: list[_At] = [Immediate(0, "0")] * (shape.rank - 1)
        corner[shape.counts] = line
        if operand.copies == 1 or self.rank is None:
            return corner, None
        part = operand.lines // operand.copies
        if shape.parts == shape.counts:
            corner[shape.parts] = b.mad_lo("u32", self.rank, part // shape.lines, line)
        else:
            corner[shape.parts] = b.mul_lo("u32", self.rank, shape.box[shape.parts])
        return corner, b.mul_lo("u32", self.rank, part * SLICE)

    def _copy(self, operand: _Operand, to: Register, corner: list[_At], full: Register) -> None:
        b, shape = self.b, self.shapes[operand.name]
        opcode = (f"cp.async.bulk.tensor.{shape.rank}d.shared::cluster.global.tile"
                  ".mbarrier::complete_tx::bytes")
        mask: list[Register] = []
        if operand.copies > 1:
            opcode += ".multicast::cluster"
            mask = [b.mov("b16", (1 << operand.copies) - 1)]
        b.emit(opcode, b.at(to, operand.offset),
               b.at(self.addresses[operand.name], coordinates=corner), b.at(full), *mask)


@dataclass(frozen=True, slots=True)
class _Operand:
    """A or B in a stage, or what its window holds of it, by the name of its map: where, of how many
    lines, and how many CTAs copy a part each."""

    name: str
    offset: int
    lines: int
    copies: int
