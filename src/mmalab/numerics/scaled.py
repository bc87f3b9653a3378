"""Block-scaled products: every 16 or 32 elements of K share a scale, applied inside the adder.

With one UE8M0 scale per instruction (mxf8f6f4) the scale only moves the exponents of the products,
and the fused sum stays what it is. FP4 (mxf4, mxf4nvf4) works in groups of 16: their products are
multiples of 1/4 and are summed exactly; the group sum times the two scale significands is exact
too; then the four group terms and c meet in one fused sum with F = 35. What aligns a group is the
sum of its *scale exponents*, however large the group sum is::

    16 products of 6 * 6 with scales 1:  the term is 576, its alignment exponent is 0

Source: MMA-Sim's published description; confidence "matches-model", F = 35 is disputed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.numerics.accumulate import aligned, cut_to_f32, specials_into
from mmalab.numerics.operands import Words, split
from mmalab.numerics.unit import Unit

__all__ = ["groups", "scale_exponents"]

_GROUP = 16


def scale_exponents(a: Words, b: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sum of two UE8M0 exponents, and where one of them is NaN (0xFF)."""
    left, right = split("ue8m0", a), split("ue8m0", b)
    return left.exponent + right.exponent, left.nan | right.nan


def groups(unit: Unit, a: Words, b: Words, c: Words, scale_a: Words, scale_b: Words) -> Words:
    """One FP4 instruction.

    Args:
        unit: a row whose algorithm is "groups".
        a, b: e2m1 words, shapes (..., M, 1, 64) and (..., M or 1, N, 64).
        c: FP32 words, (..., M, N).
        scale_a, scale_b: scale words, (..., M, 1, 64 / block) and (..., 1, N, 64 / block).
    """
    sums, empty = _group_sums(_quarters(a), _quarters(b))
    repeat = unit.scale_block // _GROUP
    sa = split(unit.scale, np.repeat(scale_a, repeat, axis=-1))
    sb = split(unit.scale, np.repeat(scale_b, repeat, axis=-1))
    exponent = sa.exponent + sb.exponent
    term = sums * (sa.magnitude * sb.magnitude)
    # Element products count quarters; scale significands have fraction bits of their own.
    lsb = exponent - 2 - sa.fraction_bits - sb.fraction_bits
    empty = empty | (sa.magnitude == 0) | (sb.magnitude == 0)
    start = split("f32", c)
    top = np.where(empty, unit.floor, exponent).max(axis=-1)
    top = np.maximum(top, np.where(start.magnitude != 0, start.exponent, unit.floor))
    grid = top - unit.fraction
    cut = aligned(np.abs(term), lsb, grid[..., None])
    total = np.where(term < 0, -cut, cut).sum(axis=-1)
    carried = aligned(start.magnitude, start.exponent - start.fraction_bits, grid)
    words = cut_to_f32(total + np.where(start.negative, -carried, carried), grid)
    nan = (sa.nan | sb.nan).any(axis=-1) | start.nan
    return specials_into(words, nan, start.inf & ~start.negative, start.inf & start.negative, "f32")


def _quarters(words: Words) -> NDArray[np.float64]:
    """e2m1 elements as whole numbers of halves, so that their products count quarters."""
    parts = split("e2m1", words)
    halves = parts.magnitude << parts.exponent
    return np.where(parts.negative, -halves, halves).astype(np.float64)


def _group_sums(a: NDArray[np.float64], b: NDArray[np.float64],
                ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Exact sums of the groups of 16 products, (..., M, N, groups), and where all are zero."""
    a, b = (x.reshape((*x.shape[:-1], -1, _GROUP)) for x in (a, b))
    if b.shape[-4] == 1:  # one B for all rows: a matrix product for each group, exact in doubles
        left = np.moveaxis(a[..., 0, :, :], -2, -3)
        right = np.swapaxes(np.moveaxis(b[..., 0, :, :, :], -2, -3), -1, -2)
        sums, size = left @ right, np.abs(left) @ np.abs(right)
        return np.moveaxis(sums, -3, -1).astype(np.int64), np.moveaxis(size == 0, -3, -1)
    products = a * b
    return products.sum(axis=-1).astype(np.int64), (products == 0).all(axis=-1)
