"""Exact rounding for the references, apart from the package's own numerics.

`fma(a, b, c, dtype)` rounds once: the product of two narrow numbers is exact in float64, and the
sum is first rounded *to odd* in float64 (53 bits), which keeps the later rounding to at most 24 + 2
bits right. `nearest_f32(fraction, mode)` rounds an exact rational in any of the four modes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = ["directed", "fma", "narrow", "round_f32", "tf32"]

Array = NDArray[Any]


def fma(a: Array, b: Array, c: Array, dtype: Any) -> Array:
    """a * b + c with one rounding to `dtype` (float32, float16 or bfloat16)."""
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        addend = c.astype(np.float64)
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
    return narrow(_to_odd(total, error), dtype)


def _to_odd(total: Array, error: Array) -> Array:
    """The float64 that is odd in its last bit wherever `error` was lost."""
    bits = total.view(np.int64).copy()
    lost = np.isfinite(total) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    bits[lost] += np.where(away, 1, -1)[lost]
    return bits.view(np.float64)


def narrow(x: Array, dtype: Any) -> Array:
    """float64 to `dtype` in one rounding to nearest even; bfloat16 goes through odd float32."""
    with np.errstate(all="ignore"):
        if np.dtype(dtype) != np.dtype(ml_dtypes.bfloat16):
            return x.astype(dtype)
        single = x.astype(np.float32)
        inexact = np.isfinite(single) & (single.astype(np.float64) != x)
        over = inexact & (np.abs(single.astype(np.float64)) > np.abs(x))
        bits = single.view(np.int32).copy()
        bits[over] -= 1
        bits[inexact] |= 1
        return bits.view(np.float32).astype(ml_dtypes.bfloat16)


def tf32(x: Array) -> Array:
    """float32 to TF32, ties away from zero (cvt.rna)."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def directed(x: Array, dtype: Any, mode: str) -> Array:
    """float32 to `dtype` in mode rz, rm or rp, from the nearest value and its neighbours."""
    with np.errstate(all="ignore"):
        near = narrow(x.astype(np.float64), dtype)
        back = near.astype(np.float64)
        exact = x.astype(np.float64)
        down = {"rm": back > exact, "rp": np.zeros(x.shape, bool),
                "rz": (back > exact) & (exact > 0)}[mode]
        up = {"rp": back < exact, "rm": np.zeros(x.shape, bool),
              "rz": (back < exact) & (exact < 0)}[mode]
    low, high = np.array(-np.inf, dtype), np.array(np.inf, dtype)
    return np.where(down, np.nextafter(near, low), np.where(up, np.nextafter(near, high), near))


def round_f32(value: Fraction, mode: str) -> float:
    """A non-zero exact rational to float32 in mode rn, rz, rm or rp; overflow by the mode."""
    magnitude, negative = abs(value), value < 0
    exponent = max(_floor_log2(magnitude), -126)
    unit = Fraction(2) ** (exponent - 23)
    count, rest = divmod(magnitude, unit)
    up = {"rz": False, "rp": rest > 0 and not negative, "rm": rest > 0 and negative,
          "rn": rest * 2 > unit or (rest * 2 == unit and count % 2 == 1)}[mode]
    rounded = (count + up) * unit
    largest = Fraction(float(np.finfo(np.float32).max))
    if rounded > largest:
        to_infinity = mode == "rn" or (mode == "rp" and not negative) or (mode == "rm" and negative)
        result = float("inf") if to_infinity else float(largest)
    else:
        result = float(rounded)
    return -result if negative else result


def _floor_log2(x: Fraction) -> int:
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1
