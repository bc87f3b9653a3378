"""From the accumulators to C: the ways out, each with what it asks of the tile.

The accumulator of thread (t, g) of warp w holds rows g and g + 8 of the warp's 16, columns 2 t and
2 t + 1 of every eight. C is row-major.

=========  =========================================================================================
direct     what a thread holds, two neighbours and more: any N, half-filled sectors
permuted   B's tensor map has dealt the columns out (see `maps`), so a thread's registers are 16
           consecutive bytes: full sectors, no shared memory, no barrier
staged     through swizzled shared memory, then one TMA store per panel, which is read while the
           group goes on to its next tile (see `staged`)
=========  =========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from mmalab.kernels.sm90_wgmma.maps import eight, line_of
from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Direct", "group_row", "packed", "runs_of"]

Sums = list[list[Register]]


def packed(b: KernelBuilder, problem: Problem, registers: list[Register]) -> list[Register]:
    """Accumulators as words of C: rounded to nearest even and paired where C has 16 bits."""
    if problem.out_bytes == 4 or problem.recipe.accumulator == "f16":
        return registers
    words = b.regs("b32", len(registers) // 2)
    for word, low, high in zip(words, registers[::2], registers[1::2], strict=True):
        b.emit(f"cvt.rn.{problem.out}x2.f32", word, high, low)
    return words


class Lanes:
    """Where a thread's first element of C lies in its group's rows."""

    def __init__(self, b: KernelBuilder) -> None:
        thread = b.mov("u32", b.tid.x)
        self.quad = b.and_("b32", thread, 3)
        row = b.and_("b32", b.shr("u32", thread, 2), 7)
        warp = b.and_("b32", b.shr("u32", thread, 5), 3)
        self.row = b.mad_lo("u32", warp, 16, row)


def group_row(b: KernelBuilder, problem: Problem, group: Register) -> Register:
    """The first row of the tile that the thread holds."""
    row, plan = Lanes(b).row, problem.plan
    if plan.schedule == "cooperative" and plan.groups > 1:
        row = b.mad_lo("u32", group, plan.group_rows, row)
    if not problem.by_phase:
        return row
    lines, phases = problem.phase_lines, problem.phases
    above: Register | None = None
    if lines * phases < plan.tile[0]:  # parts that CTAs of a cluster have brought
        within = b.rem("u32", row, lines * phases)
        above, row = b.sub("u32", row, within), within
    phase = b.div("u32", row, lines)
    within = b.sub("u32", row, b.mul_lo("u32", phase, lines))
    row = b.mad_lo("u32", within, phases, phase)
    return row if above is None else b.add("u32", above, row)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring columns that a thread holds: the first (but for the thread's own share), and
    of each column the eight of wgmma's columns and the one of the pair that it is found in."""

    first: int
    found: tuple[tuple[int, int], ...]


def runs_of(problem: Problem) -> tuple[int, list[_Run]]:
    """How many neighbours a thread of the quad is apart from the next, and all its runs."""
    if problem.in_place:
        apart = 8 if problem.dealt else 2 * problem.phases
        lines = [line_of(problem, column) for column in range(problem.plan.tile[1])]
        return apart, [_Run(at, tuple((line // 8, line % 2) for line in lines[at : at + apart]))
                       for at in range(0, len(lines), 4 * apart)]
    if problem.plan.store != "permuted":
        return 2, [_Run(at, ((at // 8, 0), (at // 8, 1)))
                   for at in range(0, problem.plan.tile[1], 8)]
    deal = problem.deal
    return deal // 4, [
        _Run(at, tuple((eight(problem, at // deal, j), b) for j in range(deal // 8)
                       for b in (0, 1)))
        for at in range(0, problem.plan.tile[1], deal)]


class Direct:
    """Stores "direct" and "permuted": registers to global memory."""

    def __init__(self, b: KernelBuilder, problem: Problem, c: Register, group: Register) -> None:
        self.b, self.problem, self.c = b, problem, c
        self.apart, self.runs = runs_of(problem)
        self.quad = Lanes(b).quad
        self.row = group_row(b, problem, group)
        #: Bytes of one store: what a run holds, as far as rows of C are aligned.
        self.most = gcd(16, problem.n * problem.out_bytes, self.apart * problem.out_bytes)

    def store(self, sums: Sums, at: Place) -> None:
        """Write the group's part of a tile."""
        b, problem = self.b, self.problem
        row = b.add("u32", at.m, self.row)
        column = b.mad_lo("u32", self.quad, self.apart, at.n)
        place = b.mad_wide("u32", at.line(b, row, problem.m), problem.n * problem.out_bytes, self.c)
        place = b.add("u64", place, b.mul_wide("u32", column, problem.out_bytes))
        apart = problem.rows_apart
        for block, registers in enumerate(sums):
            for half in (0, 1):
                down = block * apart[0] + half * apart[1]
                inside = (b.setp("lt", "u32", b.add("u32", row, down), problem.m)
                          if problem.edges[0] else None)
                line = b.add("u64", place, down * problem.n * problem.out_bytes)
                for run in self.runs:
                    self._put(line, run, registers, half, column, inside)

    def _put(self, line: Register, run: _Run, registers: list[Register], half: int,
             column: Register, inside: Register | None) -> None:
        """A run in stores of `most` bytes."""
        problem = self.problem
        if problem.recipe.accumulator == "f16":
            words = [registers[2 * eight + half] for eight, b in run.found if b == 0]
        else:
            values = [registers[4 * eight + 2 * half + b] for eight, b in run.found]
            words = packed(self.b, problem, values)
        if self.most < 4:
            words = self._halves(words)
        size = min(self.most, 4)
        kind = "b16" if size == 2 else problem.recipe.register if problem.out_bytes == 4 else "b32"
        each = self.most // size
        for at in range(0, len(words), each):
            first = run.first + at * size // problem.out_bytes
            self._one(line, words[at : at + each], kind, first, column, inside)

    def _halves(self, words: list[Register]) -> list[Register]:
        halves: list[Register] = []
        for word in words:
            pair = self.b.regs("b16", 2)
            self.b.emit("mov.b32", pair, word)
            halves += pair
        return halves

    def _one(self, line: Register, held: list[Register], kind: str, first: int, column: Register,
             inside: Register | None) -> None:
        b, problem = self.b, self.problem
        if problem.edges[1]:
            at = b.add("u32", column, first)
            inside = (b.setp("lt", "u32", at, problem.n) if inside is None else
                      b.setp("lt.and", "u32", at, problem.n, inside))
        width = f"v{len(held)}." if len(held) > 1 else ""
        value = held if len(held) > 1 else held[0]
        place = b.at(line, first * problem.out_bytes)
        if inside is None:
            b.st(f"global.{width}{kind}", place, value)
            return
        with b.guard(inside):
            b.st(f"global.{width}{kind}", place, value)
