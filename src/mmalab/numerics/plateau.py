"""Where a running sum of one value stops growing, and what that says of the rounding.

A sum stalls when the value is less than half the distance of neighbouring numbers (rounded to
nearest), or less than the whole of it (rounded towards zero), so the plateau names the rounding::

    >>> [plateau(2.24023, "f16", rounding).total for rounding in ("rn", "rz")]
    [8192.0, 4096.0]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmalab import formats
from mmalab.errors import UsageError

__all__ = ["Plateau", "plateau"]

#: Fraction bits up to which a sum stalls soon: after 2^(bits + 2) additions at most.
_BITS = 12


@dataclass(frozen=True, slots=True)
class Plateau:
    """The sum that no longer grows, how many additions grew it, and what the value really was."""

    total: float
    additions: int
    value: float


def plateau(value: float, dtype: str, rounding: str = "rn") -> Plateau:
    """Add `value`, rounded to `dtype` once, to a sum of that type until the sum stays.

    Raises:
        UsageError: no type or rounding of this name, a value that is not positive, or a type whose
            sums grow for too long to be tried (f32: millions of additions).
    """
    bits = formats.get(dtype).mantissa_bits
    if bits > _BITS:
        raise UsageError(f"a sum in {dtype}", f"grows for about 2^{bits + 1} additions",
                         legal="f16, bf16, tf32 and narrower types", where="mmalab.numerics")
    step = _rounded(value, dtype, "rn")
    if not step > 0 or not np.isfinite(step):
        raise UsageError(f"a sum of {value}", f"is no growing sum of {dtype}", legal="2.24023",
                         where="mmalab.numerics")
    total, count = 0.0, 0
    while True:
        after = _rounded(total + step, dtype, rounding)
        if after == total or not np.isfinite(after):
            return Plateau(total, count, step)
        total, count = after, count + 1


def _rounded(value: float, dtype: str, rounding: str) -> float:
    # A double holds the exact sum of two numbers of these types: it is rounded once.
    words = formats.encode(np.array([value]), dtype, rounding)
    return float(formats.decode(words, dtype)[0])
