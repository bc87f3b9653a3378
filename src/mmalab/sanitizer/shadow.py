"""Shadow memory: for every byte that was touched, who touched it last.

A cell covers `granule` bytes (4 at first, 2 or 1 once a narrower access needs it) and holds

* one *stamp* of the last ordinary write: ``record << 5 | lane``;
* per reading actor, and per actor that wrote strongly (atomics, relaxed stores), a record and a
  mask of lanes. Strong accesses do not exclude each other, so all of them must be remembered until
  an ordinary write that is ordered after them replaces them.

A record (:class:`Ledger`) says which actor, in which epoch, at which instruction. Example: warp 2
stores ``st.shared.b32 [tile + 4*lane]`` in epoch 3 at site 17; the ledger gets one record
(row 2, clock 3, site 17) with number 9 and cells 256..287 get the stamps ``9 << 5 | 0..31``.

Nothing is dropped that a later check could need: an older read of the same actor is forgotten only
when the lanes that read now are ordered after it, and is spilled to a list otherwise.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mmalab.sanitizer.agents import Agent
from mmalab.sanitizer.clocks import HARD, LANES
from mmalab.sanitizer.lanes import WarpClock

__all__ = ["Column", "GlobalShadow", "Ledger", "Page", "Portion", "Slot", "SlotKey", "Where",
           "index"]

_PAGE_BYTES = 4096
#: Bytes of arrays that are mapped.
_LARGE = 1 << 15
#: Slots that are looked at without asking where they hold anything.
_FEW = 3
#: Cells of a page: a stretch of them, or numbers.
Where: TypeAlias = slice | NDArray[np.intp]
_BIT = np.uint32(1) << np.arange(LANES, dtype=np.uint32)


@cache
def index(size: int) -> NDArray[np.int64]:
    """``arange(size)``, shared between callers: not to be changed."""
    return np.arange(size)


class Column(IntEnum):
    """Columns of the ledger."""

    CTA = 0
    ROW = 1
    CLOCK = 2
    WARP = 3
    SITE = 4
    MASK = 5
    STRENGTH = 6
    WRITE = 7
    #: AgentKind and Proxy; the CTA that issued it; how a tensor copy laid out the bytes.
    KIND = 8
    PROXY = 9
    HOME = 10
    SWIZZLE = 11


class Ledger:
    """All accesses, as rows of one integer table. Equal accesses share a row; row 0 is nobody."""

    def __init__(self) -> None:
        #: [column, record]
        self.table = np.zeros((len(Column), 256), np.int64)
        self._count = 1
        #: (CTA, row, lane of an agent) -> its latest epoch, and the accesses noted in it.
        self._latest: dict[tuple[int, int, int], tuple[int, dict[tuple[int, ...], int]]] = {}

    def note(self, *, cta: int, row: int, clock: int, warp: int, site: int, mask: int,
             strength: int, write: bool, kind: int = 0, agent: Agent | None = None,
             proxy: int = 0, home: int | None = None, swizzle: int = 0) -> int:
        """The number of this access. `strength` 0 is weak, else 1 + the level of its scope.

        `agent` does it on behalf of `warp` of CTA `home`, the same CTA if not given.
        """
        actor = (cta, row, -1 if agent is None else agent.lane)
        epoch, known = self._latest.get(actor, (-1, {}))
        if epoch != clock:
            known = {}
            self._latest[actor] = (clock, known)
        home = cta if home is None else home
        key = (site, mask, strength, write, proxy, home, warp, swizzle)
        number = known.get(key)
        if number is None:
            number = known[key] = self._count
            self._count += 1
            if number == self.table.shape[1]:
                self.table = np.concatenate((self.table, np.zeros_like(self.table)), axis=1)
            kind = kind if agent is None else agent.kind
            self.table[:, number] = (cta, row, clock, warp, site, mask, strength, write, kind,
                                     proxy, home, swizzle)
        return number


class SlotKey(NamedTuple):
    """Whose accesses a slot holds: one actor's reads, or strong writes, of one strength.

    Agents that share a row have slots of their own: `lane` is the agent's, -1 for a warp.
    """

    cta: int
    row: int
    strength: int
    write: bool
    lane: int = -1


@dataclass(slots=True)
class Slot:
    """Per cell the latest access of one kind by one actor; cells `low` to `high` have any."""

    key: SlotKey
    records: NDArray[np.int32]
    masks: NDArray[np.uint32]
    low: int = 0
    high: int = 0

    def reaches(self, low: int, high: int) -> bool:
        """Whether it may hold anything in the cells `low` to `high`."""
        return self.low < high and low < self.high

    def grow(self, low: int, high: int) -> None:
        """Something is entered in the cells `low` to `high`."""
        self.low = min(self.low, low) if self.high else low
        self.high = max(self.high, high)


    def lengthen(self, cells: int) -> None:
        """The page has got so many cells."""
        held = slice(self.low, self.high)
        for name in ("records", "masks"):
            old = getattr(self, name)
            fresh = _zeros(cells, old.dtype)
            fresh[held] = old[held]
            setattr(self, name, fresh)


def _zeros(count: int, kind: DTypeLike) -> NDArray[Any]:
    """Zeros of which the large ones take memory only where they are touched."""
    size = count * np.dtype(kind).itemsize
    return np.zeros(count, kind) if size < _LARGE else np.frombuffer(mmap.mmap(-1, size), kind)


def _bounds(where: Where) -> tuple[int, int]:
    """The first cell, and the one behind the last."""
    if isinstance(where, slice):
        return where.start, where.stop
    return int(where.min()), int(where.max()) + 1


class Page:
    """The cells of a stretch of memory that begins at `base`."""

    def __init__(self, base: int, size: int, *, keeps_values: bool = False) -> None:
        self.base = base
        self.granule = 4
        self.writes = np.zeros(-(-size // 4), np.int32)
        self.slots: dict[SlotKey, Slot] = {}
        self.spilled: dict[int, list[tuple[SlotKey, int, int]]] = {}
        #: Last written value of each byte; -1 where it is not known.
        self.values = np.full(size, -1, np.int16) if keeps_values else None
        #: Moves with every ordinary write, and when cells get other numbers.
        self.generation = 0

    def cells(self, addresses: NDArray[np.int64], size: int) -> NDArray[np.intp]:
        """[n, cells per access] cell numbers; refines or extends the page where it must."""
        offsets = addresses - self.base if self.base else addresses
        bits = int(np.bitwise_or.reduce(offsets)) | size
        if bits & (self.granule - 1):
            self._refine(bits & -bits)
        first = offsets >> (self.granule.bit_length() - 1)
        times = size // self.granule
        cells = first[:, None] + index(times) if times > 1 else first[:, None]
        top = int(first.max()) + times
        if top > len(self.writes):
            self._extend(top)
        return cells

    def _refine(self, granule: int) -> None:
        self.generation += 1
        times = self.granule // granule
        self.writes = np.repeat(self.writes, times)
        for slot in self.slots.values():
            slot.records = np.repeat(slot.records, times)
            slot.masks = np.repeat(slot.masks, times)
            slot.low, slot.high = slot.low * times, slot.high * times
        self.spilled = {cell * times + k: list(entries) for cell, entries in self.spilled.items()
                        for k in range(times)}
        self.granule = granule

    def _extend(self, cells: int) -> None:
        more = max(cells, 2 * len(self.writes)) - len(self.writes)
        self.writes = np.pad(self.writes, (0, more))
        if self.values is not None:
            self.values = np.pad(self.values, (0, more * self.granule), constant_values=-1)
        for slot in self.slots.values():
            slot.lengthen(len(self.writes))

    def stretch(self, starts: NDArray[np.int64], size: int) -> Where:
        """The cells of `size` bytes from each of the ascending `starts`; refines or extends."""
        offsets = starts - self.base
        bits = int(np.bitwise_or.reduce(offsets)) | size
        if bits & (self.granule - 1):
            self._refine(bits & -bits)
        shift = self.granule.bit_length() - 1
        low, high, times = int(offsets[0]) >> shift, (int(offsets[-1]) + size) >> shift, (
            size >> shift)
        if high > len(self.writes):
            self._extend(high)
        if high - low == times * len(starts) and (np.diff(offsets) == size).all():
            return slice(low, high)
        return ((offsets >> shift)[:, None] + index(times)).reshape(-1)

    def set_write(self, cells: Where, stamps: NDArray[np.int32] | int) -> None:
        """An ordinary write: it replaces everything that the cells remembered."""
        self.generation += 1
        self.writes[cells] = stamps
        for slot in self.entered(cells):
            slot.records[cells] = 0
        if self.spilled:
            numbers = range(cells.start, cells.stop) if isinstance(cells, slice) else (
                cells.tolist())
            for cell in numbers:
                self.spilled.pop(cell, None)

    def entered(self, where: Where) -> list[Slot]:
        """The slots that may hold something in these cells: most actors keep to places of their
        own."""
        if len(self.slots) < _FEW:
            return list(self.slots.values())
        low, high = _bounds(where)
        return [slot for slot in self.slots.values() if slot.reaches(low, high)]

    def forget_values(self, cells: Where) -> None:
        """What the cells hold is not known any more."""
        if self.values is None:
            return
        times = self.granule
        if isinstance(cells, slice):
            self.values[cells.start * times : cells.stop * times] = -1
        else:
            self.values.reshape(-1, times)[cells] = -1

    def replace(self, key: SlotKey, cells: Where, record: int) -> None:
        """A read or a strong write by an agent: its later epochs cover the earlier ones."""
        slot = self._slot(key)
        slot.grow(*_bounds(cells))
        slot.records[cells] = record
        slot.masks[cells] = np.uint32(1 << key.lane)

    def _slot(self, key: SlotKey) -> Slot:
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot(key, _zeros(len(self.writes), np.int32),
                                          _zeros(len(self.writes), np.uint32))
        return slot

    def add(self, key: SlotKey, cells: NDArray[np.intp], by: NDArray[np.int64], record: int,
            ledger: Ledger, clock: WarpClock | None) -> None:
        """A read or a strong write of `cells` [n] by lanes `by` [n]."""
        slot = self._slot(key)
        slot.grow(*_bounds(cells))
        masks = self._masks(cells, by)
        old = slot.records.take(cells)
        if old.any():
            left = np.where(old != 0, slot.masks[cells] & ~masks, np.uint32(0))
            if left.any():
                masks = masks | self._kept(slot, cells, left, old, record, ledger, clock, masks)
        slot.records[cells] = record
        slot.masks[cells] = masks

    def _masks(self, cells: NDArray[np.intp], by: NDArray[np.int64]) -> NDArray[np.uint32]:
        bits = _BIT.take(by)
        if (cells[1:] > cells[:-1]).all():
            return bits
        scratch = np.zeros(int(cells.max()) - int(cells.min()) + 1, np.uint32)
        local = cells - cells.min()
        np.bitwise_or.at(scratch, local, bits)
        masks: NDArray[np.uint32] = scratch[local]
        return masks

    def _kept(self, slot: Slot, cells: NDArray[np.intp], left: NDArray[np.uint32],
              old: NDArray[np.int32], record: int, ledger: Ledger, clock: WarpClock | None,
              masks: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Lanes of older accesses that merge into the new one; what may not merge is spilled."""
        merged = np.zeros(len(cells), np.uint32)
        now = ledger.table[Column.CLOCK, record]
        for number in sorted(set(old[left != 0].tolist())):
            here = (old == number) & (left != 0)
            before = int(ledger.table[Column.CLOCK, number])
            if before == now:
                merged[here] = left[here]
                continue
            missing = left[here]
            if clock is not None:
                seen_by = int(np.bitwise_or.reduce(masks[here]))
                missing = missing & np.uint32(_unknown(clock, slot.key, before, seen_by))
            for cell, lanes in zip(cells[here].tolist(), missing.tolist(), strict=True):
                if lanes:
                    entry = (slot.key, number, lanes)
                    known = self.spilled.setdefault(cell, [])
                    if entry not in known:
                        known.append(entry)
        return merged


def _unknown(clock: WarpClock, key: SlotKey, before: int, mask: int) -> int:
    """Lanes of an actor of which some lane in `mask` does not know the epoch `before`."""
    by = np.flatnonzero((mask >> np.arange(LANES)) & 1).astype(np.int64)
    missing = clock.unknown(HARD, by, key.cta, key.row, before)
    return int(np.bitwise_or.reduce(missing))


@dataclass(frozen=True, slots=True)
class _Read:
    """A read of a buffer that nobody had written: cells are made for it only if one comes."""

    key: SlotKey
    addresses: NDArray[np.int64]
    by: NDArray[np.int64]
    size: int
    record: int


@dataclass(frozen=True, slots=True)
class _Sweep:
    """The same, by an agent: `size` bytes from each of the starts."""

    key: SlotKey
    starts: NDArray[np.int64]
    size: int
    record: int


class Portion(NamedTuple):
    """The part of an access that falls into one page: `chosen` indexes the lanes given."""

    page: Page
    cells: NDArray[np.intp]
    chosen: NDArray[np.intp]


class GlobalShadow:
    """Shadow of global memory: pages made on first touch, and only in buffers that are written.

    A buffer is the top 24 bits of an address. Reads of a buffer without writes, which is most of
    the traffic of most kernels, are kept in a list and sorted into cells if a write ever comes.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pages: dict[int, Page] = {}
        self._unwritten: dict[int, list[_Read | _Sweep]] = {}
        self._written: set[int] = set()
        #: Per reader its latest access that was put off: a spin repeats it.
        self._latest: dict[SlotKey, tuple[int, NDArray[np.int64]]] = {}

    def read(self, key: SlotKey, addresses: NDArray[np.int64], by: NDArray[np.int64], size: int,
             record: int) -> bool:
        """Put the read off if its buffer was never written; False: it needs its cells now."""
        buffer = int(addresses[0]) >> 40
        if buffer in self._written or (addresses >> 40 != buffer).any():
            return False
        latest = self._latest.get(key)
        if latest is None or latest[0] != record or not np.array_equal(latest[1], addresses):
            self._latest[key] = (record, addresses)
            self._unwritten.setdefault(buffer, []).append(
                _Read(key, addresses, by, size, record))
        return True

    def swept(self, key: SlotKey, starts: NDArray[np.int64], size: int, record: int) -> bool:
        """The same for an agent that reads `size` bytes from each of the ascending `starts`."""
        buffer = int(starts[0]) >> 40
        if buffer in self._written or int(starts[-1]) >> 40 != buffer:
            return False
        self._unwritten.setdefault(buffer, []).append(_Sweep(key, starts, size, record))
        return True

    def stretches(self, starts: NDArray[np.int64], size: int) -> Iterator[tuple[Page, Where]]:
        """`size` bytes from each of the ascending `starts`, page by page."""
        numbers, last = starts // _PAGE_BYTES, (starts + (size - 1)) // _PAGE_BYTES
        inside = numbers == last
        for number in np.unique(numbers[inside]).tolist():
            page = self._page(number)
            yield page, page.stretch(starts[inside & (numbers == number)], size)
        for start in starts[~inside].tolist():
            low = start
            while low < start + size:
                page = self._page(low // _PAGE_BYTES)
                high = min(start + size, (low // _PAGE_BYTES + 1) * _PAGE_BYTES)
                yield page, page.stretch(np.array([low]), high - low)
                low = high

    def written(self, addresses: NDArray[np.int64]) -> None:
        """A write comes: sort the reads that were put off for its buffers into cells."""
        for buffer in {int(address) >> 40 for address in (addresses.min(), addresses.max())}:
            if buffer in self._written:
                continue
            self._written.add(buffer)
            for read in self._unwritten.pop(buffer, ()):
                if isinstance(read, _Sweep):
                    for page, where in self.stretches(read.starts, read.size):
                        page.replace(read.key, where, read.record)
                    continue
                for page, cells, chosen in self.portions(read.addresses, read.size):
                    by = np.repeat(read.by[chosen], cells.shape[1])
                    page.add(read.key, cells.reshape(-1), by, read.record, self._ledger, None)

    def portions(self, addresses: NDArray[np.int64], size: int) -> Iterator[Portion]:
        """Split an access [n] over pages."""
        numbers = addresses // _PAGE_BYTES
        first = int(numbers[0])
        if (numbers == first).all():
            page = self._page(first)
            yield Portion(page, page.cells(addresses, size), index(len(addresses)))
            return
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            page = self._page(number)
            yield Portion(page, page.cells(addresses[chosen], size), chosen)

    def _page(self, number: int) -> Page:
        page = self._pages.get(number)
        if page is None:
            page = Page(number * _PAGE_BYTES, _PAGE_BYTES, keeps_values=True)
            self._pages[number] = page
        return page
