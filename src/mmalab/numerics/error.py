"""How far a tensor-core product is from the exact one, in the figures that people quote.

S is the product of the operands as they are (rounded to FP8, say), T the product of the numbers
before that rounding, D the result. Then::

    relative_rms(D, S)    "from the sums": what the accumulation adds
    relative_rms(D, T)    "total": with the rounding of the inputs
    backward_error(...)   max |D - S| / (|A| |B|), which has a hard bound

The largest relative error of single elements is no measure: zero-mean data have sums near 0, and
FP8 on uniform data then "errs" by 7,600 %. `chain_error` runs the usual experiment: uniform [-1, 1)
operands, K products, one accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.numerics.product import matmul
from mmalab.numerics.unit import Unit
from mmalab.numerics.units import unit as find_unit

__all__ = ["ChainError", "backward_error", "chain_error", "relative_rms"]

Array = NDArray[np.float64]


def relative_rms(result: Array, reference: Array) -> float:
    """rms(result - reference) / rms(reference)."""
    return float(np.sqrt(np.mean((result - reference) ** 2) / np.mean(reference**2)))


def backward_error(result: Array, a: Array, b: Array) -> float:
    """max |result - A B| / (|A| |B|), elementwise; 0 where both are 0."""
    size = np.abs(a) @ np.abs(b)
    return float(np.max(np.abs(result - a @ b) / np.where(size == 0, 1, size)))


@dataclass(frozen=True, slots=True)
class ChainError:
    """Errors of one experiment; `bias` is the mean of (|D| - |S|) / rms(S), negative where sums
    shrink."""

    unit: str
    k: int
    promote_every: int | None
    outputs: int
    from_sums: float
    total: float
    backward: float
    bias: float


def chain_error(unit: str | Unit, k: int, *, promote_every: int | None = None, outputs: int = 128,
                low: float = -1.0, high: float = 1.0, seed: int = 0) -> ChainError:
    """Errors of an outputs x outputs product of uniform [low, high) numbers over K = `k`.

    Reproducible from `seed`. With 128 the sampling noise of the relative RMS is about 1 %.
    """
    row = find_unit(unit)
    rng = np.random.default_rng(seed)
    reals = [rng.uniform(low, high, shape) for shape in ((outputs, k), (k, outputs))]
    words = [formats.encode(x, kind) for x, kind in zip(reals, (row.a, row.b), strict=True)]
    a, b = (formats.decode(w, kind) for w, kind in zip(words, (row.a, row.b), strict=True))
    c = np.zeros((outputs, outputs), formats.get(row.acc).dtype)
    raw = matmul(words[0], words[1], c, unit=row, promote_every=promote_every, raw=True)
    d, s = formats.decode(raw, row.acc), a @ b
    return ChainError(
        unit=row.name, k=k, promote_every=promote_every, outputs=d.size,
        from_sums=relative_rms(d, s), total=relative_rms(d, reals[0] @ reals[1]),
        backward=backward_error(d, a, b),
        bias=float(np.mean(np.abs(d) - np.abs(s)) / np.sqrt(np.mean(s**2))),
    )
