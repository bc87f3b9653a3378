"""The warpgroup that fills the ring: one thread, one TMA copy of each operand a slice.

In a cluster the CTAs share a row of tiles (and so A) or a column (and so B). Each copies its part
of the shared operand to all of them, at the same place and counted by each one's own barrier.
"""

from __future__ import annotations

from mmalab.kernels.sm90_wgmma.maps import MapShape, maps_of
from mmalab.kernels.sm90_wgmma.plan import SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Immediate, Register

__all__ = ["Producer"]


class Producer:
    """Fills stages for one tile after the other."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers, shared: Register,
                 maps: dict[str, Register], rank: Register | None) -> None:
        self.b, self.problem, self.shared, self.rank = b, problem, shared, rank
        self.addresses, self.shapes = maps, maps_of(problem)
        self.cursor = Cursor(b, barriers)

    def tile(self, m: Register, n: Register) -> None:
        """All slices of the tile at row `m` and column `n`."""
        b, problem, plan = self.b, self.problem, self.problem.plan
        parts = (("a", m, 0, plan.tile[0], plan.cluster[1]),
                 ("b", n, plan.a_bytes, plan.tile[1], plan.cluster[0]))
        places = [self._part(*part) for part in parts]
        at = b.mov("u32", 0)
        with b.loop(problem.slices, unroll=False):
            full = self.cursor.wait_empty()
            b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(full),
                   plan.stage_bytes)
            stage = b.mad_lo("u32", self.cursor.stage, plan.stage_bytes, self.shared)
            for (name, _, offset, _, copies), (line, place) in zip(parts, places, strict=True):
                to = b.add("u32", stage, place) if place is not None else stage
                self._copy(name, b.at(to, offset), at, line, full, copies)
            b.add("u32", at, problem.values, out=at)
            self.cursor.advance()

    def _part(self, name: str, first: Register, offset: int, lines: int,
              copies: int) -> tuple[Register, Register | None]:
        """The first line that this CTA copies, and where its part begins in the stage."""
        del name, offset
        if copies == 1 or self.rank is None:
            return first, None
        b, part = self.b, lines // copies
        return (b.mad_lo("u32", self.rank, part, first),
                b.mul_lo("u32", self.rank, part * SLICE))

    def _copy(self, name: str, to: object, at: Register, line: Register, full: Register,
              copies: int) -> None:
        b, shape = self.b, self.shapes[name]
        opcode = (f"cp.async.bulk.tensor.{shape.rank}d.shared::cluster.global.tile"
                  ".mbarrier::complete_tx::bytes")
        source = b.at(self.addresses[name], coordinates=self._coordinates(shape, at, line))
        if copies == 1:
            b.emit(opcode, to, source, b.at(full))  # type: ignore[arg-type]
            return
        mask = b.mov("b16", (1 << copies) - 1)
        b.emit(f"{opcode}.multicast::cluster", to, source, b.at(full), mask)  # type: ignore[arg-type]

    def _coordinates(self, shape: MapShape, at: Register,
                     line: Register) -> list[Register | Immediate]:
        if shape.rank == 2:
            return [at, line]
        zero = Immediate(0, "0")
        return [at, zero, zero, zero, self.b.div("u32", line, self.problem.deal)]
