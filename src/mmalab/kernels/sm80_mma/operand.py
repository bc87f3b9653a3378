"""One operand on its way: global memory, cp.async, shared memory, ldmatrix, fragments.

Offsets that the swizzle leaves alone (multiples of its period) become immediates of the
instructions; the others, such as 32 bytes for the second k-step, get a base register each. With
64-byte rows that is two registers for each operand, and with unswizzled rows one.
"""

from __future__ import annotations

from functools import cached_property

from mmalab.kernels.placement import emit_layout, ldmatrix_lanes, register_origins
from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.kernels.sm80_mma.tile import LINES, SLICE
from mmalab.layouts import ComposedLayout, Layout, compose
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Operand"]


class Operand:
    """A (`name` "A") or B in the kernel being written; `shared_at` is its place in a stage."""

    def __init__(self, b: KernelBuilder, problem: Problem, name: str, pointer: Register,
                 shared: Register) -> None:
        self.b, self.problem, self.name = b, problem, name
        self.thread = b.mov("u32", b.tid.x)
        self.block = b.mov("u32", b.ctaid.y if name == "A" else b.ctaid.x)
        self.shared = shared
        self.shared_at = 0 if name == "A" else problem.tile.operand_bytes
        self._readers: dict[int, Register] = {}
        self._copy_to()
        self._copy_from(pointer)

    @property
    def _extent(self) -> int:
        return self.problem.m if self.name == "A" else self.problem.n

    # --- copies -----------------------------------------------------------------------------------

    def _copy_to(self) -> None:
        """Shared address of the thread's first copy."""
        problem = self.problem
        layout = compose(problem.tile.shared, problem.tile.copies(problem.copy_unit))
        self._to = self.b.add("u32", self.shared, emit_layout(self.b, layout, self.thread))

    def _copy_from(self, pointer: Register) -> None:
        """Global address of the thread's first copy, and what bounds it."""
        b, problem = self.b, self.problem
        copies = problem.tile.copies(problem.copy_unit)
        pitch = problem.row_bytes
        inside = emit_layout(b, compose(Layout((LINES, SLICE), (pitch, 1)), copies), self.thread)
        start = b.add("u64", pointer, b.mul_wide("u32", self.block, LINES * pitch))
        self.pointer = b.add("u64", start, b.cvt("u64.u32", inside))
        self._sizes = self._whole_sizes(copies)
        self._last_sizes = self._cut_sizes(copies)

    @property
    def _passes(self) -> range:
        return range(LINES // self.problem.tile.copy_lines(self.problem.copy_unit))

    def _whole_sizes(self, copies: Layout) -> list[Register | None]:
        """Bytes that each copy reads: none of lines past the edge; None where there is no edge."""
        if self._extent % LINES == 0:
            return [None for _ in self._passes]
        b, step = self.b, self.problem.tile.copy_lines(self.problem.copy_unit)
        line = emit_layout(b, compose(Layout((LINES, SLICE), (1, 0)), copies), self.thread)
        line = b.mad_lo("u32", self.block, LINES, line)
        return [
            b.selp("b32", self.problem.copy_unit, 0, b.setp("lt", "u32", line,
                                                            self._extent - at * step))
            if self._extent > at * step else b.mov("u32", 0)
            for at in self._passes
        ]

    def _cut_sizes(self, copies: Layout) -> list[Register | None]:
        """The same for the last slice, whose lines may end early."""
        b, unit, last = self.b, self.problem.copy_unit, self.problem.last_bytes
        if last == SLICE:
            return self._sizes
        byte = emit_layout(b, compose(Layout((LINES, SLICE), (0, 1)), copies), self.thread)
        there = b.setp("lt", "u32", byte, last)
        return [b.selp("b32", unit if size is None else size, 0, there) for size in self._sizes]

    def copy(self, at: int, ahead: int, stage: int) -> None:
        """Start the copy of slice `at`, which lies `ahead` slices behind the pointer."""
        b, problem = self.b, self.problem
        unit, lines = problem.copy_unit, problem.tile.copy_lines(problem.copy_unit)
        opcode = f"cp.async.{'cg' if unit == 16 else 'ca'}.shared.global"
        sizes = self._last_sizes if at == problem.slices - 1 else self._sizes
        base = stage * problem.tile.stage_bytes + self.shared_at
        for step, size in zip(self._passes, sizes, strict=True):
            to = b.at(self._to, base + step * lines * problem.tile.pitch)
            source = b.at(self.pointer, ahead * SLICE + step * lines * problem.row_bytes)
            b.emit(opcode, to, source, unit, *(() if size is None else (size,)))

    def advance(self, slices: int) -> None:
        """Move the pointer on."""
        self.b.add("s64", self.pointer, slices * SLICE, out=self.pointer)

    # --- fragments --------------------------------------------------------------------------------

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
        lanes = ldmatrix_lanes(self._origins, LINES)
        tile = self.problem.tile
        return compose(tile.shared, tile.reads(lanes, self.name))

    def prepare(self) -> None:
        """Write the base registers that all reads will need."""
        for step in range(self.problem.steps):
            self._reader(step * SLICE // self.problem.steps)

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
        b, problem = self.b, self.problem
        offset = number * self._lines * problem.tile.pitch + step * SLICE // problem.steps
        reader, immediate = self._reader(offset)
        base = stage * problem.tile.stage_bytes + self.shared_at
        four = b.ldmatrix(4, b.at(reader, base + immediate))
        each = problem.recipe.form.fragments[self.name].registers
        return [four[i : i + each] for i in range(0, 4, each)]

    def read_all(self, stage: int, step: int) -> list[list[Register]]:
        """Read all of the warp's fragments of one k-step."""
        return [fragment for number in self.reads for fragment in self.read(stage, step, number)]
