"""Tensor copies element by element, as slow and plain as the facts are written down.

`load` and `store` are what an H200 did (tools/gpu_tma.py) and what the PTX manual says of im2col;
they share no code with the package: no blocks, no chunks, no caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.tensormap import Im2col, TensorMap

SIZES = {"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4,
         "f32.ftz": 4, "f64": 8, "bf16": 2}
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128,
         "128B_ATOM_32B_FLIP_8B": 128, "128B_ATOM_64B": 128}


def swizzled(address: int, mode: str) -> int:
    """Where a byte of shared memory goes, by address bits."""
    line = address >> 7
    bits = [address >> i & 1 for i in range(32)]
    if mode == "32B":
        bits[4] ^= line & 1
    elif mode == "64B":
        bits[4] ^= line & 1
        bits[5] ^= line >> 1 & 1
    elif mode == "128B":
        for i in range(3):
            bits[4 + i] ^= line >> i & 1
    elif mode.startswith("128B_ATOM_32B"):
        bits[5] ^= line & 1
        bits[6] ^= line >> 1 & 1
        if mode.endswith("FLIP_8B"):
            bits[3] ^= line & 1
    elif mode == "128B_ATOM_64B":
        bits[6] ^= line & 1
    return sum(bit << i for i, bit in enumerate(bits))


def pixels(made: TensorMap, corner: Im2col, where: Sequence[int],
           offsets: Sequence[int]) -> Iterator[list[int]]:
    """The pixels of a column, (W, H, D, N) with the offsets added."""
    count = made.rank - 2
    at = list(where[1:])
    low = list(corner.lower)
    high = [made.dims[a + 1] - 1 + corner.upper[a] for a in range(count)]
    for _ in range(corner.pixels):
        shifted = [at[a] + (offsets[a] if a < len(offsets) else 0) for a in range(count)]
        yield [*shifted, at[-1]]
        for axis in range(count):
            at[axis] += made.element_strides[axis + 1]
            if at[axis] <= high[axis]:
                break
            at[axis] = low[axis]
        else:
            at[-1] += 1


def elements(made: TensorMap, where: Sequence[int], offsets: Sequence[int] = (),
             ) -> Iterator[tuple[int, int, list[int]]]:
    """(row of the box, element of the row, coordinates) of every element."""
    if made.im2col_box is not None:
        for row, pixel in enumerate(pixels(made, made.im2col_box, where, offsets)):
            for channel in range(made.im2col_box.channels):
                yield row, channel, [where[0] + channel, *pixel]
        return
    counts = [made.box[0], *(-(-n // e) for n, e in zip(made.box[1:], made.element_strides[1:],
                                                         strict=True))]
    outer = product(*(range(n) for n in counts[:0:-1]))
    for row, index in enumerate(outer):
        rest = [where[a] + k * made.element_strides[a]
                for a, k in zip(range(made.rank - 1, 0, -1), index, strict=True)][::-1]
        for inner in range(counts[0]):
            yield row, inner, [where[0] + inner, *rest]


def places(made: TensorMap, where: Sequence[int], at: int, offsets: Sequence[int] = (),
           ) -> Iterator[tuple[int, int, bool, bool]]:
    """(shared address, byte offset in the tensor, inside, stored) of every element of a box.

    Stored are whole 16 bytes of which the first element lies inside.
    """
    size = SIZES[made.dtype]
    inner = made.im2col_box.channels if made.im2col_box else made.box[0]
    pitch = SPANS[made.swizzle] or inner * size
    for row, k, coordinates in elements(made, where, offsets):
        outer = all(0 <= c < n for c, n in zip(coordinates[1:], made.dims[1:], strict=True))
        first = coordinates[0] - coordinates[0] * size % 16 // size
        offset = coordinates[0] * size + sum(
            c * s for c, s in zip(coordinates[1:], made.strides, strict=True))
        yield (swizzled(at + row * pitch + k * size, made.swizzle), offset,
               outer and 0 <= coordinates[0] < made.dims[0], outer and 0 <= first < made.dims[0])


def load(made: TensorMap, tensor: NDArray[np.uint8], shared: NDArray[np.uint8],
         where: Sequence[int], at: int, offsets: Sequence[int] = ()) -> None:
    """Bring a box into `shared`."""
    size = SIZES[made.dtype]
    outside = np.zeros(size, np.uint8)
    if made.fill == "nan":
        outside[:] = np.frombuffer((b"\xf7\x7f" * 4)[:size], np.uint8)
    for address, offset, inside, _ in places(made, where, at, offsets):
        shared[address : address + size] = tensor[offset : offset + size] if inside else outside


def store(made: TensorMap, tensor: NDArray[np.uint8], shared: NDArray[np.uint8],
          where: Sequence[int], at: int, combine: Any = None) -> None:
    """Bring a box from `shared` to the tensor."""
    size = SIZES[made.dtype]
    for address, offset, _, stored in places(made, where, at):
        if stored:
            new, old = shared[address : address + size], tensor[offset : offset + size]
            tensor[offset : offset + size] = new if combine is None else combine(old, new)
