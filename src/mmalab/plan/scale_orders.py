"""Where the block scale of (row, block) lies in memory, and how to find out from the data.

Tensor cores of Blackwell want scales in tiles of 128 rows x 4 blocks, 512 bytes each::

    >>> scale_offset(33, 5, blocks=8)      # tile 1: 512 + (33 % 32) * 16 + (33 // 32) * 4 + 5 % 4
    533

Libraries differ (row by row, column by column, tiles of 8 x 4 for short tiles), and documents name
one where the kernel reads another. A tensor whose scales follow :func:`scale_test_pattern` tells
its own order: only one way of reading gives all powers of two back.

Source: cuBLAS, block scaling factors layout; CUTLASS, tmem_sf_frg.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError
from mmalab.plan.asked import asked

__all__ = ["SCALE_ORDERS", "identify_scale_order", "padded_scales", "scale_offset",
           "scale_test_pattern"]

#: How a (rows, blocks) matrix of scales may lie in memory.
SCALE_ORDERS: tuple[str, ...] = ("row-major", "column-major", "128x4", "8x4")

_WHERE = "mmalab.plan.scale_orders"


def _checked(order: str) -> str:
    if order not in SCALE_ORDERS:
        raise UsageError(f"scale order {order!r}", "is not known", legal=list(SCALE_ORDERS),
                         where=_WHERE)
    return order


def padded_scales(rows: int, blocks: int, order: str = "128x4") -> int:
    """Bytes of the scale tensor with its padding: whole tiles for the tiled orders."""
    if rows < 1 or blocks < 1:
        raise UsageError(f"scales of {rows} x {blocks}", "are none", legal="from 1 x 1 on",
                         where=_WHERE)
    if "major" in _checked(order):
        return rows * blocks
    height = int(order.partition("x")[0])
    return -(-rows // height) * height * (-(-blocks // 4) * 4)


@asked
def scale_offset(row: int, block: int, blocks: int, order: str = "128x4", *, rows: int = 0) -> int:
    """Byte offset of the scale of (`row`, `block`) in a tensor with `blocks` scales a row.

    128x4: tiles of 512 bytes ordered (row / 128, block / 4); inside (row % 32) * 16 +
    (row % 128 / 32) * 4 + block % 4. 8x4: tiles of 32 bytes, inside (row % 8) * 4 + block % 4.
    `rows` is needed for column-major.

    Raises:
        UsageError: outside the tensor, or an unknown order.
    """
    if not 0 <= block < blocks or row < 0 or (rows and row >= rows):
        raise UsageError(f"scale ({row}, {block})", f"is outside of {rows or 'the'} rows, "
                         f"{blocks} blocks", legal=f"(0, 0) to {(rows or row + 1) - 1, blocks - 1}",
                         where=_WHERE)
    if _checked(order) == "row-major":
        return row * blocks + block
    if order == "column-major":
        if not rows:
            raise UsageError("column-major scales", "need the number of rows", legal="rows=M",
                             where=_WHERE)
        return block * rows + row
    across = -(-blocks // 4)
    if order == "8x4":
        return (row // 8 * across + block // 4) * 32 + row % 8 * 4 + block % 4
    tile = row // 128 * across + block // 4
    return tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4


def scale_test_pattern(rows: int, blocks: int) -> NDArray[np.uint8]:
    """E8M0 codes of 2^((row + 3 block) mod 8), shape (rows, blocks).

    A tensor with these scales identifies its own order. A block whose largest element is that power
    times the element format's top power of two gets this code under every policy.
    """
    row, block = np.indices((rows, blocks))
    return (127 + (row + 3 * block) % 8).astype(np.uint8)


def identify_scale_order(data: NDArray[np.uint8], rows: int, blocks: int) -> tuple[str, ...]:
    """The orders under which the bytes `data` are :func:`scale_test_pattern` of (rows, blocks).

    Small tensors can be the same in two orders: then both are named. Empty: none fits.
    """
    flat = np.asarray(data, np.uint8).reshape(-1)
    wanted = scale_test_pattern(rows, blocks)
    return tuple(order for order in SCALE_ORDERS if _reads_as(flat, wanted, order))


def _reads_as(flat: NDArray[np.uint8], wanted: NDArray[np.uint8], order: str) -> bool:
    rows, blocks = wanted.shape
    at = np.array([[scale_offset(row, block, blocks, order, rows=rows) for block in range(blocks)]
                   for row in range(rows)])
    return bool(at.max() < flat.size and (flat[at] == wanted).all())
