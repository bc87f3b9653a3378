"""C through shared memory: panels that a warp lays out and TMA stores, under the next tile.

A panel is 16 rows of 128 bytes, swizzled: what one row of fragments holds of 32 columns of words,
or of 64 of halves. B's columns are dealt out so that a lane's neighbours are 32 bytes of C (see
`Problem.deal`), the 16-byte chunks 2 t and 2 t + 1 of a row of the panel. Chunk c of row r lies at
c ^ r, so that the eight lanes that store 16 bytes together, of two rows, meet in no bank.

Each warp has room for some panels beside the ring; the others lie in stages that the ring lends
(see `mmalab.kernels.sm90_wgmma.ring.Lent`). Of 256 x 128 words, 64 x 64 a warp, eight panels::

    row of fragments    0            1                2                3
    panels              0    1       2    3       4        5       6    7
    lies            |  beside     |  first stage         |  second stage       |

So at a tile's end a warp waits for 128 bytes a clock of shared memory, not for the 64 that an SM
writes to L2, where all SMs want to write at the same time: TMA does, while the warps multiply on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mmalab.kernels.placement import emit_layout
from mmalab.kernels.sm80_mma.accumulator import Accumulators
from mmalab.kernels.sm80_mma.problem import PANEL, PANEL_ROWS, Problem
from mmalab.kernels.sm90_wgmma.ring import Lent
from mmalab.layouts import TMA_SWIZZLES, Layout, compose, make_layout
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Panels"]

Write = Callable[[], None]
_BYTES = PANEL * PANEL_ROWS
#: Bytes of a panel's rows 8 to 15 behind its rows 0 to 7.
_EIGHT = 8 * PANEL


class Panels:
    """The way out of one warp's sums."""

    def __init__(self, b: KernelBuilder, problem: Problem, sums: Accumulators, c: Register,
                 shared: Register, lent: Lent) -> None:
        """`c` is the address of C's tensor map, `shared` where the ring begins."""
        self.b, self.problem, self.sums, self.c, self.lent = b, problem, sums, c, lent
        thread = b.mov("u32", b.tid.x)
        lane, warp = b.and_("b32", thread, 31), b.shr("u32", thread, 5)
        swizzled = compose(TMA_SWIZZLES[f"{PANEL}B"], Layout((4, 8), (PANEL // 4, PANEL)))
        self.own = emit_layout(b, swizzled, lane)
        behind = b.add("u32", shared, problem.tile.shared_bytes)
        self.beside = b.mad_lo("u32", warp, problem.panels_beside * _BYTES, behind)
        self.in_stages = b.mad_lo("u32", warp, problem.panels_in_stage * _BYTES, shared)
        height, width = problem.tile.warp_tile
        self.at = [emit_layout(b, make_layout(Layout(32, 0), Layout(problem.tile.warps, strides)),
                               thread) for strides in ((height, 0), (0, width))]

    @property
    def _each(self) -> int:
        """Panels of a row of fragments."""
        return self.problem.warp_panels // self.sums.rows

    def begin(self, blocks: tuple[Register, Register]) -> None:
        """Where the warp's part of a tile lies."""
        b = self.b
        self.row, self.column = (
            b.mad_lo("u32", block, size, at)
            for block, size, at in zip(blocks, self.problem.tile.block, self.at, strict=True))
        self._bases = {-1: self.beside}
        self._lanes = {-1: self._lane(self.beside)}

    def _lane(self, base: Register) -> tuple[Register, Register]:
        """Where the lane's two chunks of a panel lie behind `base`."""
        first = self.b.add("u32", base, self.own)
        return first, self.b.xor("b32", first, 16)

    def row_of(self, i: int) -> list[Write]:
        """What lays out and sends off a row of fragments, each written when it is called."""
        places = [self._place(i * self._each + panel) for panel in range(self._each)]
        writes: list[Write] = [
            partial(self._take, area) for area in sorted({area for area, _ in places} - {-1})]
        for panel, place in enumerate(places):
            writes += self._lay_out(i, panel, place)
        return [*writes, partial(self._leave, i, places)]

    def _place(self, panel: int) -> tuple[int, int]:
        """A panel's area (-1: beside the ring, else a lent stage by number) and byte in it."""
        beside, each = self.problem.panels_beside, self.problem.panels_in_stage
        if panel < beside:
            return -1, panel * _BYTES
        stage, within = divmod(panel - beside, each)
        return stage, within * _BYTES

    def _take(self, stage: int) -> None:
        """The stage is the block's; it may have been asked for before."""
        if stage in self._bases:
            return
        b = self.b
        number = self.lent.take(stage)
        base = b.mad_lo("u32", number, self.problem.tile.stage_bytes, self.in_stages)
        self._bases[stage], self._lanes[stage] = base, self._lane(base)

    def _lay_out(self, i: int, panel: int, place: tuple[int, int]) -> list[Write]:
        per_panel = self.problem.deal // 8
        held = [registers for _, registers in self.sums.neighbours(i, panel * per_panel)]
        return [partial(self._chunk, place, half, chunk, registers[4 * chunk : 4 * chunk + 4])
                for chunk in (0, 1) for half, registers in enumerate(held)]

    def _chunk(self, place: tuple[int, int], half: int, chunk: int, four: list[Register]) -> None:
        b, (area, offset) = self.b, place
        b.st(f"shared.v4.{self.sums.type}",
             b.at(self._lanes[area][chunk], offset + half * _EIGHT), four)

    def _leave(self, i: int, places: list[tuple[int, int]]) -> None:
        """TMA stores a row of fragments."""
        b = self.b
        b.emit("fence.proxy.async.shared::cta")
        b.emit("bar.warp.sync", -1)
        row = b.add("u32", self.row, i * PANEL_ROWS) if i else self.row
        with b.when(self.lent.leads):
            for panel, (area, offset) in enumerate(places):
                column = (b.add("u32", self.column, panel * self.problem.deal) if panel else
                          self.column)
                b.emit("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
                       b.at(self.c, coordinates=[column, row]), b.at(self._bases[area], offset))
                if self._ends(i, panel):
                    b.emit("cp.async.bulk.commit_group")
        if i == self.sums.rows - 1:
            self.lent.keep()

    def _ends(self, i: int, panel: int) -> bool:
        """Whether the panel is the last one in its area: what has been read is told by area."""
        number = i * self._each + panel
        return (number + 1 == self.problem.warp_panels
                or self._place(number)[0] != self._place(number + 1)[0])
