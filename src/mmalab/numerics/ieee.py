"""IEEE arithmetic that NumPy lacks: fused multiply-adds, and additions with NVIDIA's NaN.

FP64 tensor instructions are chains of fused multiply-adds, so the product must not be rounded:
(1 + 2^-52)^2 - (1 + 2^-51) is 2^-104, not 0. Round to nearest is done with error-free
transformations (Boldo and Melquiond) where nothing can overflow or underflow on the way, and with
Python integers elsewhere and for the directed roundings.

NaN in FP64 keeps its payload: of several, b's is returned, else c's, else a's, made quiet. That is
what an H200 does for every combination of the three (unlike the narrow types, whose NaN is
canonical).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["DirectedRounding", "add", "fma32", "fma64", "fma_word"]

Doubles = NDArray[np.float64]
DirectedRounding = Literal["rn", "rz", "rm", "rp"]

#: What FP64 tensor instructions make of Inf x 0 and Inf - Inf.
_NAN64 = 0xFFF8000000000000
_QUIET64 = 1 << 51
_SIGN64 = 1 << 63
_INF64 = 0x7FF << 52


def add(x: NDArray[np.unsignedinteger], y: NDArray[np.unsignedinteger],
        kind: str) -> NDArray[np.unsignedinteger]:
    """IEEE addition (round to nearest even) of words of `kind` f32 or f16; NaN is canonical."""
    real, nan = (np.float16, 0x7FFF) if kind == "f16" else (np.float32, 0x7FFFFFFF)
    with np.errstate(all="ignore"):
        # Half: NumPy adds in single and rounds; 24 bits are enough for that to be innocuous.
        total = x.view(real) + y.view(real)
    return np.where(np.isnan(total), x.dtype.type(nan), total.view(x.dtype))


def _two_sum(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _two_product(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    def halves(v: Doubles) -> tuple[Doubles, Doubles]:
        big = v * 134217729.0  # 2^27 + 1
        high = big - (big - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = halves(x), halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _odd_sum(x: Doubles, y: Doubles) -> Doubles:
    """x + y rounded to odd: inexact results end in a one, so that a second rounding is safe."""
    total, error = _two_sum(x, y)
    word = total.view(np.int64)
    fix = (error != 0) & (word & 1 == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(fix, word + toward, word).view(np.float64)


def fma32(a: NDArray[np.float32], b: NDArray[np.float32],
          c: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fused multiply-add in FP32, for operands whose product is exact in double (all are)."""
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        addend = c.astype(np.float64)
        odd = _odd_sum(product, addend)
        plain = product + addend
        return np.where(np.isfinite(plain), odd, plain).astype(np.float32)


def fma64(a: Doubles, b: Doubles, c: Doubles, rounding: DirectedRounding = "rn") -> Doubles:
    """a * b + c with one rounding, elementwise over arrays that broadcast."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        product, low = _two_product(a, b)
        high, rest = _two_sum(c, low)
        top, tail = _two_sum(product, high)
        result = top + _odd_sum(rest, tail)
        # The transformations lose the sign of zero; where the sum is zero the product is exact.
        result = np.where(result == 0, product + c, result)
    hard = ~(_moderate(a, 300) & _moderate(b, 300) & _moderate(c, 600))
    if rounding != "rn":
        hard[...] = True
    if hard.any():
        words = [np.ascontiguousarray(x[hard]).view(np.uint64).tolist() for x in (a, b, c)]
        fixed = [fma_word(x, y, z, rounding) for x, y, z in zip(*words, strict=True)]
        result[hard] = np.array(fixed, np.uint64).view(np.float64)
    return _with_nan(result, a, b, c)


def _with_nan(result: Doubles, a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """`result` with the chip's NaN where it is one."""
    invalid = np.isnan(result)
    if not invalid.any():
        return result
    words = np.full(result.shape, _NAN64, np.uint64)
    for operand in (a, c, b):  # the last one that is NaN wins
        quiet = np.ascontiguousarray(operand).view(np.uint64) | np.uint64(_QUIET64)
        words = np.where(np.isnan(operand), quiet, words)
    return np.where(invalid, words, result.view(np.uint64)).view(np.float64)


def _moderate(x: Doubles, exponent: int) -> NDArray[np.bool_]:
    magnitude = np.abs(x)
    inside = (magnitude > 2.0**-exponent) & (magnitude < 2.0**exponent)
    return np.asarray((magnitude == 0) | inside)


def _parts(word: int) -> tuple[int, int]:
    """A finite double's word as (signed integer, exponent of its last place)."""
    field = word >> 52 & 0x7FF
    magnitude = (word & (1 << 52) - 1) | ((field != 0) << 52)
    return (-magnitude if word & _SIGN64 else magnitude), max(field, 1) - 1075


def fma_word(a: int, b: int, c: int, rounding: DirectedRounding = "rn") -> int:
    """a * b + c on FP64 words in exact integers; the readable definition."""
    special = _special(a, b, c)
    if special is not None:
        return special
    (ma, ea), (mb, eb), (mc, ec) = _parts(a), _parts(b), _parts(c)
    low = min(ea + eb, ec)
    total = (ma * mb << (ea + eb - low)) + (mc << (ec - low))
    if total == 0:
        product_sign, addend_sign = (a ^ b) & _SIGN64, c & _SIGN64
        if ma * mb == 0 and product_sign == addend_sign:
            return addend_sign
        return _SIGN64 if rounding == "rm" else 0
    return _rounded(total, low, rounding)


def _special(a: int, b: int, c: int) -> int | None:
    """The result where an operand is NaN or Inf, else None."""
    magnitudes = [word & ~_SIGN64 for word in (a, b, c)]
    if max(magnitudes) < _INF64:
        return None
    product = _INF64 in magnitudes[:2]
    for word, magnitude in ((b, magnitudes[1]), (c, magnitudes[2]), (a, magnitudes[0])):
        if magnitude > _INF64:
            return word | _QUIET64
    if product and 0 in magnitudes[:2]:
        return _NAN64
    sign = (a ^ b) & _SIGN64
    if product:
        clash = magnitudes[2] == _INF64 and c & _SIGN64 != sign
        return _NAN64 if clash else sign | _INF64
    return c


def _rounded(total: int, low: int, rounding: DirectedRounding) -> int:
    """`total` x 2^`low` as an FP64 word."""
    magnitude, negative = abs(total), total < 0
    exponent = max(magnitude.bit_length() - 1 + low, -1022)
    shift = exponent - 52 - low
    kept = magnitude >> shift if shift > 0 else magnitude << -shift
    rest = magnitude - (kept << shift) if shift > 0 else 0
    half = 1 << (shift - 1) if shift > 0 else 1
    away = {
        "rn": rest > half or (rest == half and kept & 1 == 1),
        "rz": False, "rm": rest > 0 and negative, "rp": rest > 0 and not negative,
    }[rounding]
    word = kept + away + (exponent + 1022 << 52)
    if word >= _INF64:
        upward = {"rn": True, "rz": False, "rm": negative, "rp": not negative}[rounding]
        word = _INF64 if upward else _INF64 - 1
    return word | (_SIGN64 if negative else 0)
