"""Filling the ring without TMA, where rows of A and B begin at less than multiples of 16 bytes.

A tensor map's strides are multiples of 16 bytes, and so is a box's first coordinate. Rows of any
other pitch are copied by the four warps of the filling group, into the same 128-byte-swizzled
stages. All rows begin at a multiple of `unit` bytes, and even rows of twice that, so:

====  ===================  =======================================================================
unit  even rows            odd rows
====  ===================  =======================================================================
16    cp.async of 16       cp.async of 16
8     cp.async of 16       cp.async of 8
4     cp.async of 8        cp.async of 4
2     cp.async of 4        one word a lane, whose upper half and the next lane's lower are stored
====  ===================  =======================================================================

cp.async writes zeros for what its source size leaves out: the end of K, and lines past the edge.
A stage counts as full when each warp has seen its copies arrive, made them visible to the
asynchronous proxy that wgmma reads through, and arrived. That is done as many slices later as can
be under way: all stages but the one that is filled, and but those that products under way hold;
one more, and a stage would be waited for that nobody is told of.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import GROUP, SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["WARPS", "Gather"]

#: Warps that fill, and arrive on a stage's full barrier.
WARPS = GROUP // 32


@dataclass(slots=True)
class _Lines:
    """The even or the odd lines of an operand, as one thread copies them.

    `size` bytes at a time, 0 for odd lines by words. The thread's first line is `line`, its next
    ones `step` lines on; `place` is its byte in the operand's part of a stage.
    """

    name: str
    offset: int
    count: int
    size: int
    step: int
    line: Register
    byte: Register
    place: Register
    source: Register
    left: Register
    #: By words: the address of the word behind the line's 32, of the lane-th line.
    behind: Register | None = None

    @property
    def passes(self) -> list[int]:
        """The thread's lines, counted from its first."""
        return [at * self.step for at in range(2 * self.count // self.step)]


class Gather:
    """Fills stages for one tile after the other; all threads of the group run it."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers, shared: Register,
                 pointers: dict[str, Register]) -> None:
        self.b, self.problem, self.barriers = b, problem, barriers
        self.shared, self.pointers = shared, pointers
        self.thread = b.and_("b32", b.mov("u32", b.tid.x), GROUP - 1)
        self.lane = b.and_("b32", self.thread, 31)
        self.leads = b.setp("eq", "u32", self.lane, 0)
        self.cursor, self.told = Cursor(b, barriers), Cursor(b, barriers)
        self.behind = max(problem.plan.stages - 1 - problem.plan.flight, 0)
        self.pending = b.mov("u32", 0)
        plan = problem.plan
        self.lines = [self._lines(name, offset, lines // 2, odd)
                      for name, offset, lines in (("a", 0, plan.tile[0]),
                                                  ("b", plan.a_bytes, plan.tile[1]))
                      for odd in (0, 1)]

    def _lines(self, name: str, offset: int, count: int, odd: int) -> _Lines:
        b, size = self.b, min(16, self.problem.unit * (1 if odd else 2))
        words = size < 4
        chunk = 4 if words else size
        chunks = SLICE // chunk
        at = b.shr("u32", self.thread, chunks.bit_length() - 1)
        line = b.mad_lo("u32", at, 2, odd)
        byte = b.mul_lo("u32", b.and_("b32", self.thread, chunks - 1), chunk)
        turned = b.shl("b32", b.and_("b32", line, 7), 4)
        place = b.mad_lo("u32", line, SLICE, b.xor("b32", byte, turned))
        return _Lines(name, offset, count, 0 if words else size, 2 * GROUP // chunks, line, byte,
                      place, b.reg("u64"), b.reg("u32"), b.reg("u64") if words else None)

    # --- tiles ------------------------------------------------------------------------------------

    def tile(self, place: Place) -> None:
        """All slices of a tile."""
        b, problem = self.b, self.problem
        for lines in self.lines:
            first, size = ((place.m, problem.m) if lines.name == "a" else (place.n, problem.n))
            line = b.add("u32", first, lines.line)
            b.mad_wide("u32", place.line(b, line, size), problem.pitch,
                       self.pointers[lines.name], out=lines.source)
            if lines.behind is not None:
                below = b.mul_wide("u32", self.lane, lines.step * problem.pitch)
                b.add("u64", lines.source, below, out=lines.behind)
            b.add("u64", lines.source, b.cvt("u64.u32", lines.byte), out=lines.source)
            b.sub("s32", b.mov("u32", size), line, out=lines.left)
        ahead = b.mov("u32", problem.pitch)
        with b.loop(problem.slices, unroll=False):
            self._slice(ahead)
            b.sub("s32", ahead, SLICE, out=ahead)

    def _slice(self, ahead: Register) -> None:
        """One slice; `ahead`: bytes from its first one to the end of a row."""
        b = self.b
        words = [self._load_words(lines, ahead) for lines in self.lines if lines.size == 0]
        self.cursor.wait_empty()
        stage = b.mad_lo("u32", self.cursor.stage, self.problem.plan.stage_bytes, self.shared)
        for lines in self.lines:
            if lines.size:
                self._copy(lines, stage, ahead)
        for lines, held in zip((x for x in self.lines if not x.size), words, strict=True):
            self._store_words(lines, stage, *held)
        for lines in self.lines:
            for pointer in (lines.source, lines.behind):
                if pointer is not None:
                    b.add("u64", pointer, SLICE, out=pointer)
        b.emit("cp.async.commit_group")
        self.cursor.advance()
        b.add("u32", self.pending, 1, out=self.pending)
        with b.when(b.setp("gt", "u32", self.pending, self.behind)):
            b.emit("cp.async.wait_group", self.behind)
            self._tell()

    def _tell(self) -> None:
        """The oldest slice that nobody knows of has arrived."""
        b = self.b
        b.emit("fence.proxy.async.shared::cta")
        b.emit("bar.warp.sync", -1)
        full = self.told.full()
        with b.guard(self.leads):
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink, b.at(full))
        self.told.advance()
        b.sub("u32", self.pending, 1, out=self.pending)

    def finish(self) -> None:
        """What is still under way."""
        b = self.b
        b.emit("cp.async.wait_group", 0)
        with b.loop(b.mov("u32", self.pending), dtype="u32", unroll=False):
            self._tell()

    # --- copies -----------------------------------------------------------------------------------

    def _copy(self, lines: _Lines, stage: Register, ahead: Register) -> None:
        """A slice of the even, or of the odd lines."""
        b = self.b
        to = b.add("u32", stage, lines.place)
        left = b.sub("s32", ahead, lines.byte)
        size = b.min("s32", b.max("s32", left, 0), lines.size)
        opcode = f"cp.async.{'cg' if lines.size == 16 else 'ca'}.shared.global"
        for at in lines.passes:
            b.emit(opcode, b.at(to, lines.offset + at * SLICE),
                   b.at(lines.source, at * self.problem.pitch), lines.size,
                   self._inside(lines, at, size))

    def _edge(self, lines: _Lines) -> bool:
        return self.problem.edges[0 if lines.name == "a" else 1]

    def _inside(self, lines: _Lines, at: int, size: Register) -> Register:
        """The source size for a line that may lie past the edge."""
        if not self._edge(lines):
            return size
        b = self.b
        return b.selp("b32", size, 0, b.setp("gt", "s32", lines.left, at))

    # Lane i of a warp needs values 2 i and 2 i + 1 of a line that begins two bytes behind a word:
    # the upper half of word i and the lower half of word i + 1. Word 32 is lane 31's, and loaded by
    # the lane that has the line's number. A row ends where a word does, so none is half inside.

    def _load_words(self, lines: _Lines, ahead: Register) -> tuple[list[Register], Register]:
        """Word i of each line, and of the lane-th line the last; zeros past the row's end."""
        b, pitch = self.b, self.problem.pitch
        valid = b.setp("gt", "s32", ahead, lines.byte)
        words = [b.mov("b32", 0) for _ in lines.passes]
        for at, word in zip(lines.passes, words, strict=True):
            there = (b.setp("gt.and", "s32", lines.left, at, valid) if self._edge(lines)
                     else valid)
            with b.guard(there):
                b.ld("global.nc.b32", b.at(lines.source, at * pitch - 2), out=word)
        last, own = b.mov("b32", 0), b.setp("lt", "u32", self.lane, len(words))
        more = b.setp("gt.and", "s32", ahead, SLICE, own)
        line = b.mul_lo("u32", self.lane, lines.step)
        more = b.setp("gt.and", "s32", lines.left, line, more)
        with b.guard(more):
            b.ld("global.nc.b32", b.at(lines.behind or lines.source, SLICE - 2), out=last)
        return words, last

    def _store_words(self, lines: _Lines, stage: Register, words: list[Register],
                     last: Register) -> None:
        b = self.b
        to = b.add("u32", stage, lines.place)
        ends = b.setp("eq", "u32", self.lane, 31)
        for number, (at, word) in enumerate(zip(lines.passes, words, strict=True)):
            other = b.shfl("down.b32", word, 1, 31, -1)
            behind = b.shfl("idx.b32", last, number, 31, -1)
            upper = b.selp("b32", behind, other, ends)
            b.st("shared.b32", b.at(to, lines.offset + at * SLICE),
                 b.prmt("b32", word, upper, 0x5432))
