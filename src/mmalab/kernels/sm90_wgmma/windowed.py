"""Both operands of any pitch through windows: copied some lines at a time, before their products.

TMA reads rows of 16-byte multiples alone. Copied to such rows, both operands come as aligned ones
do, with multicast and from shared memory; and since tiles are computed band by band, column by
column, neither has to be there as a whole. B's window moves through the columns, to and fro as the
bands do; that of A holds the band that is multiplied and the next one, both without the rows that
are *in place* (below)::

    8192 x 8192, tiles of 256 x 192 in clusters of (1, 2), bands of 2048 rows

    columns of B     | 0 | 1 | 2 | 3 |  ...  |10 |11 |12 | ...     22 blocks of 384 columns
    multiplied               [ 2   3    ...   10 ]                 66 clusters, 8 rows of tiles
    being copied                                 [11  12 ]
    place                      2   3    ...   10  11   0           block n lies at n % 12

    rows of A        | 0 ... 2047 | 2048 ... 4095 | 4096 ...       4 bands
    multiplied       [ 0 ... 2047 ]
    being copied                  [ 2048 ... ]                     row m lies at m % 4096

The *steps* of a product are the blocks of B that its tiles need one after the other: 0 to 21, 21 to
0, and so on. When a band begins, as many as the window holds are there from the one before. All
threads copy the first band of A and the steps that the first tiles need; then three warps of every
CTA take a share of each further step, and of some rows of A's next band before it. Two counters of
each step tell who may go on::

    copy:      rows of A that are due;
               wait done[t - 12] = tiles of that step;
               a share of step t, if it is not there;    ready[t] += 1
    fill:      wait ready[t] = all shares;               TMA of the tile's slices, A's and B's
    multiply:  all slices are there:                     done[t] += 1

A needs no counters. Its rows come before the first step of their band, so that who has seen that
step ready may read them. And a warp begins with them only when it has waited for the last step of
the band whose place they take, and so for all before it.

TMA can read rows that begin at multiples of 16 bytes where they lie, if it counts those alone:
every second one of K = 4092, every fourth one of 4090 (every eighth one of 4095 is not worth it).
Windows hold the others, in their order. What a CTA brings of a tile is two boxes then, so that
lines of a phase lie behind each other in shared memory: wgmma multiplies them in any order, and who
stores C knows it (`epilogue.group_row`, `maps.line_of`)::

    rows of A, K = 4092          0    1    2    3    4    5   ...  126  127
    read by                      map  copy map  copy map  copy     map  copy
    line in shared memory        0    64   1    65   2    66  ...  63   127

Before anybody multiplies all threads copy no more than the first half of every line, where lines
are long and registers many; the three warps copy the other half while the first one is multiplied,
and who fills waits again where it begins. Nobody waits for a later step, so the smallest windows do
not deadlock, but all CTAs must be resident. The CTA that ends last clears the counters for the next
launch.

    >>> from mmalab.kernels.sm90_wgmma import Plan, gemm
    >>> plan = Plan((256, 192), 4, (1, 2), copy="windowed", band=2048)
    >>> gemm(8192, 8192, 4092, plan=plan).facts["window"]     # lines of A and of B at a time
    (2048, 2304)
"""

from __future__ import annotations

from mmalab.kernels.sm90_wgmma.order import Place, turned
from mmalab.kernels.sm90_wgmma.padding import CHUNK
from mmalab.kernels.sm90_wgmma.plan import GROUP
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.spans import Block, Spans
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Windowed"]

#: Warps of a CTA that copy: the first of the group has the thread that starts TMA.
_WARPS = 3
#: Spans that a warp has under way: before the products begin, and beside them with so many
#: registers of a thread.
_AT_FIRST = 8
_TURNS = {40: 4, 24: 1}


class Windowed:
    """Writes the copies, and who waits for whom.

    `pointers`: ``a``, ``b``, their windows ``a_window``, ``b_window``, and ``counters``.
    """

    def __init__(self, b: KernelBuilder, problem: Problem, thread: Register,
                 pointers: dict[str, Register]) -> None:
        self.b, self.problem, self.thread, self.pointers = b, problem, thread, pointers
        self.down, self.columns = problem.cluster_tiles
        self.rows = problem.band_rows
        #: Rows of A in a band, lines of B in a step, and steps in the window.
        self.band, self.lines = self.rows * problem.a_block_lines, problem.block_lines
        self.blocks, self.steps = problem.window_blocks, problem.window_steps
        #: Rows of A that come before a step, once the window has gone round in their band.
        each = -(-self.band // max(1, self.columns - self.blocks))
        self.each = each + -each % problem.phases
        self.shares = problem.grid[0] * _WARPS
        registers = problem.registers[0] if problem.registers else max(_TURNS)
        turns = next(turns for least, turns in _TURNS.items() if registers >= least)
        self.spans = Spans(b, problem, problem.plan.groups * GROUP // 32 + 1, _WARPS, turns)
        spans = len(Spans.of_row(problem))
        #: Spans of a line that are there before anybody multiplies: half, where the warps that copy
        #: the rest have the registers to be done in time.
        self.early = range(-(-spans // 2) if turns > 1 else spans)
        #: The others.
        self.late = range(self.early.stop, spans)

    # --- steps ------------------------------------------------------------------------------------

    def _step_of(self, place: Place) -> Register:
        """The step that a tile belongs to."""
        b = self.b
        band = b.div("u32", place.m, self.band)
        column = turned(b, band, b.div("u32", place.n, self.lines), self.columns)
        return b.mad_lo("u32", band, self.columns, column)

    def _parts(self, step: Register) -> tuple[Register, Register]:
        """A step's band, and how many steps of this are before it."""
        b = self.b
        band = b.div("u32", step, self.columns)
        return band, b.sub("u32", step, b.mul_lo("u32", band, self.columns))

    def _line(self, column: Register) -> Register:
        """Where a line of B lies in its window."""
        whole = self.blocks == self.columns
        return column if whole else self.b.rem("u32", column, self.blocks * self.lines)

    def _row(self, row: Register) -> Register:
        """Where a row of A lies in its window."""
        return row if self.down <= 2 * self.rows else self.b.rem("u32", row, 2 * self.band)

    def _tiles_of(self, step: Register) -> Register:
        """CTAs that multiply a step: those of its band's rows."""
        b, ctas = self.b, self.problem.plan.ctas
        if self.down % self.rows == 0:
            return b.mov("u32", self.rows * ctas)
        begins = b.mul_lo("u32", b.div("u32", step, self.columns), self.rows)
        rows = b.min("u32", b.sub("u32", b.mov("u32", self.down), begins), self.rows)
        return b.mul_lo("u32", rows, ctas)

    def _counter(self, step: Register, *, done: bool) -> Register:
        """Address of ready[step] or done[step]; before them lie the counts of CTAs that ended, and
        of those that have copied what is `early`."""
        b = self.b
        at = b.add("u32", step, 2 + (self.steps if done else 0))
        return b.mad_wide("u32", at, 4, self.pointers["counters"])

    def _early(self) -> Register:
        """Address of the count of CTAs that have copied what is `early`."""
        return self.b.add("u64", self.pointers["counters"], 4)

    def _wait(self, counter: Register, count: Register | int) -> None:
        b, seen, again = self.b, self.b.reg("u32"), self.b.label("counting")
        b.place(again)
        b.emit("ld.acquire.gpu.global.u32", seen, b.at(counter))
        b.branch(again, b.setp("ne", "u32", seen, count))

    def _wait_copied(self, counter: Register, count: Register | int) -> None:
        """The same, for copies that TMA reads then."""
        self._wait(counter, count)
        self.b.emit("fence.proxy.async.global")

    def _count(self, counter: Register, much: int = 1) -> None:
        self.b.emit("red.release.gpu.global.add.u32", self.b.at(counter), much)

    # --- who fills, who multiplies ----------------------------------------------------------------

    def lines_of(self, place: Place) -> tuple[Register, Register]:
        """Wait until a tile's lines of A and B are there, for TMA too (one thread), or what is
        `early` of them; where the first ones lie in the windows."""
        b, step = self.b, self._step_of(place)
        counter, count = self._counter(step, done=False), b.mov("u32", self.shares)
        if self.late:
            self.halves = b.setp("lt", "u32", step, self.first)
            self.ready = counter
            counter = b.selp("b64", self._early(), counter, self.halves)
            count = b.selp("b32", self.problem.grid[0], count, self.halves)
        self._wait_copied(counter, count)
        return self._row(place.m), self._line(place.n)

    def wait_late(self, at: Register) -> None:
        """Of the same tile, before the slice that begins at this value of K: until the rest is
        there, where it is needed for the first time."""
        b, slices = self.b, Spans.slices_in(self.early.stop)
        if not self.late:
            return
        begins = slices * self.problem.values
        with b.when(b.setp("eq.and", "u32", at, begins, self.halves)):
            self._wait_copied(self.ready, self.shares)

    def tell_done(self, place: Place) -> None:
        """A tile's slices have all been read (one thread of those that have waited for them)."""
        b = self.b
        counter = self._counter(self._step_of(place), done=True)
        turns = self.problem.plan.schedule == "pingpong"
        thread = b.and_("b32", self.thread, GROUP - 1) if turns else self.thread
        with b.guard(b.setp("eq", "u32", thread, 0)):
            self._count(counter)

    def clear(self) -> None:
        """At the end of all CTAs, by one warp: what counts begins at zero again."""
        b, counters = self.b, self.pointers["counters"]
        b.emit("barrier.sync", 0)  # lanes of the warp that fills come one by one
        with b.when(b.setp("lt", "u32", self.thread, 32)):
            before = b.mov("u32", 0)
            with b.guard(b.setp("eq", "u32", self.thread, 0)):
                b.emit("atom.add.acq_rel.gpu.global.u32", before, b.at(counters), 1)
            last = b.setp("eq", "u32", b.shfl("idx.b32", before, 0, 31, -1),
                          self.problem.grid[0] - 1)
            with b.when(last):
                b.emit("bar.warp.sync", -1)
                with b.loop(2 + 2 * self.steps, self.thread, 32, dtype="u32",
                            unroll=False) as at:
                    b.emit("st.global.u32", b.at(b.mad_wide("u32", at, 4, counters)), 0)

    # --- who copies -------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """Steps that are there before anybody multiplies."""
        return min(-(-self.problem.clusters // self.rows), self.blocks)

    def begin(self) -> None:
        """What the first tiles need, or the `early` part of it, by all threads."""
        b, threads = self.b, self.problem.plan.threads
        self._copy_first(Spans(b, self.problem, 0, threads // 32, _AT_FIRST, self.early))
        b.emit("fence.proxy.async.global")
        b.emit("bar.sync", 0)
        if self.late:
            with b.when(b.setp("eq", "u32", self.thread, 0)):
                self._count(self._early())
            return
        with b.loop(self.first, self.thread, threads, dtype="u32", unroll=False) as step:
            self._count(self._counter(step, done=False), _WARPS)

    def _copy_first(self, spans: Spans) -> None:
        """The first band of A, and the first steps of B."""
        problem = self.problem
        for name, lines, of in (("a", self.band, problem.m),
                                ("b", self.first * self.lines, problem.n)):
            spans.copy(self._block(name, min(lines, of), of))

    def _copy_late(self) -> None:
        """The rest of what the first tiles need."""
        b, whole = self.b, self.spans
        self._copy_first(Spans(b, self.problem, whole.first, whole.of_each, whole.turns, self.late))
        b.emit("fence.proxy.async.global")
        b.emit("bar.warp.sync", -1)
        lane = b.and_("b32", b.mov("u32", b.tid.x), 31)
        with b.loop(self.first, lane, 32, dtype="u32", unroll=False) as step:
            self._count(self._counter(step, done=False))
        b.emit("bar.warp.sync", -1)

    def copy(self) -> None:
        """All others, by three warps."""
        b = self.b
        if self.late:
            self._copy_late()
        leads = b.setp("eq", "u32", b.and_("b32", b.mov("u32", b.tid.x), 31), 0)
        row = b.mov("u32", self.band)
        with b.loop(self.steps, self.first, dtype="u32", unroll=False) as step:
            if self.down > self.rows:
                self._copy_rows(row, self._due(step), leads)
            self._copy_step(step, leads)
            b.emit("fence.proxy.async.global")
            b.emit("bar.warp.sync", -1)
            with b.when(leads):
                self._count(self._counter(step, done=False))

    def _due(self, step: Register) -> Register:
        """Rows of A that are there before a step: those of its band, and of the next one an even
        share of what the steps are that wait for others of this band."""
        b = self.b
        band, before = self._parts(step)
        past = b.sub("u32", b.max("u32", before, self.blocks - 1), self.blocks - 1)
        ahead = b.min("u32", b.mul_lo("u32", past, self.each), self.band)
        due = b.mad_lo("u32", b.add("u32", band, 1), self.band, ahead)
        return b.min("u32", due, self.problem.m)

    def _copy_rows(self, row: Register, due: Register, leads: Register) -> None:
        """This warp's share of A's rows from `row` on, which moves to `due`."""
        b, problem = self.b, self.problem
        left: Register | int = 0
        with b.when(b.setp("lt", "u32", row, due)):
            with b.when(leads):
                self._fetch("a", problem.m, due, self.each)
            if self._tail(problem.m):
                left = b.sub("u32", b.mov("u32", problem.m), row)
            block = self._block("a", b.sub("u32", due, row), left, row, self._row(row))
            b.mov("u32", due, out=row)
            self.spans.copy(block)

    def _copy_step(self, step: Register, leads: Register) -> None:
        """This warp's share of a step, once its place is free: one lane looks, and tells it."""
        b = self.b
        with b.when(leads):
            band, before, column = self._column(b.add("u32", step, 1))
            with b.when(self._comes_now(band, before)):
                self._fetch("b", self.problem.n, column, self.lines)
        with b.when(b.setp("ge.and", "u32", step, self.blocks, leads)):
            ahead = b.sub("u32", step, self.blocks)
            self._wait(self._counter(ahead, done=True), self._tiles_of(ahead))
        b.emit("bar.warp.sync", -1)
        band, before, column = self._column(step)
        with b.when(self._comes_now(band, before)):
            self._copy_block(column)

    def _column(self, step: Register) -> tuple[Register, Register, Register]:
        """A step's parts (see `_parts`), and its first column."""
        b = self.b
        band, before = self._parts(step)
        column = b.mul_lo("u32", turned(b, band, before, self.columns), self.lines)
        return band, before, column

    def _comes_now(self, band: Register, before: Register) -> Register:
        """Whether a step is not in the window from the band before."""
        b = self.b
        return b.setp("eq.or", "u32", band, 0, b.setp("ge", "u32", before, self.blocks))

    def _copy_block(self, begins: Register) -> None:
        """This warp's share of the lines of B from `begins` on."""
        b, problem = self.b, self.problem
        left: Register | int = 0
        lines: Register | int = self.lines
        if problem.n % self.lines or self._tail(problem.n):
            left = b.sub("u32", b.mov("u32", problem.n), begins)
            lines = b.min("u32", left, self.lines)
        self.spans.copy(self._block("b", lines, left, begins, self._line(begins)))

    def _block(self, name: str, lines: Register | int, left: Register | int,
               begins: Register | None = None, at: Register | None = None) -> Block:
        """Of `lines` rows of an operand from `begins` on those that are not in place; in the window
        they go where row `at` lies (None: the first). `left`: rows up to the operand's end, which
        nobody looks at unless that is in a word."""
        b, problem = self.b, self.problem
        source, target = self.pointers[name], self.pointers[f"{name}_window"]
        if begins is not None and at is not None:
            source = b.mad_wide("u32", begins, problem.pitch, source)
            if problem.in_place:
                at = b.shr("u32", at, problem.phases.bit_length() - 1)
            target = b.mad_wide("u32", at, self._others * problem.padded_pitch, target)
        if problem.in_place:
            source = b.add("u64", source, problem.pitch)
        tail = self._tail(problem.m if name == "a" else problem.n)
        last: Register | int = 0
        if tail:
            left = self._copied(left)
            last = left - 1 if isinstance(left, int) else b.sub("u32", left, 1)
        return Block(source, target, self._copied(lines), last, tail)

    @property
    def _others(self) -> int:
        """Rows of so many as the alignment repeats after that are copied; 1: of each one."""
        return self.problem.phases - 1 if self.problem.in_place else 1

    def _copied(self, rows: Register | int) -> Register | int:
        """Of so many rows, the first one in place, those that are copied."""
        b, problem = self.b, self.problem
        if isinstance(rows, int) or not problem.in_place:
            return problem.copied(rows) if isinstance(rows, int) else rows
        more = b.add("u32", rows, problem.phases - 1)
        return b.sub("u32", rows, b.shr("u32", more, problem.phases.bit_length() - 1))

    def _fetch(self, name: str, of: int, line: Register, lines: int) -> None:
        """Have L2 fetch a share of what is copied next, so that it comes from there (one thread):
        of `lines` lines from `line` on, of `of` that the operand has."""
        b, pitch = self.b, self.problem.pitch
        each = (-(-lines * pitch // (self.shares * CHUNK)) + 1) * CHUNK
        begins = b.and_("b64", b.mul_wide("u32", line, pitch), -CHUNK)
        at = b.add("u64", begins, b.mul_wide("u32", self.spans.share(), each))
        left = b.sub("s64", b.mov("s64", of * pitch // CHUNK * CHUNK), at)
        size = b.cvt("u32.u64", b.min("s64", left, each))
        with b.when(b.setp("gt", "s64", left, 0)):
            b.emit("cp.async.bulk.prefetch.L2.global",
                   b.at(b.add("u64", at, self.pointers[name])), size)

    def _tail(self, of: int) -> int:
        """Bytes of an operand's last word, 0 where it is whole, or its last row in place."""
        if self.problem.in_place and of % self.problem.phases == 1:
            return 0
        return of * self.problem.pitch % CHUNK
