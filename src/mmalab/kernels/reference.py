"""What a matrix kernel must write, bit for bit: its product in the chip's own arithmetic.

Kernels of one accumulator per output add the instructions of ascending k, so one call of
:func:`mmalab.numerics.matmul` with the instruction's K is the reference of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats, numerics
from mmalab.errors import UsageError
from mmalab.kernels.arguments import words_of

__all__ = ["full_unit", "matrix_product"]


def full_unit(unit: str, family: str) -> str:
    """``sm_90`` or ``sm_90.mma.bf16.f32`` to the unit of a kernel of `family` (``mma.bf16.f32``).

    Raises:
        UsageError: a unit of another family.
    """
    chip, _, rest = unit.partition(".")
    if rest and numerics.unit(unit) is not numerics.unit(f"{chip}.{family}"):
        raise UsageError(f"unit {unit!r}", "is not what this kernel runs on",
                         legal=f"{chip}.{family}")
    return f"{chip}.{family}"


def matrix_product(args: Sequence[Any], unit: str, *, family: str, k: int,
                   promote_every: int | None = None) -> list[NDArray[Any]]:
    """C of ``[a, b, c]`` with B stored N x K: one array, of C's type.

    `unit` is a chip or a full unit name, `k` the instruction's K.
    """
    row = numerics.unit(full_unit(unit, family))
    a, b = words_of(args[0]), words_of(args[1])
    words = numerics.matmul(a, np.ascontiguousarray(b.T), unit=row, k=k, raw=True,
                            promote_every=promote_every)
    return [words.view(formats.dtype_of(row.acc))]
