"""The accumulators of one warp: products added up, promoted, and stored.

With promotion, instructions add into partial sums that begin at zero, and every so many values of
K these are added to the accumulators in IEEE FP32. A promotion inside one slice needs one partial
fragment at a time; one that spans slices keeps a second set of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mmalab.kernels.placement import emit_layout
from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.layouts import Layout, compose, make_layout
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Address, Register

__all__ = ["Accumulators"]

Fragment = list[Register]
#: Row and column in the warp's tile, and the registers of what lies there.
Part = tuple[int, int, list[Register]]
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

    def places_in_turns(self) -> list[tuple[int, int]]:
        """All fragments, to and fro: two products after each other share an operand."""
        return [(i, j) for i in range(self.rows)
                for j in (range(self.columns) if i % 2 == 0 else reversed(range(self.columns)))]

    def multiply_one(self, i: int, j: int, a: Fragment, b: Fragment) -> None:
        """One product, without promotion."""
        self._mma(self.sums[i][j], a, b, self.sums[i][j])

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

    def store(self, pointer: Register, blocks: tuple[Register, Register] | None = None) -> None:
        """Write C, row-major, leaving out what lies past its edges.

        `blocks` numbers the tile along M and N; None: as the block lies in the grid.
        """
        for row in self.moves(pointer, blocks):
            for write in row:
                write()

    def load(self, pointer: Register, blocks: tuple[Register, Register], zero: Register) -> None:
        """Go on with the sums that `store` has written.

        They come into registers of their own, 16 bytes at a time, and reach the sums through an OR
        with `zero`, of which ptxas does not know that it is zero. With 64 loads of 8 bytes straight
        into the sums, which ptxas puts on one scoreboard, an H200 gave a few sums that lacked about
        a k-step, one in a thousand; that the loads were the cause is inferred.
        """
        for row in self.moves(pointer, blocks, zero):
            for read in row:
                read()

    def clear(self, i: int) -> None:
        """Begin at zero again, in one row of fragments."""
        for fragment in self.sums[i]:
            for register in fragment:
                self.b.emit(f"mov.{self.type}", register, 0.0 if self.type == "f32" else 0)

    def moves(self, pointer: Register, blocks: tuple[Register, Register] | None,
              zero: Register | None = None) -> list[list[Callable[[], None]]]:
        """The instructions that store C, or load it where there is a `zero`, row by row of
        fragments, each written when it is called; their addresses are written now."""
        b, problem = self.b, self.problem
        size = problem.recipe.result_bytes
        down, across = problem.tile.block
        matrix = Layout((down, across), (problem.n * size, size))
        inside = emit_layout(b, self._lanes(matrix), b.mov("u32", b.tid.x))
        rows = b.mul_wide("u32", self._number(blocks, 0), down * problem.n * size)
        columns = b.mul_wide("u32", self._number(blocks, 1), across * size)
        base = b.add("u64", b.add("u64", pointer, rows), columns)
        base = b.add("u64", base, b.cvt("u64.u32", inside))
        self._limits(blocks)
        of = self._neighbours if problem.deal else self._fragment
        move = self._store_row if zero is None else partial(self._load_row, zero)
        return [[partial(move, base, matrix, *part)
                 for j in range(0, self.columns, max(1, problem.deal // 8))
                 for part in of(i, j)] for i in range(self.rows)]

    def _number(self, blocks: tuple[Register, Register] | None, along: int) -> Register:
        b = self.b
        return blocks[along] if blocks else b.mov("u32", (b.ctaid.y, b.ctaid.x)[along])

    def _inside_lanes(self, row: int, column: int) -> Layout:
        """Lane -> its first element in a fragment, or in those that are dealt out."""
        lanes = self.fragment.layout[0]
        each = column * max(1, self.problem.deal // 8)
        return compose(Layout((self.fragment.rows, self.fragment.cols), (row, each)), lanes)

    def _lanes(self, matrix: Layout) -> Layout:
        """Thread -> byte of its first element in the block's part of C."""
        warps, (height, width) = self.problem.tile.warps, self.problem.tile.warp_tile
        inside = self._inside_lanes(matrix(1, 0), matrix(0, 1))
        return make_layout(inside, Layout(warps, (matrix(height, 0), matrix(0, width))))

    def _limits(self, blocks: tuple[Register, Register] | None) -> None:
        """Rows and columns of C from the warp's first one to the edge, where there is one; columns
        that are dealt out, from the lane's first one."""
        b, problem = self.b, self.problem
        height, width = problem.tile.warp_tile
        warps = problem.tile.warps
        own = self._inside_lanes(0, 1) if problem.deal else Layout(32, 0)
        self._edge: list[Register | None] = []
        threads = make_layout(Layout(32, 0), Layout(warps, (height, 0)))
        across = make_layout(own, Layout(warps, (0, width)))
        for along, (cut, size, layout) in enumerate((
                (problem.edges[0], problem.m, threads), (problem.edges[1], problem.n, across))):
            if not cut:
                self._edge.append(None)
                continue
            first = emit_layout(b, layout, b.mov("u32", b.tid.x))
            first = b.mad_lo("u32", self._number(blocks, along), problem.tile.block[along], first)
            self._edge.append(b.sub("s32", b.mov("u32", size), first))

    def _inside(self, row: int, column: int) -> Register | None:
        """Whether this row and column of the warp's tile lie inside C (each holds 8 and more, or
        a lane's four)."""
        found: Register | None = None
        for edge, at in zip(self._edge, (row, column), strict=True):
            if edge is not None:
                found = (self.b.setp("gt", "s32", edge, at) if found is None
                         else self.b.setp("gt.and", "s32", edge, at, found))
        return found

    def _fragment(self, i: int, j: int) -> Iterator[Part]:
        """Two neighbouring elements of one row at a time: a pair of registers, or one of halves."""
        return ((*place, registers) for place, registers in self._rows_of(i, j))

    def _neighbours(self, i: int, j: int) -> Iterator[Part]:
        """What a lane holds of the fragments that are dealt out from `j` on, up to 16 bytes of a
        row."""
        deal = self.problem.deal
        parts = [[*self._rows_of(i, j + f)] for f in range(deal // 8)]
        for each in zip(*parts, strict=True):
            yield (each[0][0][0], j // (deal // 8) * deal,
                   [register for _, held in each for register in held])

    def _rows_of(self, i: int, j: int) -> Iterator[tuple[tuple[int, int], list[Register]]]:
        """Row and column in the warp's tile of each two neighbours of a fragment, and where
        they are."""
        fragment, size = self.fragment, self.problem.recipe.result_bytes
        slots = fragment.coordinates()[0]
        per = 2 * size // 4
        for first in range(0, fragment.slots, 2):
            row, column = (int(x) for x in slots[first])
            at = first * size // 4
            yield ((row + i * fragment.rows, column + j * fragment.cols),
                   self.sums[i][j][at : at + per])

    def _store_row(self, base: Register, matrix: Layout, row: int, column: int,
                   registers: list[Register]) -> None:
        self._access("st", self.type, row, column, self.b.at(base, matrix(row, column)), registers)

    def _load_row(self, zero: Register, base: Register, matrix: Layout, row: int, column: int,
                  registers: list[Register]) -> None:
        b = self.b
        words = [b.mov("b32", 0) for _ in registers]
        self._access("ld", "b32", row, column, b.at(base, matrix(row, column)), words)
        for register, word in zip(registers, words, strict=True):
            b.emit("mov.b32", register, b.or_("b32", word, zero))

    def _access(self, way: str, kind: str, row: int, column: int, place: Address,
                registers: list[Register]) -> None:
        b, per = self.b, len(registers)
        value = registers if per > 1 else registers[0]
        opcode = f"{way}.global.v{per}.{kind}" if per > 1 else f"{way}.global.{kind}"
        both = (place, value) if way == "st" else (value, place)
        inside = self._inside(row, column)
        if inside is None:
            b.emit(opcode, *both)
            return
        with b.guard(inside):
            b.emit(opcode, *both)
