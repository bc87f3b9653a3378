"""Accesses of agents: whole tiles at once, checked with what their issuer knows.

A bulk copy or a wgmma may run at any time after its issue, so it is checked when it is issued, with
the issuer's knowledge, and entered under its agent's epoch, which nobody knows yet. A tile is a
stretch of cells: the check looks at the *different* records in it, not at every cell.

    st.shared [tile + 16*tid]  by 128 threads       4 records, 128 stamps in 512 cells
    cp.async.bulk.global.shared [out], [tile], 2048
        HARD of the issuing lane covers the stamps?    else missing-barrier
        PROXY_SHARED covers them?                      else missing-proxy-fence

Generic writes must be fenced for the async proxy (F of the ordering model); generic *reads* before
an overwrite need the fence only where nothing but lockstep orders them (decision P2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.accesses import Pair
from mmalab.sanitizer.agents import Proxy
from mmalab.sanitizer.clocks import HARD, PRACTISED
from mmalab.sanitizer.lanes import WarpClock
from mmalab.sanitizer.shadow import Column, Page, Slot, SlotKey, Where
from mmalab.sanitizer.touch import Sweep
from mmalab.sanitizer.witness import Judge
from mmalab.sanitizer.world import World

__all__ = ["Looked", "Sweeps"]

#: Sets of stamps that are remembered for each warp.
_REMEMBERED = 64
#: Bits of a layout's number that say the swizzle.
_SWIZZLES = 8


class Looked(NamedTuple):
    """What a sweep that reads found in one page: the different stamps of ordinary writes."""

    page: Page
    different: NDArray[np.int32]
    generation: int


class Sweeps:
    """Checks the accesses of agents and enters them into shadow memory."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge
        self._layouts = [""]
        self._boxes: dict[tuple[int, ...], int] = {(): 0}
        #: Stamps that a clock has in order, by (lane, fence, stamps): clocks only grow, and the
        #: products of one slice of K ask the same.
        self._ordered: dict[WarpClock, set[tuple[int, int, bytes]]] = {}
        #: Which writes (CTA, row, lane, clock) [n] to a tensor map its user may rely on.
        self.map_known: Callable[..., NDArray[np.bool_]] = _none_known

    def layout(self, swizzle: str, box: tuple[int, ...] = ()) -> int:
        """A number for the way that bytes lie, with the box that they are part of; 0: not known."""
        if swizzle not in self._layouts:
            self._layouts.append(swizzle)
        return self._layouts.index(swizzle) | self._boxes.setdefault(
            box, len(self._boxes)) << _SWIZZLES

    def boxes(self, cells: NDArray[np.int64], page: Page) -> tuple[tuple[int, int], ...]:
        """Who wrote the cells, and in which box: (site, number of the box) of each, 0 for none."""
        stamps = page.writes.take(cells, mode="clip") >> 5
        table = self._world.ledger.table
        return tuple(zip(table[Column.SITE].take(stamps).tolist(),
                         (table[Column.SWIZZLE].take(stamps) >> _SWIZZLES).tolist(), strict=True))

    def box(self, number: int) -> tuple[int, ...]:
        """The box of a number."""
        return next(box for box, known in self._boxes.items() if known == number)

    def sweep(self, sweep: Sweep, page: Page | None = None) -> list[Looked]:
        """Check and enter. `page` is the shared page, None for global memory."""
        agent = sweep.agent
        record = self._world.ledger.note(
            cta=agent.cta, row=agent.row, clock=sweep.epoch, warp=sweep.clock.warp,
            site=sweep.site, mask=1 << sweep.lane, strength=sweep.strength, write=sweep.write,
            agent=agent, proxy=sweep.proxy, home=sweep.clock.cta, swizzle=sweep.swizzle)
        key = SlotKey(agent.cta, agent.row, sweep.strength, sweep.write, agent.lane)
        looked: list[Looked] = []
        for portion, where in self._portions(sweep, page, key, record):
            looked.append(self._check(sweep, portion, where))
            if sweep.write and not sweep.strength:
                portion.set_write(where, (record << 5) + agent.lane)
                portion.forget_values(where)
            else:
                portion.replace(key, where, record)
        return looked

    def again(self, sweep: Sweep, looked: list[Looked]) -> bool:
        """Whether the same reads are in order for another issuer; False: not known that way."""
        for page, different, generation in looked:
            if page.generation != generation or any(key.write for key in page.slots):
                return False
            if len(different) and not self._known(sweep, different).all():
                return False
        return True

    def _portions(self, sweep: Sweep, page: Page | None, key: SlotKey, record: int,
                  ) -> Iterator[tuple[Page, Where]]:
        if not len(sweep.starts):
            return
        if page is not None:
            yield page, page.stretch(sweep.starts, sweep.size)
            return
        memory = self._world.memory
        if sweep.write:
            memory.written(sweep.starts)
        elif memory.swept(key, sweep.starts, sweep.size, record):
            return
        yield from memory.stretches(sweep.starts, sweep.size)

    # -- checks ----------------------------------------------------------------------------------

    def _check(self, sweep: Sweep, page: Page, where: Where) -> Looked:
        stamps = page.writes[where]
        different = _different(stamps)
        if len(different):
            self._against_writes(sweep, page, where, stamps, different)
        for slot in page.entered(where):
            if self._conflicts(sweep, slot.key):
                self._against_slot(sweep, page, where, slot)
        if page.spilled:
            self._against_spilled(sweep, page, where)
        return Looked(page, different, page.generation)

    def _against_writes(self, sweep: Sweep, page: Page, where: Where, stamps: NDArray[np.int32],
                        different: NDArray[np.int32]) -> None:
        known = self._known(sweep, different)
        if sweep.swizzle and not sweep.write:
            record = different >> 5
            self._compare_layouts(
                sweep, self._world.ledger.table[Column.SWIZZLE].take(record), record)
        for bad in different[~known].tolist():
            self._report(sweep, page, where, bad >> 5, bad & 31, stamps == bad)

    def _known(self, sweep: Sweep, different: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which stamps are ordered before the sweep, and visible to its proxy."""
        if sweep.proxy != Proxy.ASYNC:
            return self._look(sweep, different)
        ordered = self._ordered.setdefault(sweep.clock, set())
        key = sweep.lane, sweep.fenced, different.tobytes()
        if key in ordered:
            return np.ones(len(different), np.bool_)
        known = self._look(sweep, different)
        if known.all():
            if len(ordered) >= _REMEMBERED:
                ordered.clear()
            ordered.add(key)
        return known

    def _look(self, sweep: Sweep, different: NDArray[np.int32]) -> NDArray[np.bool_]:
        table = self._world.ledger.table
        record, lane = different >> 5, different & 31
        by = np.full(len(different), sweep.lane, np.int64)
        epochs = (by, table[Column.CTA].take(record), table[Column.ROW].take(record), lane,
                  table[Column.CLOCK].take(record))
        known = sweep.clock.covers(PRACTISED if sweep.proxy == Proxy.TENSORMAP else HARD, *epochs)
        if sweep.proxy != Proxy.GENERIC:
            generic = table[Column.PROXY].take(record) == Proxy.GENERIC
            if generic.any():
                seen = (sweep.clock.covers(sweep.fenced, *epochs) if sweep.proxy == Proxy.ASYNC
                        else self.map_known(sweep, *epochs[1:]))
                known &= ~generic | seen
        return known

    def _compare_layouts(self, sweep: Sweep, written: NDArray[np.int64],
                         records: NDArray[np.int32]) -> None:
        """The bytes were last written by a tensor copy in another swizzle than the reader's."""
        written = written & (1 << _SWIZZLES) - 1
        for record in records[(written != 0) & (written != sweep.swizzle)].tolist():
            world = self._world
            writer = int(world.ledger.table[Column.SITE, record])
            modes = [self._layouts[code] for code in (
                int(world.ledger.table[Column.SWIZZLE, record]) & (1 << _SWIZZLES) - 1,
                sweep.swizzle)]
            world.report(
                "swizzle-mismatch", "error",
                f"{world.named(sweep.site)} reads shared memory with swizzle {modes[1]}, but "
                f"{world.named(writer)} wrote it with swizzle {modes[0]}. Repair: one swizzle "
                "mode in the tensor map and in the reader's descriptor",
                cta=sweep.clock.cta, warp=sweep.clock.warp, site=sweep.site, lane=sweep.lane,
                key=(writer,), witness={"written": modes[0], "read": modes[1],
                                        "writer_line": world.line(writer)})

    def _conflicts(self, sweep: Sweep, key: SlotKey) -> bool:
        if not (sweep.write or key.write):
            return False
        if not (sweep.strength and key.strength):
            return True
        distance = self._world.distance(sweep.clock.cta, key.cta)
        return min(sweep.strength, key.strength) - 1 < distance

    def _against_slot(self, sweep: Sweep, page: Page, where: Where, slot: Slot) -> None:
        records = slot.records[where]
        if not records.any():
            return
        masks = slot.masks[where]
        for number in _different(records).tolist():
            here = records == number
            seen = np.bitwise_or.reduce(masks[here])
            missing = seen & self._unknown(sweep, slot.key, number)
            if missing:
                lane = (int(missing) & -int(missing)).bit_length() - 1
                self._report(sweep, page, where, number, lane,
                             here & (masks >> np.uint32(lane) & 1 == 1))

    def _unknown(self, sweep: Sweep, key: SlotKey, number: int) -> int:
        """The lanes of an earlier access that are not ordered before the sweep."""
        clock = int(self._world.ledger.table[Column.CLOCK, number])
        by = np.array([sweep.lane])

        def lacks(relation: int) -> int:
            return int(sweep.clock.unknown(relation, by, key.cta, key.row, clock)[0])

        generic = self._world.ledger.table[Column.PROXY, number] == Proxy.GENERIC
        if not generic or sweep.proxy == Proxy.GENERIC:
            return lacks(HARD if key.write else PRACTISED)
        if key.write:
            return lacks(HARD) | lacks(sweep.fenced)
        return lacks(PRACTISED) | (lacks(HARD) & lacks(sweep.fenced))

    def _against_spilled(self, sweep: Sweep, page: Page, where: Where) -> None:
        cells = np.arange(where.start, where.stop) if isinstance(where, slice) else where
        inside = np.intersect1d(np.fromiter(page.spilled, np.int64, len(page.spilled)), cells)
        for cell in inside.tolist():
            for key, number, mask in page.spilled[cell]:
                if self._conflicts(sweep, key):
                    missing = mask & self._unknown(sweep, key, number)
                    if missing:
                        self._report(sweep, page, where, number,
                                     (missing & -missing).bit_length() - 1, cells == cell)

    def _report(self, sweep: Sweep, page: Page, where: Where, record: int, lane: int,
                here: NDArray[np.bool_]) -> None:
        at = int(here.argmax())
        cell, run = at, int(here[at:].argmin()) or len(here) - at
        if isinstance(where, slice):
            cell += where.start
        else:
            cell = int(where[at])
            gaps = np.flatnonzero(np.diff(where[at : at + run]) != 1)
            run = int(gaps[0]) + 1 if len(gaps) else run
        self._judge.report(Pair(
            touch=sweep, record=record, lane=lane, by=sweep.lane,
            address=page.base + cell * page.granule, size=run * page.granule,
            lanes=(sweep.lane,), same_value=False))


def _different(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """The different values but 0: runs of equal ones, then the different ones of these."""
    starts = np.empty(len(values), np.bool_)
    starts[0] = True
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    found: NDArray[np.int32] = np.unique(values[starts])
    return found[1:] if found[0] == 0 else found


def _none_known(_sweep: Sweep, cta: NDArray[np.int64], *_rest: NDArray[np.int64],
                ) -> NDArray[np.bool_]:
    return np.zeros(len(cta), np.bool_)
