"""Rows of any pitch, copied to rows of 16-byte multiples before the products begin.

A tensor map's strides are multiples of 16 bytes. Threads can gather other rows slice by slice (see
`gather`), but then every tile that reads a line pays for it: the line's 128 bytes touch five
sectors of L2 instead of four, and copies of 8 bytes and less take the way through L1. Copied once,
A and B cost DRAM their bytes twice, and all that is good about TMA stays::

    8192 x 8192 x 4092 in bf16:   134 MB read and written, 63 us at 4.28 TB/s
                                  the product at the speed of K = 4096, about 700 us

All threads of all CTAs copy, 16 bytes of a padded row at a time, and meet; then the kernel goes on
over the copies. They meet in global memory: every CTA counts itself and waits for the others of the
same launch, so that all of them must be resident (one an SM, no more than there are SMs). The
counter runs on from launch to launch.

What lies behind a row's values in its copy is never read: the tensor maps end there.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["CHUNK", "Padding", "join"]

#: Bytes that a thread writes at once, and how many such it has under way.
CHUNK, _UNDER_WAY = 16, 4


def join(b: KernelBuilder, words: Sequence[Register], halves: Sequence[Register]) -> None:
    """Two halves to a word, as many words as there are halves for."""
    for word, low, high in zip(words, halves[::2], halves[1::2], strict=False):
        b.emit("mov.b32", word, [low, high])


class Padding:
    """Writes the copy of both operands and the meeting."""

    def __init__(self, b: KernelBuilder, problem: Problem, thread: Register,
                 pointers: dict[str, Register]) -> None:
        """`pointers`: ``a``, ``b`` and their copies ``a_rows``, ``b_rows``; ``arrivals``."""
        self.b, self.problem, self.thread, self.pointers = b, problem, thread, pointers
        self.chunks = problem.padded_pitch // CHUNK
        self.all = problem.grid[0] * problem.plan.threads

    def write(self) -> None:
        """Copy, and go on when everybody has."""
        for name, lines in zip("ab", self.problem.lines, strict=True):
            self._copy(self.pointers[name], self.pointers[f"{name}_rows"], lines * self.chunks)
        self._meet()

    def _copy(self, source: Register, copies: Register, total: int) -> None:
        b = self.b
        first = b.mad_lo("u32", b.mov("u32", b.ctaid.x), self.problem.plan.threads, self.thread)
        with b.loop(total, first, self.all * _UNDER_WAY, dtype="u32", unroll=False) as at:
            held = []
            for turn in range(_UNDER_WAY):
                number = b.add("u32", at, turn * self.all)
                inside = b.setp("lt", "u32", number, total)
                held.append((number, inside, self._load(source, number, inside)))
            for number, inside, pieces in held:
                place = b.mad_wide("u32", number, CHUNK, copies)
                with b.guard(inside):
                    b.st(f"global.v{len(pieces)}.b{8 * CHUNK // len(pieces)}", b.at(place), pieces)

    def _load(self, source: Register, number: Register, inside: Register) -> list[Register]:
        """A chunk's bytes as far as its row goes, in pieces that its row is aligned to; zeros
        behind it."""
        b, problem, unit = self.b, self.problem, min(self.problem.unit, 8)
        row = b.div("u32", number, self.chunks)
        column = b.sub("u32", number, b.mul_lo("u32", row, self.chunks))
        place = b.add("u64", b.mad_wide("u32", row, problem.pitch, source),
                      b.mul_wide("u32", column, CHUNK))
        whole = b.setp("lt.and", "u32", column, self.chunks - 1, inside)
        last = problem.pitch - (self.chunks - 1) * CHUNK
        kind = f"b{8 * unit}"
        pieces = [b.mov(kind, 0) for _ in range(CHUNK // unit)]
        for at, piece in enumerate(pieces):
            with b.guard(inside if at * unit < last else whole):
                b.ld(f"global.nc.{kind}", b.at(place, at * unit), out=piece)
        if unit > 2:
            return pieces
        words = b.regs("b32", CHUNK // 4)
        join(b, words, pieces)
        return words

    def _meet(self) -> None:
        """All CTAs; what they wrote is seen by everybody, and by TMA."""
        b, grid = self.b, self.problem.grid[0]
        b.emit("fence.proxy.async.global")
        b.emit("bar.sync", 0)
        with b.when(b.setp("eq", "u32", self.thread, 0)):
            before = b.reg("u32")
            b.emit("atom.add.acq_rel.gpu.global.u32", before, b.at(self.pointers["arrivals"]), 1)
            full = b.mad_lo("u32", b.div("u32", before, grid), grid, b.mov("u32", grid))
            again = b.label("arriving")
            b.place(again)
            seen = b.reg("u32")
            b.emit("ld.acquire.gpu.global.u32", seen, b.at(self.pointers["arrivals"]))
            b.branch(again, b.setp("lt", "s32", b.sub("u32", seen, full), 0))
        b.emit("bar.sync", 0)
        b.emit("fence.proxy.async.global")
