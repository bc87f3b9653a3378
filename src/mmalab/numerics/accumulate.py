"""The truncated fused sum: what one tensor-core instruction computes per output, bit for bit.

A tensor core does not add products one by one. It takes a block of L exact products and the
accumulator c, finds the largest exponent E among them, cuts every term toward zero to F fraction
bits below 2^E, adds the integers exactly and rounds once. With F = 13 (FP8 on Hopper)::

    c = 2^14, a.b = 1*1:   E = 14, the grid is 2^(14-13) = 2, the product 1 is cut to 0:  d = 16384
    c = 2^13, a.b = 1*1:   E = 13, the grid is 1:                                         d = 8193

The same three numbers (L, F and the floor of E when c is zero) and a rounding tag describe every
floating tensor instruction from Volta to Blackwell. This file is the executable specification:
int64 arithmetic in NumPy, no shortcuts. The compiled kernels are tested against it.

Details that other models get wrong, each of which recordings of real chips decide:

* products are not normalised: 1.5 * 1.5 keeps the exponent 0, so E counts operand exponents;
* the cut is on magnitudes (toward zero), not a two's complement shift (toward minus infinity);
* c takes part in the alignment and is cut with the products, even where all products are zero;
* a zero result is +0, also where a negative sum is cut to nothing; NaN results are canonical.

Source: public models and recordings (MMA-Sim; Khattak and Mikaitis; Hawkeye), and 2.7 million
outputs of an H200 that agree without exception.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mmalab.numerics.operands import Split, Words, split

__all__ = ["CANONICAL_NAN", "Rounding", "aligned", "cut_to_f32", "round_to_f16", "tfs"]

#: How the exact sum becomes the result: truncated to FP32, truncated to 14 significant bits,
#: or rounded to nearest even FP16.
Rounding = Literal["RZ32", "RZ-E8M13", "RNE16"]

#: The NaN that tensor cores return, by accumulator type.
CANONICAL_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}

_FAR = 62  # a shift by so much leaves nothing of any magnitude used here


def aligned(magnitude: NDArray[np.int64], lsb: NDArray[np.int64],
            grid: NDArray[np.int64]) -> NDArray[np.int64]:
    """`magnitude` x 2^`lsb` cut toward zero to a count of 2^`grid`."""
    shift = lsb - grid
    left = magnitude << np.clip(shift, 0, _FAR)
    right = magnitude >> np.clip(-shift, 0, _FAR)
    return np.asarray(np.where(shift >= 0, left, right))


def tfs(a: Split, b: Split, c: Words, *, fraction: int, rounding: Rounding, floor: int,
        scale: NDArray[np.int64] | int = 0, c_type: str = "") -> Words:
    """One block: round(sum of cut(a[..., k] * b[..., k]) + cut(c)).

    Args:
        a, b: split operands of shape (..., L).
        c: accumulator words of shape (...): uint32 FP32, or uint16 FP16 under "RNE16".
        fraction: F, the bits kept below the largest exponent.
        rounding: how the sum becomes the result.
        floor: e0, the exponent that takes part in the maximum when c is zero.
        scale: added to every product's exponent (UE8M0 block scales), shape (...).
        c_type: the type of c where it is not the result's.

    Returns:
        Words like `c`.
    """
    kind = "f16" if rounding == "RNE16" else "f32"
    start = split(c_type or kind, c)
    magnitude = a.magnitude * b.magnitude
    exponent = a.exponent + b.exponent + np.asarray(scale)[..., None]
    live = magnitude != 0
    top = np.where(live, exponent, np.iinfo(np.int64).min // 2).max(axis=-1)
    top = np.maximum(top, np.where(start.magnitude != 0, start.exponent, floor))
    grid = top - fraction
    cut = aligned(magnitude, exponent - (a.fraction_bits + b.fraction_bits), grid[..., None])
    total = np.where(a.negative ^ b.negative, -cut, cut).sum(axis=-1)
    carried = aligned(start.magnitude, start.exponent - start.fraction_bits, grid)
    total = total + np.where(start.negative, -carried, carried)
    words = round_to_f16(total, grid) if kind == "f16" else cut_to_f32(total, grid)
    if rounding == "RZ-E8M13":
        words &= np.uint32(0xFFFFFC00)
    return _with_specials(words, a, b, start, kind)


def _with_specials(words: Words, a: Split, b: Split, c: Split, kind: str) -> Words:
    """Put NaN and Inf where they belong: NaN, Inf x 0 and Inf - Inf give the canonical NaN."""
    if not (a.nan.any() or a.inf.any() or b.nan.any() or b.inf.any() or c.nan.any() or c.inf.any()):
        return words
    zero_a = (a.magnitude == 0) & ~a.inf
    zero_b = (b.magnitude == 0) & ~b.inf
    infinite = a.inf | b.inf
    minus = a.negative ^ b.negative
    nan = (a.nan | b.nan | (a.inf & zero_b) | (b.inf & zero_a)).any(axis=-1) | c.nan
    above = (infinite & ~minus).any(axis=-1) | (c.inf & ~c.negative)
    below = (infinite & minus).any(axis=-1) | (c.inf & c.negative)
    return specials_into(words, nan, above, below, kind)


def specials_into(words: Words, nan: NDArray[np.bool_], above: NDArray[np.bool_],
                  below: NDArray[np.bool_], kind: str) -> Words:
    """`words` with +Inf where `above`, -Inf where `below`, NaN where `nan` or both."""
    inf, sign = (0x7C00, 0x8000) if kind == "f16" else (0x7F800000, 0x80000000)
    words = np.where(above, words.dtype.type(inf), words)
    words = np.where(below, words.dtype.type(inf | sign), words)
    return np.where(nan | (above & below), words.dtype.type(CANONICAL_NAN[kind]), words)


def _top_bit(magnitude: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of the highest set bit (magnitude < 2^53, so the conversion to double is exact)."""
    return np.frexp(magnitude.astype(np.float64))[1].astype(np.int64) - 1


def cut_to_f32(total: NDArray[np.int64], grid: NDArray[np.int64]) -> NDArray[np.uint32]:
    """`total` x 2^`grid` truncated to FP32; from 2^128 on Inf; anything cut to zero is +0."""
    magnitude = np.abs(total)
    exponent = np.maximum(_top_bit(magnitude) + grid, -126)
    kept = aligned(magnitude, grid, exponent - 23)
    # `kept` still has its leading one, which adds 1 to the exponent field of normal numbers.
    word = kept + ((exponent + 126) << 23)
    word = np.where(exponent > 127, 0x7F800000, word)
    word = np.where(kept == 0, 0, word | ((total < 0).astype(np.int64) << 31))
    return word.astype(np.uint32)


def round_to_f16(total: NDArray[np.int64], grid: NDArray[np.int64]) -> NDArray[np.uint16]:
    """`total` x 2^`grid` rounded to nearest even FP16, subnormals kept, overflow to Inf."""
    magnitude = np.abs(total)
    exponent = np.maximum(_top_bit(magnitude) + grid, -14)
    lsb = exponent - 10
    kept = aligned(magnitude, grid, lsb)
    rest = magnitude - aligned(kept, lsb, grid)
    half = aligned(np.ones_like(magnitude), lsb - 1, grid)
    # Where the grid is coarser than the result's last place nothing was cut and `rest` is 0.
    up = (rest > half) | ((rest == half) & (half > 0) & (kept & 1 == 1))
    word = kept + up + ((exponent + 14) << 10)
    word = np.where((exponent > 15) | (word > 0x7C00), 0x7C00, word)
    word = np.where(kept + up == 0, 0, word | ((total < 0).astype(np.int64) << 15))
    return word.astype(np.uint16)
