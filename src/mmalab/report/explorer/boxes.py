"""Where a tensor copy puts each 16 bytes of its box, for each box and swizzle that the page offers.

The box is copied by the code that the emulator uses: a tensor map is made, so an illegal choice
ends in the driver's rule, and its arrangement says where the bytes lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmalab.errors import MmalabError
from mmalab.tensormap import TensorMap, arrange

__all__ = ["DTYPES", "INNER", "ROWS", "SWIZZLES", "box", "catalogue"]

#: Bytes of the inner box dimension, and rows.
INNER = (32, 64, 96, 128, 256)
ROWS = 8
SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_64B")
DTYPES: dict[str, Any] = {"u8": np.uint8, "f16": np.float16, "f32": np.float32}
_CHUNK = 16


def box(dtype: str, inner: int, swizzle: str) -> dict[str, Any]:
    """One box of 8 rows of `inner` bytes: the offset of each 16 bytes, or the rule against it."""
    size = np.dtype(DTYPES[dtype]).itemsize
    array = np.zeros((64, 1024 // size), DTYPES[dtype])
    shape = (inner // size, ROWS)
    spelled = ",".join(map(str, shape))
    command = (f"mmalab descriptor tensormap --encode dtype={dtype} dims={array.shape[1]},64 "
               f"strides=1024 box={spelled} swizzle={swizzle}")
    try:
        made = TensorMap.tiled(array, box=shape, swizzle=swizzle)
    except MmalabError as refused:
        return {"refused": str(refused), "box": spelled, "command": command}
    placed = arrange(ROWS, inner, swizzle, made.element, 0)
    return {"box": spelled, "bytes": made.box_bytes, "command": command,
            "span": int(placed.high - placed.low),
            "offsets": placed.starts().reshape(ROWS, -1).tolist()}


def catalogue() -> dict[str, Any]:
    """All choices."""
    return {"dtypes": list(DTYPES), "inner": list(INNER), "rows": ROWS,
            "swizzles": list(SWIZZLES), "chunk": _CHUNK,
            "boxes": {f"{dtype} {inner} {swizzle}": box(dtype, inner, swizzle)
                      for dtype in DTYPES for inner in INNER for swizzle in SWIZZLES}}
