"""E8M0 block scales: five policies, all in integer arithmetic on exponents and significands.

A block of an MX format shares one power of two. Given the largest magnitude of the block (`amax`)
and the element format (largest value `dmax`, top exponent `emax`), encoders in use disagree:

    floor   2^(floor(log2 amax) - emax)            OCP recipe; elements above dmax saturate
    even    floor of amax rounded to the element's mantissa first
    ceil    2^(ceil(log2 amax) - emax)
    rceil   smallest power of two >= amax / dmax   NVIDIA (cvt.rp.ue8m0x2); never saturates
    rne     nearest power of two to amax / dmax, a tie upwards

    >>> amax = np.array([150.0])
    >>> {policy: int(e8m0_scale(amax, "e4m3", policy)[0]) for policy in POLICIES}
    {'floor': 126, 'even': 126, 'ceil': 127, 'rceil': 126, 'rne': 125}

`ceil` is not `rceil`: 150 / 448 is below 2^-1, while 150 itself rounds up to 256 = 2^8.

A zero block has code 0 (2^-127, the smallest scale), an infinite one the largest finite code 254,
NaN has code 255. Codes are clamped to 0..254. No logarithm is taken: a float log2 is wrong near
powers of two. (An encoder that divides in FP32 before the cast can differ where that division
rounds across a power of two.)
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.formats.arrays import from_array
from mmalab.formats.parts import take_apart
from mmalab.formats.table import Format, get

__all__ = ["POLICIES", "Policy", "e8m0_scale"]

Policy = Literal["floor", "even", "ceil", "rceil", "rne"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

_ONE = np.uint64(1)


def e8m0_scale(amax: ArrayLike, element: str | Format, policy: Policy) -> NDArray[np.uint8]:
    """E8M0 codes of the scales of blocks whose largest magnitudes are `amax`, same shape.

    `amax` is a floating NumPy or ml_dtypes array (signs are ignored), `element` the format of the
    elements.
    """
    fmt = get(element)
    if policy not in POLICIES or not fmt.is_float:
        raise UsageError(
            f"scale policy {policy!r} for {fmt}", "unknown, or no floating element format",
            legal=[*POLICIES], where="OCP MX 1.0; mmalab.formats.scales",
        )
    words, source = from_array(np.asarray(amax))
    parts = take_apart(words, source)
    exponent, fraction = _normalised(parts.significand, parts.exponent)
    if policy in {"floor", "even", "ceil"}:
        code = exponent - fmt.emax + 127
        if policy == "ceil":
            code = code + (fraction > 0)
        if policy == "even":
            code = code + _carries(fraction, fmt.mantissa_bits)
    else:
        largest, source_of_max = from_array(np.array([fmt.max_value]))
        top = take_apart(largest, source_of_max)
        emax, element_fraction = _normalised(top.significand, top.exponent)
        code = exponent - emax + 127
        if policy == "rceil":
            code = code + (fraction > element_fraction)
        else:
            code = code + _nearest(fraction, element_fraction[0])
    code = np.where(parts.significand == 0, 0, np.clip(code, 0, 254))
    return np.where(parts.nan, 255, np.where(parts.inf, 254, code)).astype(np.uint8)


def _normalised(
    significand: NDArray[np.uint64], exponent: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """floor(log2) of the values, and the 52 bits below their leading one."""
    # As float64 the significand is exact (floating formats have 53 bits or fewer).
    pattern = np.maximum(significand, _ONE).astype(np.float64).view(np.uint64)
    top = (pattern >> np.uint64(52)).astype(np.int64) - 1023
    return top + exponent, pattern & np.uint64((1 << 52) - 1)


def _carries(fraction: NDArray[np.uint64], mantissa_bits: int) -> NDArray[np.int64]:
    """1 where rounding to `mantissa_bits` (nearest, ties to even) reaches the next power of two."""
    ones = ((1 << mantissa_bits) - 1) << (52 - mantissa_bits)
    half = 1 << (51 - mantissa_bits)
    # The last mantissa below the carry is all ones, hence odd: a tie goes up. With no mantissa
    # bits the leading one itself is the odd digit.
    return (fraction >= np.uint64(ones + half)).astype(np.int64)


def _nearest(fraction: NDArray[np.uint64], element_fraction: np.uint64) -> NDArray[np.int64]:
    """0, 1 or -1 by which the nearest power of two to (1+f) / (1+g) differs from 1."""
    one = 1 << 52
    value = fraction.astype(np.int64) + one
    largest = int(element_fraction) + one
    # (1+f)/(1+g) is in (1/2, 2): up at 3/2 and more, down below 3/4.
    up = 2 * value >= 3 * largest
    down = 4 * value < 3 * largest
    return up.astype(np.int64) - down.astype(np.int64)

