"""The one rounder: exact values to the codes of any format, in every rounding of the ISA.

Take ``significand * 2^exponent`` and a destination whose neighbouring values lie 2^q apart there
(q follows the value's exponent, and stops at the subnormal step). Shifting the significand right by
``q - exponent`` leaves the whole steps, `kept`; the bits that fall off decide, with the mode,
whether one more step is added::

    rn   more than half, or half and `kept` odd     rz   never
    rna  half or more                               rm   negative and anything fell off
    rs   carry out of random + fallen bits          rp   positive and anything fell off

`kept` and the exponent then *are* the magnitude code: adding one step at the end of a binade runs
into the exponent field, as it should. Example: 0.3 to E2M1 has q = -1 (subnormal step 0.5); 0.3 is
0.6 steps, so rn gives code 1 (0.5) and rz code 0.

.. note:: A value must be rounded once. FP32 to BF16 to E8M0 is not FP32 to E8M0; `convert` goes
   straight from the source format to the destination.

Source: PTX ISA 9.7.9.21 (cvt): rounding modifiers, .satfinite, .relu, NaN results, .rs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.formats.parts import Parts
from mmalab.formats.table import Format, Specials

__all__ = ["Rounding", "Stochastic", "round_to_fixed", "round_to_float", "rounding_named"]

_ONE = np.uint64(1)


class Rounding(StrEnum):
    """Rounding modifiers of the PTX ISA."""

    #: To nearest, ties to the even code.
    RN = "rn"
    #: Toward zero.
    RZ = "rz"
    #: Toward negative infinity.
    RM = "rm"
    #: Toward positive infinity.
    RP = "rp"
    #: To nearest, ties away from zero.
    RNA = "rna"
    #: Stochastic: the carry out of adding given random bits to the bits that fall off.
    RS = "rs"


def rounding_named(name: str) -> Rounding:
    """The mode spelled `name`; ``rni``, ``rzi``, ``rmi`` and ``rpi`` are rn, rz, rm and rp."""
    try:
        return Rounding(name[:2] if name in {"rni", "rzi", "rmi", "rpi"} else name)
    except ValueError:
        raise UsageError(
            f"rounding {name!r}", "not a rounding modifier",
            legal=[str(mode) for mode in Rounding], where="PTX ISA 9.7.9.21, cvt",
        ) from None


@dataclass(frozen=True, slots=True)
class Stochastic:
    """Random integers below 2^bits, which broadcast against the values."""

    random: NDArray[np.uint64]
    bits: int

    @classmethod
    def of(cls, random: ArrayLike | None, bits: int) -> Stochastic:
        """Check what the caller gave: `random` is needed, and must fit in `bits` bits."""
        if random is None:
            raise UsageError(
                "rounding rs", "it needs random bits",
                legal="random=integers, random_bits=16 (13 for f16)", where="PTX ISA, cvt.rs",
            )
        array = np.asarray(random).astype(np.uint64)
        if array.size and int(array.max()) >> bits:
            raise UsageError(
                f"random bits {int(array.max()):#x}", f"more than {bits} bits",
                legal=f"0 to {(1 << bits) - 1:#x}", where="PTX ISA, cvt.rs",
            )
        return cls(array, bits)


def _top_bit(value: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Position of the highest set bit (of 1 for 0)."""
    # Clearing every bit below a set one keeps the top bit and forbids that the conversion to
    # float64 rounds up to the next power of two.
    thinned = np.maximum(value & ~(value >> _ONE), _ONE).astype(np.float64)
    return (thinned.view(np.uint64) >> np.uint64(52)).astype(np.int64) - 1023


def _shifted(parts: Parts, quantum: NDArray[np.int64], mode: Rounding, noise: Stochastic | None
             ) -> NDArray[np.uint64]:
    """How many whole steps of 2^quantum, rounded; steps beyond 64 bits are cut off."""
    right = quantum - parts.exponent
    down = np.clip(right, 0, 63).astype(np.uint64)
    up = np.clip(-right, 0, 63).astype(np.uint64)
    # Two shifts, because a shift by 64 is undefined.
    far = right > 63
    kept = np.where(far, np.uint64(0), parts.significand >> down) << up
    fallen = np.where(far, parts.significand, parts.significand & ((_ONE << down) - _ONE))
    if mode is Rounding.RZ:
        return np.asarray(kept)
    if mode is Rounding.RM or mode is Rounding.RP:
        more = (fallen > 0) & (parts.sign == (mode is Rounding.RM))
    elif mode is Rounding.RS and noise is not None:
        more = _carries(fallen, right, noise)
    else:
        half = np.where((right > 0) & (right <= 64), _ONE << np.clip(right - 1, 0, 63).astype(
            np.uint64), np.uint64(0))
        tie = (fallen == half) & (half > 0)
        more = ((fallen > half) & (half > 0)) | (tie & (mode is Rounding.RNA or kept & _ONE > 0))
    return np.asarray(kept + more.astype(np.uint64))


def _carries(fallen: NDArray[np.uint64], right: NDArray[np.int64], noise: Stochastic
             ) -> NDArray[np.bool_]:
    """Whether random + the top `noise.bits` of the `right` bits that fell off reach 2^bits."""
    down = right - noise.bits
    aligned = np.where(
        down > 63, np.uint64(0),
        fallen >> np.clip(down, 0, 63).astype(np.uint64) << np.clip(-down, 0, 63).astype(np.uint64),
    )
    return np.asarray((right > 0) & (aligned + noise.random >= _ONE << np.uint64(noise.bits)))


def round_to_float(parts: Parts, fmt: Format, mode: Rounding, *, saturate: bool, relu: bool,
                   noise: Stochastic | None = None) -> NDArray[Any]:
    """Words of the floating format `fmt` nearest to `parts` under `mode`.

    Beyond the largest value: with `saturate` that value; without, infinity where the mode rounds
    outwards (NaN in formats that have only NaN, the largest value in formats that have neither).
    NaN becomes the canonical NaN, or the positive largest value in formats without NaN. Formats
    without a sign ignore it. `relu` turns negative results into +0.
    """
    if not fmt.signed:
        parts = Parts(np.zeros_like(parts.sign), parts.significand, parts.exponent,
                      parts.nan, parts.inf)
    exponent = _top_bit(parts.significand) + parts.exponent
    exponent = np.where(parts.significand > 0, np.maximum(exponent, fmt.emin), fmt.emin)
    kept = _shifted(parts, exponent - fmt.mantissa_bits, mode, noise)
    code = kept + ((exponent - fmt.emin).astype(np.uint64) << np.uint64(fmt.mantissa_bits))
    if not fmt.subnormals:  # no zero: code 0 is the smallest power of two, and the floor
        code = np.maximum(code, _ONE) - _ONE
    code = np.where(
        parts.inf | (code > np.uint64(fmt.max_code)),
        _overflow(parts, fmt, mode, saturate=saturate), code,
    )
    sign = parts.sign & ~parts.nan
    if relu:
        code, sign = np.where(sign, np.uint64(0), code), np.zeros_like(sign)
    word = (code << np.uint64(fmt.low_padding)) | sign.astype(np.uint64) << np.uint64(
        fmt.sign_shift)
    has_nan = fmt.specials is not Specials.FINITE
    nan = fmt.nan_word if has_nan else fmt.max_code
    return np.where(parts.nan, np.uint64(nan), word).astype(fmt.dtype)


def _overflow(parts: Parts, fmt: Format, mode: Rounding, *, saturate: bool
              ) -> NDArray[np.uint64]:
    """Magnitude codes for values above the largest finite one."""
    largest = np.uint64(fmt.max_code)
    if saturate or fmt.specials is Specials.FINITE:
        return np.full(parts.sign.shape, largest)
    beyond = largest + _ONE  # infinity, or the NaN of formats without infinity
    inwards = {
        Rounding.RZ: np.ones_like(parts.sign),
        Rounding.RM: ~parts.sign,
        Rounding.RP: parts.sign,
    }.get(mode, np.zeros_like(parts.sign))
    return np.where(inwards & ~parts.inf, largest, beyond)


def round_to_fixed(parts: Parts, fmt: Format, mode: Rounding, *, saturate: bool, relu: bool,
                   nan: int, noise: Stochastic | None = None) -> NDArray[Any]:
    """Words of the fixed-point format `fmt`: clamped to its range, or wrapped without `saturate`.

    NaN becomes the word `nan`.
    """
    quantum = np.full(parts.exponent.shape, -fmt.fraction_bits, np.int64)
    steps = _shifted(parts, quantum, mode, noise)
    word = np.where(parts.sign, ~steps + _ONE, steps)
    if saturate:
        top = _top_bit(parts.significand) + parts.exponent + fmt.fraction_bits
        huge = parts.inf | ((top > 63) & (parts.significand > 0))
        high = ~parts.sign & (huge | (steps > np.uint64(fmt.max_integer)))
        low = parts.sign & (huge | (steps > np.uint64(-fmt.min_integer)))
        word = np.where(high, np.uint64(fmt.max_integer), word)
        word = np.where(low, np.uint64(fmt.min_integer & 0xFFFF_FFFF_FFFF_FFFF), word)
    if relu:
        word = np.where(parts.sign, np.uint64(0), word)
    word = np.where(parts.nan, np.uint64(nan), word)
    return (word & np.uint64((1 << fmt.bits) - 1)).astype(fmt.dtype)
