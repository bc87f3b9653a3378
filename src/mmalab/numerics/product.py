"""Dot products and matrix products with a chip's own arithmetic.

    >>> import numpy as np
    >>> a = np.array([[256, 256, 1]]); b = np.array([[256, -256, 1]])
    >>> import ml_dtypes; fp8 = ml_dtypes.float8_e4m3fn
    >>> float(dot(a.astype(fp8), b.astype(fp8), unit="sm_90.wgmma.e4m3.f32")[0])
    0.0
    >>> float(dot(a.astype(fp8), b.astype(fp8), unit="sm_90.mma.e4m3.f32")[0])
    1.0

The same three products; wgmma cuts the 1 (its grid is 2^(16 - 13) = 8), while mma.sync is rewritten
into FP16 instructions and keeps it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.formats.parts import as_words
from mmalab.numerics import ieee, matrix, reference
from mmalab.numerics.operands import Words
from mmalab.numerics.scaled_matrix import multiply_scaled
from mmalab.numerics.unit import Unit
from mmalab.numerics.units import unit as find_unit

__all__ = ["dot", "matmul"]

_WHERE = "mmalab.numerics"


def dot(a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None, *, unit: str | Unit,
        raw: bool = False, k: int = 0, scale_a: ArrayLike | None = None,
        scale_b: ArrayLike | None = None) -> NDArray[Any]:
    """Batched dot products, one output of one chain of instructions each.

    Args:
        a, b: shape (batch, K); ml_dtypes or NumPy arrays of the unit's types, or raw words.
            Values of another type are accepted only where they convert exactly.
        c: accumulators, shape (batch,); None means zero.
        unit: which arithmetic, as ``sm_90.wgmma.e4m3.f32``.
        raw: take and give raw words (unsigned integers, one element a word).
        k: K of one instruction, by default the unit's largest. K is padded with zeros to a
            multiple of it; that changes no bit.
        scale_a, scale_b: (batch, K / block) scales of block-scaled units.

    Returns:
        Shape (batch,), of the accumulator's type (or its words).

    Raises:
        UsageError: shapes that do not fit, values that the type cannot hold, an unknown unit.
    """
    row = find_unit(unit)
    left, right = _words(a, row.a, "a", raw), _words(b, row.b, "b", raw)
    if left.ndim != 2 or left.shape != right.shape or left.shape[-1] == 0:
        raise UsageError(f"dot of {left.shape} and {right.shape}", "both are (batch, K), K > 0",
                         legal="(8, 64) and (8, 64)", where=_WHERE)
    start = _start(c, row, left.shape[:1], raw)
    scales = _scales(row, scale_a, scale_b, raw)
    result = reference.multiply(row, left[:, None, :], right[:, :, None], start[:, None, None], k=k,
                                scale_a=None if scales is None else scales[0][:, None, :],
                                scale_b=None if scales is None else scales[1][:, :, None])
    return _result(result[:, 0, 0], row, raw)


def matmul(a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None, *, unit: str | Unit,
           promote_every: int | None = None, split_k: int = 1, raw: bool = False, k: int = 0,
           scale_a: ArrayLike | None = None, scale_b: ArrayLike | None = None,
           threads: int | None = None) -> NDArray[Any]:
    """A x B + C as a kernel of one output tile per accumulator would compute it.

    Args:
        a, b, c: shapes (M, K), (K, N), (M, N); see :func:`dot`. c None means zero.
        promote_every: restart the accumulator every so many k and add it, in IEEE FP32, into
            registers that begin with c (the usual cure for FP8's 14 bits). A multiple of the
            instruction's K.
        split_k: cut K into so many contiguous runs of whole instructions (the first runs are one
            longer where it does not divide), each from zero but the first, which begins with c;
            the results are added in FP32 in order of k.
        raw, k, scale_a, scale_b: see :func:`dot`; scales are (M, K / block), (K / block, N).
        threads: threads of the compiled kernel, by default one for each usable core.

    Returns:
        Shape (M, N), of the accumulator's type (or its words).
    """
    row = find_unit(unit)
    left, right = _words(a, row.a, "a", raw), _words(b, row.b, "b", raw)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0] or not left.shape[1]:
        raise UsageError(f"matmul of {left.shape} and {right.shape}", "needs (M, K) and (K, N)",
                         legal="(8, 64) and (64, 16)", where=_WHERE)
    start = _start(c, row, (left.shape[0], right.shape[1]), raw)
    scales = _scales(row, scale_a, scale_b, raw)
    k = k or row.k
    row.block(k)
    for name, value, legal in (("promote_every", promote_every, f"None, or multiples of {k}"),
                               ("split_k", split_k, "1 or more")):
        if not isinstance(value, (int, np.integer)) and (value is not None or name == "split_k"):
            raise UsageError(f"{name}={value!r}", "is not an integer", legal=legal, where=_WHERE)
    if (promote_every or split_k > 1) and row.acc != "f32":
        raise UsageError(f"{row.name}: promote_every or split_k", "adds in FP32 registers",
                         legal="units with an f32 accumulator", where=_WHERE)
    run = _Run(row, left, right, scales, k, threads)
    sums = []
    for part, low, high in _k_runs(left.shape[1], split_k, k):
        first = start if part == 0 else np.zeros_like(start)
        sums.append(run.promoted(first, low, high, promote_every) if promote_every
                    else run.chain(first, low, high))
    total = sums[0]
    for addend in sums[1:]:
        total = ieee.add(total, addend, "f32")
    return _result(total, row, raw)


class _Run:
    """The operands of one product, and pieces of its K."""

    def __init__(self, row: Unit, a: Words, b: Words, scales: tuple[Words, Words] | None, k: int,
                 threads: int | None) -> None:
        self.row, self.a, self.b, self.scales, self.k = row, a, b, scales, k
        self.threads = threads

    def chain(self, c: Words, low: int, high: int) -> Words:
        """Instructions over k in [low, high), from c."""
        part = slice(low, high)
        if self.scales is None:
            return matrix.multiply(self.row, self.a[:, part], self.b[part], c, k=self.k,
                                   threads=self.threads)
        block = self.row.scale_block
        blocks = slice(low // block, -(-high // block))
        return multiply_scaled(self.row, self.a[:, part], self.b[part], c, k=self.k,
                               scale_a=self.scales[0][:, blocks], scale_b=self.scales[1][blocks],
                               threads=self.threads)

    def promoted(self, c: Words, low: int, high: int, every: int) -> Words:
        """Chains of `every` k from zero, added to c one after the other."""
        if every < 1 or every % self.k:
            raise UsageError(f"promote_every={every}", "counts whole instructions",
                             legal=f"multiples of {self.k}", where=_WHERE)
        for at in range(low, high, every):
            piece = self.chain(np.zeros_like(c), at, min(at + every, high))
            c = ieee.add(c, piece, "f32")
        return c


def _k_runs(size: int, parts: int, k: int) -> list[tuple[int, int, int]]:
    """Contiguous runs of whole instructions: (index, first k, one past the last)."""
    steps = -(-size // k)
    if not 1 <= parts <= steps:
        raise UsageError(f"split_k={parts}", f"K holds {steps} instructions",
                         legal=f"1 to {steps}", where=_WHERE)
    short, longer = divmod(steps, parts)
    bounds = [0]
    for part in range(parts):
        bounds.append(bounds[-1] + (short + (part < longer)) * k)
    return [(i, bounds[i], min(bounds[i + 1], size)) for i in range(parts)]


def _words(values: ArrayLike, kind: str, name: str, raw: bool) -> Words:
    """Raw words of type `kind`, from words or from values that it holds exactly."""
    fmt = formats.get(kind)
    array = _array(values, name, fmt)
    if raw:
        return np.ascontiguousarray(as_words(array, fmt))
    if array.dtype == formats.dtype_of(fmt) and kind not in ("s4", "u4"):
        return np.ascontiguousarray(formats.from_array(array)[0])
    if kind == "tf32":
        raise UsageError(f"{name}: {array.dtype}", "tf32 operands are float32, read without their "
                         "low 13 bits", legal="float32", where=_WHERE)
    numbers = _array(array, name, fmt, np.float64)
    words = formats.encode(numbers, fmt)
    if not np.array_equal(formats.decode(words, fmt), numbers, equal_nan=True):
        raise UsageError(f"{name}: {array.dtype} values", f"some are no {kind} numbers; round them "
                         "first, so that the rounding is yours",
                         legal=(str(formats.dtype_of(fmt)), "words with raw=True"), where=_WHERE)
    return np.ascontiguousarray(words)


def _array(values: ArrayLike, name: str, fmt: formats.Format,
           dtype: type[np.float64] | None = None) -> NDArray[Any]:
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError):
        raise UsageError(f"{name}: {type(values).__name__}", "is no array of numbers",
                         legal=(str(formats.dtype_of(fmt)), "words with raw=True"),
                         where=_WHERE) from None


def _start(c: ArrayLike | None, row: Unit, shape: tuple[int, ...], raw: bool) -> Words:
    if c is None:
        return np.zeros(shape, formats.get(row.acc).dtype)
    words = _words(c, row.acc, "c", raw)
    if words.shape != shape:
        raise UsageError(f"c of shape {words.shape}", "is the accumulator of every output",
                         legal=str(shape), where=_WHERE)
    return words


def _scales(row: Unit, a: ArrayLike | None, b: ArrayLike | None,
            raw: bool) -> tuple[Words, Words] | None:
    if not row.scale:
        if a is not None or b is not None:
            raise UsageError(f"{row.name}: scales", "this unit has no block scales",
                             legal="no scale_a, no scale_b", where=_WHERE)
        return None
    if a is None or b is None:
        raise UsageError(row.name, "needs scale_a and scale_b",
                         legal=f"{row.scale}, one for {row.scale_block} elements of K",
                         where=_WHERE)
    return _words(a, row.scale, "scale_a", raw), _words(b, row.scale, "scale_b", raw)


def _result(words: Words, row: Unit, raw: bool) -> NDArray[Any]:
    return words if raw else words.view(formats.dtype_of(row.acc))
