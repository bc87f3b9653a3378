"""Integer arithmetic on raw words: wrapping, saturating, with carry, wide and high products.

Executors of families that integers share with floating point (add, min ...) are listed in INTEGER
and chosen by :mod:`mmalab.emulator.execute.arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.types import is_signed

__all__ = ["INTEGER", "multiply_high"]

Words = NDArray[Any]


def _halves(words: Words) -> Words:
    """[warps, 32] uint32 as [warps, 64] uint16."""
    return np.ascontiguousarray(words).view(np.uint16)


def _is_signed(lanes: Lanes) -> bool:
    return is_signed(lanes.modifier("type"))


def _as_type(words: Words, *, signed: bool) -> Words:
    return words.view(f"i{words.dtype.itemsize}") if signed else words


def _unsigned(words: Words) -> Words:
    return words.view(f"u{words.dtype.itemsize}")


def multiply_high(a: Words, b: Words, *, signed: bool) -> Words:
    """The upper half of the double-width product of unsigned words."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        kind = f"{'i' if signed else 'u'}{bits // 4}"
        x, y = (_as_type(w, signed=signed).astype(kind) for w in (a, b))
        return _unsigned(x * y >> bits).astype(a.dtype)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
    middle = a1 * b0 + (a0 * b0 >> shift)
    cross = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> shift) + (cross >> shift)
    if signed:
        high = high - np.where(a >> np.uint64(63), b, 0) - np.where(b >> np.uint64(63), a, 0)
    return np.asarray(high)


def _clamp_signed(exact: Words, lanes: Lanes) -> None:
    """Write an int64 clamped to s32."""
    lanes.write(0, np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32))


# --- add, sub, mul, mad ---------------------------------------------------------------------------

def _add(lanes: Lanes) -> None:
    a, b = lanes.read(1), lanes.read(2)
    if lanes.has("sat"):
        _clamp_signed(a.view(np.int32).astype(np.int64) + b.view(np.int32), lanes)
    elif "x2" in lanes.modifier("type"):
        lanes.write(0, (_halves(a) + _halves(b)).view(np.uint32))
    else:
        _sum(lanes, a, b, carry_in=False)


def _sum(lanes: Lanes, a: Words, b: Words, *, carry_in: bool) -> None:
    carry = lanes.carry.astype(a.dtype) if carry_in else np.zeros_like(a)
    partial = a + b
    total = partial + carry
    if lanes.has("cc"):
        lanes.carry = (partial < a) | (total < partial)
    lanes.write(0, total)


def _subtract(lanes: Lanes) -> None:
    a, b = lanes.read(1), lanes.read(2)
    if lanes.has("sat"):
        _clamp_signed(a.view(np.int32).astype(np.int64) - b.view(np.int32), lanes)
    else:
        _difference(lanes, a, b, borrow_in=False)


def _difference(lanes: Lanes, a: Words, b: Words, *, borrow_in: bool) -> None:
    borrow = lanes.carry.astype(a.dtype) if borrow_in else np.zeros_like(a)
    partial = a - b
    if lanes.has("cc"):
        lanes.carry = (a < b) | (partial < borrow)
    lanes.write(0, partial - borrow)


@executes("addc")
def _add_carry(lanes: Lanes) -> None:
    _sum(lanes, lanes.read(1), lanes.read(2), carry_in=True)


@executes("subc")
def _subtract_borrow(lanes: Lanes) -> None:
    _difference(lanes, lanes.read(1), lanes.read(2), borrow_in=True)


def _product(lanes: Lanes) -> Words:
    """The part of a * b that the form names, in the destination's width."""
    a, b, signed = lanes.read(1), lanes.read(2), _is_signed(lanes)
    part = lanes.modifier("part")
    if part == "wide":
        kind = f"{'i' if signed else 'u'}{a.dtype.itemsize * 2}"
        return _unsigned(_as_type(a, signed=signed).astype(kind)
                         * _as_type(b, signed=signed).astype(kind))
    return multiply_high(a, b, signed=signed) if part == "hi" else a * b


def _multiply(lanes: Lanes) -> None:
    lanes.write(0, _product(lanes))


def _multiply_add(lanes: Lanes) -> None:
    product, c = _product(lanes), lanes.read(3)
    if lanes.has("sat"):
        _clamp_signed(product.view(np.int32).astype(np.int64) + c.view(np.int32), lanes)
    else:
        _sum(lanes, product, c, carry_in=False)


@executes("madc")
def _multiply_add_carry(lanes: Lanes) -> None:
    _sum(lanes, _product(lanes), lanes.read(3), carry_in=True)


def _product_24(lanes: Lanes) -> NDArray[np.int64]:
    """Product of the low 24 bits, 48 bits wide, the part that the form names."""
    factors = []
    for index in (1, 2):
        low = (lanes.read(index) << np.uint32(8)).astype(np.uint32)
        factors.append((low.view(np.int32).astype(np.int64) if _is_signed(lanes)
                        else low.astype(np.int64)) >> 8)
    product = factors[0] * factors[1]
    return product >> 16 if lanes.modifier("part") == "hi" else product


@executes("mul24")
def _multiply_24(lanes: Lanes) -> None:
    lanes.write(0, _product_24(lanes).astype(np.uint32))


@executes("mad24")
def _multiply_add_24(lanes: Lanes) -> None:
    product = _product_24(lanes).astype(np.uint32)
    c = lanes.read(3)
    if lanes.has("sat"):
        _clamp_signed(product.view(np.int32).astype(np.int64) + c.view(np.int32), lanes)
    else:
        lanes.write(0, product + c)


@executes("sad")
def _absolute_difference(lanes: Lanes) -> None:
    a, b = lanes.read(1), lanes.read(2)
    x, y = (_as_type(w, signed=_is_signed(lanes)) for w in (a, b))
    lanes.write(0, lanes.read(3) + np.where(x < y, b - a, a - b))


# --- div, rem, abs, neg, min, max -----------------------------------------------------------------

def _magnitudes(lanes: Lanes) -> tuple[Words, Words, Words, Words]:
    """|a|, |b| as unsigned words and their signs."""
    a, b = lanes.read(1), lanes.read(2)
    zero = np.zeros(a.shape, bool)
    if not _is_signed(lanes):
        return a, b, zero, zero
    negative_a, negative_b = _as_type(a, signed=True) < 0, _as_type(b, signed=True) < 0
    return np.where(negative_a, -a, a), np.where(negative_b, -b, b), negative_a, negative_b


def _divide(lanes: Lanes) -> None:
    a, b, negative_a, negative_b = _magnitudes(lanes)
    quotient = a // np.where(b == 0, b.dtype.type(1), b)
    signed = np.where(negative_a != negative_b, -quotient, quotient)
    # Division by zero: all ones, as the chips do (the manual leaves it open).
    lanes.write(0, np.where(b == 0, np.iinfo(b.dtype).max, signed))


@executes("rem")
def _remainder(lanes: Lanes) -> None:
    a, b, negative_a, _ = _magnitudes(lanes)
    rest = np.where(b == 0, a, a % np.where(b == 0, b.dtype.type(1), b))
    lanes.write(0, np.where(negative_a, -rest, rest))


def _absolute(lanes: Lanes) -> None:
    a = lanes.read(1)
    lanes.write(0, np.where(_as_type(a, signed=True) < 0, -a, a))


def _negate(lanes: Lanes) -> None:
    lanes.write(0, -lanes.read(1))


def _extreme(lanes: Lanes) -> None:
    a, b = lanes.read(1), lanes.read(2)
    if "x2" in lanes.modifier("type"):
        a, b = _halves(a), _halves(b)
    x, y = (_as_type(w, signed=_is_signed(lanes)) for w in (a, b))
    result = np.minimum(x, y) if lanes.site.form.family == "min" else np.maximum(x, y)
    if lanes.has("relu"):
        result = np.maximum(result, 0)
    words = np.ascontiguousarray(_unsigned(result))
    lanes.write(0, words.view(np.uint32) if "x2" in lanes.modifier("type") else words)


INTEGER: dict[str, Callable[[Lanes], None]] = {
    "add": _add, "sub": _subtract, "mul": _multiply, "mad": _multiply_add, "div": _divide,
    "abs": _absolute, "neg": _negate, "min": _extreme, "max": _extreme,
}


# --- dot products ---------------------------------------------------------------------------------

def _bytes(words: Words, kind: str) -> NDArray[np.int64]:
    """[warps, 32, 4] of the bytes of a word."""
    raw = np.ascontiguousarray(words).view(np.int8 if is_signed(kind) else np.uint8)
    return raw.reshape(*words.shape, 4).astype(np.int64)


@executes("dp4a")
def _dot_4(lanes: Lanes) -> None:
    a = _bytes(lanes.read(1), lanes.modifier("atype"))
    b = _bytes(lanes.read(2), lanes.modifier("btype"))
    total = (a * b).sum(axis=-1) + lanes.read(3).astype(np.int64)
    lanes.write(0, total.astype(np.uint32))


@executes("dp2a")
def _dot_2(lanes: Lanes) -> None:
    signed = is_signed(lanes.modifier("atype"))
    words = np.ascontiguousarray(lanes.read(1))
    a = words.view(np.int16 if signed else np.uint16).reshape(*words.shape, 2).astype(np.int64)
    b = _bytes(lanes.read(2), lanes.modifier("btype"))
    chosen = b[..., 2:] if lanes.modifier("part") == "hi" else b[..., :2]
    total = (a * chosen).sum(axis=-1) + lanes.read(3).astype(np.int64)
    lanes.write(0, total.astype(np.uint32))
