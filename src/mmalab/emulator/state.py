"""The state of the warps that are resident: register files, program counters, status.

One row per warp, the warps of a CTA next to each other, CTAs in launch order: row
``cta_row * warps_per_cta + warp``. A kernel of 96 threads with 2 CTAs resident has rows 0..2 for
the first CTA and 3..5 for the second, and ``state.r[4, 7, 31]`` is slot 7 of lane 31 of warp 1 of
the second CTA. Compiled code works on the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.memory import aligned_zeros
from mmalab.emulator.program import Program

__all__ = ["LaunchShape", "State", "Status", "all_lanes", "any_lane", "pack", "unpack"]

Dim3 = tuple[int, int, int]
#: Eight lanes that are set, a byte each.
_ALL = np.uint64(0x0101010101010101)
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


class Status(IntEnum):
    """What a lane does."""

    RUNNING = 0
    #: Stands at a collective and waits for lanes of its warp; `pc` is the collective.
    GATHERING = 1
    #: Waits at a CTA barrier; `pc` is already behind it.
    BARRIER = 2
    #: A wait came back false: let others run first.
    PARKED = 3
    EXITED = 4


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Grid, block and cluster in CTAs, threads and CTAs, and dynamic shared memory in bytes."""

    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)
    dynamic_shared: int = 0

    @property
    def ctas(self) -> int:
        """Number of CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a CTA, the last possibly partial."""
        return -(-self.threads // 32)

    def cta_coordinates(self, linear: int) -> Dim3:
        """(x, y, z) of a CTA; x runs fastest."""
        x, rest = linear % self.grid[0], linear // self.grid[0]
        return x, rest % self.grid[1], rest // self.grid[1]


def pack(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """[..., 32] bool to [...] uint32 masks, bit l = lane l."""
    packed = np.packbits(lanes, axis=-1, bitorder="little")
    return np.asarray(np.ascontiguousarray(packed).view(np.uint32)[..., 0])


def unpack(masks: NDArray[np.uint32] | np.uint32) -> NDArray[np.bool_]:
    """[...] uint32 masks to [..., 32] bool."""
    return np.asarray((np.asarray(masks)[..., None] & _BITS) != 0)


def any_lane(lanes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[..., 32] bool to [...]: whether any lane is set. Six times as fast as ``any``."""
    words = _words(lanes)
    return np.asarray((words[..., 0] | words[..., 1] | words[..., 2] | words[..., 3]) != 0)


def all_lanes(lanes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[..., 32] bool to [...]: whether all lanes are set."""
    words = _words(lanes)
    return np.asarray((words[..., 0] & words[..., 1] & words[..., 2] & words[..., 3]) == _ALL)


def _words(lanes: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Eight lanes a word."""
    return np.ascontiguousarray(lanes).view(np.uint64)


@dataclass(slots=True)
class State:
    """All warps of the resident CTAs. See the module for the row order.

    r [rows, slots, 32] uint32, q [rows, slots, 32] uint64, p [rows, slots] uint32 masks, carry
    [rows] uint32 (the condition code bit of each lane), pc [rows, 32] int32 (a site index), status
    [rows, 32] uint8 (:class:`Status`). All C-contiguous and 64-byte aligned.
    `defined` holds, for slots that some path reads before writing, masks of lanes that wrote.
    """

    program: Program
    shape: LaunchShape
    #: Linear numbers of the resident CTAs, in row order.
    ctas: NDArray[np.int64]
    r: NDArray[np.uint32] = field(init=False)
    q: NDArray[np.uint64] = field(init=False)
    p: NDArray[np.uint32] = field(init=False)
    carry: NDArray[np.uint32] = field(init=False)
    pc: NDArray[np.int32] = field(init=False)
    status: NDArray[np.uint8] = field(init=False)
    defined: dict[tuple[str, int], NDArray[np.uint32]] = field(init=False)
    _specials: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        rows, slots = len(self.ctas) * self.shape.warps, self.program.slots
        self.r = aligned_zeros((rows, slots.get("r", 0), 32), np.uint32)
        self.q = aligned_zeros((rows, slots.get("q", 0), 32), np.uint64)
        self.p = aligned_zeros((rows, slots.get("p", 0)), np.uint32)
        self.carry = aligned_zeros((rows,), np.uint32)
        self.pc = aligned_zeros((rows, 32), np.int32)
        self.status = aligned_zeros((rows, 32), np.uint8)
        self.status[~self.present] = Status.EXITED
        self.defined = {key: np.zeros(rows, np.uint32) for key in self.program.maybe_undefined}
        self._specials = {}

    @property
    def rows(self) -> int:
        """Number of resident warps."""
        return len(self.ctas) * self.shape.warps

    @property
    def thread(self) -> NDArray[np.int64]:
        """[rows, 32] linear thread number in the CTA."""
        warp = np.arange(self.rows) % self.shape.warps
        return warp[:, None] * 32 + np.arange(32)

    @property
    def present(self) -> NDArray[np.bool_]:
        """[rows, 32]: lanes that have a thread at all."""
        return np.asarray(self.thread < self.shape.threads)

    @property
    def live(self) -> NDArray[np.bool_]:
        """[rows, 32]: lanes that have not ended."""
        return np.asarray(self.status != Status.EXITED)

    def where(self, row: int) -> tuple[int, int]:
        """(linear CTA, warp in the CTA) of a row."""
        return int(self.ctas[row // self.shape.warps]), row % self.shape.warps
