"""One operand on its way: global memory, cp.async, shared memory, ldmatrix, fragments.

Offsets that the swizzle leaves alone (multiples of its period) become immediates of the
instructions; the others, such as 32 bytes for the second k-step, get a base register each. With
64-byte rows that is two registers for each operand, and with unswizzled rows one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from mmalab.kernels.placement import LDMATRIX, emit_layout, ldmatrix_lanes, register_origins
from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.layouts import ComposedLayout, Layout, compose, make_layout
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Address, Register

__all__ = ["Fragments", "Operand"]


class Fragments:
    """Reads A (`name` "A") or B from shared memory; `shared_at` is its place in a stage."""

    def __init__(self, b: KernelBuilder, problem: Problem, name: str, shared: Register) -> None:
        self.b, self.problem, self.name = b, problem, name
        self.thread = b.mov("u32", b.tid.x)
        self.shared = shared
        self.shared_at = problem.tile.starts_at(name)
        self._readers: dict[int, Register] = {}
        self._moved: dict[tuple[Register, Register], Register] = {}

    @cached_property
    def _origins(self) -> list[tuple[int, int]]:
        """The four matrices of one ldmatrix.x4: a fragment of A, two neighbouring ones of B."""
        form = self.problem.recipe.form
        own = list(register_origins(form, self.name))
        if self.name == "A":
            return own
        width = form.fragments["B"].cols
        return own + [(line + width, byte) for line, byte in own]

    @property
    def _lines(self) -> int:
        """Lines that one ldmatrix.x4 reads."""
        return 8 + max(line for line, _ in self._origins)

    @cached_property
    def _reads(self) -> Layout | ComposedLayout:
        tile = self.problem.tile
        lanes = ldmatrix_lanes(self._origins, tile.lines(self.name))
        return compose(tile.shared_of(self.name), tile.reads(lanes, self.name))

    def prepare(self) -> None:
        """Write the base registers that all reads will need."""
        for step in range(self.problem.steps):
            self._reader(step * self.problem.tile.span // self.problem.steps)

    def _reader(self, offset: int) -> tuple[Register, int]:
        """A base register and an immediate whose sum is the place `offset` bytes into the tile."""
        layout = self._reads
        rest = 0
        if isinstance(layout, ComposedLayout):
            rest = offset % layout.swizzle.period
            layout = ComposedLayout(layout.swizzle, rest, layout.layout)
        if rest not in self._readers:
            place = emit_layout(self.b, layout, self.thread)
            self._readers[rest] = self.b.add("u32", self.shared, place)
        return self._readers[rest], offset - rest

    @property
    def reads(self) -> range:
        """The ldmatrix instructions of one k-step, by number."""
        return range(self.problem.tile.warp_tile[0 if self.name == "A" else 1] // self._lines)

    def read(self, stage: int, step: int, number: int) -> list[list[Register]]:
        """Write ldmatrix `number` of a k-step: one fragment of A, or two of B, as registers."""
        four = self.b.ldmatrix(4, self._place(stage, step, number))
        return self._fragments(four)

    def read_into(self, four: list[Register], stage: int | Register, step: int,
                  number: int) -> None:
        """The same into given registers; `stage` may be a register that holds its offset."""
        self.b.emit(LDMATRIX, four, self._place(stage, step, number))

    def fragments(self, fours: Sequence[list[Register]]) -> list[list[Register]]:
        """What the reads of a k-step bring, as operands of the products."""
        return [fragment for four in fours for fragment in self._fragments(four)]

    def _fragments(self, four: list[Register]) -> list[list[Register]]:
        each = self.problem.recipe.form.fragments[self.name].registers
        return [four[i : i + each] for i in range(0, 4, each)]

    def _place(self, stage: int | Register, step: int, number: int) -> Address:
        b, problem = self.b, self.problem
        offset = number * self._lines * problem.tile.pitch + step * problem.tile.span // (
            problem.steps)
        reader, immediate = self._reader(offset)
        immediate += self.shared_at
        if isinstance(stage, int):
            return b.at(reader, stage * problem.tile.stage_bytes + immediate)
        key = (reader, stage)
        if key not in self._moved:
            self._moved = {key: b.add("u32", reader, stage)}
        return b.at(self._moved[key], immediate)

    def read_all(self, stage: int, step: int) -> list[list[Register]]:
        """Read all of the warp's fragments of one k-step."""
        return [fragment for number in self.reads for fragment in self.read(stage, step, number)]


class Operand(Fragments):
    """A or B, copied by all threads of a block; `block` numbers the block along M or N."""

    def __init__(self, b: KernelBuilder, problem: Problem, name: str, pointer: Register,
                 shared: Register, block: Register | None = None) -> None:
        super().__init__(b, problem, name, shared)
        self.block = block if block is not None else b.mov(
            "u32", b.ctaid.y if name == "A" else b.ctaid.x)
        self._copy_to()
        self._copy_from(pointer)

    @property
    def _extent(self) -> int:
        return self.problem.m if self.name == "A" else self.problem.n

    @property
    def _lines_of_tile(self) -> int:
        return self.problem.tile.lines(self.name)

    def _copied(self, line: int, byte: int) -> Layout | ComposedLayout:
        """Thread -> `line` times the line of the tile plus `byte` times the byte that it copies
        first: of B's lines, those that belong where they go (see `Problem.deal`)."""
        problem, lines = self.problem, self._lines_of_tile
        first = Layout(lines, line)
        if problem.deal and self.name == "B":
            deal = problem.deal
            first = Layout((2, 4, deal // 8, lines // deal),
                           (line, deal // 4 * line, 2 * line, deal * line))
        copies = problem.tile.copies(problem.copy_unit, self.name)
        return compose(make_layout(first, Layout(problem.tile.span, byte)), copies)

    def _copy_to(self) -> None:
        """Shared address of the thread's first copy."""
        tile = self.problem.tile
        layout = compose(tile.shared_of(self.name), tile.copies(self.problem.copy_unit, self.name))
        self._to = self.b.add("u32", self.shared, emit_layout(self.b, layout, self.thread))

    def _copy_from(self, pointer: Register) -> None:
        """Global address of the thread's first copy, and what bounds it."""
        b, pitch = self.b, self.problem.row_bytes
        inside = emit_layout(b, self._copied(pitch, 1), self.thread)
        start = b.add("u64", pointer, b.mul_wide("u32", self.block, self._lines_of_tile * pitch))
        self.pointer = b.add("u64", start, b.cvt("u64.u32", inside))
        self._sizes = self._whole_sizes()
        self._last_sizes = self._cut_sizes()

    @property
    def _passes(self) -> range:
        return range(self._lines_of_tile // self.problem.tile.copy_lines(self.problem.copy_unit))

    def _whole_sizes(self) -> list[Register | None]:
        """Bytes that each copy reads: none of lines past the edge; None where there is no edge."""
        lines = self._lines_of_tile
        if self._extent % lines == 0:
            return [None for _ in self._passes]
        b, step = self.b, self.problem.tile.copy_lines(self.problem.copy_unit)
        line = emit_layout(b, self._copied(1, 0), self.thread)
        line = b.mad_lo("u32", self.block, lines, line)
        return [
            b.selp("b32", self.problem.copy_unit, 0, b.setp("lt", "u32", line,
                                                            self._extent - at * step))
            if self._extent > at * step else b.mov("u32", 0)
            for at in self._passes
        ]

    def _cut_sizes(self) -> list[Register | None]:
        """The same for the last slice, whose lines may end early."""
        b, unit, last = self.b, self.problem.copy_unit, self.problem.last_bytes
        if last == self.problem.tile.span:
            return self._sizes
        there = b.setp("lt", "u32", emit_layout(b, self._copied(0, 1), self.thread), last)
        return [b.selp("b32", unit if size is None else size, 0, there) for size in self._sizes]

    def copy(self, at: int, ahead: int, stage: int) -> None:
        """Start the copy of slice `at`, which lies `ahead` slices behind the pointer."""
        for start in self.starts(at, ahead, stage):
            start()

    def starts(self, at: int, ahead: int, stage: int) -> list[Callable[[], None]]:
        """The instructions of that copy, each written when it is called."""
        sizes = self._last_sizes if at == self.problem.slices - 1 else self._sizes
        return [partial(self._start, step, size, ahead, stage)
                for step, size in zip(self._passes, sizes, strict=True)]

    def _start(self, step: int, size: Register | None, ahead: int, stage: int) -> None:
        b, problem = self.b, self.problem
        unit, lines = problem.copy_unit, problem.tile.copy_lines(problem.copy_unit)
        to = b.at(self._to, stage * problem.tile.stage_bytes + self.shared_at
                  + step * lines * problem.tile.pitch)
        source = b.at(self.pointer, ahead * problem.tile.span + step * lines * problem.row_bytes)
        b.emit(f"cp.async.{'cg' if unit == 16 else 'ca'}.shared.global", to, source, unit,
               *(() if size is None else (size,)))

    def advance(self, slices: int) -> None:
        """Move the pointer on."""
        self.b.add("s64", self.pointer, slices * self.problem.tile.span, out=self.pointer)
