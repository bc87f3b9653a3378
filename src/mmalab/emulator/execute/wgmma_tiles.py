"""Products by compiled code: where every element lies, as tables that are made once.

A product becomes a row of numbers (:mod:`mmalab.numerics.tile_ir`); the rows of one instruction,
or of everything that a wait completes, run together on all processors. Products of one warpgroup
stay in order, those of different warpgroups touch different registers.

The columns of the product come in the order in which D's registers hold them: four lanes of a
register are 16 bytes of one row, so that a row of D is copied in pieces of 16 bytes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.emulator.execute.wgmma_operands import SharedOperand
from mmalab.emulator.execute.wgmma_plan import Plan
from mmalab.isa.form import Fragment
from mmalab.numerics.matrix import usable_cores
from mmalab.numerics.tile import Tile, has_tile
from mmalab.numerics.tile_ir import CHUNK, JOB
from mmalab.numerics.unit import Unit

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Batch", "TilePlan", "run_apart", "tile_plan"]

#: Descriptors of a site whose tables are kept from one instruction to the next.
_TABLES = 256
#: Bytes of a register of all lanes.
_REGISTER = 128


@dataclass(slots=True, eq=False)
class TilePlan:
    """One site's tables. `order` is the column of the matrix at each place of a row."""

    plan: Plan
    tile: Tile
    order: NDArray[np.int64]
    d_table: NDArray[np.uint32]
    #: Byte offsets of A's elements in the registers, where they are there.
    a_table: NDArray[np.uint32] | None
    chunks: int
    flips: tuple[int, int]
    #: Tables by side and operand, with the operand: its id must stay its own.
    _kept: dict[tuple[str, int], tuple[SharedOperand, NDArray[np.uint32], int]] = field(
        default_factory=dict)

    def trim(self) -> None:
        """Forget tables if there are too many; only while no job is waiting to run."""
        if len(self._kept) > _TABLES:
            self._kept.clear()

    @property
    def d_pointer(self) -> int:
        """Where the table of D lies."""
        return int(self.d_table.ctypes.data)

    @property
    def a_pointer(self) -> int:
        """Where the table of an A in registers lies."""
        return 0 if self.a_table is None else int(self.a_table.ctypes.data)

    def table(self, side: str, operand: SharedOperand) -> int:
        """The address of the table of an operand in shared memory."""
        key = side, id(operand)
        found = self._kept.get(key)
        if found is None:
            places = element_offsets(operand)
            if side == "b":
                places = places.T[:, self.order]
            table = np.ascontiguousarray(places.astype(np.uint32))
            found = self._kept[key] = operand, table, int(table.ctypes.data)
        return found[2]

    def job(self, machine: Machine, first: int, accumulate: bool,
            operands: dict[str, tuple[SharedOperand, int]]) -> tuple[int, ...]:
        """The words of a product of the warpgroup whose first row is `first`."""
        state, space = machine.state, machine.space
        registers = int(state.r.ctypes.data) + first * _REGISTER * state.r.shape[1]
        shared = int(space.shared.data.ctypes.data)
        shared += first // machine.shape.warps * space.shared_stride
        if self.a_table is not None:
            a, a_table = registers, self.a_pointer
        else:
            operand, base = operands["a"]
            a, a_table = shared + base, self.table("a", operand)
        operand, base = operands["b"]
        return (a, a_table, shared + base, self.table("b", operand), registers,
                self.d_pointer, self.chunks, *self.flips, int(accumulate), 0, 0)


def element_offsets(operand: SharedOperand) -> NDArray[np.int64]:
    """[mn, k]: byte of each element, relative to the operand's base."""
    size = formats.get(operand.type).dtype.itemsize
    unit = CHUNK // size
    inside = np.arange(unit) * size
    chunks = operand.chunks
    if operand.major == "K":
        return (chunks[:, :, None] + inside).reshape(chunks.shape[0], -1)
    return (chunks[:, None, :] + inside[:, None]).reshape(-1, chunks.shape[1])[: operand.mn]


def tile_plan(machine: Machine, plan: Plan, unit: Unit) -> TilePlan | None:
    """The tables of a site; None where no compiled code does its product."""
    if plan.form.sparsity is not None or not has_tile(unit):
        return None
    fragment, stride = plan.form.fragments["D"], _REGISTER * machine.state.r.shape[1]
    tile = _tile(unit, plan.shape[2], plan.shape[1])
    d_table, order = _accumulators(fragment, plan.d, stride)
    order = np.concatenate((order, np.full(tile.columns - len(order), order[0])))
    a_table = None
    if plan.a is not None:
        a_table = _elements(plan.form.fragments["A"], plan.a, stride)
    flips = tuple(1 << formats.get(plan.type(side)).bits - 1 if plan.sign(side) < 0 else 0
                  for side in "ab")
    return TilePlan(plan, tile, order, d_table, a_table, d_table.shape[1], (flips[0], flips[1]))


@lru_cache(maxsize=256)
def _tile(unit: Unit, k: int, n: int) -> Tile:
    return Tile(unit, k, n)


def _elements(fragment: Fragment, slots: NDArray[np.int64], stride: int) -> NDArray[np.uint32]:
    """[rows, cols] byte offsets of a fragment's elements from its warpgroup's first register."""
    size = fragment.bits // 8
    per = fragment.register_bits // fragment.bits
    thread, slot = np.meshgrid(np.arange(fragment.lanes), np.arange(fragment.slots), indexing="ij")
    places = (thread // 32 * stride + slots[slot // per] * _REGISTER + thread % 32 * 4
              + slot % per * size)
    index = fragment.indices()
    table = np.zeros((fragment.rows, fragment.cols), np.uint32)
    table[index % fragment.rows, index // fragment.rows] = places
    return table


def _accumulators(fragment: Fragment, slots: NDArray[np.int64],
                  stride: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """[64, chunks] byte offsets of D's chunks, and the columns in the order of a row's chunks."""
    # Numbered as if the registers lay in order: four lanes of one register stand together.
    numbered = _elements(fragment, np.arange(len(slots)), stride)
    order = np.argsort(numbered[0])
    ordered = _elements(fragment, slots, stride)[:, order]
    per = CHUNK * 8 // fragment.bits
    return np.ascontiguousarray(ordered[:, ::per]), order


class Batch:
    """Products that are to run together: jobs by warpgroup, in order."""

    def __init__(self) -> None:
        self._jobs: dict[int, list[tuple[Tile, tuple[int, ...]]]] = {}

    def add(self, first: int, tile: Tile, job: tuple[int, ...]) -> None:
        """Another product of the warpgroup whose first row is `first`."""
        self._jobs.setdefault(first, []).append((tile, job))

    def run(self) -> None:
        """Do them all."""
        chains, self._jobs = list(self._jobs.values()), {}
        count = min(usable_cores(), len(chains))
        if count <= 1:
            _work(chains)
            return
        list(_pool().map(_work, [chains[part::count] for part in range(count)]))


def run_apart(tile: Tile, jobs: NDArray[np.int64]) -> None:
    """Products of different warpgroups, on all processors."""
    count = min(usable_cores(), len(jobs))
    if count <= 1:
        tile.run(jobs)
    else:
        list(_pool().map(tile.run, np.array_split(jobs, count)))


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="wgmma")


def _work(chains: list[list[tuple[Tile, tuple[int, ...]]]]) -> None:
    """Chains of products; runs of one tile are one call."""
    run: list[tuple[int, ...]] = []
    current: Tile | None = None
    for tile, job in (item for chain in chains for item in chain):
        if tile is not current and current is not None:
            current.run(np.array(run, np.int64).reshape(-1, JOB))
            run = []
        current = tile
        run.append(job)
    if current is not None:
        current.run(np.array(run, np.int64).reshape(-1, JOB))

