"""Clusters that do the same: a run at full speed that finds out which of them one can stand for.

What the exact race model finds in a cluster depends on what its threads do: which instructions, in
which lanes, at which places of their shared memory, with which mbarriers, descriptors and sizes.
Most of that is the same in all clusters because nothing else can be
(:mod:`mmalab.emulator.variance`); the rest is looked at here. Sites where values that may differ
count are executed by the machine, and each warp keeps a running sum of what it did there. Clusters
whose warps have equal sums are *twins*::

    64 clusters of a matmul, 16 of them at the lower edge  ->  2 classes: clusters 0 and 48

Between clusters lies global memory alone. A run of twins proves nothing unless every byte that is
written there belongs to one thread, or to one asynchronous store, and no copy reads such a buffer:
then nobody outside can have seen it, and inside nobody can have raced for it. Compiled accesses go
through the race filter's cells, the others are noted (:mod:`mmalab.emulator.global_traffic`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.global_traffic import GlobalTraffic, Touched
from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import FIRST_BUFFER_TAG, OFFSET_MASK, TAG_SHIFT, AddressSpace, Buffer
from mmalab.emulator.native.abi import Context
from mmalab.emulator.native.driver import ThreadedScheduler
from mmalab.emulator.native.filter import Filter
from mmalab.emulator.native.threaded import ThreadedCode
from mmalab.emulator.state import pack
from mmalab.emulator.variance import Varying

__all__ = ["OwnerCells", "TwinScheduler", "cell_shift", "factors"]

#: In a cell's field for the reader: more than one, or a copy. Stores count down from below it.
_SEVERAL = 0xFFFFFFFF
_ODD = np.uint64(1)
#: Looks at varying sites after which a run goes on without them: twins are not that different.
_LOOKS = 1 << 14


def cell_shift(buffer: Buffer) -> int:
    """Logarithm of the bytes that one cell stands for: an array's element, 4 bytes at most."""
    size = buffer.array.dtype.itemsize if buffer.array is not None else 4
    return 0 if size == 1 else 1 if size == 2 else 2


class OwnerCells:
    """Who wrote and who read each element of the buffers that may be written: [elements, 2] u32."""

    def __init__(self, space: AddressSpace) -> None:
        buffers = space.buffers
        self._shift = {tag: cell_shift(one) for tag, one in enumerate(buffers, FIRST_BUFFER_TAG)}
        #: Pages come when they are touched.
        self.of = {tag: np.zeros((one.data.size >> self._shift[tag]) + 1, np.uint64)
                   for tag, one in enumerate(buffers, FIRST_BUFFER_TAG) if one.writable}

    def table(self) -> NDArray[np.uint64]:
        """By tag what compiled code is given: the pointer, the shift in its low bits."""
        found = np.zeros(FIRST_BUFFER_TAG + len(self._shift), np.uint64)
        for tag, array in self.of.items():
            found[tag] = array.ctypes.data | self._shift[tag]
        return found

    def written(self, tag: int) -> bool:
        """Whether anybody has written to the buffer."""
        cells = self.of.get(tag)
        return cells is not None and bool(cells.view(np.uint32)[::2].any())

    def enter(self, touched: Touched) -> bool:
        """Note accesses to elements; whether each is still its one thread's, or only read."""
        tags, alone = touched.addresses >> TAG_SHIFT, True
        for tag in np.unique(tags).tolist():
            alone &= self._enter(tag, touched, np.flatnonzero(tags == tag))
        return alone

    def _enter(self, tag: int, touched: Touched, chosen: NDArray[np.intp]) -> bool:
        cells = self.of.get(tag)
        if cells is None:
            return True
        shift = self._shift[tag]
        offsets = touched.addresses[chosen] & OFFSET_MASK
        first, last = offsets >> shift, (offsets + touched.size - 1) >> shift
        count = int((last - first).max()) + 1
        at = np.minimum(first[:, None] + np.arange(count), last[:, None]).reshape(-1)
        by = np.repeat(touched.by[chosen], count)
        pairs = cells.view(np.uint32).reshape(-1, 2)
        if len(at) and int(at.max()) >= len(pairs):
            return False  # behind the buffer: nobody's, and told by who executed it
        if touched.write:
            alone = _own(pairs[at, 0], by) & _own(pairs[at, 1], by)
            pairs[at, 0] = by
            return bool(alone.all() and (pairs[at, 0] == by).all())
        alone = _own(pairs[at, 0], by)
        mine = _own(pairs[at, 1], by)
        pairs[at, 1] = np.where(mine, by, _SEVERAL)
        pairs[at[pairs[at, 1] != by], 1] = _SEVERAL
        return bool(alone.all())


def factors() -> NDArray[np.uint64]:
    """Odd numbers for two sums: one for each lane, and one for what was there before."""
    return np.random.default_rng(0).integers(
        0, 1 << 63, (2, 33), np.uint64, endpoint=True) << _ODD | _ODD


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words in which every bit depends on every bit (the finaliser of SplitMix64).

    A product alone will not do: the top bit of a word stays the top bit of its product with an odd
    number, and in a sum of two such products it is gone.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ words >> np.uint64(shift)) * np.uint64(factor)
    return words ^ words >> np.uint64(31)


def _own(who: NDArray[np.uint32], by: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((who == 0) | (who == by))


class TwinScheduler(ThreadedScheduler):
    """Runs a machine and compares its clusters.

    `varying` are the sites to look at, at which `code` stops; `plain` gives code that does not.
    """

    def __init__(self, machine: Machine, code: ThreadedCode, varying: Mapping[int, Varying], *,
                 plain: Callable[[], ThreadedCode], max_steps: int | None = None) -> None:
        super().__init__(machine, code, max_steps=max_steps)
        self._varying, self._plain = varying, plain
        self._cells = OwnerCells(machine.space)
        self._traffic = machine.traffic = GlobalTraffic()
        self._factors = factors()
        self._looks = 0
        #: The sums of a class -> the CTAs of its first cluster.
        self.classes: dict[bytes, list[int]] = {}
        self._contended = False

    def run(self) -> None:
        """All CTAs; afterwards `classes` is complete."""
        super().run()
        self._enter_accesses()
        for number, (_, starts, size) in enumerate(self._traffic.stored):
            store = np.full(len(starts), _SEVERAL - 1 - number, np.int64)
            self._contended |= not self._cells.enter(Touched(starts, store, size, write=True))
        self._contended |= any(self._cells.written(tag) for tag in self._traffic.fetched)

    @property
    def apart(self) -> bool:
        """Whether all that was written to global memory belongs to one thread or store each, and
        everything was looked at."""
        return not self._contended and self._looks <= _LOOKS

    def _enter_accesses(self) -> None:
        """Only while no compiled code runs, which works on the same cells."""
        touched, self._traffic.touched = self._traffic.touched, []
        for one in touched:
            self._contended |= not self._cells.enter(one)

    # --- what the warps did -------------------------------------------------------------------

    def _prepare(self) -> None:
        super()._prepare()
        self._sums = np.zeros((self.machine.state.rows, 2), np.uint64)
        self._parts_told = len(self._traffic.parts)

    def _extra_context(self, words: NDArray[np.int64]) -> None:
        ctas, shape = len(self.machine.state.ctas), self.machine.shape
        table = self._cells.table()
        blocks = np.zeros((ctas, int(Filter.WORDS)), np.int64)
        blocks[:, Filter.FIRST_THREAD] = self.machine.state.ctas * shape.threads + 1
        blocks[:, Filter.GLOBAL] = table.ctypes.data
        words[:, Context.FILTER] = blocks.ctypes.data + np.arange(ctas) * blocks[0].nbytes
        self._blocks = blocks
        self._owners_keep = table

    def _before_step(self, site: int, rows: NDArray[np.int64],
                     standing: NDArray[np.bool_]) -> None:
        self._enter_accesses()
        varying = self._varying.get(site)
        if varying is None or self._looks > _LOOKS:
            return
        self._looks += 1
        if self._looks > _LOOKS:
            self._go_on_without()
            return
        machine, state = self.machine, self.machine.state
        mask = machine.guarded(machine.program.sites[site], rows, standing)
        self._add(rows, np.full(len(rows), site))
        for lanes in (standing, mask):
            self._add(rows, pack(lanes))
        for file, slot in varying.slots:
            if file == "p":
                self._add(rows, state.p[rows, slot] & pack(mask))
            else:
                held = state.r if file == "r" else state.q
                self._add(rows, np.where(mask, held[rows, slot], 0))

    def _go_on_without(self) -> None:
        """Run code without extra stops from here on: a site has the same number there."""
        self.code = code = self._plain()
        self._words[:, Context.CODE] = code.records.ctypes.data
        self._words[:, Context.CONSTANTS] = code.constants.ctypes.data

    def _add(self, rows: NDArray[np.int64], words: NDArray[Any]) -> None:
        """Another word of each row, or a word of each of its lanes."""
        wide = words.reshape(len(rows), -1).astype(np.uint64)
        for number, factors in enumerate(self._factors):
            sums = _mixed(wide + factors[: wide.shape[1]]).sum(axis=1, dtype=np.uint64)
            old = self._sums[rows, number]
            old = (old ^ old >> np.uint64(29)) * factors[32]
            self._sums[rows, number] = old + sums + factors[1]

    def _collect(self) -> None:
        super()._collect()
        machine = self.machine
        self._contended |= bool(self._blocks[:, Filter.SUSPECTS].any())
        self._add_stores()
        size = machine.space.cluster_size
        each = self._sums.reshape(-1, size * machine.shape.warps * 2)
        for cluster, ctas in zip(each, machine.state.ctas.reshape(-1, size), strict=True):
            self.classes.setdefault(cluster.tobytes(), ctas.tolist())

    def _add_stores(self) -> None:
        """What part of its box a store writes says what part of its source counts."""
        for row, part in self._traffic.parts[self._parts_told :]:
            self._add(np.array([row]), np.array([hash(part)]))
