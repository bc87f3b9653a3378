"""The check on an access: is everything it conflicts with ordered before it?

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.clocks import HARD, PRACTISED
from mmalab.sanitizer.shadow import Column, Page, Portion, Slot, SlotKey
from mmalab.sanitizer.witness import Judge, Pair, Touch
from mmalab.sanitizer.world import World

__all__ = ["Races"]


@dataclass(frozen=True, slots=True)
class _Cells:
    """A portion of a touch, flattened: cell and lane per element."""

    page: Page
    cells: NDArray[np.intp]
    by: NDArray[np.int64]
    #: Index of the lane's access in the touch, per element.
    access: NDArray[np.intp]
    #: The accesses of the touch that fall into this page.
    chosen: NDArray[np.intp]


class _Failure(NamedTuple):
    """An earlier access (record, lane) that is not ordered before element `at`."""

    record: int
    lane: int
    at: int
    elements: NDArray[np.intp]


class Races:
    """Checks accesses against shadow memory and enters them into it."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge

    def touch(self, touch: Touch, page: Page | None = None) -> None:
        """Check and enter one access. `page` is the shared page, None for global memory."""
        record = self._record(touch)
        key = SlotKey(touch.clock.cta, touch.row, touch.strength, touch.write)
        memory = self._world.memory
        if page is None:
            if touch.write:
                memory.written(touch.addresses)
            elif memory.read(key, touch.addresses, touch.by, touch.size, record):
                return
            portions = memory.portions(touch.addresses, touch.size)
        else:
            everything = np.arange(len(touch.addresses))
            portions = iter((Portion(page, page.cells(touch.addresses, touch.size), everything),))
        for portion in portions:
            flat = _flatten(portion, touch)
            self._check(touch, flat)
            self._enter(touch, flat, key, record)

    def _record(self, touch: Touch) -> int:
        mask = int(np.bitwise_or.reduce(np.left_shift(1, touch.by)))
        return self._world.ledger.note(
            cta=touch.clock.cta, row=touch.row, clock=touch.epoch, warp=touch.clock.warp,
            site=touch.site, mask=mask, strength=touch.strength, write=touch.write)

    def _enter(self, touch: Touch, flat: _Cells, key: SlotKey, record: int) -> None:
        page = flat.page
        if touch.write and not touch.strength:
            page.set_write(flat.cells, (record << 5) + flat.by.astype(np.int32))
        else:
            clock = touch.clock
            page.add(key, flat.cells, flat.by, record, self._world.ledger, clock)
        if touch.write and page.values is not None:
            chosen = flat.chosen
            offsets = (touch.addresses[chosen] - page.base)[:, None] + np.arange(touch.size)
            page.values[offsets] = -1 if touch.values is None else touch.values[chosen]

    def _check(self, touch: Touch, flat: _Cells) -> None:
        failures = list(self._against_writes(touch, flat))
        for slot in flat.page.slots.values():
            if self._conflicts(touch, slot.key):
                failures += self._against_slot(touch, flat, slot)
        if flat.page.spilled:
            failures += self._against_spilled(touch, flat)
        for failure in failures:
            self._judge.report(self._pair(touch, flat, failure))

    def _against_writes(self, touch: Touch, flat: _Cells) -> Iterator[_Failure]:
        stamps = flat.page.writes.take(flat.cells)
        touched = stamps.nonzero()[0]
        if not len(touched):
            return
        by = flat.by
        if len(touched) < len(stamps):
            stamps, by = stamps[touched], by[touched]
        lane = (stamps & 31).astype(np.int64)
        record = stamps >> 5
        table = self._world.ledger.table
        known = touch.clock.covers(
            HARD, by, table[Column.CTA].take(record), table[Column.ROW].take(record), lane,
            table[Column.CLOCK].take(record))
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
        accesses = np.unique(flat.access[failure.elements])
        cell = int(flat.cells[failure.at])
        return Pair(
            touch=touch, record=failure.record, lane=failure.lane,
            by=int(flat.by[failure.at]),
            address=max(page.base + cell * page.granule,
                        int(touch.addresses[flat.access[failure.at]])),
            size=min(page.granule, touch.size), lanes=tuple(touch.by[accesses].tolist()),
            same_value=_same_value(touch, page, accesses))


def _flatten(portion: Portion, touch: Touch) -> _Cells:
    times = portion.cells.shape[1]
    access = portion.chosen if times == 1 else np.repeat(portion.chosen, times)
    return _Cells(portion.page, portion.cells.reshape(-1), touch.by.take(access), access,
                  portion.chosen)


def _same_value(touch: Touch, page: Page, accesses: NDArray[np.intp]) -> bool:
    """Whether a write stores what its bytes are known to hold already."""
    if not touch.write or touch.values is None or page.values is None:
        return False
    offsets = (touch.addresses[accesses] - page.base)[:, None] + np.arange(touch.size)
    return bool((page.values[offsets] == touch.values[accesses]).all())


