"""C through shared memory: panels that a group lays out and TMA stores.

A panel is 64 rows of up to 128 bytes, swizzled, and leaves in one box. 16-bit elements are laid out
by stmatrix. Of words, B's tensor map has dealt 32 columns out among the threads of a quad (see
`maps`): thread t holds the 16-byte chunks 2 t and 2 t + 1 of a row. Chunk c of row r lies at
c ^ (r % 8), so the eight lanes that store 16 bytes together, of two rows, meet in no bank::

    row 0, chunks 0 2 4 6  ->  places 0 2 4 6        row 1, chunks 0 2 4 6  ->  places 1 3 5 7

Each group has memory of its own, for some panels or for all of 64 rows; it waits until the last
ones have been read, and TMA reads on under the next tile's products.
"""

from __future__ import annotations

from mmalab.kernels.placement import emit_layout
from mmalab.kernels.sm90_wgmma.epilogue import packed
from mmalab.kernels.sm90_wgmma.maps import eight, panel_columns
from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import GROUP
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.layouts import TMA_SWIZZLES, Layout, compose
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Staged"]

Sums = list[list[Register]]
#: Bytes of a warp's rows 8 to 15 behind its rows 0 to 7, in a panel of 128-byte lines.
_EIGHT = 8 * 128


class Staged:
    """Store "staged": some panels at a time, through memory of the group's own."""

    def __init__(self, b: KernelBuilder, problem: Problem, c: Register, group: Register,
                 shared: Register) -> None:
        self.b, self.problem, self.c, self.group = b, problem, c, group
        self.columns = panel_columns(problem)
        self.pitch = self.columns * problem.out_bytes
        self.size = problem.plan.panel_bytes(problem.out_bytes)
        self.together = problem.plan.panels * self.columns or problem.plan.tile[1]
        within = b.and_("b32", b.mov("u32", b.tid.x), GROUP - 1)
        self.leads = b.setp("eq", "u32", within, 0)
        self.barrier = b.add("u32", group, 1)
        size = problem.plan.staging_bytes(problem.out_bytes)
        self.base = b.mad_lo("u32", group, size, shared)
        self.places = self._places(within)

    def store(self, sums: Sums, at: Place) -> None:
        """Write the group's part of a tile; TMA reads on after this."""
        width = self.problem.plan.tile[1]
        for block, registers in enumerate(sums):
            values = packed(self.b, self.problem, registers)
            for first in range(0, width, self.together):
                self._some(values, block, at,
                           range(first, min(first + self.together, width), self.columns))

    def finish(self) -> None:
        """Nothing that was stored is still being read."""
        with self.b.guard(self.leads):
            self.b.emit("cp.async.bulk.wait_group", 0)

    def _some(self, values: list[Register], block: int, at: Place, columns: range) -> None:
        b = self.b
        with b.guard(self.leads):
            b.emit("cp.async.bulk.wait_group.read", 0)
        self._meet()
        for number, column in enumerate(columns):
            self._lay_out(values, column, number * self.size)
        b.emit("fence.proxy.async.shared::cta")
        self._meet()
        with b.when(self.leads):
            for number, column in enumerate(columns):
                self._leave(at, block, column, number * self.size)
            b.emit("cp.async.bulk.commit_group")

    def _meet(self) -> None:
        """The group's threads."""
        self.b.emit("bar.sync", self.barrier, GROUP)

    # --- in a panel -------------------------------------------------------------------------------

    @property
    def _words(self) -> bool:
        return self.problem.out_bytes == 4

    def _places(self, within: Register) -> list[Register]:
        """Where the thread lays out its parts of the first panel: both chunks of words, or what it
        names to stmatrix of each pair of eights."""
        b = self.b
        panel, sixteen = Layout((64, self.pitch), (self.pitch, 1)), 64 * 16
        # thread -> row + 64 x byte: chunk 2 t of the quad's row of words; or the line that the lane
        # names to stmatrix, matrices (0, 0), (8, 0), (0, 16), (8, 16).
        lanes = (Layout((4, 8, 4), (2 * sixteen, 1, 16)) if self._words else
                 Layout((8, 2, 2, 4), (1, 8, sixteen, 16)))
        swizzle = TMA_SWIZZLES[f"{self.pitch}B"]
        first = emit_layout(b, compose(swizzle, compose(panel, lanes)), within)
        step, count = (16, 2) if self._words else (32, self.pitch // 32)
        own = b.add("u32", self.base, first)
        return [b.xor("b32", own, at * step) if at else own for at in range(count)]

    def _lay_out(self, values: list[Register], column: int, offset: int) -> None:
        """A panel from `column` on, `offset` bytes behind the first."""
        if self._words:
            self._lay_out_words(values, column, offset)
            return
        for at, place in enumerate(self.places):
            sixteen = column // 16 + at
            self.b.emit("stmatrix.sync.aligned.m8n8.x4.shared.b16", self.b.at(place, offset),
                        values[4 * sixteen : 4 * sixteen + 4])

    def _lay_out_words(self, values: list[Register], column: int, offset: int) -> None:
        b, problem = self.b, self.problem
        deal = column // problem.deal
        for half in (0, 1):
            for chunk, place in enumerate(self.places):
                eights = [eight(problem, deal, 2 * chunk + j) for j in (0, 1)]
                four = [values[4 * at + 2 * half + one] for at in eights for one in (0, 1)]
                b.st(f"shared.v4.{problem.recipe.register}",
                     b.at(place, offset + half * _EIGHT), four)

    def _leave(self, at: Place, block: int, column: int, offset: int) -> None:
        """One thread: TMA stores a panel of an m64 block, from `column` on."""
        b, plan = self.b, self.problem.plan
        row, which = at.m, b.mov("u32", 0) if at.which is None else at.which
        if plan.schedule == "cooperative" and plan.groups > 1:
            row = b.mad_lo("u32", self.group, plan.group_rows, at.m)
        if block:
            row = b.add("u32", row, block * 64)
        first = b.add("u32", at.n, column) if column else at.n
        b.emit("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group",
               b.at(self.c, coordinates=[first, row, which]), b.at(self.base, offset))
