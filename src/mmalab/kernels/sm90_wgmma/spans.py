"""Rows of any even pitch, copied by warps to rows of 16-byte multiples.

A row may begin at any even byte, but memory is read fastest by aligned words of 16 bytes. So every
lane reads the word that its chunk of the copy begins in, takes the one behind it from the next
lane, and shifts; lane 31 has no next lane, and only gives::

    row 3 of K = 4092 begins at byte 24 552 = 16 * 1534 + 8

    lane          0               1               2                 30              31
    reads         word 1534       word 1535       word 1536   ...   word 1564       word 1565
    writes        chunk 0         chunk 1         chunk 2     ...   chunk 30        nothing
                  1534 | 1535     1535 | 1536     1536 | 1537       1564 | 1565

A *span* is such a run of 31 chunks of a row. All lanes of a warp are in one row, so they shift
alike; by how much decides one selection where pitches are multiples of 8, two where they are of 4,
and a funnel shift behind these where they are of 2. Rows that are in place (see `windowed`), every
second or fourth one, are left out; where every second one is, all others lean by 8 bytes, and
nothing needs to be decided.

What lies behind a row's values in its copy is never read: tensor maps end there. The operand is
aligned to 16 bytes, as for a tensor map; a word that it ends in is read in pieces, for what lies
behind is another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mmalab.kernels.sm90_wgmma.padding import CHUNK, join
from mmalab.kernels.sm90_wgmma.plan import SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Block", "Spans"]

#: Chunks that a warp writes at a time, and their bytes.
_CHUNKS = 31
_BYTES = _CHUNKS * CHUNK
#: 32-bit words of a chunk.
_WORDS = CHUNK // 4
#: Two thirds of 2 ** 32: the upper half of a product with it is twice a number's third, and more.
_THIRD = 0xAAAAAAAB


@dataclass(frozen=True, slots=True)
class Block:
    """Rows to copy: where they begin, where their copies do, and how many there are. Where some are
    left out the first one is behind such a one.

    The operand ends with row `last` of the block (perhaps far behind it), in a word of which `tail`
    bytes are its own; 0: in a whole one.
    """

    source: Register
    target: Register
    lines: Register | int
    last: Register | int
    tail: int


class _Cursor:
    """A warp's span: its row, and the byte of the row's copy where it begins."""

    def __init__(self, b: KernelBuilder, row: Register, column: Register, part: range) -> None:
        """`part`: which spans of each row are copied."""
        self.b, self.row, self.column, self.part = b, row, column, part

    def again(self) -> _Cursor:
        """Another one that begins where this one is."""
        return _Cursor(self.b, self.b.mov("u32", self.row), self.b.mov("u32", self.column),
                       self.part)

    def advance(self, every: int) -> None:
        """`every` spans on: without a division."""
        b, spans = self.b, len(self.part)
        rows, rest = divmod(every, spans)
        b.add("u32", self.row, rows, out=self.row)
        if rest:
            b.add("u32", self.column, rest * _BYTES, out=self.column)
            with b.guard(b.setp("ge", "u32", self.column, self.part.stop * _BYTES)):
                b.add("u32", self.row, 1, out=self.row)
                b.sub("u32", self.column, spans * _BYTES, out=self.column)


class Spans:
    """Writes the copy of blocks, each by many warps: one takes every so many-th span."""

    def __init__(self, b: KernelBuilder, problem: Problem, first: int, warps: int,
                 turns: int, part: range | None = None) -> None:
        """`warps` of every CTA copy, from its `first` on; `turns`: spans that each has under way;
        `part`: which spans of each row, None for all."""
        self.b, self.problem, self.first, self.of_each, self.turns = b, problem, first, warps, turns
        self.part = self.of_row(problem) if part is None else part
        #: Whether all rows that are copied begin 8 bytes behind a multiple of 16.
        self.alike = problem.in_place and problem.phases == 2
        self.warps = problem.grid[0] * warps

    @staticmethod
    def of_row(problem: Problem) -> range:
        """The spans of a row."""
        return range(-(-problem.padded_pitch // _BYTES))

    @staticmethod
    def slices_in(spans: int) -> int:
        """Slices of K that so many spans hold whole."""
        return spans * _BYTES // SLICE

    def share(self) -> Register:
        """The number of this warp. Made anew wherever it is needed, for registers are few."""
        b = self.b
        number = b.sub("u32", b.shr("u32", b.mov("u32", b.tid.x), 5), self.first)
        return b.mad_lo("u32", b.mov("u32", b.ctaid.x), self.of_each, number)

    def _begin(self) -> _Cursor:
        b, share, spans = self.b, self.share(), len(self.part)
        row = b.div("u32", share, spans)
        column = b.mul_lo("u32", b.sub("u32", share, b.mul_lo("u32", row, spans)), _BYTES)
        if self.part.start:
            column = b.add("u32", column, self.part.start * _BYTES)
        return _Cursor(b, row, column, self.part)

    def copy(self, block: Block) -> None:
        """This warp's spans of a block."""
        b = self.b
        self.lane = b.mul_lo("u32", b.and_("b32", b.mov("u32", b.tid.x), 31), CHUNK)
        self.gives_only = b.setp("ge", "u32", self.lane, _BYTES)
        at = self._begin()
        again, behind = b.label("spans"), b.label("copied")
        b.branch(behind, b.setp("ge", "u32", at.row, block.lines))
        b.place(again)
        b.pragma("nounroll")
        held, ahead = [], at.again() if self.turns > 1 else at
        for _ in range(self.turns):
            held.append(self._load(block, ahead))
            if ahead is not at:
                ahead.advance(self.warps)
        for words in held:
            self._store(block, at, words)
            at.advance(self.warps)
        b.branch(again, b.setp("lt", "u32", at.row, block.lines))
        b.place(behind)

    def _at(self, row: Register) -> tuple[Register, int]:
        """How far a row that is copied lies behind the first one: a number, and bytes of one."""
        b, problem = self.b, self.problem
        if not problem.in_place:
            return row, problem.pitch
        if problem.phases == 2:
            return row, 2 * problem.pitch
        # ptxas would divide by 3 as by any number: in 13 instructions.
        return b.add("u32", row, b.shr("u32", b.mul_hi("u32", row, _THIRD), 1)), problem.pitch

    # --- reading ----------------------------------------------------------------------------------

    def _load(self, block: Block, at: _Cursor) -> list[Register]:
        """The word that the lane's chunk begins in, where its row has any of it; else zeros."""
        b, pitch = self.b, self.problem.pitch
        column = b.add("u32", at.column, self.lane)
        place = b.add("u64", b.mad_wide("u32", *self._at(at.row), block.source),
                      b.cvt("u64.u32", column))
        shift: Register | int = CHUNK // 2
        if not self.alike:
            shift = b.and_("b32", b.cvt("u32.u64", place), CHUNK - 1)
        begins = b.sub("s32", column, shift)  # of the row, where it began a word before
        inside = b.setp("lt.and", "s32", begins, pitch,
                        b.setp("lt", "u32", at.row, block.lines))
        place = b.and_("b64", place, -CHUNK)
        words = [b.mov("b32", 0) for _ in range(_WORDS)]
        if block.tail:
            cut = b.setp("gt.and", "s32", begins, pitch - CHUNK,
                         b.setp("eq.and", "u32", at.row, block.last, inside))
            with b.when(cut):
                self._pieces(place, words, block.tail)
            inside = b.and_("pred", inside, b.not_("pred", cut))
        with b.guard(inside):
            b.emit("ld.global.nc.L1::no_allocate.v4.b32", words, b.at(place))
        return words

    def _pieces(self, place: Register, words: list[Register], tail: int) -> None:
        """So many bytes of a word, by what rows are aligned to."""
        b, unit = self.b, self.problem.unit
        if unit > 2:
            for at in range(0, tail, 4):
                b.ld("global.nc.b32", b.at(place, at), out=words[at // 4])
            return
        halves = [b.ld("global.nc.b16", b.at(place, at)) for at in range(0, tail, 2)]
        if len(halves) % 2:
            halves.append(b.mov("b16", 0))
        join(b, words, halves)

    # --- writing ----------------------------------------------------------------------------------

    def _store(self, block: Block, at: _Cursor, words: list[Register]) -> None:
        """The lane's chunk, of its word and the next lane's."""
        b, problem = self.b, self.problem
        if self.alike:
            chunk = [*words[2:], *map(self._of_next, words[:2])]
        else:
            chunk = self._shifted(words, b.mad_lo("u32", *self._at(at.row),
                                                  b.cvt("u32.u64", block.source)))
        column = b.add("u32", at.column, self.lane)
        inside = b.setp("lt.and", "u32", column, problem.padded_pitch,
                        b.setp("lt", "u32", at.row, block.lines))
        inside = b.and_("pred", inside, b.not_("pred", self.gives_only))
        place = b.add("u64", b.mad_wide("u32", at.row, problem.padded_pitch, block.target),
                      b.cvt("u64.u32", column))
        with b.guard(inside):
            b.st("global.v4.b32", b.at(place), chunk)

    def _shifted(self, words: list[Register], shift: Register) -> list[Register]:
        """Four words from byte `shift` % 16 of these and the next lane's on.

        The lane turns its words around first, as the next one does: then what it needs of that
        lies at the same place, and a chunk takes no more than two registers beside its own.
        """
        b, unit = self.b, self.problem.unit
        shift = b.and_("b32", shift, CHUNK - 1)
        for apart in (2, 1) if unit < 8 else (2,):
            turn = b.setp("ne", "u32", b.and_("b32", shift, 4 * apart), 0)
            words = [b.selp("b32", words[(at + apart) % _WORDS], words[at], turn)
                     for at in range(_WORDS)]
        first = words[0]
        for at in range(1 if unit < 8 else 2, _WORDS):
            crosses = b.setp("ge", "u32", shift, CHUNK - 4 * at)
            words[at] = b.selp("b32", self._of_next(words[at]), words[at], crosses)
        if unit > 2:
            return words
        bits = b.shl("b32", b.and_("b32", shift, 2), 3)
        return [self._funnel(low, high, bits)
                for low, high in pairwise([*words, self._of_next(first)])]

    def _of_next(self, word: Register) -> Register:
        """The next lane's."""
        return self.b.shfl("down.b32", word, 1, 31, -1)

    def _funnel(self, low: Register, high: Register, bits: Register) -> Register:
        word = self.b.reg("b32")
        self.b.emit("shf.r.wrap.b32", word, low, high, bits)
        return word
