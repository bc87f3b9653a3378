"""The one decoder: raw words of any format to sign, significand and exponent.

Every finite value of every format is ``significand * 2^exponent`` with an integer significand
below 2^64, so a value travels between formats without ever being rounded on the way:

    >>> parts = take_apart(np.array([0x3E00], np.uint16), FORMATS["f16"])      # 1.5
    >>> int(parts.significand[0]), int(parts.exponent[0])
    (1536, -10)

Decoding to float64 is the special case for people; formats of 16 bits or fewer go through a table
of all their codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.formats.table import FORMATS, Format, Specials, get

__all__ = ["Parts", "as_words", "decode", "take_apart"]


@dataclass(frozen=True, slots=True)
class Parts:
    """Values taken apart: ``(-1)^sign * significand * 2^exponent``, unless NaN or infinite."""

    sign: NDArray[np.bool_]
    significand: NDArray[np.uint64]
    exponent: NDArray[np.int64]
    nan: NDArray[np.bool_]
    inf: NDArray[np.bool_]


def as_words(words: ArrayLike, fmt: Format) -> NDArray[Any]:
    """`words` as an array of `fmt.dtype`; integers that do not fit in a word are an error."""
    array = np.asarray(words)
    if array.dtype == fmt.dtype and fmt.bits == 8 * array.dtype.itemsize:
        return array
    if array.dtype.kind not in "iu":
        raise UsageError(
            f"words of type {array.dtype}", f"raw {fmt} words are integers",
            legal=[str(fmt.dtype)], where="formats.encode makes words of numbers",
        )
    if array.dtype.kind == "i" and array.dtype.itemsize == fmt.dtype.itemsize:
        array = array.view(array.dtype.str.replace("i", "u"))
    outside = array.size and (int(array.max()) >> fmt.bits or int(array.min()) < 0)
    if outside:
        worst = int(array.min()) if int(array.min()) < 0 else int(array.max())
        raise UsageError(
            f"word {worst:#x}", f"a word of {fmt} has {fmt.bits} bits",
            legal=f"0 to {(1 << fmt.bits) - 1:#x}",
            where="mmalab.formats",
        )
    return array.astype(fmt.dtype)


def take_apart(words: ArrayLike, fmt: Format) -> Parts:
    """Sign, significand and exponent of raw words, same shape."""
    raw = as_words(words, fmt).astype(np.uint64)
    return _float_parts(raw, fmt) if fmt.is_float else _fixed_parts(raw, fmt)


def _float_parts(raw: NDArray[np.uint64], fmt: Format) -> Parts:
    mantissa_bits = np.uint64(fmt.mantissa_bits)
    code = (raw >> np.uint64(fmt.low_padding)) & np.uint64(
        (1 << (fmt.exponent_bits + fmt.mantissa_bits)) - 1
    )
    field = code >> mantissa_bits
    mantissa = code & np.uint64((1 << fmt.mantissa_bits) - 1)
    normal = (field > 0) if fmt.subnormals else np.ones_like(field, bool)
    significand = mantissa | normal.astype(np.uint64) << mantissa_bits
    # Subnormals keep the exponent of the smallest normal number.
    exponent = np.maximum(field.astype(np.int64) - fmt.bias, fmt.emin) - fmt.mantissa_bits
    special = code > np.uint64(fmt.max_code)
    inf = special & (mantissa == 0) if fmt.specials is Specials.IEEE else np.zeros_like(special)
    sign = (raw >> np.uint64(fmt.sign_shift) & np.uint64(1)).astype(bool) & fmt.signed
    return Parts(sign, significand, exponent, special & ~inf, inf)


def _fixed_parts(raw: NDArray[np.uint64], fmt: Format) -> Parts:
    negative = (raw >> np.uint64(fmt.bits - 1)).astype(bool) & fmt.signed
    mask = np.uint64((1 << fmt.bits) - 1)
    # -raw in so many bits; a sum that wraps around would warn where `raw` is one number
    magnitude = np.where(negative, mask - raw + negative.astype(np.uint64), raw)
    none = np.zeros_like(negative)
    exponent = np.full(raw.shape, -fmt.fraction_bits, np.int64)
    return Parts(negative, magnitude, exponent, none, none)


def _values(words: NDArray[Any], fmt: Format) -> NDArray[np.float64]:
    parts = take_apart(words, fmt)
    values = np.ldexp(parts.significand.astype(np.float64), parts.exponent.astype(np.int32))
    values = np.where(parts.inf, np.inf, np.where(parts.nan, np.nan, values))
    return np.where(parts.sign, -values, values)


@lru_cache(maxsize=len(FORMATS))
def _table(fmt: Format) -> NDArray[np.float64]:
    values = _values(np.arange(1 << fmt.bits, dtype=np.uint32), fmt)
    values.setflags(write=False)
    return values


def decode(words: ArrayLike, fmt: str | Format) -> NDArray[np.float64]:
    """Values of raw words as float64, same shape; exact.

    64-bit integers beyond 2^53 that float64 cannot hold raise UsageError (see `to_array`).
    """
    fmt = get(fmt)
    raw = as_words(words, fmt)
    if fmt.bits <= 16:
        return np.asarray(_table(fmt)[raw])
    if fmt.name == "f64":
        return np.asarray(raw.view(np.float64))
    if fmt.bits == 32 and fmt.is_float:
        kept = raw & np.uint32(0xFFFF_FFFF << fmt.low_padding & 0xFFFF_FFFF)
        with np.errstate(invalid="ignore"):  # a signalling NaN is no reason to warn
            return kept.view(np.float32).astype(np.float64)
    values = _values(raw, fmt)
    if fmt.bits == 64:
        _check_exact(raw, fmt)
    return values


def _check_exact(raw: NDArray[Any], fmt: Format) -> None:
    magnitude = take_apart(raw, fmt).significand
    lowest_bit = (magnitude & (~magnitude + np.uint64(1))).astype(np.float64)
    if np.any(magnitude.astype(np.float64) > lowest_bit * (2.0**53 - 1)):
        raise UsageError(
            f"{fmt} words", "some value needs more than the 53 bits of float64",
            legal="formats.to_array, which gives NumPy integers",
            where="mmalab.formats",
        )
