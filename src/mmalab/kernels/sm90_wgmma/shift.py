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

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.plan import GROUP, SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["WARPS", "Shift"]

#: Warps that shift; the group's first one has the thread that starts copies.
WARPS = GROUP // 32 - 1
#: Lines after which the swizzle repeats, and their bytes.
_ATOM = 8
_ATOM_BYTES = _ATOM * SLICE
#: Units that a thread reads before it writes them.
_BATCH = 8
#: The upper half of a word and the lower half of the next, to prmt.
_HALVES = 0x5432


@dataclass(frozen=True, slots=True)
class _Lines:
    """A line of every eight, or two of a phase, that a warp moves ahead by `shift` bytes at once,
    `unit` bytes a lane."""

    unit: int
    shift: int
    line: int
    paired: bool


class Shift:
    """Moves the lines of one stage after the other; all threads of the three warps run it."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers,
                 shared: Register) -> None:
        self.b, self.problem, self.barriers, self.shared = b, problem, barriers, shared
        thread = b.mov("u32", b.tid.x)
        self.lane = b.and_("b32", thread, 31)
        self.leads = b.setp("eq", "u32", self.lane, 0)
        self.warp = b.sub("u32", b.and_("b32", b.shr("u32", thread, 5), WARPS), 1)
        self.here, self.next = Cursor(b, barriers), Cursor(b, barriers)
        self.atoms = sum(problem.plan.tile) // _ATOM
        self.at = {unit: b.mul_lo("u32", b.and_("b32", self.lane, SLICE // unit - 1), unit)
                   for unit in (4, 8)}
        self.below = b.mul_lo("u32", self.warp, _ATOM_BYTES)
        self.pair = b.shr("u32", self.lane, 4)
        self.lines = [made for phase in range(1, problem.phases)
                      for made in self._of_phase(phase, self._unit(phase))]
        self.last_lines = [made for phase in range(problem.phases)
                           for made in self._of_phase(phase, 4)]

    # --- which lane moves what --------------------------------------------------------------------

    def _unit(self, phase: int) -> int:
        """Bytes that a lane moves at once."""
        problem = self.problem
        return 8 if problem.phases < _ATOM and phase * problem.lean % 8 == 0 else 4

    def _of_phase(self, phase: int, unit: int) -> Iterator[_Lines]:
        """The lines of this phase in eight."""
        phases = self.problem.phases
        for number in range(0, _ATOM // phases, unit // 4):
            yield _Lines(unit, phase * self.problem.lean, phase + phases * number, unit == 8)

    def _bases(self, lines: _Lines, here: Register, ahead: Register) -> _Bases:
        """Addresses of a slice's lines: the slice at `here`, the next one at `ahead`."""
        b, at, words = self.b, self.at[lines.unit], lines.shift & ~3
        turned: Register | int = lines.line << 4
        if lines.paired:
            turned = b.mad_lo("u32", self.pair, self.problem.phases << 4, turned)

        def address(slice_at: Register, unit: Register) -> Register:
            place = b.add("u32", slice_at, b.xor("b32", unit, turned))
            return b.mad_lo("u32", turned, SLICE >> 4, place)

        def source(shift: int) -> Register:
            if shift == 0:
                return address(here, at)
            crosses = b.setp("ge", "u32", at, SLICE - shift)
            unit = b.and_("b32", b.add("u32", at, shift), SLICE - 1)
            return address(b.selp("b32", ahead, here, crosses), unit)

        return _Bases(lines.unit, address(here, at), source(words),
                      source(words + 4) if lines.shift % 4 else None)

    # --- tiles ------------------------------------------------------------------------------------

    def tile(self) -> None:
        """All slices of a tile."""
        b, problem = self.b, self.problem
        more = problem.copied_slices - problem.slices
        self._await_next()
        if problem.slices > 1:
            with b.loop(problem.slices - 1, unroll=False):
                stages = self._stages()
                self._await_next()
                self._move(*stages)
                self._tell()
        stages = self._stages()
        if more:
            self._await_next()
        self._move_last(*stages)
        self._tell()
        if more:
            self._tell()

    def _await_next(self) -> None:
        """The slice that the next cursor is at has arrived."""
        self.next.wait_full()
        self.next.advance()

    def _stages(self) -> tuple[Register, Register]:
        """Where this slice and the next one lie: of each the warp's first eight lines."""
        b, size = self.b, self.problem.plan.stage_bytes
        here, ahead = (b.mad_lo("u32", cursor.stage, size, b.add("u32", self.shared, self.below))
                       for cursor in (self.here, self.next))
        return here, ahead

    def _tell(self) -> None:
        """The stage may be multiplied."""
        b = self.b
        b.emit("fence.proxy.async.shared::cta")
        b.emit("bar.warp.sync", -1)
        ready = self.here.full()
        with b.guard(self.leads):
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink,
                   b.at(ready, self.barriers.ready_at))
        self.here.advance()

    # --- moving -----------------------------------------------------------------------------------

    def _move(self, here: Register, ahead: Register) -> None:
        """Every phase's lines but those that begin where they should."""
        b = self.b
        turns = -(-self.atoms // WARPS)
        busy = b.setp("lt", "u32", self.warp, self.atoms - (turns - 1) * WARPS)
        work = [(lines, turn) for lines in self.lines for turn in range(turns)]
        bases: dict[_Lines, _Bases] = {}
        for first in range(0, len(work), _BATCH):
            held = []
            for lines, turn in work[first : first + _BATCH]:
                if lines not in bases:
                    bases[lines] = self._bases(lines, here, ahead)
                place = bases[lines], turn * WARPS * _ATOM_BYTES
                valid = busy if turn == turns - 1 else None
                held.append((*place, valid, place[0].read(b, place[1], valid)))
            b.emit("bar.warp.sync", -1)
            for base, offset, valid, unit in held:
                base.write(b, offset, unit, valid)

    def _move_last(self, here: Register, ahead: Register) -> None:
        """All lines, cleared behind the last values."""
        b, problem = self.b, self.problem
        left = problem.pitch - (problem.slices - 1) * SLICE
        all_bases = [self._bases(lines, here, ahead) for lines in self.last_lines]
        at = self.at[4]
        inside = b.setp("lt", "u32", at, left)
        mask = b.selp("b32", (1 << 8 * (left % 4)) - 1, -1,
                      b.setp("eq", "u32", at, left & ~3)) if left % 4 else None
        with b.loop(self.atoms, self.warp, WARPS, dtype="u32", unroll=False):
            held = []
            for bases in all_bases:
                word = bases.read(b, 0, inside, b.mov("b32", 0))
                held.append(word if mask is None else b.and_("b32", word, mask))
            b.emit("bar.warp.sync", -1)
            for bases, word in zip(all_bases, held, strict=True):
                bases.write(b, 0, word, None)
                bases.advance(b, WARPS * _ATOM_BYTES)


@dataclass(frozen=True, slots=True)
class _Bases:
    """Addresses of a slice's `lines`: where their units go, and where they are read."""

    unit: int
    target: Register
    source: Register
    behind: Register | None

    def read(self, b: KernelBuilder, offset: int, valid: Register | None,
             into: Register | None = None) -> Register:
        """A unit; `into` is what it is where it is not `valid`."""
        kind = f"shared.b{8 * self.unit}"
        with _where(b, valid):
            unit = b.ld(kind, b.at(self.source, offset), out=into)
        if self.behind is None:
            return unit
        word = None if into is None else b.mov("b32", 0)
        with _where(b, valid):
            word = b.ld(kind, b.at(self.behind, offset), out=word)
        with _where(b, valid if into is None else None):
            joined: Register = b.prmt("b32", unit, word, _HALVES)
        return joined

    def write(self, b: KernelBuilder, offset: int, unit: Register, valid: Register | None) -> None:
        """Put a unit where it belongs."""
        with _where(b, valid):
            b.st(f"shared.b{8 * self.unit}", b.at(self.target, offset), unit)

    def advance(self, b: KernelBuilder, size: int) -> None:
        """On by `size` bytes."""
        for address in (self.target, self.source, self.behind):
            if address is not None:
                b.add("u32", address, size, out=address)


def _where(b: KernelBuilder, valid: Register | None) -> AbstractContextManager[None]:
    return nullcontext() if valid is None else b.guard(valid)
