"""What one product is made of: sizes, instruction, tile, and the numbers that follow.

    >>> p = Problem(264, 136, 72, recipe("bf16"), tile())
    >>> p.grid, p.slices, p.last_bytes       # 2 x 3 blocks; 32 + 32 + 8 values of K
    ((2, 3, 1), 3, 16)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

from mmalab.errors import UsageError
from mmalab.kernels.sm80_mma.recipe import Recipe
from mmalab.kernels.sm80_mma.tile import LINES, SLICE, Tile
from mmalab.ptx.kernel import Param

__all__ = ["MULTIPLE", "Problem", "check_sizes", "matrix_params"]

#: M, N and K are multiples of this.
MULTIPLE = 8
#: The slices that one promotion may span: the loop is unrolled by as many.
_MOST_PERIOD = 8
#: A thread's offsets are 32-bit.
_MOST = 1 << 31
_WHERE = "mmalab.kernels.sm80_mma"


def check_sizes(multiple: int = MULTIPLE, **sizes: int) -> None:
    """Refuse sizes that are not positive multiples.

    Raises:
        UsageError: naming the size and its nearest legal values.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise UsageError(f"{name}={size!r}", "is no int", legal=str(multiple), where=_WHERE)
        if size < 1 or size % multiple:
            below = max(size // multiple * multiple, multiple)
            above = below + multiple if size > below else below
            raise UsageError(f"{name}={size}", f"is no positive multiple of {multiple}",
                             legal=[str(size) for size in sorted({below, above})], where=_WHERE)


def matrix_params(m: int, n: int, k: int, row: Recipe) -> tuple[Param, ...]:
    """A (M x K), B (N x K), C (M x N), all row-major."""
    return (
        Param("a", "in", row.dtype, (m, k), "A, M x K, rows contiguous"),
        Param("b", "in", row.dtype, (n, k), "B, stored N x K, rows contiguous"),
        Param("c", "out", row.accumulator, (m, n), "C = A x B, M x N, rows contiguous"),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One product, checked. `promote_every` None: the accumulator runs over all of K."""

    m: int
    n: int
    k: int
    recipe: Recipe
    tile: Tile
    promote_every: int | None = None

    def __post_init__(self) -> None:
        check_sizes(m=self.m, n=self.n, k=self.k)
        widest = max(self.k * self.recipe.bytes, self.n * self.recipe.result_bytes)
        if widest * LINES >= _MOST:
            raise UsageError(f"a row of {widest} bytes", "is too long for the kernel's offsets",
                             legal=f"at most {_MOST // LINES - 1}", where=_WHERE)
        if self.promote_every is not None:
            self._check_promotion(self.promote_every)

    def _check_promotion(self, every: int) -> None:
        row, per = self.recipe, self.values
        inside = [size for size in range(row.k, per + 1, row.k) if per % size == 0]
        across = [per * count for count in range(2, _MOST_PERIOD + 1)]
        if row.accumulator != "f32":
            raise UsageError(f"promote_every={every}", "adds partial sums in FP32 registers",
                             legal="accumulate='f32'", where=_WHERE)
        legal = inside if self.tile.warp_tile == (64, 64) else inside + across
        if every not in legal:
            raise UsageError(f"promote_every={every}", f"with {row.k} values of K an instruction "
                             f"and {per} a slice", legal=[str(size) for size in legal],
                             where=_WHERE)

    @property
    def values(self) -> int:
        """Values of K in a slice."""
        return SLICE // self.recipe.bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of A or B."""
        return self.k * self.recipe.bytes

    @property
    def slices(self) -> int:
        """Slices of K, the last one perhaps not full."""
        return -(-self.row_bytes // SLICE)

    @property
    def last_bytes(self) -> int:
        """Bytes of a line in the last slice."""
        return self.row_bytes - (self.slices - 1) * SLICE

    @property
    def copy_unit(self) -> int:
        """Bytes of one cp.async: 16 where every row begins aligned to that, else 8."""
        return gcd(16, self.row_bytes)

    @property
    def steps(self) -> int:
        """Instructions along K in a slice: each takes 32 bytes of a line."""
        return self.values // self.recipe.k

    def steps_of(self, at: int) -> range:
        """The k-steps of slice `at`: those that hold no value are left out."""
        if at < self.slices - 1:
            return range(self.steps)
        return range(-(-self.last_bytes // (SLICE // self.steps)))

    @property
    def unroll(self) -> int:
        """Slices in the body of the loop: stages and promotions come round together."""
        return lcm(self.tile.stages, max(1, (self.promote_every or 1) // self.values))

    @property
    def promotes_across(self) -> bool:
        """Whether partial sums live for more than one slice, in registers of their own."""
        return self.promote_every is not None and self.promote_every > self.values

    @property
    def blocks_per_sm(self) -> int:
        """Blocks whose registers should fit an SM: one computes while the other waits."""
        return 1 if self.promotes_across else 2

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along N and M."""
        return -(-self.n // LINES), -(-self.m // LINES), 1

    @property
    def edges(self) -> tuple[bool, bool, bool]:
        """Whether M, N and K leave a part of the last tile or slice empty."""
        return self.m % LINES != 0, self.n % LINES != 0, self.last_bytes != SLICE
