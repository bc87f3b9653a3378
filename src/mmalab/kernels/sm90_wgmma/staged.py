"""C through shared memory: panels that a group lays out and TMA stores.

A panel is 64 rows of up to 128 bytes, swizzled, and leaves in one box. 16-bit elements are laid out
by stmatrix. Of words, B's tensor map has dealt 32 columns out among the threads of a quad (see
`maps`): thread t holds the 16-byte chunks 2 t and 2 t + 1 of a row. Chunk c of row r lies at
c ^ (r % 8), so the eight lanes that store 16 bytes together, of two rows, meet in no bank::

    row 0, chunks 0 2 4 6  ->  places 0 2 4 6        row 1, chunks 0 2 4 6  ->  places 1 3 5 7

=======  ===========================================================================================
staged   each group has memory of its own, for some panels or for all of 64 rows; it waits until the
         last ones have been read
ring     what the ring leaves free, then stages of the ring itself, which are lent to C between two
         tiles
=======  ===========================================================================================

Of sums of 128 x 256 words, 128 KB, beside four stages of 48 KB there is room for 32 KB; two stages
hold the rest. To the ring's barriers a stage that is lent is a slice that nobody copies::

    place in the ring    ...  | K - 2 | K - 1 | lent  | lent  |   0   |   1   |   2   | ...
    fill                        copy    copy   arrive  arrive   copy    copy    copy
    multiply                    wgmma   wgmma    C       C      wgmma   wgmma   wgmma
                                                                            ^ C has been read:
                                                                              release both

Slices 0 and 1 of the next tile are on their way while C is laid out, and slice 2 follows as soon as
TMA has read C, which happens under the products of the first two. So a tile's end takes the clocks
of one pass of C through shared memory, 128 bytes each, and no more: nobody waits for L2, which all
SMs write to at the same time when they store from registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab.kernels.placement import emit_layout
from mmalab.kernels.sm90_wgmma.epilogue import packed
from mmalab.kernels.sm90_wgmma.maps import eight, panel_columns
from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import GROUP
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Lent
from mmalab.layouts import TMA_SWIZZLES, Layout, compose
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Ring", "Staged"]

Sums = list[list[Register]]
#: Bytes of a warp's rows 8 to 15 behind its rows 0 to 7, in a panel of 128-byte lines.
_EIGHT = 8 * 128


@dataclass(frozen=True, slots=True)
class _Panel:
    """An m64 block of the group, and a panel's first column."""

    block: int
    column: int


class _Way:
    """What both ways have in common: a group's panels, and how they are laid out and leave."""

    def __init__(self, b: KernelBuilder, problem: Problem, c: Register, group: Register) -> None:
        self.b, self.problem, self.c, self.group = b, problem, c, group
        self.columns = panel_columns(problem)
        self.pitch = self.columns * problem.out_bytes
        self.size = problem.plan.panel_bytes(problem.out_bytes)
        self.within = b.and_("b32", b.mov("u32", b.tid.x), GROUP - 1)
        self.leads = b.setp("eq", "u32", self.within, 0)
        self.barrier = b.add("u32", group, 1)

    def meet(self) -> None:
        """The group's threads."""
        self.b.emit("bar.sync", self.barrier, GROUP)

    def finish(self) -> None:
        """Nothing that was stored is still being read."""
        with self.b.guard(self.leads):
            self.b.emit("cp.async.bulk.wait_group", 0)

    # --- in a panel -------------------------------------------------------------------------------

    @property
    def _words(self) -> bool:
        return self.problem.out_bytes == 4

    def _first(self) -> Register:
        """The thread's first byte in a panel."""
        panel, sixteen = Layout((64, self.pitch), (self.pitch, 1)), 64 * 16
        # thread -> row + 64 x byte: chunk 2 t of the quad's row of words; or the line that the lane
        # names to stmatrix, matrices (0, 0), (8, 0), (0, 16), (8, 16).
        lanes = (Layout((4, 8, 4), (2 * sixteen, 1, 16)) if self._words else
                 Layout((8, 2, 2, 4), (1, 8, sixteen, 16)))
        swizzle = TMA_SWIZZLES[f"{self.pitch}B"]
        return emit_layout(self.b, compose(swizzle, compose(panel, lanes)), self.within)

    def places(self, base: Register, first: Register) -> list[Register]:
        """Where the thread lays out its parts of a panel that begins at `base`: both chunks of
        words, or what it names to stmatrix of each pair of eights."""
        b = self.b
        step, count = (16, 2) if self._words else (32, self.pitch // 32)
        own = b.add("u32", base, first)
        return [b.xor("b32", own, at * step) if at else own for at in range(count)]

    def values(self, sums: Sums, block: int) -> list[Register]:
        """An m64 block as it is laid out."""
        return packed(self.b, self.problem, sums[block])

    def lay_out(self, values: list[Register], column: int, places: Sequence[Register],
                offset: int) -> None:
        """A panel from `column` on, `offset` bytes behind the places."""
        if self._words:
            self._lay_out_words(values, column, places, offset)
            return
        for at, place in enumerate(places):
            sixteen = column // 16 + at
            self.b.emit("stmatrix.sync.aligned.m8n8.x4.shared.b16", self.b.at(place, offset),
                        values[4 * sixteen : 4 * sixteen + 4])

    def _lay_out_words(self, values: list[Register], column: int, places: Sequence[Register],
                       offset: int) -> None:
        b, problem = self.b, self.problem
        deal = column // problem.deal
        for half in (0, 1):
            for chunk, place in enumerate(places):
                eights = [eight(problem, deal, 2 * chunk + j) for j in (0, 1)]
                four = [values[4 * at + 2 * half + one] for at in eights for one in (0, 1)]
                b.st(f"shared.v4.{problem.recipe.register}",
                     b.at(place, offset + half * _EIGHT), four)

    def leave(self, at: Place, panel: _Panel, place: Register, offset: int) -> None:
        """One thread: TMA stores a panel."""
        b, plan = self.b, self.problem.plan
        row, which = at.m, b.mov("u32", 0) if at.which is None else at.which
        if plan.schedule == "cooperative" and plan.groups > 1:
            row = b.mad_lo("u32", self.group, plan.group_rows, at.m)
        if panel.block:
            row = b.add("u32", row, panel.block * 64)
        column = b.add("u32", at.n, panel.column) if panel.column else at.n
        b.emit("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group",
               b.at(self.c, coordinates=[column, row, which]), b.at(place, offset))


class Staged(_Way):
    """Store "staged": some panels at a time, through memory of the group's own."""

    def __init__(self, b: KernelBuilder, problem: Problem, c: Register, group: Register,
                 shared: Register) -> None:
        super().__init__(b, problem, c, group)
        self.together = problem.plan.panels * self.columns or problem.plan.tile[1]
        size = problem.plan.staging_bytes(problem.out_bytes)
        self.base = b.mad_lo("u32", group, size, shared)
        self.own = self.places(self.base, self._first())

    def store(self, sums: Sums, at: Place) -> None:
        """Write the group's part of a tile; TMA reads on after this."""
        width = self.problem.plan.tile[1]
        for block in range(len(sums)):
            values = self.values(sums, block)
            for first in range(0, width, self.together):
                self._some(values, block, at,
                           range(first, min(first + self.together, width), self.columns))

    def _some(self, values: list[Register], block: int, at: Place, columns: range) -> None:
        b = self.b
        with b.guard(self.leads):
            b.emit("cp.async.bulk.wait_group.read", 0)
        self.meet()
        for number, column in enumerate(columns):
            self.lay_out(values, column, self.own, number * self.size)
        b.emit("fence.proxy.async.shared::cta")
        self.meet()
        with b.when(self.leads):
            for number, column in enumerate(columns):
                self.leave(at, _Panel(block, column), self.base, number * self.size)
            b.emit("cp.async.bulk.commit_group")


class Ring(_Way):
    """Store "ring": what the ring leaves free, then stages that it lends."""

    def __init__(self, b: KernelBuilder, problem: Problem, c: Register, group: Register,
                 shared: Register, lent: Lent) -> None:
        """`shared` is where the ring begins."""
        super().__init__(b, problem, c, group)
        self.lent = lent
        plan, out = problem.plan, problem.out_bytes
        self.beside, self.in_stage = plan.panels_beside(out), plan.panels_in_stage(out)
        behind = b.add("u32", shared, plan.stages * plan.stage_bytes)
        self.base = b.mad_lo("u32", group, self.beside * self.size, behind)
        self.in_stages = b.mad_lo("u32", group, self.in_stage * self.size, shared)
        self.first = self._first()

    def store(self, sums: Sums, at: Place) -> None:
        """Write the group's part of a tile; TMA reads on after this."""
        self._learn()
        values = [self.values(sums, block) for block in range(len(sums))]
        panels = [_Panel(block, column) for block in range(len(sums))
                  for column in range(0, self.problem.plan.tile[1], self.columns)]
        bases = [self.base, *self._taken()]
        rooms = [self.beside, *(self.in_stage for _ in bases[1:])]
        for base, room in zip(bases, rooms, strict=True):
            here, panels = panels[:room], panels[room:]
            if here:
                self._some(values, at, base, here)
        self.lent.keep()

    def _learn(self) -> None:
        """The first thread knows that C's last tile has been read; the others learn it when a stage
        is filled that held C, or here where no slice of this tile comes as far."""
        slots = self.problem.slices + self.problem.lent
        if slots <= self.problem.plan.stages - self.problem.lent:
            self.meet()

    def _taken(self) -> list[Register]:
        """The lent stages are the group's: where its part of each begins."""
        size = self.problem.plan.stage_bytes
        return [self.b.mad_lo("u32", self.lent.take(which), size, self.in_stages)
                for which in range(self.problem.lent)]

    def _some(self, values: list[list[Register]], at: Place, base: Register,
              panels: Sequence[_Panel]) -> None:
        b = self.b
        places = self.places(base, self.first)
        for number, panel in enumerate(panels):
            self.lay_out(values[panel.block], panel.column, places, number * self.size)
        b.emit("fence.proxy.async.shared::cta")
        self.meet()
        with b.when(self.leads):
            for number, panel in enumerate(panels):
                self.leave(at, panel, base, number * self.size)
            b.emit("cp.async.bulk.commit_group")
