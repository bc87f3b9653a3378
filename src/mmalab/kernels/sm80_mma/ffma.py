"""The same product on CUDA cores, in FP32: what tensor cores are compared with.

A block of 256 threads owns 128 x 128 of C, each thread 8 x 8 of it as four 4 x 4 quarters. Slices
of 8 k lie transposed in shared memory, two of them, so that a thread reads four rows at once::

    load slice t + 1 into registers
    for each k of slice t:  4 x 16 bytes from shared memory, 64 fused multiply-adds
    store the registers into the other half of shared memory; barrier

Lines of 132 words (4 unused) keep the transposing stores free of bank conflicts: neighbouring lanes
write the two halves of one row, 4 * 132 words apart, which is 16 banks.

    >>> ffma(256, 128, 64).facts["shared_layout"]
    '(128,8):(4,528)'
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mmalab import isa
from mmalab.kernels.arguments import check_arrays
from mmalab.kernels.placement import emit_layout
from mmalab.kernels.reference import fused_product
from mmalab.kernels.sm80_mma.problem import check_sizes
from mmalab.layouts import Layout, compose
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

__all__ = ["ffma"]

_LINES, _DEPTH, _THREADS = 128, 8, 256
#: (line, k) -> byte in an operand's tile: four lines are one 16-byte load.
_SHARED = Layout((_LINES, _DEPTH), (4, 4 * (_LINES + 4)))
_TILE = 4 * (_LINES + 4) * _DEPTH
#: Thread -> line + 128 k of the four k that it copies.
_COPIES = Layout((2, 128), (4 * _LINES, 1))
#: Thread -> first of its lines of A (rows) and of B (columns); four more lie 64 further.
_READS = {"A": Layout((16, 16), (0, 4)), "B": Layout((16, 16), (4, 0))}


def ffma(m: int, n: int, k: int) -> Kernel:
    """C = A x B^T in FP32: A is M x K, B is stored N x K; sizes are multiples of 8.

    Raises:
        UsageError: sizes that are no multiples of 8.
    """
    check_sizes(m=m, n=n, k=k)
    name = f"ffma_{m}x{n}x{k}"
    params = (Param("a", "in", "f32", (m, k), "A, M x K, rows contiguous"),
              Param("b", "in", "f32", (n, k), "B, stored N x K, rows contiguous"),
              Param("c", "out", "f32", (m, n), "C = A x B, M x N, rows contiguous"))
    return Kernel(
        name=name, ptx=_Writer(name, m, n, k).text(), entry=name,
        grid=(-(-n // _LINES), -(-m // _LINES), 1), block=(_THREADS, 1, 1), params=params,
        target="sm_80", reference=fused_product, validate=partial(check_arrays, name, params),
        facts={"tile": (_LINES, _LINES, _DEPTH), "thread_tile": (8, 8), "stages": 2,
               "layout": "transposed", "swizzle": None, "shared_layout": str(_SHARED),
               "shared_bytes": 4 * _TILE, "instruction": "fma.rn.f32", "unit": "ffma",
               "instruction_k": 1, "promote_every": None, "slices": k // _DEPTH,
               "slices_per_iteration": 2, "flops": 2 * m * n * k})


class _Operand:
    """A or B: where its slices come from, where they lie, and the registers between."""

    def __init__(self, b: KernelBuilder, name: str, pointer: Register, shared: Register,
                 extent: int, k: int) -> None:
        self.b = b
        thread = b.mov("u32", b.tid.x)
        block = b.mov("u32", b.ctaid.y if name == "A" else b.ctaid.x)
        matrix = Layout((_LINES, _DEPTH), (4 * k, 4))
        inside = emit_layout(b, compose(matrix, _COPIES), thread)
        start = b.mad_wide("u32", block, _LINES * 4 * k, pointer)
        self.pointer = b.add("u64", start, b.cvt("u64.u32", inside))
        own = b.add("u32", shared, 0 if name == "A" else _TILE)
        self.to = b.add("u32", own, emit_layout(b, compose(_SHARED, _COPIES), thread))
        self.reads = b.add("u32", own, emit_layout(b, compose(_SHARED, _READS[name]), thread))
        self.words = [b.mov("f32", 0.0) for _ in range(4)]
        self._exists = self._edge(thread, block, extent)

    def _edge(self, thread: Register, block: Register, extent: int) -> Register | None:
        """Whether the line that this thread copies exists; None where all do."""
        if extent % _LINES == 0:
            return None
        line = emit_layout(self.b, compose(Layout((_LINES, _DEPTH), (1, 0)), _COPIES), thread)
        return self.b.setp("lt", "u32", self.b.mad_lo("u32", block, _LINES, line), extent)

    def load(self, ahead: int) -> None:
        """Fetch the thread's part of the slice `ahead` of the pointer (zeros past the edge)."""
        source = self.b.at(self.pointer, ahead * _DEPTH * 4)
        if self._exists is None:
            self.b.ld("global.v4.f32", source, out=self.words)
            return
        with self.b.guard(self._exists):
            self.b.ld("global.v4.f32", source, out=self.words)

    def store(self, half: int) -> None:
        """Write it, transposed, into one half of shared memory."""
        for k, word in enumerate(self.words):
            self.b.st("shared.f32", self.b.at(self.to, half * 2 * _TILE + _SHARED(0, k)), word)

    def read(self, half: int, k: int) -> list[Any]:
        """The thread's eight values of one k."""
        at = half * 2 * _TILE + _SHARED(0, k)
        return [word for line in (0, _LINES // 2) for word in self.b.ld(
            "shared.v4.f32", self.b.at(self.reads, at + _SHARED(line, 0)))]


class _Writer:
    """Writes the kernel."""

    def __init__(self, name: str, m: int, n: int, k: int) -> None:
        self.m, self.n, self.k = m, n, k
        self.b = KernelBuilder(name, arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b = self.b
        parameters = [b.param(letter, "u64") for letter in "abc"]
        b.reqntid(_THREADS)
        b.minnctapersm(2)
        pointers = [b.cvta("to.global.u64", b.load_param(p)) for p in parameters]
        shared = b.mov("u32", b.shared("tiles", 4 * _TILE))
        self.operands = [_Operand(b, x, p, shared, size, self.k) for x, p, size in zip(
            "AB", pointers, (self.m, self.n), strict=False)]
        self.sums = [[b.mov("f32", 0.0) for _ in range(8)] for _ in range(8)]
        self._slices()
        self._store(pointers[2])
        b.emit("ret")
        return b.text()

    def _slices(self) -> None:
        b, count = self.b, self.k // _DEPTH
        for operand in self.operands:
            operand.load(0)
            operand.store(0)
        b.emit("bar.sync", 0)
        rounds, done = (count - 1) // 2, 0
        if rounds > 1:
            with b.loop(rounds, unroll=False):
                for at in range(2):
                    self._slice(at, at + 1)
                for operand in self.operands:
                    b.add("s64", operand.pointer, 2 * _DEPTH * 4, out=operand.pointer)
            done = 2 * rounds
        for at in range(count - done):
            self._slice(at, at + 1 if at + 1 < count - done else None)

    def _slice(self, at: int, following: int | None) -> None:
        """One slice; `following` is loaded meanwhile."""
        if following is not None:
            for operand in self.operands:
                operand.load(following)
        for k in range(_DEPTH):
            rows, columns = (operand.read(at % 2, k) for operand in self.operands)
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    total = self.sums[i][j]
                    self.b.fma("rn.f32", row, column, total, out=total)
        if following is not None:
            for operand in self.operands:
                operand.store(following % 2)
            self.b.emit("bar.sync", 0)

    def _store(self, pointer: Register) -> None:
        """Write the four quarters, as far as they lie inside C."""
        b, half = self.b, _LINES // 2
        thread = b.mov("u32", b.tid.x)
        row = b.mad_lo("u32", b.mov("u32", b.ctaid.y), _LINES, emit_layout(b, _READS["A"], thread))
        column = b.mad_lo("u32", b.mov("u32", b.ctaid.x), _LINES,
                          emit_layout(b, _READS["B"], thread))
        base = b.mad_wide("u32", row, self.n * 4, pointer)
        base = b.mad_wide("u32", column, 4, base)
        for i, sums in enumerate(self.sums):
            down = i % 4 + half * (i // 4)
            for right in (0, half):
                place = b.at(base, (down * self.n + right) * 4)
                value = sums[right // half * 4 :][:4]
                inside = self._inside(row, down // half * half, column, right)
                if inside is None:
                    b.st("global.v4.f32", place, value)
                    continue
                with b.guard(inside):
                    b.st("global.v4.f32", place, value)

    def _inside(self, row: Register, down: int, column: Register, right: int) -> Register | None:
        """Whether a quarter that begins so far down and right of the first one exists."""
        found: Register | None = None
        for place, step, size in ((row, down, self.m), (column, right, self.n)):
            if size % _LINES == 0:
                continue
            moved = self.b.add("u32", place, step)
            found = (self.b.setp("lt", "u32", moved, size) if found is None
                     else self.b.setp("lt.and", "u32", moved, size, found))
        return found
