"""Block-scaled matrices at the speed of the plain kernel.

In mxf8f6f4 each output's products carry one power of two for an instruction, 2^s. Dividing c by it
first and multiplying the result by it afterwards is the same computation with every exponent moved
by s, and the plain kernel can do it::

    scales 2^3 and 2^-1, c = 5:   plain(a, b, 5 / 2^2) * 2^2

as long as nothing leaves the normal range of FP32 on the way and the floor of the alignment is out
of reach. The few outputs for which that cannot be promised are done by the specification.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mmalab.numerics import matrix, reference
from mmalab.numerics.operands import Words
from mmalab.numerics.scaled import scale_exponents
from mmalab.numerics.unit import Unit

__all__ = ["multiply_scaled"]

_NAN = np.uint32(0x7FFFFFFF)

#: Scales and accumulators inside these exponents cannot leave FP32's range.
_SCALE, _EXPONENT = 60, 60


def multiply_scaled(unit: Unit, a: Words, b: Words, c: Words, *, k: int, scale_a: Words,
                    scale_b: Words, threads: int | None = None) -> Words:
    """D = (A x scales) x (B x scales) + C; see :func:`mmalab.numerics.reference.multiply`."""
    if unit.algorithm != "tfs" or a.shape[0] * b.shape[1] < 256:
        return reference.multiply(unit, a, b, c, k=k, scale_a=scale_a, scale_b=scale_b)
    plain = replace(unit, kind="", scale="", scale_block=0)
    d = c
    for step, low in enumerate(range(0, a.shape[1], k)):
        part = slice(low, low + k)
        scales = scale_a[:, step : step + 1], scale_b[step : step + 1]
        d = _instruction(unit, plain, a[:, part], b[part], d, *scales, k, threads)
    return d


def _instruction(unit: Unit, plain: Unit, a: Words, b: Words, c: Words, scale_a: Words,
                 scale_b: Words, k: int, threads: int | None) -> Words:
    shift, nan = scale_exponents(scale_a, scale_b)
    values = c.view(np.float32)
    safe = (np.abs(shift) <= _SCALE) & _inside(values)
    moved = np.ldexp(np.where(safe, values, np.float32(0)), np.where(safe, -shift, 0))
    found = matrix.multiply(plain, a, b, moved.astype(np.float32).view(np.uint32), k=k,
                            threads=threads).view(np.float32)
    safe &= _inside(found) | ~np.isfinite(found)
    with np.errstate(all="ignore"):
        result = np.ldexp(found, np.where(safe, shift, 0)).astype(np.float32).view(np.uint32)
    result = np.where(np.isnan(found), _NAN, result)
    for row in np.flatnonzero(~safe.all(axis=1)):
        columns = np.flatnonzero(~safe[row])
        result[row, columns] = reference.multiply(
            unit, a[row : row + 1], b[:, columns], c[row : row + 1, columns], k=k,
            scale_a=scale_a[row : row + 1], scale_b=scale_b[:, columns])[0]
    return np.where(nan, _NAN, result)


def _inside(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Zero, or of an exponent that no allowed scale takes out of the normal range."""
    size = np.abs(values)
    inside = (size >= 2.0**-_EXPONENT) & (size < 2.0**_EXPONENT)
    return np.asarray((values == 0) | inside)
