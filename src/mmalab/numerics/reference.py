"""D = A x B + C as an instruction of a unit computes it: the NumPy specification.

`multiply` takes raw words of any leading shape and walks over K one instruction at a time, feeding
each result back as the next accumulator, exactly as a chain of instructions does::

    A [..., M, K]   B [..., K, N]   C [..., M, N]   ->   D [..., M, N]

It is exact and slow (30 million products a second); :mod:`mmalab.numerics.matrix` is the compiled
twin for large matrices and :mod:`mmalab.numerics.fragments` puts registers in front of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError
from mmalab.numerics import ieee
from mmalab.numerics.accumulate import tfs
from mmalab.numerics.operands import Words, split
from mmalab.numerics.scaled import groups, scale_exponents
from mmalab.numerics.unit import Unit

__all__ = ["element_bits", "multiply"]

#: Outputs times products held at once: bounds the memory of a call.
_CHUNK = 1 << 20

_INTEGER_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}
_FLOAT_BITS = {"f64": 64, "f32": 32, "tf32": 32, "bf16": 16, "f16": 16}


def element_bits(name: str) -> int:
    """Width of the array word that carries one element of this type (4-bit and b1 in bytes)."""
    return _FLOAT_BITS.get(name, 32 if name == "s32" else 8)


def multiply(unit: Unit, a: Words, b: Words, c: Words, *, k: int = 0,
             scale_a: Words | None = None, scale_b: Words | None = None) -> Words:
    """Run instructions of `unit` over all of K.

    Args:
        unit: whose arithmetic.
        a, b, c: words of shapes (..., M, K), (..., K, N), (..., M, N); one element a word.
        k: the K of one instruction, by default the unit's largest. K is padded with zeros to a
            multiple of it, which changes no bit.
        scale_a, scale_b: words of shapes (..., M, K / block), (..., K / block, N) for block-scaled
            units; their tail is padded with the words of 1 (products there are zero).

    Returns:
        Words of the accumulator's type, shape (..., M, N).
    """
    k = k or unit.k
    unit.block(k)
    tail = -a.shape[-1] % k
    if tail:
        a = np.concatenate([a, np.zeros((*a.shape[:-1], tail), a.dtype)], axis=-1)
        b = np.concatenate([b, np.zeros((*b.shape[:-2], tail, b.shape[-1]), b.dtype)], axis=-2)
    b = np.swapaxes(b, -1, -2)
    if unit.scale:
        scale_a, scale_b = _padded_scales(unit, a.shape[-1], scale_a, scale_b)
        step = _scaled_step(unit, scale_a, np.swapaxes(scale_b, -1, -2))
    else:
        step = _STEPS[unit.algorithm]
    return _in_row_chunks(unit, a, b, c, k, step)


def _padded_scales(unit: Unit, size: int, scale_a: Words | None,
                   scale_b: Words | None) -> tuple[Words, Words]:
    if scale_a is None or scale_b is None:
        raise UsageError(unit.name, "needs scale_a and scale_b",
                         legal=f"{unit.scale} words, one for {unit.scale_block} elements of K")
    one = 127 if unit.scale == "ue8m0" else 0x38
    missing = size // unit.scale_block - scale_a.shape[-1]
    rows = [(0, 0)] * (scale_a.ndim - 1)
    return (np.pad(scale_a, [*rows, (0, missing)], constant_values=one),
            np.pad(scale_b, [*rows[:-1], (0, missing), (0, 0)], constant_values=one))


#: One instruction: (unit, a [..., M, 1, k], b [..., 1, N, k], c [..., M, N], first k, rows) -> d.
Step = Callable[[Unit, Words, Words, Words, int, slice], Words]


def _in_row_chunks(unit: Unit, a: Words, b: Words, c: Words, k: int, step: Step) -> Words:
    """Walk over rows in chunks, and over K in instructions."""
    result = np.array(np.broadcast_to(c, (*a.shape[:-1], b.shape[-2])))
    per_row = max(1, result.size // max(1, a.shape[-2]) * k)
    height = max(1, _CHUNK // per_row)
    for top in range(0, a.shape[-2], height):
        rows = slice(top, top + height)
        d = result[..., rows, :]
        for start in range(0, a.shape[-1], k):
            part = slice(start, start + k)
            d = step(unit, a[..., rows, None, part], b[..., None, :, part], d, start, rows)
        result[..., rows, :] = d
    return result


def _fused(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
    return _blocks(unit, a, b, c, unit.block(a.shape[-1]))


def _blocks(unit: Unit, a: Words, b: Words, c: Words, block: int, a_type: str = "",
            b_type: str = "") -> Words:
    """Consecutive fused blocks, each result the next accumulator."""
    left, right = split(a_type or unit.a, a), split(b_type or unit.b, b)
    for at in range(0, a.shape[-1], block):
        part = slice(at, at + block)
        c = tfs(left[..., part], right[..., part], c, fraction=unit.fraction,
                rounding=unit.rounding, floor=unit.floor)
    return c


def _rewrite(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
    """FP8 on F16 instructions: k mod 4 in {0, 1} first, from zero; c is added at the end."""
    k = np.arange(a.shape[-1])
    order = np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])
    block = unit.block(a.shape[-1])
    fused = _blocks(unit, a[..., order], b[..., order], np.zeros_like(c), block)
    return ieee.add(c, fused, unit.acc)


def _scaled_step(unit: Unit, scale_a: Words, scale_b: Words) -> Step:
    def step(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
        blocks = slice(start // unit.scale_block, (start + a.shape[-1]) // unit.scale_block)
        left, right = scale_a[..., rows, None, blocks], scale_b[..., None, :, blocks]
        if unit.algorithm == "groups":
            return groups(unit, a, b, c, left, right)
        exponent, nan = scale_exponents(left[..., 0], right[..., 0])
        words = tfs(split(unit.a, a), split(unit.b, b), c, fraction=unit.fraction,
                    rounding=unit.rounding, floor=unit.floor, scale=exponent)
        return np.where(nan, words.dtype.type(0x7FFFFFFF), words)

    return step


def _integers(name: str, words: Words) -> NDArray[np.int64]:
    bits = _INTEGER_BITS[name]
    value = words.astype(np.int64) & ((1 << bits) - 1)
    return value - ((value >> (bits - 1)) << bits) if name[0] == "s" else value


def _integer(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
    total = (_integers(unit.a, a) * _integers(unit.b, b)).sum(axis=-1) + _integers("s32", c)
    if unit.saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.astype(np.uint32)


def _bits(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
    joined = a ^ b if unit.variant == "xor" else a & b
    count = (joined & 1).sum(axis=-1, dtype=np.int64)
    return (count + c.astype(np.int64)).astype(np.uint32)


def _doubles(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
    total = c.view(np.float64)
    left, right = a.view(np.float64), b.view(np.float64)
    for k in range(a.shape[-1]):
        total = ieee.fma64(left[..., k], right[..., k], total, unit.variant)  # type: ignore[arg-type]
    return total.view(np.uint64)


def _singles(unit: Unit, a: Words, b: Words, c: Words, start: int, rows: slice) -> Words:
    """m8n8k4 on CUDA cores: an FP32 chain from zero, then one addition of c."""
    left, right = (x.view(np.float16).astype(np.float32) for x in (a, b))
    total = np.zeros(c.shape, np.float32)
    for k in range(a.shape[-1]):
        total = ieee.fma32(left[..., k], right[..., k], total)
    if unit.acc == "f32":
        return ieee.add(c, total.view(np.uint32), "f32")
    with np.errstate(all="ignore"):
        half = (c.view(np.float16).astype(np.float32) + total).astype(np.float16)
    return np.where(np.isnan(half), np.uint16(0x7FFF), half.view(np.uint16))


_STEPS: dict[str, Step] = {
    "tfs": _fused, "rewrite": _rewrite, "integer": _integer, "bits": _bits, "fma": _doubles,
    "ffma": _singles,
}
