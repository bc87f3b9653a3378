"""Kernels of ours executed on the CPU with Ada's arithmetic, as the claims need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import mmalab
from mmalab import formats
from mmalab.ptx.kernel import Kernel

__all__ = ["count", "held", "integers", "run"]

#: Article A's chip.
ADA = "sm_89"


def held(values: ArrayLike, dtype: str = "bf16") -> NDArray[Any]:
    """Numbers rounded to `dtype`, as an array that a kernel takes."""
    words = formats.encode(np.asarray(values, np.float64), dtype)
    return words.view(formats.dtype_of(dtype))


def integers(seed: int, *shapes: tuple[int, int]) -> list[NDArray[np.int64]]:
    """Small random integers, whose products and sums are exact in every format used here."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, shape) for shape in shapes]


def run(kernel: Kernel, a: ArrayLike, b: ArrayLike) -> tuple[NDArray[Any], Mapping[str, int]]:
    """Run a product kernel on A and B rounded to its types; C (NaN before) and the counters."""
    left, right, out = kernel.params
    c = np.full(out.shape, np.nan, formats.dtype_of(out.dtype))
    ran = mmalab.emulate(kernel, [held(a, left.dtype), held(b, right.dtype), c], target=ADA,
                         sanitize=False)
    return c, ran.counters


def count(counters: Mapping[str, int], prefix: str) -> int:
    """All counters whose name begins so, together."""
    return sum(number for name, number in counters.items() if name.startswith(prefix))
