"""Which global bytes a box has, given its coordinates, and where they lie in the box's image.

The image is what a copy moves: rows of packed elements, the innermost dimension contiguous, as an
array ``[outermost ..., bytes]``. What lies in the tensor comes as blocks that are strided in global
memory; what does not is no block's business::

    a 4 x 4 box of bytes at (-1, 2) of an 8 x 8 tensor    image (4, 4)
    Block(start=16, shape=(4, 3), strides=(8, 1), at=rows 0 to 3, bytes 1 to 3)

An im2col map walks pixels instead: W by its traversal stride inside the pixel box, then H, D and N.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError

if TYPE_CHECKING:
    from mmalab.tensormap.tensor_map import Im2col, TensorMap

__all__ = ["Block", "Cut", "cut"]

_WHERE = "PTX ISA, cp.async.bulk.tensor"
_MEASURED = "measured on an H200: CUDA_ERROR_ILLEGAL_INSTRUCTION"
#: Where the innermost coordinate may point, in bytes.
_ALIGNED = 16
#: The largest im2col offset by rank: what 16, 8 and 5 bits hold.
_MOST_OFFSET = {3: 65535, 4: 255, 5: 31}


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of the tensor: `start` from its address on, `shape` and `strides` outermost first, the
    last axis contiguous bytes; `at` is where they lie in the image."""

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    at: tuple[slice, ...]

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        reach = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        return self.start + reach + 1

    def rows(self) -> NDArray[np.int64]:
        """Where each run of contiguous bytes starts, from the tensor's address on."""
        starts = np.array([self.start])
        for n, step in zip(self.shape[:-1], self.strides[:-1], strict=True):
            starts = (starts[:, None] + np.arange(n) * step).reshape(-1)
        return starts


@dataclass(frozen=True, slots=True)
class Cut:
    """A box at some coordinates: the image's shape (the last axis in bytes of global memory)."""

    shape: tuple[int, ...]
    blocks: tuple[Block, ...]

    @property
    def whole(self) -> bool:
        """Whether every byte of the image lies in the tensor."""
        return sum(prod(block.shape) for block in self.blocks) == prod(self.shape)


def cut(made: TensorMap, coordinates: Sequence[int], *, load: str = "tile",
        offsets: Sequence[int] = (), whole: bool = False) -> Cut:
    """The box of `made` at `coordinates`, innermost first.

    Args:
        made: the map.
        coordinates: signed element coordinates; five for ``tile::gather4`` and ``tile::scatter4``
            (a column and four rows).
        load: the word of the instruction: ``tile``, ``im2col`` ...
        offsets: its im2col offsets.
        whole: also what a store writes beyond the inner size, up to a multiple of 16 bytes.

    Raises:
        UsageError: the coordinates do not fit the map, or the word does not fit the map's mode.
    """
    _check(made, coordinates, load)
    if load in ("tile::gather4", "tile::scatter4"):
        column, *rows = coordinates
        blocks = [_tile(made, (column, row), (made.box[0], 1), whole=whole) for row in rows]
        found = [Block(b.start, b.shape, b.strides, (slice(i, i + 1), b.at[1]))
                 for i, b in enumerate(blocks) if b is not None]
        return Cut((4, made.element.global_bytes(made.box[0])), tuple(found))
    if made.im2col_box is not None:
        if not made.im2col_box.wide:
            _check_offsets(made.rank, offsets)
        return _columns(made, made.im2col_box, coordinates, offsets, whole=whole)
    counts = made.counts
    block = _tile(made, coordinates, counts, whole=whole)
    shape = ((*counts[::-1], made.slice_bytes) if made.slice_bytes
             else (*counts[:0:-1], made.element.global_bytes(counts[0])))
    return Cut(shape, () if block is None else (block,))


def _check(made: TensorMap, coordinates: Sequence[int], load: str) -> None:
    four = load in ("tile::gather4", "tile::scatter4")
    rank = 2 if four else len(coordinates)
    if rank != made.rank:
        raise UsageError(f"{rank} coordinates", f"the tensor map has rank {made.rank}",
                         legal=f"{made.rank} coordinates", where=_WHERE)
    mode = "tile" if made.im2col_box is None else "im2col"
    if not load.startswith(mode):
        raise UsageError(f"a copy of mode .{load}", f"the tensor map is one for {mode} copies",
                         legal=f".{mode}", where=_WHERE)
    if four and made.box[1] != 1:
        raise UsageError(f".{load} with a box of {made.box}", "its rows are copied one by one",
                         legal=f"a box of ({made.box[0]}, 1)", where=_WHERE)
    if load.startswith("im2col::"):
        raise UsageError(f"a copy of mode .{load}", "the tensor map is one for plain im2col copies",
                         legal=".im2col", where=_WHERE)
    unit = 128 if made.element.pads else _ALIGNED * 8 // made.element.bits
    if coordinates[0] % unit and not made.slice_bytes:
        raise UsageError(f"coordinate {coordinates[0]} of {made.dtype}",
                         f"the first one is no multiple of {unit}: the chip copies 16 bytes at"
                         " least, and faults",
                         legal=f"{coordinates[0] // unit * unit} or"
                         f" {coordinates[0] // unit * unit + unit}", where=_MEASURED)


def _inside(start: int, step: int, count: int, size: int) -> tuple[int, int]:
    """The k with ``0 <= start + k * step < size``, as a range within 0 to count."""
    low = max(0, -(start // step))
    high = min(count, -((start - size) // step))
    return low, max(low, high)


def _tile(made: TensorMap, coordinates: Sequence[int], counts: Sequence[int], *,
          whole: bool) -> Block | None:
    """The part of a box that lies in the tensor."""
    if made.slice_bytes:  # the innermost axis is a whole slice of channels
        low, high, start, first = 0, made.slice_bytes, 0, 0
    else:
        low, high = _inner(made, coordinates[0], counts[0], whole=whole)
        start, first = coordinates[0] * made.element.bits // 8 + low, 1
    shape, strides, at = [high - low], [1], [slice(low, high)]
    steps = (made.slice_bytes, *made.strides)
    for axis in range(first, len(counts)):
        step, stride = made.element_strides[axis], steps[axis]
        low, high = _inside(coordinates[axis], step, counts[axis], made.dims[axis])
        start += (coordinates[axis] + low * step) * stride
        shape.append(high - low)
        strides.append(step * stride)
        at.append(slice(low, high))
    if 0 in shape:
        return None
    return Block(start, tuple(shape[::-1]), tuple(strides[::-1]), tuple(at[::-1]))


def _inner(made: TensorMap, start: int, count: int, *, whole: bool) -> tuple[int, int]:
    """The bytes of a row of `count` elements that lie in the tensor; with `whole`, all 16 of those
    of which the first does."""
    bits = made.element.bits
    low, high = (k * bits // 8 for k in _inside(start, 1, count, made.dims[0]))
    if whole and high > low:
        high = min(-(-high // _ALIGNED) * _ALIGNED, count * bits // 8)
    return low, high


# --- im2col ---------------------------------------------------------------------------------------

def _check_offsets(rank: int, offsets: Sequence[int]) -> None:
    most = _MOST_OFFSET[rank]
    if any(offset > most for offset in offsets):
        raise UsageError(f"im2col offsets {tuple(offsets)}", f"a tensor of rank {rank} has none "
                         f"over {most}", legal=f"0 to {most}", where="PTX ISA, Im2col mode")


def _columns(made: TensorMap, corner: Im2col, coordinates: Sequence[int],
             offsets: Sequence[int], *, whole: bool) -> Cut:
    low, high = _inner(made, coordinates[0], corner.channels, whole=whole)
    inner = coordinates[0] * made.element.bits // 8 + low
    blocks = []
    if high > low:
        for first, count, start, stride in _runs(made, corner, coordinates, offsets):
            blocks.append(Block(start + inner, (count, high - low), (stride, 1),
                                (slice(first, first + count), slice(low, high))))
    return Cut((corner.pixels, made.element.global_bytes(corner.channels)), tuple(blocks))


def _runs(made: TensorMap, corner: Im2col, coordinates: Sequence[int], offsets: Sequence[int],
          ) -> Iterator[tuple[int, int, int, int]]:
    """(first pixel, pixels, byte offset, stride) of each run of pixels along W in the tensor."""
    axes = range(1, made.rank - 1)
    lower = dict(zip(axes, corner.lower, strict=True))
    upper = {axis: made.dims[axis] - 1 + value
             for axis, value in zip(axes, corner.upper, strict=True)}
    shift = dict(zip(axes, offsets, strict=False))  # a store has none
    at, done = list(coordinates), 0
    while done < corner.pixels:
        step = made.element_strides[1]
        count = min(max(1, (upper[1] - at[1]) // step + 1), corner.pixels - done)
        yield from _run(made, at, shift, done, count)
        done += count
        at[1] = lower[1]
        for axis in (*axes, made.rank - 1)[1:]:
            if axis == made.rank - 1:
                at[axis] += 1
                break
            at[axis] += made.element_strides[axis]
            if at[axis] <= upper[axis]:
                break
            at[axis] = lower[axis]


def _run(made: TensorMap, at: Sequence[int], shift: dict[int, int], done: int, count: int,
         ) -> Iterator[tuple[int, int, int, int]]:
    where = [c + shift.get(axis, 0) for axis, c in enumerate(at)]
    if any(not 0 <= c < size for c, size in zip(where[2:], made.dims[2:], strict=True)):
        return
    step = made.element_strides[1]
    low, high = _inside(where[1], step, count, made.dims[1])
    if high > low:
        start = (where[1] + low * step) * made.strides[0]
        start += sum(c * stride for c, stride in zip(where[2:], made.strides[1:], strict=True))
        yield done + low, high - low, start, step * made.strides[0]
