"""Block scales: one FP32 number for 1 x 128 values of A, one for 128 x 128 of B.

A slice of 8-bit values is 128 of K, so a slice has one scale for each row of A and one for each
128 columns of C. They are read a slice ahead, straight from global memory: 16 rows a warp.
"""

from __future__ import annotations

from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["BLOCK", "BlockScales"]

#: Values of K, and columns of C, that share a scale.
BLOCK = 128


class BlockScales:
    """The scales of one group's rows and of the tile's columns, slice by slice."""

    def __init__(self, b: KernelBuilder, problem: Problem, a: Register, columns: Register,
                 row: Register) -> None:
        """`a`, `columns`: global addresses of the scales; `row`: the thread's first row."""
        self.b, self.problem, self.a, self.columns, self.row = b, problem, a, columns, row
        plan = problem.plan
        self.rows = [(block, half) for block in range(plan.blocks) for half in (0, 1)]
        self.across = max(1, plan.tile[1] // BLOCK)
        count = len(self.rows) + self.across
        self.places, self.ahead = b.regs("u64", count), b.regs("f32", count)
        self.left = b.reg("u32")
        self.products: dict[tuple[int, int, int], Register] = {
            (block, half, at): b.reg("f32")
            for block, half in self.rows for at in range(self.across)}

    def begin(self, m: Register, n: Register) -> None:
        """The tile at (m, n): where its scales lie, and a look at the first."""
        b, problem = self.b, self.problem
        pitch = problem.slices * 4
        first = b.add("u32", m, self.row)
        lines = [b.min("u32", b.add("u32", first, block * 64 + half * 8), problem.m - 1)
                 for block, half in self.rows]
        group = b.div("u32", n, BLOCK)
        groups = [b.min("u32", b.add("u32", group, at), (problem.n - 1) // BLOCK)
                  for at in range(self.across)]
        for place, line in zip(self.places, lines + groups, strict=True):
            b.mul_wide("u32", line, pitch, out=place)
        for at, place in enumerate(self.places):
            b.add("u64", place, self.a if at < len(self.rows) else self.columns, out=place)
        b.mov("u32", problem.slices, out=self.left)
        self._look()

    def _look(self) -> None:
        b = self.b
        for place, value in zip(self.places, self.ahead, strict=True):
            b.ld("global.nc.f32", b.at(place), out=value)

    def next(self) -> None:
        """The next slice's scales are current; those behind it are on their way."""
        b = self.b
        for (block, half, at), product in self.products.items():
            b.mul("rn.f32", self.ahead[2 * block + half], self.ahead[len(self.rows) + at],
                  out=product)
        b.sub("u32", self.left, 1, out=self.left)
        more = b.setp("ne", "u32", self.left, 0)
        for place in self.places:
            b.add("u64", place, 4, out=place)
        with b.guard(more):
            self._look()

    def of(self, block: int, half: int, column: int) -> Register:
        """What a partial sum of this row and column is multiplied with."""
        return self.products[block, half, column // BLOCK]
