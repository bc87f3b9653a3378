"""The kernel that TMA feeds: no barrier of the block, and nobody who multiplies copies.

One block an SM (or two) goes from tile to tile. One thread of a warpgroup of its own fills the
stages; the warps that multiply wait for the bytes of a slice, not for each other::

    fill:       for each tile, for each slice:  wait empty; TMA of A and B
    multiply:   for each tile:  wait full; ldmatrix of the first k-step
                    for each slice but the last, for each k-step:
                        ldmatrix of the k-step behind it  |  the products of this one
                        in the last but one: ask whether the next slice is there
                        in the last one: its first k-step is read, this slice's stage given back
                    in the last slice, the last k-steps together, for each row of fragments:
                        the products of this row  |  the row above is stored

Against `carried` this saves the copies' issue slots and addresses, the barriers, and, since the
stages fill while C is stored, the time until a tile's first slice is there. Registers move from the
warps that fill to those that multiply.

A tile of 256 x 128 is 128 KB of sums, 2,048 clocks at the 64 bytes a clock that an SM writes. Where
every warp stores all of them at once nobody multiplies meanwhile; `drain` k-steps that are
multiplied row by row give the stores of three rows of four something to hide behind. A tile may
begin and end with another block (see `waves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mmalab import isa
from mmalab.kernels.bands import emit_in_bands
from mmalab.kernels.sm80_mma.accumulator import Accumulators
from mmalab.kernels.sm80_mma.carried import FragmentSets, Write
from mmalab.kernels.sm80_mma.maps import maps_of
from mmalab.kernels.sm80_mma.operand import Fragments
from mmalab.kernels.sm80_mma.problem import BARRIERS, Problem
from mmalab.kernels.sm80_mma.waves import HandOver, Piece, emit_pieces
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor, wait
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Immediate, Register

__all__ = ["Fed"]

#: Products between the question whether a slice is there and the answer, about.
_EARLY = 4


def _nothing() -> None:
    """Takes a turn among the products."""


class Fed:
    """Writes the kernel of one problem."""

    def __init__(self, problem: Problem, name: str) -> None:
        self.problem = problem
        version = max((8, 0), problem.recipe.form.ptx)
        self.b = KernelBuilder(name, target=problem.target, version=version, arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b, problem = self.b, self.problem
        maps = [b.param(name, "b8", dims=[128], align=64) for name in maps_of(problem)]
        self.maps = [b.cvta("param.u64", b.mov("u64", param)) for param in maps]
        self.pointers = {name: b.cvta("to.global.u64", b.load_param(b.param(name, "u64")))
                         for name in ("c", *(("words",) if problem.even else ()))}
        b.reqntid(problem.threads)
        b.minnctapersm(problem.blocks_per_sm)
        self.shared = b.mov("u32", b.dynamic_shared(align=1024))
        behind = problem.shared_bytes - BARRIERS
        self.barriers = Barriers(b, problem.tile.stages, b.add("u32", self.shared, behind))
        thread = b.mov("u32", b.tid.x)
        self._begin(thread)
        warp = b.shfl("idx.b32", b.shr("u32", thread, 5), 0, 31, -1)
        fill, end = b.label("fill"), b.label("end")
        self.end = end
        b.branch(fill, b.setp("ge", "u32", warp, problem.tile.threads // 32))
        self._multiply()
        b.branch(end, uniform=True)
        b.place(fill)
        self._fill(thread)
        b.place(end)
        b.emit("ret")
        return b.text()

    def _begin(self, thread: Register) -> None:
        b, problem = self.b, self.problem
        with b.when(b.setp("eq", "u32", thread, 0)):
            for address in self.maps:
                b.emit("prefetch.tensormap", b.at(address))
            self.barriers.start(1, problem.tile.threads // 32)
            b.emit("fence.mbarrier_init.release.cluster")
        b.emit("bar.sync", 0)

    # --- the warpgroup that fills -----------------------------------------------------------------

    def _fill(self, thread: Register) -> None:
        b, problem = self.b, self.problem
        b.emit("setmaxnreg.dec.sync.aligned.u32", problem.registers[0])
        with b.when(b.setp("eq", "u32", thread, problem.tile.threads)):
            cursor = Cursor(b, self.barriers)
            with emit_pieces(b, problem) as piece:
                self._fill_piece(cursor, piece)

    def _fill_piece(self, cursor: Cursor, piece: Piece) -> None:
        b, problem = self.b, self.problem
        blocks = emit_in_bands(b, piece.tile, *problem.tiles, problem.band_rows)
        lines = [b.mul_lo("u32", block, each // unit) for block, each, unit in zip(
            blocks, problem.tile.block, (1, problem.deal or 1), strict=True)]
        at = (b.mov("u32", 0) if isinstance(piece.first, int) else
              b.mul_lo("u32", piece.first, problem.values))
        with b.loop(piece.count, dtype="u32", unroll=False):
            full = cursor.wait_empty()
            b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(full),
                   problem.tile.stage_bytes)
            stage = b.mad_lo("u32", cursor.stage, problem.tile.stage_bytes, self.shared)
            for name, address, line in zip("AB", self.maps, lines, strict=True):
                self._copy(name, stage, address, at, line, full)
            b.add("u32", at, problem.values, out=at)
            cursor.advance()

    def _copy(self, name: str, stage: Register, address: Register, at: Register, line: Register,
              full: Register) -> None:
        b, problem = self.b, self.problem
        rank = maps_of(problem)[name.lower()].rank
        zeros: list[Register | Immediate] = [Immediate(0, "0")] * (rank - 2)
        b.emit(f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
               ".mbarrier::complete_tx::bytes", b.at(stage, problem.tile.starts_at(name)),
               b.at(address, coordinates=[at, *zeros, line]), b.at(full))

    # --- the warps that multiply ------------------------------------------------------------------

    def _multiply(self) -> None:
        b, problem = self.b, self.problem
        b.emit("setmaxnreg.inc.sync.aligned.u32", problem.registers[1])
        self.operands = [Fragments(b, problem, name, self.shared) for name in "AB"]
        for operand in self.operands:
            operand.prepare()
        self.cursor = Cursor(b, self.barriers)
        lane = b.and_("b32", b.mov("u32", b.tid.x), 31)
        self.leads = b.setp("eq", "u32", lane, 0)
        self.zero = b.mov("u32", b.ctaid.y)  # ptxas does not know that it is zero
        sums = Accumulators(b, problem)
        hands = HandOver(b, problem, self.pointers["words"], lane) if problem.even else None
        with emit_pieces(b, problem) as piece:
            blocks = emit_in_bands(b, piece.tile, *problem.tiles, problem.band_rows)
            sums.clear(sums.rows - 1)
            if hands and piece.takes:
                with b.when(piece.takes):
                    hands.take()
                    sums.load(self.pointers["c"], blocks, self.zero)
            self._piece(sums, piece, blocks)
            if hands and piece.gives:
                with b.when(piece.gives):
                    hands.give()

    def _piece(self, sums: Accumulators, piece: Piece, blocks: tuple[Register, Register]) -> None:
        """All slices of a piece."""
        b, problem = self.b, self.problem
        self.sets = FragmentSets(b, self.operands, sums)
        self.held, self.offset = b.reg("u32"), b.reg("u32")
        self._arrived()
        self.sets.begin(self.offset)
        if problem.slices > 1:
            rounds = (piece.count - 1 if isinstance(piece.count, int) else
                      b.sub("u32", piece.count, 1))
            with b.loop(rounds, dtype="u32", unroll=False):
                self._slice(range(problem.steps))
        self._last(sums, problem.steps_of(problem.slices - 1), blocks)

    def _last(self, sums: Accumulators, steps: range, blocks: tuple[Register, Register]) -> None:
        """The last slice: its last k-steps row by row of fragments, and each row stored under the
        products of the next; stored sums begin at zero again."""
        b = self.b
        offset = b.mov("u32", self.offset)
        together = steps[-self.problem.drain :]
        for step in steps[: len(steps) - len(together)]:
            self.sets.multiply(self.sets.reads(offset, step + 1))
        stores = sums.moves(self.pointers["c"], blocks)
        left, right = self.sets.current()
        rights = [right, *(self._read_b(offset, step) for step in together[1:])]
        ahead, reads = self._reads_of_a(offset, together, 0)
        for read in reads:
            read()
        before: list[Write] = []
        for i in range(sums.rows):
            lefts, others = [left[i], *ahead], [*before]
            if i + 1 < sums.rows:
                ahead, reads = self._reads_of_a(offset, together, i + 1)
                others = [*reads, *others]
            else:
                others.insert(0, lambda: self._release(self.held))
            if i >= 2:
                sums.clear(i - 2)
            self._row(sums, i, list(zip(lefts, rights, strict=True)), others)
            self._hold(i)
            before = stores[i]
        for write in before:
            write()
        for i in range(max(0, sums.rows - 2), sums.rows - 1):
            sums.clear(i)  # the last one's stores have only begun: see `_multiply`

    @staticmethod
    def _row(sums: Accumulators, i: int, steps: list[Any], others: Sequence[Write]) -> None:
        """The products of one row of fragments, `others` spread among them."""
        places = [(t, j) for t in range(len(steps))
                  for j in (range(sums.columns) if t % 2 == 0 else reversed(range(sums.columns)))]
        for number, (t, j) in enumerate(places):
            for at in range(len(others) * number // len(places),
                            len(others) * (number + 1) // len(places)):
                others[at]()
            a, right = steps[t]
            sums.multiply_one(i, j, a, right[j])

    def _hold(self, row: int) -> None:
        """A branch that is never taken, but that ptxas moves no product across."""
        b = self.b
        b.branch(self.end, b.setp("eq", "u32", self.zero, row + 1))

    def _reads_of_a(self, offset: Register, steps: range,
                    row: int) -> tuple[list[list[Register]], list[Write]]:
        """A row's fragments in all k-steps but the first, which is there: registers, and the
        instructions that fill them."""
        fours = [self.b.regs("b32", 4) for _ in steps[1:]]
        return fours, [partial(self.operands[0].read_into, four, offset, step, row)
                       for four, step in zip(fours, steps[1:], strict=True)]

    def _read_b(self, offset: Register, step: int) -> list[list[Register]]:
        operand = self.operands[1]
        fours = [self.b.regs("b32", 4) for _ in operand.reads]
        for number, four in enumerate(fours):
            operand.read_into(four, offset, step, number)
        return operand.fragments(fours)

    def _ask(self) -> Register:
        """Whether the cursor's slice is there."""
        b, done = self.b, self.b.reg("pred")
        b.emit("mbarrier.try_wait.parity.shared::cta.b64", done, b.at(self.cursor.full()),
               self.cursor.parity)
        return done

    def _arrived(self, asked: Register | None = None) -> None:
        """The cursor's slice is there: note its stage, and its place behind the first."""
        b, full = self.b, self.cursor.full()
        if asked is None:
            wait(b, full, self.cursor.parity)
        else:
            with b.when(asked, negated=True):
                wait(b, full, self.cursor.parity)
        b.add("u32", full, self.barriers.empty_at, out=self.held)
        b.mul_lo("u32", self.cursor.stage, self.problem.tile.stage_bytes, out=self.offset)
        self.cursor.advance()

    def _slice(self, steps: range) -> None:
        """A slice behind which another comes: whether that is there is asked a k-step early."""
        b = self.b
        offset = b.mov("u32", self.offset)
        for step in steps[:-2]:
            self.sets.multiply(self.sets.reads(offset, step + 1))
        asked: list[Register] = []
        if len(steps) > 1:
            reads = self.sets.reads(offset, steps[-1])
            self.sets.multiply([*reads, lambda: asked.append(self._ask()), *[_nothing] * _EARLY])
        held = b.mov("u32", self.held)
        self._arrived(*asked)
        others = self.sets.reads(b.mov("u32", self.offset), 0)
        self.sets.multiply([*others, lambda: self._release(held)])

    def _release(self, barrier: Register) -> None:
        """The stage may be filled again, as far as this warp is concerned."""
        b = self.b
        b.emit("bar.warp.sync", -1)
        with b.guard(self.leads):
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink, b.at(barrier))
