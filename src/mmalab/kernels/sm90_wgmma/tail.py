"""The last rows of a matrix whose pitch has phases, where they do not fill them.

A tensor map for lines that are to be shifted counts rows by the phase (see `shift`): 2, 4 or 8 at a
time. Of 9,477 rows of 588 values it holds 9,476; the box of the last tile has zeros for the last
one. One warp writes such rows itself, a word a lane, from global memory::

    m = 9477, pitch 1176    2 phases    row 9476 is left: line 4 of the tile that begins at 9472
"""

from __future__ import annotations

from mmalab.kernels.sm90_wgmma.plan import SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Tail"]

_WORD = 4


class Tail:
    """The rows that are left of one operand, for the warp that moves the lines around them."""

    def __init__(self, b: KernelBuilder, problem: Problem, values: Register, operand: str, lane:
                 Register, warp: Register, block: int, warps: int) -> None:
        """`values`: where the matrix lies; the `warps` take `block` lines of a tile in turn."""
        self.b, self.problem, self.values = b, problem, values
        self.rows = problem.left_over["ab".index(operand)]
        self.size = problem.m if operand == "a" else problem.n
        self.lines = problem.plan.tile["ab".index(operand)]
        self.offset = 0 if operand == "a" else problem.plan.a_bytes
        self.byte = b.shl("b32", lane, 2)
        self.warp, self.block, self.warps = warp, block, warps
        self.line, self.here = b.reg("u32"), b.reg("pred")
        self.source = b.reg("u64")

    def tile(self, first: Register) -> None:
        """Whether the tile that begins at row `first` has them, and this warp writes them."""
        b = self.b
        b.sub("u32", b.mov("u32", self.size - self.rows), first, out=self.line)
        turn = b.rem("u32", b.div("u32", self.line, self.block), self.warps)
        mine = b.setp("eq", "u32", turn, self.warp)
        b.emit("setp.lt.and.u32", self.here, self.line, self.lines, mine)
        b.mad_wide("u32", b.mov("u32", self.size - self.rows), self.problem.pitch, self.values,
                   out=self.source)
        b.add("u64", self.source, b.cvt("u64.u32", self.byte), out=self.source)

    def slice(self, stage: Register, left: int) -> None:
        """Write the rows' lines of a slice; `left`: bytes of it that a row has."""
        b = self.b
        with b.when(self.here):
            for row in range(self.rows):
                word = self._word(row * self.problem.pitch, left)
                line = b.add("u32", self.line, row)
                turned = b.xor("b32", self.byte, b.shl("b32", b.and_("b32", line, 7), 4))
                place = b.mad_lo("u32", line, SLICE, b.add("u32", stage, turned))
                b.st("shared.b32", b.at(place, self.offset), word)
        b.add("u64", self.source, SLICE, out=self.source)

    def _word(self, offset: int, left: int) -> Register:
        """A lane's word of a row, 0 behind its end."""
        b, unit = self.b, min(self.problem.unit, _WORD)
        kind = f"b{8 * unit}"
        pieces = [b.mov(kind, 0) for _ in range(_WORD // unit)]
        for at, piece in enumerate(pieces):
            inside = b.setp("lt", "u32", self.byte, max(left - at * unit, 0))
            with b.guard(inside):
                b.ld(f"global.nc.{kind}", b.at(self.source, offset + at * unit), out=piece)
        if unit == _WORD:
            return pieces[0]
        word = b.reg("b32")
        b.emit("mov.b32", word, pieces)
        return word
