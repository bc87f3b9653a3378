"""Operands of wgmma against the boxes that their bytes came in.

A descriptor steps from 8 rows to the next 8 by SBO. Where a tensor copy wrote them, its box knows
where the next 8 rows are: 8 rows on, or one step of another dimension of the box on (maps of more
dimensions deal columns out that way). An operand that goes elsewhere although the box has more rows
skips rows::

    box of 64 rows of 128 bytes at 0x2400; SBO 2048: rows 0-7, 16-23, 32-39, 48-55, then bytes of
    whatever lies behind the box

Inside one box that is a note: a kernel may deal its rows out on purpose. An operand that leaves the
box is a warning. Bytes that ordinary stores wrote, and im2col or interleaved boxes, tell nothing.
"""

from __future__ import annotations

import numpy as np

from mmalab.emulator.events import Span, Wgmma
from mmalab.sanitizer.shadow import Page
from mmalab.sanitizer.sweep import Sweeps
from mmalab.sanitizer.world import World

__all__ = ["TileRule"]

_ROWS = 8


class TileRule:
    """Compares the steps of operands with those of boxes, each kind of step once."""

    def __init__(self, world: World, sweeps: Sweeps) -> None:
        self._world = world
        self._sweeps = sweeps
        self._seen: set[tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]] = set()

    def check(self, event: Wgmma, span: Span, page: Page) -> None:
        """One operand of a product."""
        if not span.groups:
            return
        step, *firsts = span.groups
        cells = np.array(firsts) - page.base >> page.granule.bit_length() - 1
        written = self._sweeps.boxes(cells, page)
        key = event.site, span.groups, written
        if key in self._seen:
            return
        self._seen.add(key)
        for number, ((site, box), at) in enumerate(zip(written[:-1], firsts, strict=False)):
            if box and self._skips(step, at, self._sweeps.box(box)):
                leaves = any(one != (site, box) for one in written[number:])
                self._report(event, span, site, self._sweeps.box(box), leaves)
                return

    def _skips(self, step: int, at: int, box: tuple[int, ...]) -> bool:
        """Whether the box goes on with other rows than the operand.

        A step of less than 8 rows is an overlap, which the emulator tells.
        """
        start, size, row, *further = box
        if step <= _ROWS * row or step in further or step in (_ROWS * one for one in further):
            return False
        return at // row * row + _ROWS * row < start + size

    def _report(self, event: Wgmma, span: Span, site: int, box: tuple[int, ...],
                leaves: bool) -> None:
        world, (step, first, *_), row = self._world, span.groups, box[2]
        where = "leaves that box although it has more rows" if leaves else "skips rows of it"
        world.report(
            "descriptor-mismatch", "warning" if leaves else "note",
            f"{world.named(event.site)}: an operand at shared {first:#x} steps {step} bytes from 8 "
            f"rows to the next (SBO), but {world.named(site)} wrote a box of rows {row} bytes "
            f"apart: it {where}. Repair: SBO {_ROWS * row} ({_ROWS * row >> 4} in the field)",
            cta=event.cta, warp=event.warp, site=event.site, cause=site, key=(step,),
            witness={"sbo": step, "rows_apart": row, "writer_line": world.line(site),
                     "repair": f"SBO {_ROWS * row}"})
