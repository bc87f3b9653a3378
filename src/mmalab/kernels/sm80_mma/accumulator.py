"""The accumulators of one warp: products added up, promoted, and stored.

With promotion, instructions add into partial sums that begin at zero, and every so many values of
K these are added to the accumulators in IEEE FP32. A promotion inside one slice needs one partial
fragment at a time; one that spans slices keeps a second set of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmalab.kernels.placement import emit_layout
from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.kernels.sm80_mma.tile import LINES
from mmalab.layouts import Layout, compose, make_layout
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Accumulators"]

Fragment = list[Register]
#: How each accumulator type is moved: halves travel in pairs.
_MOVES = {"f32": "f32", "s32": "b32", "f16": "b32"}


class Accumulators:
    """Fragments of C, [row tile][column tile][register]."""

    def __init__(self, b: KernelBuilder, problem: Problem) -> None:
        self.b, self.problem = b, problem
        form = problem.recipe.form
        self.fragment = form.fragments["D"]
        self.type = _MOVES[problem.recipe.accumulator]
        self.rows = problem.tile.warp_tile[0] // self.fragment.rows
        self.columns = problem.tile.warp_tile[1] // self.fragment.cols
        self.sums = self._set()
        every = problem.promote_every
        self._partial = self._set() if problem.promotes_across else None
        self._zero = self._fresh() if every else []

    def _fresh(self) -> Fragment:
        return [self.b.mov(self.type, 0.0 if self.type == "f32" else 0)
                for _ in range(self.fragment.registers)]

    def _set(self) -> list[list[Fragment]]:
        return [[self._fresh() for _ in range(self.columns)] for _ in range(self.rows)]

    def _places(self) -> Iterator[tuple[int, int]]:
        return ((i, j) for i in range(self.rows) for j in range(self.columns))

    def _mma(self, d: Fragment, a: Fragment, b: Fragment, c: Fragment) -> None:
        self.b.emit(self.problem.recipe.key, d, a, b, c)

    # --- one slice --------------------------------------------------------------------------------

    def multiply(self, at: int, step: int, a: list[Fragment], b: list[Fragment]) -> None:
        """All products of one k-step, without promotion or with one that spans slices."""
        if self._partial is None:
            for i, j in self._places():
                self._mma(self.sums[i][j], a[i], b[j], self.sums[i][j])
            return
        first = (at * self.problem.steps + step) % self._period == 0
        for i, j in self._places():
            part = self._partial[i][j]
            self._mma(part, a[i], b[j], self._zero if first else part)
        if self._ends(at, step):
            for i, j in self._places():
                self._promote(i, j, self._partial[i][j])

    @property
    def _period(self) -> int:
        """k-steps of one promotion."""
        return (self.problem.promote_every or 1) // self.problem.recipe.k

    def _ends(self, at: int, step: int) -> bool:
        last = at == self.problem.slices - 1 and step == self.problem.steps_of(at)[-1]
        return last or (at * self.problem.steps + step + 1) % self._period == 0

    def multiply_promoted(self, at: int, i: int, a: dict[int, Fragment],
                          b: dict[int, list[Fragment]]) -> None:
        """One row tile's products of one slice, promoted inside it; `a` and `b` by k-step."""
        for j in range(self.columns):
            part: Fragment = []
            for step, rows in a.items():
                first = step % self._period == 0
                part = [self.b.reg(self.type) for _ in self._zero] if first else part
                self._mma(part, rows, b[step][j], self._zero if first else part)
                if self._ends(at, step):
                    self._promote(i, j, part)

    def _promote(self, i: int, j: int, part: Fragment) -> None:
        for total, addend in zip(self.sums[i][j], part, strict=True):
            self.b.add("rn.f32", total, addend, out=total)

    # --- results ----------------------------------------------------------------------------------

    def store(self, pointer: Register) -> None:
        """Write C, row-major, leaving out what lies past its edges."""
        b, problem = self.b, self.problem
        size = problem.recipe.result_bytes
        matrix = Layout((LINES, LINES), (problem.n * size, size))
        inside = emit_layout(b, self._lanes(matrix), b.mov("u32", b.tid.x))
        rows = b.mul_wide("u32", b.mov("u32", b.ctaid.y), LINES * problem.n * size)
        columns = b.mul_wide("u32", b.mov("u32", b.ctaid.x), LINES * size)
        base = b.add("u64", b.add("u64", pointer, rows), columns)
        base = b.add("u64", base, b.cvt("u64.u32", inside))
        self._limits()
        for i, j in self._places():
            self._store_fragment(base, matrix, i, j)

    def _lanes(self, matrix: Layout) -> Layout:
        """Thread -> byte of its first element in the block's part of C."""
        lanes, warps = self.fragment.layout[0], self.problem.tile.warps
        height, width = self.problem.tile.warp_tile
        inside = compose(Layout((self.fragment.rows, self.fragment.cols), matrix.stride), lanes)
        return make_layout(inside, Layout(warps, (matrix(height, 0), matrix(0, width))))

    def _limits(self) -> None:
        """Rows and columns of C from the warp's first one to the edge, where there is one."""
        b, problem = self.b, self.problem
        height, width = problem.tile.warp_tile
        warps = problem.tile.warps
        threads = make_layout(Layout(32, 0), Layout(warps, (height, 0)))
        across = make_layout(Layout(32, 0), Layout(warps, (0, width)))
        self._edge: list[Register | None] = []
        for cut, size, block, layout in ((problem.edges[0], problem.m, b.ctaid.y, threads),
                                         (problem.edges[1], problem.n, b.ctaid.x, across)):
            if not cut:
                self._edge.append(None)
                continue
            first = emit_layout(b, layout, b.mov("u32", b.tid.x))
            first = b.mad_lo("u32", b.mov("u32", block), LINES, first)
            self._edge.append(b.sub("s32", b.mov("u32", size), first))

    def _inside(self, row: int, column: int) -> Register | None:
        """Whether this row and column of the warp's tile lie inside C (each holds 8 and more)."""
        found: Register | None = None
        for edge, at in zip(self._edge, (row, column), strict=True):
            if edge is not None:
                found = (self.b.setp("gt", "s32", edge, at) if found is None
                         else self.b.setp("gt.and", "s32", edge, at, found))
        return found

    def _store_fragment(self, base: Register, matrix: Layout, i: int, j: int) -> None:
        """Two neighbouring elements of one row at a time: a pair of registers, or one of halves."""
        b, fragment, size = self.b, self.fragment, self.problem.recipe.result_bytes
        slots = fragment.coordinates()[0]
        per = 2 * size // 4
        for first in range(0, fragment.slots, 2):
            row, column = (int(x) for x in slots[first])
            row, column = row + i * fragment.rows, column + j * fragment.cols
            at = first * size // 4
            registers = self.sums[i][j][at : at + per]
            value = registers if per > 1 else registers[0]
            opcode = f"global.v2.{self.type}" if per > 1 else f"global.{self.type}"
            inside = self._inside(row, column)
            if inside is None:
                b.st(opcode, b.at(base, matrix(row, column)), value)
                continue
            with b.guard(inside):
                b.st(opcode, b.at(base, matrix(row, column)), value)
