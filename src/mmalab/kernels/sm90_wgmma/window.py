"""B of any pitch through a window: copied a block of columns at a time, just before its products.

Where A is loaded (see `loaded`), its rows may begin anywhere, but wgmma takes B from shared memory,
so every line of B must lie at its place there. Lines that TMA brings early can be moved (see
`shift`), by each of the CTAs that read them, and that is what then limits the product. Copied once
in global memory, to rows of 16-byte multiples, they need no move at all; and since the tiles of a
band walk through the columns together, only the blocks that are being multiplied, and a few ahead,
have to be there. A is never copied, and of B no more than the window::

    columns of B       | 0 | 1 | 2 | 3 | 4 | 5 | 6 | ...            22 blocks of 384 columns
    multiplied                   [ 2   3   4   5 ]                  66 clusters, 16 rows of tiles
    being copied                                  [ 6   7 ]
    place in the window          2   3   4   5   6   7              block t lies at t % 8

The steps of a product are its blocks, band after band. All threads copy the steps that the first
tiles need, then three warps of every CTA a share of each of the others; two counters of each step
tell who may go on::

    copy:      wait done[t - 8] = tiles of that step;   copy a share;   ready[t] += 1
    fill:      wait ready[t] = CTAs of the grid;        TMA of the tile's slices
    multiply:  all slices are there:                    done[t] += 1

Nobody waits for a later step, so the smallest window does not deadlock, but all CTAs must be
resident. The CTA that ends last clears the counters for the next launch.

    >>> from mmalab.kernels.sm90_wgmma import Plan, gemm
    >>> plan = Plan((256, 192), 4, (1, 2), flight=0, copy="streamed", left="registers", band=4096)
    >>> gemm(8192, 8192, 4092, plan=plan).facts["window"]     # lines of B at a time
    3072
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.padding import CHUNK, load_chunk, store_chunk
from mmalab.kernels.sm90_wgmma.plan import GROUP
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Window"]

#: Chunks that a thread has under way before the products begin.
_AT_FIRST = 4
#: Threads of a CTA that copy: the group's first warp has the thread that starts TMA.
_COPYING = GROUP - 32
#: The named barrier at which they meet.
_BARRIER = 8


@dataclass(frozen=True, slots=True)
class _Share:
    """Which chunks of a step a thread copies: the first, every so many-th, so many under way."""

    first: Register
    every: int
    turns: int


class Window:
    """Writes the copies, and who waits for whom; `pointers`: ``b``, ``window`` and ``counters``."""

    def __init__(self, b: KernelBuilder, problem: Problem, thread: Register,
                 pointers: dict[str, Register]) -> None:
        self.b, self.problem, self.thread, self.pointers = b, problem, thread, pointers
        self.down, self.columns = problem.cluster_tiles
        self.rows = problem.band_rows
        self.steps = problem.window_steps

    # --- steps ------------------------------------------------------------------------------------

    def step_of(self, place: Place) -> Register:
        """The step that a tile belongs to."""
        b, plan = self.b, self.problem.plan
        height = plan.tile[0] * plan.cluster[0] * self.rows
        column = b.div("u32", place.n, self.problem.block_lines)
        return b.mad_lo("u32", b.div("u32", place.m, height), self.columns, column)

    def line_of(self, step: Register, place: Place) -> Register:
        """Where the tile's first line of B lies in the window."""
        b, lines = self.b, self.problem.block_lines
        return b.mad_lo("u32", self._slot(step), lines, b.rem("u32", place.n, lines))

    def _slot(self, step: Register) -> Register:
        return self.b.rem("u32", step, self.problem.window_blocks)

    def _tiles_of(self, step: Register) -> Register:
        """CTAs that multiply a step: those of its band's rows."""
        b, ctas = self.b, self.problem.plan.ctas
        if self.down % self.rows == 0:
            return b.mov("u32", self.rows * ctas)
        first = b.mul_lo("u32", b.div("u32", step, self.columns), self.rows)
        rows = b.min("u32", b.sub("u32", b.mov("u32", self.down), first), self.rows)
        return b.mul_lo("u32", rows, ctas)

    def _counter(self, step: Register, *, done: bool) -> Register:
        """Address of ready[step] or done[step]; before them lies the count of CTAs that ended."""
        b = self.b
        at = b.add("u32", step, 1 + (self.steps if done else 0))
        return b.mad_wide("u32", at, 4, self.pointers["counters"])

    def _wait(self, counter: Register, count: Register | int) -> None:
        b, seen, again = self.b, self.b.reg("u32"), self.b.label("counting")
        b.place(again)
        b.emit("ld.acquire.gpu.global.u32", seen, b.at(counter))
        b.branch(again, b.setp("ne", "u32", seen, count))

    def _count(self, counter: Register) -> None:
        self.b.emit("red.release.gpu.global.add.u32", self.b.at(counter), 1)

    # --- who fills, who multiplies ----------------------------------------------------------------

    def wait_ready(self, step: Register) -> None:
        """Until all shares of a step are there, for TMA too (one thread)."""
        self._wait(self._counter(step, done=False), self.problem.grid[0])
        self.b.emit("fence.proxy.async.global")

    def tell_done(self, place: Place) -> None:
        """A tile's slices have all been read (one thread of those that have waited for them)."""
        b = self.b
        counter = self._counter(self.step_of(place), done=True)
        with b.guard(b.setp("eq", "u32", self.thread, 0)):
            self._count(counter)

    def clear(self) -> None:
        """At the end of all CTAs, by one warp: what counts begins at zero again."""
        b, grid = self.b, self.problem.grid[0]
        b.emit("barrier.sync", 0)  # lanes of the warp that fills come one by one
        with b.when(b.setp("lt", "u32", self.thread, 32)):
            before = b.mov("u32", 0)
            with b.guard(b.setp("eq", "u32", self.thread, 0)):
                b.emit("atom.add.acq_rel.gpu.global.u32", before,
                       b.at(self.pointers["counters"]), 1)
            last = b.setp("eq", "u32", b.shfl("idx.b32", before, 0, 31, -1), grid - 1)
            with b.when(last):
                b.emit("bar.warp.sync", -1)
                with b.loop(1 + 2 * self.steps, self.thread, 32, dtype="u32",
                            unroll=False) as at:
                    b.emit("st.global.u32", b.at(b.mad_wide("u32", at, 4,
                                                            self.pointers["counters"])), 0)

    # --- who copies -------------------------------------------------------------------------------

    def begin(self) -> None:
        """The steps that the first tiles belong to, by all threads."""
        b, problem = self.b, self.problem
        threads = problem.plan.threads
        copied = _Share(b.mad_lo("u32", b.mov("u32", b.ctaid.x), threads, self.thread),
                        problem.grid[0] * threads, _AT_FIRST)
        with b.loop(self.first, dtype="u32", unroll=False) as step:
            self._copy(step, copied)
        b.emit("fence.proxy.async.global")
        b.emit("bar.sync", 0)
        with b.when(b.setp("lt", "u32", self.thread, self.first)):
            self._count(self._counter(self.thread, done=False))

    def copy(self) -> None:
        """All others, by three warps."""
        b, problem = self.b, self.problem
        number = b.sub("u32", self.thread, GROUP * problem.plan.groups + 32)
        lane = b.and_("b32", self.thread, 31)
        copied = _Share(b.mad_lo("u32", b.mov("u32", b.ctaid.x), _COPYING, number),
                        problem.grid[0] * _COPYING, 1 if problem.unit == 2 else 2)
        with b.loop(self.steps, self.first, dtype="u32", unroll=False) as step:
            with b.when(b.setp("ge", "u32", step, problem.window_blocks)):
                self._wait_done(step, lane)
            self._copy(step, copied)
            b.emit("fence.proxy.async.global")
            b.emit("bar.sync", _BARRIER, _COPYING)
            with b.when(b.setp("eq", "u32", number, 0)):
                self._count(self._counter(step, done=False))

    @property
    def first(self) -> int:
        """Steps that are there before anybody multiplies, each counted by a thread of its own."""
        return min(-(-self.problem.clusters // self.rows), self.problem.window_blocks,
                   self.problem.plan.threads)

    def _wait_done(self, step: Register, lane: Register) -> None:
        """The step whose place this one takes: one lane looks, and tells its warp."""
        b = self.b
        with b.when(b.setp("eq", "u32", lane, 0)):
            ahead = b.sub("u32", step, self.problem.window_blocks)
            self._wait(self._counter(ahead, done=True), self._tiles_of(ahead))
        b.emit("bar.warp.sync", -1)

    def _copy(self, step: Register, share: _Share) -> None:
        """The thread's chunks of a step; addresses go on from chunk to chunk, for a division by the
        chunks of a row takes a dozen instructions."""
        b, problem = self.b, self.problem
        chunks, lines = problem.b_pitch // CHUNK, problem.block_lines
        begins = b.mul_lo("u32", b.rem("u32", step, self.columns), lines)
        row = b.div("u32", share.first, chunks)
        column = b.sub("u32", share.first, b.mul_lo("u32", row, chunks))
        source = b.mad_wide("u32", b.add("u32", begins, row), problem.pitch, self.pointers["b"])
        source = b.add("u64", source, b.mul_wide("u32", column, CHUNK))
        target = b.mad_wide("u32", b.mul_lo("u32", self._slot(step), lines), problem.b_pitch,
                            self.pointers["window"])
        target = b.add("u64", target, b.mul_wide("u32", share.first, CHUNK))
        total: Register | int = lines * chunks
        if problem.n % lines:
            left = b.sub("u32", b.mov("u32", problem.n), begins)
            total = b.mul_lo("u32", b.min("u32", left, lines), chunks)
        with b.loop(total, share.first, share.every * share.turns, dtype="u32",
                    unroll=False) as at:
            held = []
            for turn in range(share.turns):
                number = b.add("u32", at, turn * share.every) if turn else at
                inside = b.setp("lt", "u32", number, total)
                held.append((inside, load_chunk(b, problem, source, column, inside)))
                self._advance(source, column, share.every)
            for inside, pieces in held:
                store_chunk(b, target, inside, pieces)
                b.add("u64", target, share.every * CHUNK, out=target)

    def _advance(self, source: Register, column: Register, every: int) -> None:
        """So many chunks on, among rows of the problem's pitch."""
        b, chunks = self.b, self.problem.b_pitch // CHUNK
        rows, rest = divmod(every, chunks)
        b.add("u64", source, rows * self.problem.pitch + rest * CHUNK, out=source)
        b.add("u32", column, rest, out=column)
        with b.when(b.setp("ge", "u32", column, chunks)):
            b.sub("u32", column, chunks, out=column)
            b.add("s64", source, self.problem.pitch - chunks * CHUNK, out=source)
