"""Numbers to raw words and one format to another, as ``cvt`` does it.

    >>> import numpy as np
    >>> encode(np.array([0.3, 500.0, -1e9]), "e4m3")             # cvt.rn.satfinite.e4m3x2.f32
    array([ 42, 126, 254], dtype=uint8)
    >>> encode(np.array([500.0]), "e4m3", saturate=False)        # no infinity in E4M3: NaN
    array([127], dtype=uint8)
    >>> convert(np.array([0x3C01], np.uint16), "f16", "bf16", "rz")
    array([16256], dtype=uint16)

`saturate=None` means what PTX does when nothing is written: formats of 8 bits or fewer saturate
(``.satfinite`` is mandatory there; `ue8m0`, where it is optional, saturates too), wider floating
formats overflow to infinity, a float made an integer is clamped, an integer made a narrower integer
keeps its low bits.

Other software differs, and the differences are bugs people ship: ml_dtypes gives NaN for E4M3 from
465 up (`saturate=False` here), torch saturates; ml_dtypes makes 0 and negatives NaN in E8M0, PTX
ignores the sign and has 2^-127 as the smallest code.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.formats.arrays import from_array
from mmalab.formats.parts import as_words, take_apart
from mmalab.formats.rounding import (
    Rounding,
    Stochastic,
    round_to_fixed,
    round_to_float,
    rounding_named,
)
from mmalab.formats.table import Format, get

__all__ = ["convert", "encode", "random_slices"]

_ONE = np.uint64(1)


def encode(
    values: ArrayLike,
    fmt: str | Format,
    rounding: str = "rn",
    saturate: bool | None = None,
    *,
    relu: bool = False,
    random: ArrayLike | None = None,
    random_bits: int = 16,
) -> NDArray[Any]:
    """Raw words of `values` in `fmt`, same shape, each value rounded once.

    `values` are NumPy or ml_dtypes arrays (their type is the source format) or Python numbers.
    """
    words, source = from_array(np.asarray(values))
    return convert(
        words, source, fmt, rounding, saturate, relu=relu, random=random, random_bits=random_bits
    )


def convert(
    words: ArrayLike,
    source: str | Format,
    destination: str | Format,
    rounding: str = "rn",
    saturate: bool | None = None,
    *,
    relu: bool = False,
    random: ArrayLike | None = None,
    random_bits: int = 16,
) -> NDArray[Any]:
    """Raw words of `source` made raw words of `destination`: ``cvt.ROUNDING.DESTINATION.SOURCE``.

    `random` (integers of `random_bits` bits, broadcast) is for rounding ``rs`` alone.
    """
    source, destination = get(source), get(destination)
    mode = rounding_named(rounding)
    saturate = _saturates(source, destination, saturate)
    raw = as_words(words, source)
    if mode is Rounding.RS:
        noise = Stochastic.of(random, random_bits)
        return _convert(
            raw, source, destination, mode, saturate=saturate, relu=relu, noise=noise
        )
    if source.bits <= 16 and raw.size > 1 << source.bits:
        return np.asarray(_conversion_table(source, destination, mode, saturate, relu)[raw])
    return _convert(raw, source, destination, mode, saturate=saturate, relu=relu)


def _saturates(source: Format, destination: Format, asked: bool | None) -> bool:
    if destination.is_integer and source.is_float:
        if asked is False:
            raise UsageError(
                f"{source} to {destination} without saturation",
                "a float made an integer is always clamped",
                legal="saturate=None or True", where="PTX ISA 9.7.9.21, cvt, integer notes",
            )
        return True
    if asked is not None:
        return asked
    return destination.bits <= 8 and not destination.is_integer


def _convert(raw: NDArray[Any], source: Format, destination: Format, mode: Rounding, *,
             saturate: bool, relu: bool, noise: Stochastic | None = None) -> NDArray[Any]:
    parts = take_apart(raw, source)
    if destination.is_float:
        return round_to_float(parts, destination, mode, saturate=saturate, relu=relu, noise=noise)
    nan = _integer_nan(source, destination)
    return round_to_fixed(
        parts, destination, mode, saturate=saturate, relu=relu, nan=nan, noise=noise
    )


def _integer_nan(source: Format, destination: Format) -> int:
    """What NaN becomes in a format without NaN and without an exponent."""
    if destination.fraction_bits:
        return destination.max_integer
    wide = source.name == "f64" or destination.bits == 64
    return 1 << (destination.bits - 1) if wide else 0


@lru_cache(maxsize=64)
def _conversion_table(source: Format, destination: Format, mode: Rounding, saturate: bool,
                      relu: bool) -> NDArray[Any]:
    codes = np.arange(1 << source.bits, dtype=source.dtype)
    table = _convert(codes, source, destination, mode, saturate=saturate, relu=relu)
    table.setflags(write=False)
    return table


def random_slices(rbits: ArrayLike, destination: str | Format) -> NDArray[np.uint64]:
    """The random bits that ``cvt.rs`` gives each of its elements out of the 32-bit `rbits`.

    Returns shape (..., n) with the element in the low bits of the result first (n = 2 for f16 and
    bf16, 4 for 8-bit and narrower formats); f16 has 13 bits each, all others 16. The PTX ISA says
    which half serves which elements; that the second element of a half reads it bit-reversed (and
    E2M1 interleaves bytes) is a measurement by others on sm_100.
    """
    fmt = get(destination)
    word = np.asarray(rbits).astype(np.uint64) & np.uint64(0xFFFF_FFFF)
    low, high = word & np.uint64(0xFFFF), word >> np.uint64(16)
    if fmt.name in {"f16", "bf16"}:
        mask = np.uint64(0x1FFF if fmt.name == "f16" else 0xFFFF)
        return np.stack((low & mask, high & mask), axis=-1)
    if fmt.name == "e2m1":
        byte = [word >> np.uint64(8 * i) & np.uint64(0xFF) for i in range(4)]
        pairs = [byte[2] << np.uint64(8) | byte[0], byte[3] << np.uint64(8) | byte[1]]
    elif fmt.name in {"e4m3", "e5m2", "e3m2", "e2m3"}:
        pairs = [low, high]
    else:
        raise UsageError(
            f"cvt.rs to {fmt}", "no such conversion",
            legal="f16, bf16, e4m3, e5m2, e3m2, e2m3, e2m1", where="PTX ISA, cvt.rs",
        )
    return np.stack(
        [value for pair in pairs for value in (pair, _reversed_16(pair))], axis=-1
    )


def _reversed_16(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = [(value >> np.uint64(i) & _ONE) << np.uint64(15 - i) for i in range(16)]
    return np.asarray(np.bitwise_or.reduce(np.stack(bits), axis=0))
