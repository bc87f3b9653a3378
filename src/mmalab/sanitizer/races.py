"""The check on an access: everything that it conflicts with must be ordered before it.

Two accesses conflict when they share a byte and one of them writes, unless both are strong (atomic,
relaxed or volatile) with scopes that include each other. The check needs no adverse schedule: it
asks whether the earlier access is *known* to the later one, not which came first in this run.

    warp 0: st.shared [tile + 4*lane]        cells 256..287 <- record 9 (row 0, clock 1)
    warp 1: ld.shared [tile + 4*lane]        does lane l of warp 1 know (row 0, clock 1, lane l)?
                                             HARD row says 0 < 1: no. A finding.

An earlier write must be known in HARD, an earlier *read* only in PRACTISED: overwriting what
another lane of the same instruction stream has read before is in order on all hardware (decision
W2). What is missing, and in which words to say it, is :mod:`mmalab.sanitizer.witness`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.accesses import Pair
from mmalab.sanitizer.clocks import HARD, PRACTISED
from mmalab.sanitizer.shadow import Column, Page, Slot, SlotKey, index
from mmalab.sanitizer.touch import Touch
from mmalab.sanitizer.uninitialised import Uninitialised
from mmalab.sanitizer.witness import Judge
from mmalab.sanitizer.world import World

__all__ = ["Races"]


@dataclass(frozen=True, slots=True)
class _Cells:
    """A portion of a touch, flattened: cell and lane per element."""

    page: Page
    cells: NDArray[np.intp]
    by: NDArray[np.int64]
    #: Cells per access, and which accesses of the touch fall into this page.
    times: int
    chosen: NDArray[np.int64]

    def access(self, elements: Any) -> Any:
        """The accesses (index into the touch) that elements belong to."""
        return self.chosen[elements // self.times]


class _Failure(NamedTuple):
    """An earlier access (record, lane) that is not ordered before element `at`."""

    record: int
    lane: int
    at: int
    elements: NDArray[np.intp]


class Races:
    """Checks accesses against shadow memory and enters them into it."""

    def __init__(self, world: World, judge: Judge, uninitialised: Uninitialised) -> None:
        self._world = world
        self._judge = judge
        self._uninitialised = uninitialised
        self._clusters = world.cluster != (1, 1, 1)

    def touch(self, touch: Touch, page: Page | None = None) -> None:
        """Check and enter one access. `page` is the shared page, None for global memory."""
        record = self._world.ledger.note(
            cta=touch.clock.cta, row=touch.row, clock=touch.epoch, warp=touch.clock.warp,
            site=touch.site, mask=touch.mask, strength=touch.strength, write=touch.write,
            kind=touch.kind)
        key = SlotKey(touch.clock.cta, touch.row, touch.strength, touch.write)
        if page is not None:
            self._portion(touch, page, page.cells(touch.addresses, touch.size),
                          index(len(touch.addresses)), key, record)
            return
        memory = self._world.memory
        if touch.write:
            memory.written(touch.addresses)
        elif memory.read(key, touch.addresses, touch.by, touch.size, record):
            return
        for portion in memory.portions(touch.addresses, touch.size):
            self._portion(touch, *portion, key, record)

    def _portion(self, touch: Touch, page: Page, cells: NDArray[np.intp],
                 chosen: NDArray[np.int64], key: SlotKey, record: int) -> None:
        times = cells.shape[1]
        by = touch.by if len(chosen) == len(touch.by) else touch.by[chosen]
        if times > 1:
            by = np.repeat(by, times)
        flat = _Cells(page, cells.reshape(-1), by, times, chosen)
        self._check(touch, flat)
        self._enter(touch, flat, key, record)

    def _enter(self, touch: Touch, flat: _Cells, key: SlotKey, record: int) -> None:
        page = flat.page
        if touch.write and not touch.strength:
            page.set_write(flat.cells, (record << 5) + flat.by.astype(np.int32))
        else:
            page.add(key, flat.cells, flat.by, record, self._world.ledger, touch.clock)
        if touch.write and page.values is not None:
            offsets = (touch.addresses[flat.chosen] - page.base)[:, None] + index(touch.size)
            page.values[offsets] = -1 if touch.values is None else touch.values[flat.chosen]

    def _check(self, touch: Touch, flat: _Cells) -> None:
        page = flat.page
        stamps = page.writes.take(flat.cells)
        touched = stamps.nonzero()[0]
        if len(touched) < len(stamps) and touch.reads:
            self._uninitialised.read(touch, page, flat.cells, flat.by, stamps)
        failures = list(self._against_writes(touch, flat, stamps, touched))
        for slot in page.entered(flat.cells):
            if self._conflicts(touch, slot.key):
                failures += self._against_slot(touch, flat, slot)
        if page.spilled:
            failures += self._against_spilled(touch, flat)
        for failure in failures:
            self._judge.report(self._pair(touch, flat, failure))

    def _against_writes(self, touch: Touch, flat: _Cells, stamps: NDArray[np.int32],
                        touched: NDArray[np.intp]) -> Iterator[_Failure]:
        if not len(touched):
            return
        by = flat.by
        if len(touched) < len(stamps):
            stamps, by = stamps[touched], by[touched]
        lane, record = stamps & 31, stamps >> 5
        table = self._world.ledger.table
        # Without clusters a CTA's shared memory holds nothing of other CTAs.
        near = touch.space == "shared" and not self._clusters
        known = touch.clock.covers(
            HARD, by, None if near else table[Column.CTA].take(record),
            table[Column.ROW].take(record), lane, table[Column.CLOCK].take(record))
        if known.all():
            return
        bad = touched[~known]
        records, lanes = record[~known], lane[~known]
        for number in sorted(set(records.tolist())):
            here = records == number
            yield _Failure(number, int(lanes[here][0]), int(bad[here][0]), bad[here])

    def _conflicts(self, touch: Touch, key: SlotKey) -> bool:
        if not (touch.write or key.write):
            return False
        if not (touch.strength and key.strength):
            return True
        distance = self._world.distance(touch.clock.cta, key.cta)
        return min(touch.strength, key.strength) - 1 < distance

    def _against_slot(self, touch: Touch, flat: _Cells, slot: Slot) -> Iterator[_Failure]:
        records = slot.records.take(flat.cells)
        if not records.any():
            return
        masks = slot.masks.take(flat.cells)
        for number in sorted(set(records.tolist()) - {0}):
            here = (records == number).nonzero()[0]
            failure = self._unknown(touch, flat, slot.key, number, here, masks[here])
            if failure is not None:
                yield failure

    def _against_spilled(self, touch: Touch, flat: _Cells) -> Iterator[_Failure]:
        for at, cell in enumerate(flat.cells.tolist()):
            for key, number, mask in flat.page.spilled.get(cell, ()):
                if self._conflicts(touch, key):
                    here = np.array([at])
                    masks = np.array([mask], np.uint32)
                    failure = self._unknown(touch, flat, key, number, here, masks)
                    if failure is not None:
                        yield failure

    def _unknown(self, touch: Touch, flat: _Cells, key: SlotKey, number: int,
                 here: NDArray[np.intp], masks: NDArray[np.uint32]) -> _Failure | None:
        relation = HARD if key.write else PRACTISED
        clock = int(self._world.ledger.table[Column.CLOCK, number])
        missing = masks & touch.clock.unknown(relation, flat.by[here], key.cta, key.row, clock)
        bad = missing.nonzero()[0]
        if not len(bad):
            return None
        first = int(missing[bad[0]])
        return _Failure(number, (first & -first).bit_length() - 1, int(here[bad[0]]), here[bad])

    def _pair(self, touch: Touch, flat: _Cells, failure: _Failure) -> Pair:
        page = flat.page
        accesses = np.unique(flat.access(failure.elements))
        cell = int(flat.cells[failure.at])
        return Pair(
            touch=touch, record=failure.record, lane=failure.lane, by=int(flat.by[failure.at]),
            address=page.base + cell * page.granule, size=page.granule,
            lanes=tuple(touch.by[accesses].tolist()),
            same_value=_same_value(touch, page, accesses))


def _same_value(touch: Touch, page: Page, accesses: NDArray[np.intp]) -> bool:
    """Whether a write stores what its bytes are known to hold already."""
    if not touch.write or touch.values is None or page.values is None:
        return False
    offsets = (touch.addresses[accesses] - page.base)[:, None] + np.arange(touch.size)
    return bool((page.values[offsets] == touch.values[accesses]).all())


