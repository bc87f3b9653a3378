"""The kernel that TMA feeds: no barrier of the block, and nobody who multiplies copies.

One block an SM (or two) goes from tile to tile. One thread of a warpgroup of its own fills the
stages; the warps that multiply wait for the bytes of a slice, not for each other::

    fill:       for each tile, for each slice:  wait empty; TMA of A and B
    multiply:   for each tile:  wait full; ldmatrix of the first k-step
                    for each slice, for each k-step:
                        ldmatrix of the k-step behind it  |  the products of this one
                        in the last one: wait for the next slice; its first k-step is read,
                                         and this slice's stage given back
                store C, while the stages fill with the next tile

Against `carried` this saves the copies' issue slots and addresses, the barriers, and, since the
stages fill while C is stored, the time until a tile's first slice is there. Registers move from the
warps that fill to those that multiply.
"""

from __future__ import annotations

from mmalab import isa
from mmalab.kernels.bands import emit_in_bands
from mmalab.kernels.sm80_mma.accumulator import Accumulators
from mmalab.kernels.sm80_mma.carried import FragmentSets, Write
from mmalab.kernels.sm80_mma.maps import maps_of
from mmalab.kernels.sm80_mma.operand import Fragments
from mmalab.kernels.sm80_mma.problem import DEAL, Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor, wait
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Immediate, Register

__all__ = ["Fed"]


class Fed:
    """Writes the kernel of one problem."""

    def __init__(self, problem: Problem, name: str) -> None:
        self.problem = problem
        version = max((8, 0), problem.recipe.form.ptx)
        self.b = KernelBuilder(name, target=problem.target, version=version, arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b, problem = self.b, self.problem
        maps = [b.param(name, "b8", dims=[128], align=64) for name in ("a", "b")]
        self.maps = [b.cvta("param.u64", b.mov("u64", param)) for param in maps]
        self.c = b.cvta("to.global.u64", b.load_param(b.param("c", "u64")))
        b.reqntid(problem.threads)
        b.minnctapersm(problem.blocks_per_sm)
        self.shared = b.mov("u32", b.dynamic_shared(align=1024))
        self.barriers = Barriers(b, problem.tile.stages,
                                 b.add("u32", self.shared, problem.tile.shared_bytes))
        thread = b.mov("u32", b.tid.x)
        self._begin(thread)
        warp = b.shfl("idx.b32", b.shr("u32", thread, 5), 0, 31, -1)
        fill, end = b.label("fill"), b.label("end")
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
            with b.loop(problem.tiles[0] * problem.tiles[1], b.mov("u32", b.ctaid.x),
                        problem.grid[0], dtype="u32", unroll=False) as at:
                self._fill_tile(cursor, at)

    def _fill_tile(self, cursor: Cursor, tile: Register) -> None:
        b, problem = self.b, self.problem
        blocks = emit_in_bands(b, tile, *problem.tiles, problem.band_rows)
        lines = [b.mul_lo("u32", block, each // unit) for block, each, unit in zip(
            blocks, problem.tile.block, (1, DEAL if problem.dealt else 1), strict=True)]
        at = b.mov("u32", 0)
        with b.loop(problem.slices, unroll=False):
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
        with b.loop(problem.tiles[0] * problem.tiles[1], b.mov("u32", b.ctaid.x),
                    problem.grid[0], dtype="u32", unroll=False) as at:
            sums = self._tile()
            sums.store(self.c, emit_in_bands(b, at, *problem.tiles, problem.band_rows))

    def _tile(self) -> Accumulators:
        """All slices of a tile."""
        b, problem = self.b, self.problem
        sums = Accumulators(b, problem)
        self.sets = FragmentSets(b, self.operands, sums)
        self.held, self.offset = b.reg("u32"), b.reg("u32")
        self._arrived()
        self.sets.begin(self.offset)
        if problem.slices > 1:
            with b.loop(problem.slices - 1, dtype="u32", unroll=False):
                self._slice(range(problem.steps), ends=False)
        self._slice(problem.steps_of(problem.slices - 1), ends=True)
        return sums

    def _arrived(self) -> None:
        """The cursor's slice is there: note its stage, and its place behind the first."""
        b = self.b
        full = self.cursor.full()
        wait(b, full, self.cursor.parity)
        b.add("u32", full, self.barriers.empty_at, out=self.held)
        b.mul_lo("u32", self.cursor.stage, self.problem.tile.stage_bytes, out=self.offset)
        self.cursor.advance()

    def _slice(self, steps: range, *, ends: bool) -> None:
        b = self.b
        offset = b.mov("u32", self.offset)
        for step in steps[:-1]:
            self.sets.multiply(self.sets.reads(offset, step + 1))
        held = b.mov("u32", self.held)
        others: list[Write] = []
        if not ends:
            self._arrived()
            others += self.sets.reads(b.mov("u32", self.offset), 0)
        self.sets.multiply([*others, lambda: self._release(held)])

    def _release(self, barrier: Register) -> None:
        """The stage may be filled again, as far as this warp is concerned."""
        b = self.b
        b.emit("bar.warp.sync", -1)
        with b.guard(self.leads):
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink, b.at(barrier))
