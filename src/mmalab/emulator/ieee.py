"""IEEE arithmetic with one rounding, in any of the four directions, on NumPy arrays.

NumPy only rounds to nearest and has no fused multiply-add. Everything here goes through an exact
pair (head, tail) of doubles, folded into one double that is *rounded to odd*: when the tail is not
zero, the head's last bit is set. Rounding such a double to any narrower format, in any direction,
gives what rounding the exact value gives.

    >>> import numpy as np
    >>> one, tiny = np.float32([1.0]), np.float32([2.0**-60])
    >>> add(one, tiny, "rp")[0] == np.nextafter(np.float32(1), np.float32(2)), add(one, tiny)[0]
    (np.True_, np.float32(1.0))

Products of two f32 are exact in f64; f64 fma uses error-free transformations where no intermediate
can overflow or lose bits, and Python integers for the few lanes where one could.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "add", "divide", "flush", "fma", "is_subnormal", "multiply", "narrow", "odd_sum",
    "round_integral", "sqrt", "to_bf16", "to_f16", "to_f32",
]

Double = NDArray[np.float64]
Floats = NDArray[Any]


# --- exact pairs ----------------------------------------------------------------------------------

def _two_sum(a: Double, b: Double) -> tuple[Double, Double]:
    """(s, e) with s = fl(a + b), s + e = a + b; e is 0 where s is not finite."""
    big = np.abs(a) >= np.abs(b)
    x, y = np.where(big, a, b), np.where(big, b, a)
    s = a + b
    e = y - (s - x)
    return s, np.where(np.isfinite(s), e, 0.0)


def _split(a: Double) -> tuple[Double, Double]:
    c = a * 134217729.0
    high = c - (c - a)
    return high, a - high


def _two_product(a: Double, b: Double) -> tuple[Double, Double]:
    """(p, e) with p + e = a * b, for magnitudes far from overflow and underflow."""
    p = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _to_odd(head: Double, tail: Double) -> Double:
    """head + tail as one double, its last bit set if it is not exact."""
    bits = head.view(np.int64)
    inexact = (tail != 0) & np.isfinite(head)
    even = (bits & 1) == 0
    toward_zero = (tail < 0) != (head < 0)
    # Toward zero by one unit, or stay: either way the last bit becomes one.
    odd = np.where(toward_zero, bits - 1, bits + 1)
    result = np.where(inexact & even, odd, bits).view(np.float64)
    # head is zero only if the tail is: no transformation leaves a tail under a zero head.
    return np.asarray(result)


def odd_sum(a: Double, b: Double) -> Double:
    """a + b rounded to odd in double precision."""
    with np.errstate(all="ignore"):
        return _to_odd(*_two_sum(a, b))


# --- narrowing ------------------------------------------------------------------------------------

def narrow(exact: Double, dtype: type[np.floating[Any]], rounding: str = "rn") -> Floats:
    """A double (exact, or rounded to odd) as f32 or f16, rounded once."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(dtype)
        if rounding == "rn":
            return nearest
        back = nearest.astype(np.float64)
        wrong = {"rz": np.abs(back) > np.abs(exact), "rm": back > exact,
                 "rp": back < exact}[rounding]
        target = np.zeros_like(nearest) if rounding == "rz" else np.full_like(
            nearest, -np.inf if rounding == "rm" else np.inf)
        stepped = np.nextafter(nearest, target)
        result = np.where(wrong & ~np.isnan(exact), stepped, nearest)
        return np.copysign(result, exact).astype(dtype)


def to_f32(exact: Double, rounding: str = "rn") -> NDArray[np.float32]:
    """A double (exact, or rounded to odd) as f32."""
    return narrow(exact, np.float32, rounding)


def to_f16(exact: Double, rounding: str = "rn") -> NDArray[np.uint16]:
    """A double (exact, or rounded to odd) as an f16 word."""
    return narrow(exact, np.float16, rounding).view(np.uint16)


def to_bf16(exact: Double, rounding: str = "rn") -> NDArray[np.uint16]:
    """A double (exact, or rounded to odd) as a bf16 word."""
    with np.errstate(all="ignore"):
        low = narrow(exact, np.float32, "rz")
        bits = low.view(np.uint32) | (low.astype(np.float64) != exact).astype(np.uint32)
    bits = np.where(np.isfinite(exact) & np.isfinite(low), bits, low.view(np.uint32))
    high, rest = bits >> 16, bits & np.uint32(0xFFFF)
    negative = (bits >> 31) != 0
    up = {"rn": (rest > 0x8000) | ((rest == 0x8000) & ((high & 1) != 0)), "rz": rest < 0,
          "rm": negative & (rest != 0), "rp": ~negative & (rest != 0)}[rounding]
    word = (high + up).astype(np.uint16)
    return np.where(np.isnan(exact), np.uint16(0x7FFF), word).astype(np.uint16)


# --- operations -----------------------------------------------------------------------------------

def _directed(value: Double, error: Double, rounding: str) -> Double:
    """The double nearest to value + error, moved in the rounding's direction where needed."""
    if rounding == "rn":
        return value
    overflow = np.isinf(value)
    if rounding == "rz":
        down, up = ((error < 0) & (value > 0)) | (overflow & (value > 0)), (
            ((error > 0) & (value < 0)) | (overflow & (value < 0)))
    elif rounding == "rm":
        down, up = (error < 0) | (overflow & (value > 0)), np.zeros(value.shape, bool)
    else:
        up, down = (error > 0) | (overflow & (value < 0)), np.zeros(value.shape, bool)
    stepped = np.where(down, np.nextafter(value, -np.inf), value)
    return np.where(up, np.nextafter(value, np.inf), stepped)


def _signed_zero(result: Floats, exact_zero: NDArray[np.bool_], both_negative: NDArray[np.bool_],
                 rounding: str) -> Floats:
    """The sign of a sum that cancels: minus only under rm, or when both terms are minus zero."""
    zero = np.where(both_negative | (rounding == "rm"), result.dtype.type(-0.0),
                    result.dtype.type(0.0))
    return np.where(exact_zero, zero, result)


def add(a: Floats, b: Floats, rounding: str = "rn") -> Floats:
    """a + b in the operands' format."""
    with np.errstate(all="ignore"):
        if rounding == "rn":
            return np.asarray(a + b)
        if a.dtype == np.float64:
            s, e = _two_sum(a, b)
            finite = np.isfinite(a) & np.isfinite(b)
            result: Floats = np.where(finite, _directed(s, e, rounding), s)
        else:
            result = to_f32(odd_sum(a.astype(np.float64), b.astype(np.float64)), rounding)
        cancels = (a == -b) & np.isfinite(a) & ~((a == 0) & (np.signbit(a) == np.signbit(b)))
        return _signed_zero(result, cancels, np.zeros(a.shape, bool), rounding)


def multiply(a: Floats, b: Floats, rounding: str = "rn") -> Floats:
    """a * b in the operands' format."""
    with np.errstate(all="ignore"):
        if rounding == "rn":
            return np.asarray(a * b)
        if a.dtype != np.float64:
            return to_f32(a.astype(np.float64) * b.astype(np.float64), rounding)
        # -0 as the addend keeps the product's own sign of zero.
        return _fma64(a, b, np.full(a.shape, -0.0), rounding, product_only=True)


def fma(a: Floats, b: Floats, c: Floats, rounding: str = "rn") -> Floats:
    """a * b + c, rounded once."""
    with np.errstate(all="ignore"):
        if a.dtype == np.float64:
            return _fma64(a, b, c, rounding)
        product = a.astype(np.float64) * b.astype(np.float64)
        wide = c.astype(np.float64)
        result = to_f32(odd_sum(product, wide), rounding)
        cancels = (product == -wide) & np.isfinite(wide) & (
            np.signbit(product) != np.signbit(wide))
        both = (product == 0) & (wide == 0) & np.signbit(product) & np.signbit(wide)
        return _signed_zero(result, cancels | both, both, rounding)


def _exponent(x: Double) -> NDArray[np.int64]:
    return np.asarray((x.view(np.int64) >> 52) & 0x7FF) - 1023


def _fma64(a: Double, b: Double, c: Double, rounding: str, *, product_only: bool = False) -> Double:
    ea, eb, ec = _exponent(a), _exponent(b), _exponent(c)
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    safe = ((np.abs(ea) < 400) & (np.abs(eb) < 400) & (ec < 900) & ((ec > -850) | (c == 0))
            & ~special)
    a1, b1, c1 = (np.where(safe, x, 1.0) for x in (a, b, c))
    p, e = _two_product(a1, b1)
    uh, ul = _two_sum(c1, e)
    th, tl = _two_sum(p, uh)
    tail = odd_sum(tl, ul)
    head, error = _two_sum(th, tail)
    # Cancelled to the tail alone: head is exact then.
    result = _directed(head, error, rounding)
    cancels = safe & (head == 0)
    result = _signed_zero(result, cancels, np.zeros(a.shape, bool), rounding)
    # A finite product may overflow in a * b, and must not meet an infinite c as an infinity.
    factors = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), 0.0, a * b)
    result = np.where(special, factors + c, result)
    if product_only:
        result = np.where(special, a * b, result)
    zero_product = special & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & ~product_only
    if rounding == "rm" and zero_product.any():
        opposite = zero_product & (c == 0) & (np.signbit(a * b) != np.signbit(c))
        result = np.where(opposite, -0.0, result)
    for index in np.argwhere(~safe & ~special):
        where = tuple(index)
        result[where] = _exact_fma(float(a[where]), float(b[where]), float(c[where]), rounding)
    return np.asarray(result)


def _exact_fma(a: float, b: float, c: float, rounding: str) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return -0.0 if rounding == "rm" else 0.0
    return _round_fraction(exact, rounding)


def _round_fraction(exact: Fraction, rounding: str) -> float:
    """A rational number as a double."""
    negative, size = exact < 0, abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** max(exponent - 52, -1074)
    scaled = size / quantum
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
          "rz": False, "rm": negative and rest > 0, "rp": not negative and rest > 0}[rounding]
    value = (whole + up) * quantum
    if value >= Fraction(2) ** 1024:
        to_inf = rounding == "rn" or (rounding == "rm" and negative) or (
            rounding == "rp" and not negative)
        result = float("inf") if to_inf else float(np.finfo(np.float64).max)
    else:
        result = float(value)
    return -result if negative else result


def divide(a: Floats, b: Floats, rounding: str = "rn") -> Floats:
    """a / b in the operands' format."""
    with np.errstate(all="ignore"):
        if a.dtype != np.float64:
            # No quotient of 24-bit numbers lies closer to a rounding boundary than f64 resolves.
            return to_f32(a.astype(np.float64) / b.astype(np.float64), rounding)
        quotient = a / b
        if rounding == "rn":
            return np.asarray(quotient)
        return _by_fractions(quotient, np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0),
                             lambda i: Fraction(float(a[i])) / Fraction(float(b[i])), rounding)


def sqrt(a: Floats, rounding: str = "rn") -> Floats:
    """Square root in the operand's format."""
    with np.errstate(all="ignore"):
        if a.dtype != np.float64:
            return to_f32(np.sqrt(a.astype(np.float64)), rounding)
        root = np.sqrt(a)
        if rounding == "rn":
            return np.asarray(root)
        low = _scaled_residual(a, root)
        return np.where(np.isfinite(a) & (a > 0), _directed(root, low, rounding), root)


def _scaled_residual(a: Double, root: Double) -> Double:
    """The sign of a - root * root, free of overflow and underflow."""
    # Two steps: the square of the scale could overflow.
    scale = np.ldexp(1.0, -_exponent(root))
    p, e = _two_product(root * scale, root * scale)
    return np.asarray((a * scale * scale - p) - e)


def _by_fractions(start: Double, lanes: NDArray[np.bool_], exact: Callable[[Any], Fraction],
                  rounding: str) -> Double:
    result = start.copy()
    for index in np.argwhere(lanes):
        where = tuple(index)
        result[where] = _round_fraction(exact(where), rounding)
    return result


def round_integral(a: Floats, rounding: str) -> Floats:
    """The nearest integral value: rni (ties to even), rzi, rmi, rpi, or rna (ties away)."""
    with np.errstate(all="ignore"):
        if rounding == "rna":
            return np.asarray(np.copysign(np.floor(np.abs(a) + 0.5), a))
        round_ = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[rounding]
        return np.asarray(round_(a))


# --- subnormals -----------------------------------------------------------------------------------

def is_subnormal(a: Floats) -> NDArray[np.bool_]:
    """Nonzero and below the smallest normal number."""
    return np.asarray((a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal))


def flush(a: Floats) -> Floats:
    """Subnormal numbers as zeros of the same sign."""
    return np.where(is_subnormal(a), np.copysign(a.dtype.type(0), a), a)
