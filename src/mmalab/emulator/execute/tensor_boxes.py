"""Boxes that many lanes load with one instruction: all of them moved together.

That is how the producers of a kernel load: every CTA's elected lane copies a box of the same map,
at coordinates of its own. Where nobody listens and copies complete at once, a box is a pattern of
16-byte chunks, once in the tensor and once in shared memory, and only where it begins differs::

    128 CTAs load 64 x 64 bf16: one gather of [128, 512] chunks, one scatter

What is anything but plain is left to :mod:`mmalab.emulator.execute.tensor_copy`, lane by lane:
boxes that leave the tensor, im2col, types that are converted or padded, and whatever is against a
rule, which is told there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.issue import Operands
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import RANK_SHIFT, Extent
from mmalab.tensormap import Arrangement, TensorMap, arrange

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["BoxPlan", "box_plan", "load_boxes"]

_CHUNK = 16
_OFFSET = (1 << RANK_SHIFT) - 1
_ALIGN = 128
#: Swizzles repeat after so many bytes of shared memory.
_PERIOD = 1024
_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BoxPlan:
    """What does not change from box to box: `chunks` [n] from the first chunk on, in the tensor.

    Boxes lie inside where each coordinate is from 0 to `last`; they begin at the sum of
    coordinates times `steps`, in bytes. `reach` is the byte behind the last one.
    """

    chunks: _Ints
    last: _Ints
    steps: _Ints
    unit: int
    rows: int
    width: int
    reach: int

    @property
    def bytes(self) -> int:
        """Bytes of the box."""
        return self.rows * self.width

    def arranged(self, made: TensorMap, phase: int) -> Arrangement:
        """Where the chunks lie in shared memory, from an address with this phase on."""
        return arrange(self.rows, self.width, made.swizzle, made.element, phase)


@lru_cache(maxsize=64)
def box_plan(made: TensorMap) -> BoxPlan | None:
    """The plan of a map's boxes; None where they are not plain."""
    kind = made.element
    if (made.im2col_box is not None or made.slice_bytes or kind.pads or kind.tf32 or kind.bits < 8
            or made.swizzle == "96B"):
        return None
    counts, size = made.counts, kind.bits // 8
    width, strides = counts[0] * size, made.strides
    if width % _CHUNK or any(stride % _CHUNK for stride in strides) or made.element_strides[0] != 1:
        return None
    hop = [step * stride for step, stride in zip(made.element_strides[1:], strides, strict=True)]
    starts = np.zeros(1, np.int64)
    for count, stride in reversed(list(zip(counts[1:], hop, strict=True))):
        starts = (starts[:, None] + np.arange(count) * stride).reshape(-1)
    chunks = (starts[:, None] + np.arange(0, width, _CHUNK)).reshape(-1) // _CHUNK
    last = [dim - 1 - (count - 1) * step for dim, count, step in zip(
        made.dims, counts, made.element_strides, strict=True)]
    reach = sum((count - 1) * stride for count, stride in zip(counts[1:], hop, strict=True)) + width
    if width == 0 or arrange(1, width, made.swizzle, kind, 0).unit != _CHUNK:
        return None
    return BoxPlan(chunks, np.array(last), np.array([size, *strides]), _CHUNK // size,
                   prod(counts[1:]), width, reach)


def load_boxes(lanes: Lanes, operands: Operands, made: TensorMap, tensor: Extent) -> bool:
    """Load the boxes of all lanes of the instruction; False, and nothing done, where they are not
    plain. `tensor` is where the map's address lies."""
    plan = box_plan(made)
    if plan is None or len(operands.coordinates) != len(plan.last):
        return False
    where = np.nonzero(lanes.mask)
    starts = _starts(plan, operands, where)
    if starts is None or (tensor.at + starts[-1]) % _CHUNK or (
            tensor.at + int(starts.max()) + plan.reach > tensor.high):
        return False
    places = _Places(lanes, operands, where)
    if not places.legal:
        return False
    arranged = [(phase, plan.arranged(made, phase)) for phase in places.phases()]
    low, high = min(how.low for _, how in arranged), max(how.high for _, how in arranged)
    if not places.apart(high - low) or not places.room(low, high):
        return False
    machine = lanes.machine
    _move(machine, plan, tensor, starts, places, arranged)
    rows = lanes.rows[where[0]]
    machine.mbarriers.deliver_all(lanes.site, rows[places.lane], where[1][places.lane],
                                  places.barriers, plan.bytes)
    machine.counters["global.bytes.read"] += len(rows) * plan.bytes
    machine.work += len(rows)
    machine.version += 1
    return True


def _starts(plan: BoxPlan, operands: Operands, where: tuple[NDArray[np.intp], ...],
            ) -> _Ints | None:
    """[lanes] where the boxes begin, in bytes behind the map's address; None: one leaves it."""
    at = np.stack([c[where].astype(np.int64) for c in operands.coordinates], axis=1)
    if (at < 0).any() or (at > plan.last).any() or (at[:, 0] % plan.unit).any():
        return None
    return np.asarray((at * plan.steps).sum(axis=1))


class _Places:
    """Destinations of all lanes, [destinations]: the lane, the byte of all shared memory, the
    mbarrier's byte."""

    def __init__(self, lanes: Lanes, operands: Operands,
                 where: tuple[NDArray[np.intp], ...]) -> None:
        space, warps = lanes.machine.space, lanes.machine.shape.warps
        self._space, size = space, space.cluster_size
        cta = lanes.rows[where[0]] // warps
        tile, barrier = (operands.words(name)[where].astype(np.int64) for name in ("a", "mbar"))
        if operands.has("ctas"):
            masks = operands.words("ctas")[where].astype(np.int64)
            self.lane, rank = np.nonzero(masks[:, None] >> np.arange(size) & 1)
            self.legal = bool(((masks > 0) & (masks >> size == 0)).all())
        else:
            self.lane, rank = np.arange(len(cta)), tile >> RANK_SHIFT
            self.legal = bool(((rank < size) & (rank == barrier >> RANK_SHIFT)).all())
        self.legal &= bool((tile >= 0).all() and (barrier >= 0).all())
        first = (cta[self.lane] // size * size + rank) * space.shared_stride
        self.offsets, objects = tile[self.lane] & _OFFSET, barrier[self.lane] & _OFFSET
        self.tiles, self.barriers = first + self.offsets, first + objects
        self.legal &= not bool((self.offsets % _ALIGN).any() or (objects % 8).any())
        self.legal &= bool((objects >= space.shared_start).all()
                           and (objects + 8 <= space.shared_bytes).all())

    def room(self, low: int, high: int) -> bool:
        """Whether bytes `low` to `high` of all destinations lie in the CTAs' shared memory."""
        space = self._space
        return bool((self.offsets + low >= space.shared_start).all()
                    and (self.offsets + high <= space.shared_bytes).all())

    def apart(self, size: int) -> bool:
        """Whether no two destinations share bytes."""
        tiles = np.sort(self.tiles)
        return bool((np.diff(tiles) >= size).all())

    def phases(self) -> list[int]:
        """The places within a swizzle's period at which destinations begin."""
        found: list[int] = np.unique(self.offsets % _PERIOD).tolist()
        return found


def _move(machine: Machine, plan: BoxPlan, tensor: Extent, starts: _Ints, places: _Places,
          arranged: list[tuple[int, Arrangement]]) -> None:
    """Chunks from the tensor to shared memory."""
    source, target = (_chunks(data) for data in (tensor.region.data, machine.space.shared.data))
    first = (tensor.at + starts) // _CHUNK
    for phase, how in arranged:
        chosen = np.flatnonzero(places.offsets % _PERIOD == phase)
        spread = how.starts() // _CHUNK
        for some in np.array_split(chosen, -(-len(chosen) * plan.bytes // _AT_ONCE)):
            images = source[first[places.lane[some]][:, None] + plan.chunks]
            target[(places.tiles[some] // _CHUNK)[:, None] + spread] = images


#: Bytes that go through a temporary array: what stays in the processor's cache.
_AT_ONCE = 1 << 18


def _chunks(data: NDArray[np.uint8]) -> NDArray[np.complex128]:
    """The bytes by 16 (as the widest type that NumPy copies), a rest left out."""
    return data[: data.size // _CHUNK * _CHUNK].view(np.complex128)
