"""A matrix product to be timed: sizes, types, what it costs and what its operands hold.

    >>> p = Problem(8192, 8192, 8192, "bf16")
    >>> p.out, p.flops, p.bytes
    ('bf16', 1099511627776, 402653184)

A is M x K and B is N x K (the weights of a linear layer), C is M x N, all row-major. Operands are
never zeros: zeros cost less power and run faster. They are N(0, 1) rounded to the type (integers:
24 N(0, 1), rounded and kept within a byte), drawn once into a pool of 2^24 values; every MiB of an
operand is a copy of the pool from a fresh random place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.bench.scales import BLOCK, shapes
from mmalab.errors import UsageError

__all__ = ["OPERANDS", "POOL", "Problem", "poison", "pool", "width"]

_WHERE = "mmalab.bench.Problem"
#: Values in the pool of operands.
POOL = 1 << 24
#: Operand types with the accumulator and output that go with them by default.
OPERANDS = {
    "bf16": ("f32", "bf16"), "f16": ("f32", "f16"), "tf32": ("f32", "f32"),
    "e4m3": ("f32", "bf16"), "e5m2": ("f32", "bf16"), "s8": ("s32", "s32"),
}
_EIGHT_BITS = ("e4m3", "e5m2")
#: What an output cannot be: NaN, or an integer beyond every sum of 2^16 products.
_POISON_S32 = 0x7FFFDEAD


@dataclass(frozen=True, slots=True)
class Problem:
    """C = A x B^T. `lda`, `ldb`, `ldc` are the distances of rows in elements (0: dense)."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    #: B's type where it is another (FP8 knows mixtures).
    dtype_b: str = ""
    accumulate: str = ""
    out: str = ""
    #: FP8 only: partial sums are added in FP32 every so many values of K; 0 is one chain.
    promote: bool = False
    #: FP8 only: partial sums are multiplied by FP32 scales of blocks (:mod:`mmalab.bench.scales`).
    scaled: bool = False
    lda: int = 0
    ldb: int = 0
    ldc: int = 0

    def __post_init__(self) -> None:
        for dtype in (self.dtype, self.dtype_b or self.dtype):
            if dtype not in OPERANDS:
                raise UsageError(f"dtype {dtype!r}", "is no operand type of a matrix product here",
                                 legal=list(OPERANDS), where=_WHERE)
        if min(self.m, self.n, self.k) < 1:
            raise UsageError(f"{self.m} x {self.n} x {self.k}", "sizes are positive",
                             legal="128 x 128 x 128", where=_WHERE)
        accumulate, out = OPERANDS[self.dtype]
        for name, value in (("dtype_b", self.dtype), ("accumulate", accumulate), ("out", out),
                            ("lda", self.k), ("ldb", self.k), ("ldc", self.n)):
            object.__setattr__(self, name, getattr(self, name) or value)
        for name, least in (("lda", self.k), ("ldb", self.k), ("ldc", self.n)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} {getattr(self, name)}", "rows would overlap",
                                 legal=f"{least} or more", where=_WHERE)

        if self.scaled and (self.dtype not in _EIGHT_BITS or self.k % BLOCK):
            raise UsageError(f"scaled {self.dtype}, k={self.k}", "scales belong to 128 values of K",
                             legal="e4m3 or e5m2, k a multiple of 128", where=_WHERE)

    @property
    def flops(self) -> int:
        """Operations: products and sums apart."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """The fewest bytes that cross device memory: A, B, their scales and C once."""
        return sum(self.operand_bytes) + self.scale_bytes

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales of blocks; 0 where there are none."""
        counts = shapes(self.m, self.n, self.k) if self.scaled else ()
        return 4 * sum(rows * columns for rows, columns in counts)

    @property
    def operand_bytes(self) -> tuple[int, int, int]:
        """Bytes of A, B and C as they lie in memory."""
        a, b, c = (width(dtype) for dtype in (self.dtype, self.dtype_b, self.out))
        return self.m * self.lda * a, self.n * self.ldb * b, self.m * self.ldc * c

    @property
    def title(self) -> str:
        """``bf16 8192x8192x8192``."""
        how = (" scaled" if self.scaled else " promoted" if self.promote
               else " fast" if self.dtype in _EIGHT_BITS else "")
        types = self.dtype if self.dtype == self.dtype_b else f"{self.dtype}*{self.dtype_b}"
        return f"{types}{how} {self.m}x{self.n}x{self.k}"


def width(dtype: str) -> int:
    """Bytes of one element."""
    return formats.dtype_of(dtype).itemsize


def pool(dtype: str, rng: np.random.Generator, count: int = POOL) -> NDArray[Any]:
    """`count` random values of an operand type, as raw words."""
    values = rng.standard_normal(count, np.float32)
    kind = formats.dtype_of(dtype)
    if dtype == "s8":
        return np.clip(np.rint(values * 24), -127, 127).astype(np.int8).view(np.uint8)
    if dtype == "tf32":
        # Whoever rounds and whoever cuts then multiply the same numbers.
        return values.view(np.uint32) & np.uint32(0xFFFFE000)
    words: NDArray[Any] = values.astype(kind).view(f"u{kind.itemsize}")
    return words


def poison(dtype: str) -> NDArray[Any]:
    """One element that no result is: all ones (NaN), for integers a value out of reach."""
    kind = formats.dtype_of(dtype)
    if kind.kind == "i":
        return np.array([_POISON_S32], np.uint32)
    return np.full(1, ~np.uint64(0), np.uint64).view(f"u{kind.itemsize}")[:1]
