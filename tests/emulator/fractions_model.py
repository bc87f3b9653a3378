"""IEEE arithmetic on Python fractions: the independent model of the floating-point executors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

FORMATS = {  # precision, smallest and largest exponent
    "f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023),
}


def decode(word: int, kind: str) -> float:
    """The number behind a word."""
    if kind == "bf16":
        return float(np.array(word << 16, np.uint32).view(np.float32))
    dtype = {"f16": "u2", "f32": "u4", "f64": "u8"}[kind]
    return float(np.array(word, dtype).view(dtype.replace("u", "f")))


def flush(x: float, kind: str) -> float:
    """Subnormals to zeros of the same sign."""
    return math.copysign(0.0, x) if abs(x) < 2.0 ** FORMATS[kind][1] else x


def round_to(exact: Fraction, kind: str, mode: str) -> float:
    """An exact nonzero value rounded once."""
    precision, low, high = FORMATS[kind]
    negative, size = exact < 0, abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, low) - precision + 1)
    whole, rest = divmod(size / quantum, 1)
    up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1), "rz": False,
          "rm": negative and rest > 0, "rp": not negative and rest > 0}[mode]
    value = (whole + up) * quantum
    if value >= Fraction(2) ** (high + 1):
        away = mode == "rn" or ((mode == "rm") == negative and mode != "rz")
        largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
        result = math.inf if away else float(largest)
    else:
        result = float(value)
    return -result if negative else result


def _zero(mode: str) -> float:
    return -0.0 if mode == "rm" else 0.0


def add(a: float, b: float, kind: str, mode: str = "rn") -> float:
    """a + b."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    exact = Fraction(a) + Fraction(b)
    if exact == 0:
        same = a == 0 and math.copysign(1, a) == math.copysign(1, b)
        return a if same else _zero(mode)
    return round_to(exact, kind, mode)


def multiply(a: float, b: float, kind: str, mode: str = "rn") -> float:
    """a * b."""
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b
    return round_to(Fraction(a) * Fraction(b), kind, mode)


def fma(a: float, b: float, c: float, kind: str, mode: str = "rn") -> float:
    """a * b + c with one rounding."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        inf_product = math.isinf(a) or math.isinf(b)
        product = a * b if inf_product or math.isnan(a) or math.isnan(b) else 0.0
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        sign = math.copysign(1, a) * math.copysign(1, b)
        if (a == 0 or b == 0) and c == 0 and sign == math.copysign(1, c):
            return c
        return _zero(mode)
    result = round_to(exact, kind, mode)
    return math.copysign(result, -1.0 if exact < 0 else 1.0)


def divide(a: float, b: float, kind: str, mode: str = "rn") -> float:
    """a / b."""
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if a == 0 or math.isinf(b):
        return sign * 0.0
    return math.copysign(round_to(Fraction(a) / Fraction(b), kind, mode), sign)


def sqrt(a: float, kind: str, mode: str = "rn") -> float:
    """Square root, by integer square roots."""
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    exact = Fraction(a)
    shift = 2 * max(0, 70 + exact.denominator.bit_length())
    scaled = exact.numerator * (1 << 2 * shift) // exact.denominator
    root = math.isqrt(scaled)
    sticky = root * root != scaled or (exact.numerator << 2 * shift) % exact.denominator != 0
    # A sticky bit far below any rounding position stands for the irrational rest.
    return round_to(Fraction(2 * root + sticky, 2 << shift), kind, mode)


def encode(x: float, kind: str) -> int:
    """The word of a representable number; every NaN is the chip's own."""
    if math.isnan(x):
        return {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0}[kind]
    if kind == "bf16":
        return int(np.float32(x).view(np.uint32)) >> 16
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    return int(dtype(x).view(f"u{np.dtype(dtype).itemsize}"))
