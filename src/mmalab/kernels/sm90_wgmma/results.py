"""What a product must write, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm90_wgmma.problem import Problem

__all__ = ["product"]


def product(args: Sequence[Any], unit: str, *, problem: Problem) -> list[NDArray[Any]]:
    """C of ``[a, b, c]``: the chain of instructions in the chip's arithmetic, then one rounding."""
    row = problem.recipe
    (sums,) = matrix_product(args, unit, family=row.unit, k=row.k)
    return [rounded(sums, problem.out)]


def rounded(sums: NDArray[Any], out: str) -> NDArray[Any]:
    """Accumulators in the type of C: nearest even, as cvt.rn does; NaN is 7FFF."""
    dtype = formats.dtype_of(out)
    if sums.dtype == dtype:
        return sums
    with np.errstate(over="ignore", invalid="ignore"):
        result = sums.astype(dtype)
    result.view(np.uint16)[np.isnan(sums)] = 0x7FFF
    return result
