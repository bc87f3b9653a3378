"""What a product must write, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.kernels.arguments import words_of
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm90_wgmma.plan import EXPERT_ROWS, SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.numerics import ieee

__all__ = ["product"]


def product(args: Sequence[Any], unit: str, *, problem: Problem) -> list[NDArray[Any]]:
    """C of ``[a, b, ..., c]``: the chain of instructions in the chip's arithmetic, then one
    rounding."""
    if problem.scaled:
        return [rounded(_scaled(args, unit, problem), problem.out)]
    a, b = words_of(args[0]), words_of(args[1])
    if problem.experts:
        blocks = a.reshape(-1, EXPERT_ROWS, problem.k)
        parts = [_chain(block, b[int(expert)], unit, problem)
                 for block, expert in zip(blocks, args[2], strict=True)]
        return [np.concatenate(parts)]
    if problem.batch > 1:
        return [np.stack([_chain(x, y, unit, problem) for x, y in zip(a, b, strict=True)])]
    return [_chain(a, b, unit, problem)]


def _chain(a: NDArray[Any], b: NDArray[Any], unit: str, problem: Problem) -> NDArray[Any]:
    row = problem.recipe
    (sums,) = matrix_product((a, b), unit, family=row.unit, k=row.k,
                             promote_every=problem.promote_every)
    return rounded(sums, problem.out)


def _scaled(args: Sequence[Any], unit: str, problem: Problem) -> NDArray[Any]:
    """Partial sums of 128 values, each added by one fused multiply-add with its scales. Rows of A
    and B may be some of a larger product's: then each row of B has scales of its own."""
    row = problem.recipe
    a, b = words_of(args[0]), words_of(args[1])
    of_a, of_b = (np.asarray(x, np.float32) for x in args[2:4])
    if len(of_b) < len(b):
        of_b = np.repeat(of_b, SLICE, axis=0)[: len(b)]
    total = np.zeros((len(a), len(b)), np.float32)
    for at in range(problem.slices):
        part = slice(at * SLICE, (at + 1) * SLICE)
        (sums,) = matrix_product((a[:, part], b[:, part]), unit, family=row.unit, k=row.k)
        total = ieee.fma32(sums, of_a[:, at, None] * of_b[None, :, at], total)
    return total


def rounded(sums: NDArray[Any], out: str) -> NDArray[Any]:
    """Accumulators in the type of C: nearest even, as cvt.rn does; NaN is 7FFF."""
    dtype = formats.dtype_of(out)
    if sums.dtype == dtype:
        return sums
    with np.errstate(over="ignore", invalid="ignore"):
        result = sums.astype(dtype)
    result.view(np.uint16)[np.isnan(sums)] = 0x7FFF
    return result
