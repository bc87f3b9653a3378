"""Decode: a product with few rows, and the tile that it reserves all the same.

    >>> row = fill(8, "tcgen05")
    >>> row.reserved, row.filled
    (64, 0.125)

The rows of a decode step are the sequences of the batch. A product's M is 64 at least (tcgen05
and wgmma; 32 with tcgen05.mma.ws), so the accumulator keeps columns, or registers, for rows that
nobody fills. Swapping the operands makes the tokens N, which goes in steps of 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Decode", "Fill", "Grouped", "Roofline", "decode", "fill", "fill_table", "grouped",
           "knee", "roofline"]


@dataclass(frozen=True, slots=True)
class Fill:
    """Rows asked for against rows reserved, of one instruction class and arrangement."""

    rows: int
    unit: str
    arrangement: str
    reserved: int

    @property
    def filled(self) -> float:
        """rows / reserved."""
        return self.rows / self.reserved


@dataclass(frozen=True, slots=True)
class Roofline:
    """One M x N x K product on one chip: FLOPs, bytes of weights, activations and results, seconds
    by memory and by arithmetic at the published peaks, and the rows of the knee."""

    chip: str
    rows: int
    n: int
    k: int
    format: str
    flops: float
    weight_bytes: float
    other_bytes: float
    memory_seconds: float
    math_seconds: float
    knee: float

    @property
    def bound(self) -> str:
        """``memory`` below the knee, ``math`` above."""
        return "memory" if self.memory_seconds >= self.math_seconds else "math"


@dataclass(frozen=True)
class Grouped:
    """Experts with their tokens: rows reserved by one tile each, and filled."""

    tokens: tuple[int, ...]
    tile: int
    reserved: int
    worst_case: int
    filled: float


@dataclass(frozen=True)
class Decode:
    """Everything about one decode step."""

    target: str
    rows: int
    speculative: int
    fills: tuple[Fill, ...]
    roofline: Roofline | None
    best: Fill


def fill(rows: int, unit: str, *, arrangement: str = "plain") -> Fill:
    """Rows reserved by ``tcgen05``, ``tcgen05.ws``, ``wgmma`` or ``mma`` for `rows` tokens.

    `arrangement` plain (tokens are M) or swapped (tokens are N). Reserved: rows rounded up to the
    tile of M (64 then 128; 32 for ws; 16 for mma) or to the step of N (8, 16 for M = 128).

    Raises:
        UsageError: unknown unit or arrangement, no rows.
    """
    raise NotImplementedError


def fill_table(unit: str = "tcgen05", *, rows: Sequence[int] = range(1, 257)) -> tuple[Fill, ...]:
    """The curve of article B's figure 9: filled share against batch."""
    return tuple(fill(count, unit) for count in rows)


def knee(on: str, weights: str, *, math: str | None = None) -> float:
    """Rows at which arithmetic takes as long as reading the weights once.

    peak x bytes per weight / (2 x bandwidth).
    """
    raise NotImplementedError


def roofline(rows: int, n: int, k: int, weights: str, *, on: str, math: str | None = None
             ) -> Roofline:
    """Seconds by memory and by arithmetic of rows x n x k with weights in a block format."""
    raise NotImplementedError


def grouped(tokens: Sequence[int], *, unit: str = "tcgen05", arrangement: str = "plain") -> Grouped:
    """Experts that each get their own tile, as routing leaves them."""
    raise NotImplementedError


def decode(rows: int, *, target: str, n: int | None = None, k: int | None = None,
           weights: str = "bf16", speculative: int = 1) -> Decode:
    """One decode step of `rows` sequences with `speculative` tokens each, on a target's chip."""
    raise NotImplementedError
