"""D = A x B + C as an instruction of a unit computes it: the NumPy specification.

`multiply` takes raw words of any leading shape and walks over K one instruction at a time, feeding
each result back as the next accumulator, exactly as a chain of instructions does::

    A [..., M, K]   B [..., K, N]   C [..., M, N]   ->   D [..., M, N]

It is exact and slow (30 million products a second); :mod:`mmalab.numerics.matrix` is the compiled
twin for large matrices and :mod:`mmalab.numerics.fragments` puts registers in front of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.numerics import ieee
from mmalab.numerics.accumulate import tfs
from mmalab.numerics.operands import Words, split
from mmalab.numerics.scaled import groups, scale_exponents
from mmalab.numerics.unit import Unit

__all__ = ["multiply", "multiply_rows"]

#: Outputs times products held at once: bounds the memory of a call.
_CHUNK = 1 << 20

def multiply(unit: Unit, a: Words, b: Words, c: Words, *, k: int = 0, c_type: str = "",
             scale_a: Words | None = None, scale_b: Words | None = None) -> Words:
    """Run instructions of `unit` over all of K.

    Args:
        unit: whose arithmetic.
        a, b, c: words of shapes (..., M, K), (..., K, N), (..., M, N); one element a word.
        k: the K of one instruction, by default the unit's largest. K is padded with zeros to a
            multiple of it, which changes no bit.
        c_type: the type of c where it is not the unit's accumulator (one instruction only).
        scale_a, scale_b: words of shapes (..., M, K / block), (..., K / block, N) for block-scaled
            units; their tail is padded with the words of 1 (products there are zero).

    Returns:
        Words of the accumulator's type, shape (..., M, N).
    """
    rows = np.swapaxes(b, -1, -2)[..., None, :, :]
    return multiply_rows(unit, a, rows, c, k=k, c_type=c_type, scale_a=scale_a, scale_b=scale_b)


def multiply_rows(unit: Unit, a: Words, b: Words, c: Words, *, k: int = 0, c_type: str = "",
                  scale_a: Words | None = None, scale_b: Words | None = None) -> Words:
    """:func:`multiply` with B transposed and given for each row: (..., M or 1, N, K).

    That is what a sparse A needs, whose rows meet different elements of a column.
    """
    k = k or unit.k
    unit.block(k)
    tail = -a.shape[-1] % k
    if tail:
        a, b = (np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, tail)]) for x in (a, b))
    if unit.scale:
        scale_a, scale_b = _padded_scales(unit, a.shape[-1], scale_a, scale_b)
        step = _scaled_step(scale_a, np.swapaxes(scale_b, -1, -2))
    else:
        step = _STEPS[unit.algorithm]
    return _in_row_chunks(unit, a, b, c, k, c_type, step)


def _padded_scales(unit: Unit, size: int, scale_a: Words | None,
                   scale_b: Words | None) -> tuple[Words, Words]:
    if scale_a is None or scale_b is None:
        raise UsageError(unit.name, "needs scale_a and scale_b",
                         legal=f"{unit.scale} words, one for {unit.scale_block} elements of K",
                         where="mmalab.numerics")
    one = 127 if unit.scale == "ue8m0" else 0x38
    missing = size // unit.scale_block - scale_a.shape[-1]
    rows = [(0, 0)] * (scale_a.ndim - 1)
    return (np.pad(scale_a, [*rows, (0, missing)], constant_values=one),
            np.pad(scale_b, [*rows[:-1], (0, missing), (0, 0)], constant_values=one))


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the product one instruction stands: its first k, its rows, the type of its c."""

    start: int
    rows: slice
    c_type: str


#: One instruction: (unit, a [..., M, 1, k], b [..., M or 1, N, k], c [..., M, N], place) -> d.
Step = Callable[[Unit, Words, Words, Words, Place], Words]


def _in_row_chunks(unit: Unit, a: Words, b: Words, c: Words, k: int, c_type: str,
                   step: Step) -> Words:
    """Walk over rows in chunks, and over K in instructions."""
    shape = np.broadcast_shapes(c.shape, (*a.shape[:-1], 1), b.shape[:-1])
    result = np.empty(shape, formats.get(unit.acc).dtype)
    c = np.broadcast_to(c, shape)
    per_row = max(1, result.size // max(1, shape[-2]) * k)
    height = max(1, _CHUNK // per_row)
    for top in range(0, shape[-2], height):
        rows = slice(top, top + height)
        own = rows if b.shape[-3] > 1 else slice(None)
        d, kind = c[..., rows, :], c_type or unit.acc
        for start in range(0, a.shape[-1], k):
            part = slice(start, start + k)
            d = step(unit, a[..., rows, None, part], b[..., own, :, part], d,
                     Place(start, rows, kind))
            kind = unit.acc
        result[..., rows, :] = d
    return result


def _fused(unit: Unit, a: Words, b: Words, c: Words, place: Place) -> Words:
    return _blocks(unit, a, b, c, place.c_type)


def _blocks(unit: Unit, a: Words, b: Words, c: Words, c_type: str) -> Words:
    """Consecutive fused blocks, each result the next accumulator."""
    left, right = split(unit.a, a), split(unit.b, b)
    block = unit.block(a.shape[-1])
    for at in range(0, a.shape[-1], block):
        part = slice(at, at + block)
        c = tfs(left[..., part], right[..., part], c, fraction=unit.fraction,
                rounding=unit.rounding, floor=unit.floor, c_type=c_type)
        c_type = unit.acc
    return c


def _rewrite(unit: Unit, a: Words, b: Words, c: Words, _place: Place) -> Words:
    """FP8 on F16 instructions: k mod 4 in {0, 1} first, from zero; c is added at the end.

    The operands become FP16 numbers first, so a subnormal E4M3 number has FP16's exponent.
    """
    k = np.arange(a.shape[-1])
    order = np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])
    left = formats.convert(a[..., order], unit.a, "f16")
    right = formats.convert(b[..., order], unit.b, "f16")
    half = replace(unit, a="f16", b="f16")
    fused = _blocks(half, left, right, np.zeros_like(c), unit.acc)
    return ieee.add(c, fused, unit.acc)


def _scaled_step(scale_a: Words, scale_b: Words) -> Step:
    def step(unit: Unit, a: Words, b: Words, c: Words, place: Place) -> Words:
        first = place.start // unit.scale_block
        blocks = slice(first, first + a.shape[-1] // unit.scale_block)
        left, right = scale_a[..., place.rows, None, blocks], scale_b[..., None, :, blocks]
        if unit.algorithm == "groups":
            return groups(unit, a, b, c, left, right)
        exponent, nan = scale_exponents(left[..., 0], right[..., 0])
        words = tfs(split(unit.a, a), split(unit.b, b), c, fraction=unit.fraction,
                    rounding=unit.rounding, floor=unit.floor, scale=exponent)
        return np.where(nan, words.dtype.type(0x7FFFFFFF), words)

    return step


def _integers(name: str, words: Words) -> NDArray[np.int64]:
    bits = formats.get(name).bits
    value = words.astype(np.int64) & ((1 << bits) - 1)
    return value - ((value >> (bits - 1)) << bits) if name[0] == "s" else value


def _sums(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sums over k of small integers, as floats so that a matrix library does them (exactly)."""
    if right.shape[-3] == 1:
        products = left[..., 0, :] @ np.swapaxes(right[..., 0, :, :], -1, -2)
    else:
        products = (left * right).sum(axis=-1)
    return products.astype(np.int64)


def _integer(unit: Unit, a: Words, b: Words, c: Words, _place: Place) -> Words:
    left, right = (_integers(kind, x).astype(np.float64)
                   for kind, x in ((unit.a, a), (unit.b, b)))
    total = _sums(left, right) + _integers("s32", c)
    if unit.saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return np.asarray(total.astype(np.uint32))


def _bits(unit: Unit, a: Words, b: Words, c: Words, _place: Place) -> Words:
    left, right = (a & 1).astype(np.float64), (b & 1).astype(np.float64)
    count = _sums(left, right)
    if unit.variant == "xor":
        count = (left.sum(axis=-1) + right.sum(axis=-1)).astype(np.int64) - 2 * count
    return np.asarray((count + c.astype(np.int64)).astype(np.uint32))


def _doubles(unit: Unit, a: Words, b: Words, c: Words, _place: Place) -> Words:
    total = c.view(np.float64)
    left, right = a.view(np.float64), b.view(np.float64)
    for k in range(a.shape[-1]):
        total = ieee.fma64(left[..., k], right[..., k], total, unit.variant)  # type: ignore[arg-type]
    return total.view(np.uint64)


def _singles(unit: Unit, a: Words, b: Words, c: Words, place: Place) -> Words:
    """m8n8k4 on CUDA cores: an FP32 chain from zero, then one addition of c."""
    left, right = (x.view(np.float16).astype(np.float32) for x in (a, b))
    total = np.zeros(c.shape, np.float32)
    for k in range(a.shape[-1]):
        total = ieee.fma32(left[..., k], right[..., k], total)
    if unit.acc == place.c_type == "f32":
        return ieee.add(c, total.view(np.uint32), "f32")
    start = formats.decode(c, place.c_type)
    with np.errstate(all="ignore"):
        result = (start.astype(np.float32) + total).astype(formats.dtype_of(unit.acc))
    nan = formats.get(unit.acc).nan_word
    return np.where(np.isnan(result), nan, result.view(formats.get(unit.acc).dtype))


_STEPS: dict[str, Step] = {
    "tfs": _fused, "rewrite": _rewrite, "integer": _integer, "bits": _bits, "fma": _doubles,
    "ffma": _singles,
}
