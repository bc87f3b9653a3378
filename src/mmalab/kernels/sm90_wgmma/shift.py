"""Rows of any pitch through TMA: boxes that begin up to 98 bytes too early, shifted in place.

A tensor map's strides are multiples of 16 bytes; K = 4092 values of 2 bytes make rows of 8184. But
every second such row begins at a multiple of 16, and a map may overlap itself: one dimension counts
pairs of rows, 16,368 bytes apart, another the two rows of a pair, 8,176 bytes apart. A box then
holds even rows as they are, and odd ones from 8 bytes before their beginning on::

    pitch 8184 = 16 * 511 + 8      phases 2    row s of a pair begins  8 s bytes behind the map's
    pitch 8180 = 16 * 511 + 4      phases 4                            4 s
    pitch 8190 = 16 * 511 + 14     phases 8                           14 s

In shared memory a line's values are moved ahead by so many bytes, those of the next slice's line
behind them: three warps do nothing else, between TMA and wgmma. A row is read once and written
once, without bank conflicts, in units of 8 bytes where the shift allows it, else of 4::

    slice i      |  8 s bytes of the row before | values ............................... |
    slice i + 1  |  the last values of slice i  | ...
    becomes      |  values ............................. and those |

Behind the last values of a row lie the next row's: the last slice is cleared there.

    >>> from mmalab.kernels.sm90_wgmma import Plan, gemm
    >>> gemm(8192, 8192, 4092, plan=Plan((256, 192), copy="shifted")).facts["maps"]["a"].strides
    (8176, 16368)
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import GROUP, SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor
from mmalab.kernels.sm90_wgmma.tail import Tail
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["HALVES", "WARPS", "Shift", "end_mask"]

#: Warps that shift; the group's first one has the thread that starts copies.
WARPS = GROUP // 32 - 1
#: Lines after which the swizzle repeats.
_ATOM = 8
#: Units that a thread reads before it writes them; by phases where A is loaded, for then it has few
#: registers.
_BATCH, _FEW = 12, {2: 6, 4: 4, 8: 3}
#: The upper half of a word and the lower half of the next, to prmt.
HALVES = 0x5432


@dataclass(frozen=True, slots=True)
class _Lines:
    """A line of shared memory, or two of one phase, that a warp moves ahead by `shift` bytes at
    once, `unit` bytes a lane."""

    unit: int
    shift: int
    line: int
    second: int


@dataclass(frozen=True, slots=True)
class _Part:
    """An operand's part of a stage: from a byte on, so many blocks of lines whose phases are
    alike. The warps take the blocks in turn."""

    offset: int
    blocks: int
    phases: tuple[int, ...]

    @property
    def block_bytes(self) -> int:
        return len(self.phases) * SLICE

    def lines(self, lean: int, *, all_by_words: bool = False) -> list[_Lines]:
        """What is moved of a block; `all_by_words`: what stays, too."""
        found: list[_Lines] = []
        for phase in range(max(self.phases) + 1):
            shift = phase * lean
            alike = [line for line, each in enumerate(self.phases) if each == phase]
            if shift == 0 and not all_by_words:
                continue
            if all_by_words or shift % 8 or len(alike) % 2:
                found += [_Lines(4, shift, line, line) for line in alike]
            else:
                found += [_Lines(8, shift, *pair)
                          for pair in zip(alike[::2], alike[1::2], strict=True)]
        return found


class Shift:
    """Moves the lines of one stage after the other; all threads of the three warps run it."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers,
                 shared: Register, values: dict[str, Register]) -> None:
        """`values`: where those of A and B lie of which rows are left over (see `tail`)."""
        self.b, self.problem, self.barriers, self.shared = b, problem, barriers, shared
        thread = b.mov("u32", b.tid.x)
        self.lane = b.and_("b32", thread, 31)
        self.leads = b.setp("eq", "u32", self.lane, 0)
        self.warp = b.sub("u32", b.and_("b32", b.shr("u32", thread, 5), WARPS), 1)
        self.here, self.next = Cursor(b, barriers), Cursor(b, barriers)
        self.at = {unit: b.mul_lo("u32", b.and_("b32", self.lane, SLICE // unit - 1), unit)
                   for unit in (4, 8)}
        self.half = b.setp("ge", "u32", self.lane, 16)
        self.parts = self._parts()
        self.batch = _FEW[problem.phases] if problem.loaded else _BATCH
        self.tails = {name: Tail(b, problem, at, name, self.lane, self.warp,
                                 len(part.phases), WARPS)
                      for name, part in zip("ba", reversed(self.parts), strict=False)
                      if (at := values.get(name)) is not None}

    def _parts(self) -> list[_Part]:
        plan, problem = self.problem.plan, self.problem
        made = []
        operands = [(0, plan.tile[0], tuple(range(problem.phases))),
                    (plan.a_bytes, plan.tile[1], problem.phases_of_b())]
        for offset, lines, phases in operands[1:] if problem.loaded else operands:
            # Two lines of each phase at least, in whole periods of the swizzle.
            block = phases * (max(2 * problem.phases, _ATOM, len(phases)) // len(phases))
            if lines % len(block):
                block = phases * (max(_ATOM, len(phases)) // len(phases))
            made.append(_Part(offset, lines // len(block), block))
        return made

    # --- which lane moves what --------------------------------------------------------------------

    def _bases(self, lines: _Lines, here: Register, ahead: Register) -> _Bases:
        """Addresses of a slice's lines, from those of the slice and of the next one.

        Every step takes the slice's address along (a multiple of 1024: the swizzle turns bits below
        it), or ptxas would keep what is the same for all slices in more registers than there are.
        """
        b, at, words = self.b, self.at[lines.unit], lines.shift & ~3
        here, ahead = b.add("u32", here, at), b.add("u32", ahead, at)
        turn: Register | int = (lines.line & _ATOM - 1) << 4
        if lines.second != lines.line:
            below = b.selp("b32", (lines.second - lines.line) * SLICE, 0, self.half)
            here, ahead = b.add("u32", here, below), b.add("u32", ahead, below)
            turn = b.selp("b32", (lines.second & _ATOM - 1) << 4, turn, self.half)

        def source(shift: int) -> Register:
            crosses = b.setp("ge", "u32", at, SLICE - shift)
            place = b.selp("b32", b.sub("u32", ahead, SLICE), here, crosses) if shift else here
            return b.xor("b32", b.add("u32", place, shift) if shift else place, turn)

        return _Bases(lines.unit, lines.line * SLICE, b.xor("b32", here, turn), source(words),
                      source(words + 4) if lines.shift % 4 else None)

    # --- tiles ------------------------------------------------------------------------------------

    def tile(self, place: Place) -> None:
        """All slices of a tile."""
        b, problem = self.b, self.problem
        more = problem.copied_slices - problem.slices
        for name, tail in self.tails.items():
            tail.tile(place.m if name == "a" else place.n)
        self._await_next()
        if problem.slices > 1:
            with b.loop(problem.slices - 1, unroll=False):
                stages = self._stages()
                self._await_next()
                self._move(*stages)
                self._tell(stages[0], SLICE)
        stages = self._stages()
        if more:
            self._await_next()
        self._move_last(*stages)
        self._tell(stages[0], problem.last_bytes)
        if more:
            self._tell()

    def _await_next(self) -> None:
        """The slice that the next cursor is at has arrived."""
        self.next.wait_full()
        self.next.advance()

    def _stages(self) -> tuple[Register, Register]:
        """Where this slice and the next one lie."""
        b, size = self.b, self.problem.plan.stage_bytes
        here, ahead = (b.mad_lo("u32", cursor.stage, size, self.shared)
                       for cursor in (self.here, self.next))
        return here, ahead

    def _tell(self, stage: Register | None = None, left: int = 0) -> None:
        """The stage may be multiplied; `left` bytes of its lines are values."""
        b = self.b
        if stage is not None and self.tails:
            b.emit("bar.warp.sync", -1)
            for tail in self.tails.values():
                tail.slice(stage, left)
        b.emit("fence.proxy.async.shared::cta")
        b.emit("bar.warp.sync", -1)
        ready = self.here.full()
        with b.guard(self.leads):
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink,
                   b.at(ready, self.barriers.ready_at))
        self.here.advance()

    # --- moving -----------------------------------------------------------------------------------

    def _move(self, here: Register, ahead: Register) -> None:
        """Every line but those that begin where they should."""
        b, work = self.b, []
        for part in self.parts:
            turns = -(-part.blocks // WARPS)
            busy = b.setp("lt", "u32", self.warp, part.blocks - (turns - 1) * WARPS)
            for lines in part.lines(self.problem.lean):
                work += [(part, lines, turn * WARPS * part.block_bytes,
                          busy if turn == turns - 1 and part.blocks % WARPS else None)
                         for turn in range(turns)]
        bases: dict[tuple[_Part, _Lines], _Bases] = {}
        for first in range(0, len(work), self.batch):
            held = []
            for part, lines, offset, valid in work[first : first + self.batch]:
                if (part, lines) not in bases:
                    bases[part, lines] = self._bases(lines, *self._of(part, here, ahead))
                base = bases[part, lines]
                held.append((base, offset, valid, base.read(b, offset, valid)))
            b.emit("bar.warp.sync", -1)
            for base, offset, valid, unit in held:
                base.write(b, offset, unit, valid)

    def _of(self, part: _Part, here: Register, ahead: Register) -> tuple[Register, Register]:
        """The warp's first block of a part, in this slice and in the next one."""
        b = self.b
        first = b.mad_lo("u32", self.warp, part.block_bytes, b.mov("u32", part.offset))
        return b.add("u32", here, first), b.add("u32", ahead, first)

    def _move_last(self, here: Register, ahead: Register) -> None:
        """All lines, cleared behind the last values."""
        b, problem, at = self.b, self.problem, self.at[4]
        left = problem.last_bytes
        inside = b.setp("lt", "u32", at, left)
        more = b.setp("lt", "u32", at, max(left - 2, 0))
        mask = end_mask(b, at, left) if left % 4 else None
        for part in self.parts:
            first, behind = self._of(part, here, ahead)
            every = part.lines(problem.lean, all_by_words=True)
            with b.loop(part.blocks, self.warp, WARPS, dtype="u32", unroll=False):
                for start in range(0, len(every), self.batch):
                    held = []
                    for lines in every[start : start + self.batch]:
                        base = self._bases(lines, first, behind)
                        word = base.read(b, 0, inside, more)
                        held.append((base, word if mask is None else b.and_("b32", word, mask)))
                    b.emit("bar.warp.sync", -1)
                    for base, word in held:
                        base.write(b, 0, word, None)
                for address in (first, behind):
                    b.add("u32", address, WARPS * part.block_bytes, out=address)


@dataclass(frozen=True, slots=True)
class _Bases:
    """Addresses of a slice's lines but for `offset`: where units go, and where they are read."""

    unit: int
    offset: int
    target: Register
    source: Register
    behind: Register | None

    def read(self, b: KernelBuilder, offset: int, valid: Register | None,
             more: Register | None = None) -> Register:
        """A unit, 0 where it is not `valid`; its second half word 0 where there is no `more`: the
        word behind the last value may be one that nobody waits for."""
        unit = self._load(b, self.source, offset, valid)
        if self.behind is None:
            return unit
        joined: Register = b.prmt("b32", unit, self._load(b, self.behind, offset,
                                                            more or valid), HALVES)
        return joined

    def _load(self, b: KernelBuilder, source: Register, offset: int,
              valid: Register | None) -> Register:
        # Without the 0 a unit would live on from slice to slice where it is not loaded.
        kind = f"b{8 * self.unit}"
        unit = b.reg(kind) if valid is None else b.mov(kind, 0)
        with _where(b, valid):
            b.ld(f"shared.{kind}", b.at(source, self.offset + offset), out=unit)
        return unit

    def write(self, b: KernelBuilder, offset: int, unit: Register, valid: Register | None) -> None:
        """Put a unit where it belongs."""
        with _where(b, valid):
            b.st(f"shared.b{8 * self.unit}", b.at(self.target, self.offset + offset), unit)


def end_mask(b: KernelBuilder, at: Register, left: int) -> Register:
    """What is kept of the word at byte `at` of a line of `left` bytes that ends within a word."""
    ends = b.setp("eq", "u32", at, left & ~3)
    mask: Register = b.selp("b32", (1 << 8 * (left % 4)) - 1, -1, ends)
    return mask


def _where(b: KernelBuilder, valid: Register | None) -> AbstractContextManager[None]:
    return nullcontext() if valid is None else b.guard(valid)
