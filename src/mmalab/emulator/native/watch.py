"""A run under the race filter: everything at full speed, and a list of CTAs that need a closer
look.

Compiled accesses go through :mod:`mmalab.emulator.native.filter`. What the NumPy machine executes
in between (atomics, named barriers, divergent collectives) is heard as events: relaxed atomics on
global memory are accepted as long as nobody touches the same buffer otherwise, the rest makes its
CTA suspect. A run without suspects has no race, no missing wait and no uninitialised shared read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access, Collective, Diverge, Event, Exit, Reconverge
from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import TAG_SHIFT, aligned_zeros
from mmalab.emulator.native.abi import Context
from mmalab.emulator.native.driver import ThreadedScheduler
from mmalab.emulator.native.filter import CELL_BYTES, Filter
from mmalab.emulator.native.threaded import ThreadedCode, is_cta_barrier
from mmalab.emulator.native.twins import OwnerCells
from mmalab.emulator.program import Program, Site

__all__ = ["WatchedScheduler", "needs_model"]

_HARMLESS_SPACES = frozenset({"local", "param", "const"})


#: Families whose order only the exact model understands.
_BEYOND = frozenset({
    "bar.arrive", "bar.red", "fence", "membar", "cp.async.mbarrier.arrive", "wmma.load",
    "wmma.store", "stmatrix", "griddepcontrol", "mapa", "st.async", "red.async", "st.bulk",
})
#: The same by the beginning of the family: what runs on by itself, and what waits for it.
_BEYOND_HEADS = ("mbarrier.", "cp.async.bulk", "cp.reduce.async.bulk", "wgmma.", "tcgen05.",
                 "barrier.cluster.", "tensormap.", "clusterlaunchcontrol.", "multimem.")


def needs_model(program: Program) -> bool:
    """Whether some instruction makes every CTA suspect, so that the filter would be wasted."""
    return any(_beyond(site) for site in program.sites)


def _beyond(site: Site) -> bool:
    family, modifiers = site.form.family, site.form.modifiers
    if family in _BEYOND or family.startswith(_BEYOND_HEADS):
        return True
    if family in ("atom", "red"):
        return modifiers.get("space", "global") != "global" or (
            modifiers.get("sem", "relaxed") != "relaxed" or modifiers.get("scope") == "cta")
    if family in ("ld", "st"):
        return (modifiers.get("sem", "weak") != "weak"
                or modifiers.get("space") == "shared::cluster")
    return family == "bar.sync" and not is_cta_barrier(site)


class _Ear:
    """Hears what the machine executes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.suspects: set[int] = set()
        #: Tags of buffers that atomics touched.
        self.atomics: set[int] = set()

    def on(self, event: Event) -> None:
        """An event of the NumPy machine."""
        if isinstance(event, (Diverge, Exit, Reconverge)):
            return
        if isinstance(event, Collective) and self._is_orderly(event):
            return
        if isinstance(event, Access):
            if event.space in _HARMLESS_SPACES:
                return
            if event.space == "global" and event.kind == "atomic" and (
                event.semantics == "relaxed" and event.scope in ("gpu", "sys")
            ):
                lanes = [lane for lane in range(32) if event.mask >> lane & 1]
                tags = event.addresses[lanes] >> np.uint64(TAG_SHIFT)
                self.atomics.update(np.unique(tags).tolist())
                return
        self.suspects.add(event.cta)


    def _is_orderly(self, event: Collective) -> bool:
        """Whether all is well with an exchange between lanes; it orders no memory."""
        strangers = event.mask & ~event.members if event.members else 0
        aligned = "aligned" in self._program.sites[event.site].form.modifiers
        return not event.inactive and not strangers and (
            event.mask == 0xFFFFFFFF or not aligned)


class WatchedScheduler(ThreadedScheduler):
    """Runs a machine with the filter on. `suspects` are linear CTA numbers."""

    def __init__(self, machine: Machine, code: ThreadedCode, *,
                 max_steps: int | None = None) -> None:
        super().__init__(machine, code, max_steps=max_steps)
        self._ear = _Ear(machine.program)
        machine.listeners.append(self._ear)
        self._cells = OwnerCells(machine.space)
        self.suspects: set[int] = set()
        #: The first site that the filter could not vouch for, per CTA.
        self.sites: dict[int, int] = {}

    def run(self) -> None:
        """All CTAs; afterwards `suspects` is complete."""
        super().run()
        self.suspects |= self._ear.suspects
        for tag in self._ear.atomics:
            cells = self._cells.of.get(tag)
            if cells is not None and cells.any():
                self.suspects.update(range(self.machine.shape.ctas))

    def _extra_context(self, words: NDArray[np.int64]) -> None:
        space, shape = self.machine.space, self.machine.shape
        ctas = len(self.machine.state.ctas)
        stride = -(-shape.warps // 8) * 8
        cells = -(-space.shared_bytes // 4) + 4
        table = self._cells.table()
        arrays = {
            Filter.CELLS: aligned_zeros((ctas, cells, CELL_BYTES), np.uint8),
            Filter.READS: aligned_zeros((ctas, cells, stride), np.uint32),
            Filter.CLOCK: aligned_zeros((ctas, stride, 2 * stride), np.uint32),
            Filter.OWN_WAIT: aligned_zeros((ctas, stride), np.uint32),
            Filter.GROUP: aligned_zeros((ctas, stride), np.uint32),
            Filter.SERIAL: aligned_zeros((ctas, stride), np.uint32),
        }
        arrays[Filter.CLOCK][:, np.arange(stride), np.arange(stride)] = 1  # epochs start at 1
        arrays[Filter.GROUP][:] = 1
        blocks = np.zeros((ctas, int(Filter.WORDS)), np.int64)
        for word, array in arrays.items():
            blocks[:, word] = array.ctypes.data + np.arange(ctas) * (array.nbytes // ctas)
        # accesses index by address, which has the CTA's rank in it
        rank = words[:, Context.RANK] >> 2
        blocks[:, Filter.CELLS] -= rank * CELL_BYTES
        blocks[:, Filter.READS] -= rank * 4 * stride
        blocks[:, Filter.STRIDE] = stride
        blocks[:, Filter.FIRST_THREAD] = self.machine.state.ctas * shape.threads + 1
        blocks[:, Filter.GLOBAL] = table.ctypes.data
        words[:, Context.FILTER] = blocks.ctypes.data + np.arange(ctas) * blocks[0].nbytes
        self._blocks = blocks
        self._filter_keep: tuple[Any, ...] = (arrays, table)

    def _execute_one(self, _user: int, site: int, row: int, lanes: int) -> int:
        if lanes:
            self._ear.suspects.add(self.machine.state.where(row)[0])
        return super()._execute_one(_user, site, row, lanes)

    def _collect(self) -> None:
        super()._collect()
        found = np.nonzero(self._blocks[:, Filter.SUSPECTS])[0]
        for cta in found.tolist():
            linear = int(self.machine.state.ctas[cta])
            self.suspects.add(linear)
            self.sites[linear] = int(self._blocks[cta, Filter.SITE]) - 1
