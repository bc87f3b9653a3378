"""What a matrix kernel must write, bit for bit: its product in the chip's own arithmetic.

Kernels of one accumulator per output add the instructions of ascending k, so one call of
:func:`mmalab.numerics.matmul` with the instruction's K is the reference of all of them; on CUDA
cores it is one chain of fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats, numerics
from mmalab.errors import UsageError
from mmalab.kernels.arguments import words_of
from mmalab.numerics import ieee

__all__ = ["full_unit", "fused_product", "matrix_product"]

#: Rows of one step of the chain: what stays in cache.
_ROWS = 64
_NAN = np.uint32(0x7FFFFFFF)


def full_unit(unit: str, family: str) -> str:
    """``sm_90`` or ``sm_90.mma.bf16.f32`` to the unit of a kernel of `family` (``mma.bf16.f32``).

    Raises:
        UsageError: a unit of another family, or a chip that has none of this one.
    """
    chip, _, rest = unit.partition(".")
    having = [row.chip for row in numerics.units(f".{family}") if row.name.endswith(f".{family}")]
    if chip.rstrip("af") not in having:
        raise UsageError(f"unit {unit!r}", f"this kernel runs on {family}, which {chip} has not",
                         legal=having, where="mmalab.numerics.units()")
    if rest and numerics.unit(unit) is not numerics.unit(f"{chip}.{family}"):
        raise UsageError(f"unit {unit!r}", "is not what this kernel runs on",
                         legal=f"{chip}.{family}", where="mmalab.numerics.units()")
    return f"{chip}.{family}"


def matrix_product(args: Sequence[Any], unit: str, *, family: str, k: int, stored: str = "nk",
                   promote_every: int | None = None) -> list[NDArray[Any]]:
    """C of ``[a, b, c]``: one array, of C's type.

    `unit` is a chip or a full unit name, `k` the instruction's K; `stored` says how B lies in
    memory, ``nk`` (N x K, the layout of nn.Linear's weights) or ``kn``.
    """
    row = numerics.unit(full_unit(unit, family))
    a, b = words_of(args[0]), words_of(args[1])
    words = numerics.matmul(a, np.ascontiguousarray(b.T) if stored == "nk" else b, unit=row, k=k,
                            raw=True, promote_every=promote_every)
    return [words.view(formats.dtype_of(row.acc))]


def fused_product(args: Sequence[Any], unit: str = "") -> list[NDArray[np.float32]]:
    """C of ``[a, b, c]`` in FP32, B stored N x K: fused multiply-adds from zero, k ascending.

    `unit` changes nothing: IEEE arithmetic is the same on every chip. NaN is 7FFFFFFF.
    """
    del unit
    a, b = (words_of(x).view(np.float32) for x in args[:2])
    c = np.zeros((len(a), len(b)), np.float32)
    columns = np.ascontiguousarray(b.T)
    for top in range(0, len(a), _ROWS):
        part = c[top : top + _ROWS]
        for k, column in enumerate(columns):
            part = ieee.fma32(a[top : top + _ROWS, k, None], column[None, :], part)
        c[top : top + _ROWS] = part
    words = c.view(np.uint32)
    words[np.isnan(c)] = _NAN
    return [c]
