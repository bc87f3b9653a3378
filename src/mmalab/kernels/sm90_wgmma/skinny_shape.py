"""The numbers of a skinny product: what a CTA computes, copies and holds.

    >>> from mmalab.kernels.sm90_wgmma.recipe import recipe
    >>> shape = Shape(16, 8192, 8192, recipe("bf16"), "bf16", split=1, stages=11, depth=2)
    >>> shape.tiles, shape.columns, shape.stage_bytes       # 128 tiles of 64 lines of B
    (128, 16, 20480)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma.checks import check_sizes
from mmalab.kernels.sm90_wgmma.maps import MapShape
from mmalab.kernels.sm90_wgmma.plan import MOST_SHARED, SLICE
from mmalab.kernels.sm90_wgmma.recipe import Recipe
from mmalab.ptx.kernel import Param

__all__ = ["LINES", "MOST_ROWS", "PITCH", "Shape"]

#: Rows of A that these kernels take: N of one instruction.
MOST_ROWS = 256
#: CTAs that may share a tile.
SPLITS = (1, 2, 4, 8)
#: What may begin before the kernel ahead has ended: nothing, the launch, reading B.
OVERLAPS = ("none", "launch", "weights")
#: CTAs that may share A.
SHARES = (1, 2, 4)
#: Lines of B in a CTA's tile.
LINES = 64
#: Words between rows of partial sums: four threads of a quad then use other banks.
PITCH = LINES + 4
#: Bytes behind the ring.
RESERVED = 1024
_WHERE = "mmalab.kernels.sm90_wgmma.skinny"


@dataclass(frozen=True, slots=True)
class Shape:
    """One product: `split` CTAs along K, `stages` of `depth` slices, `share` CTAs that copy A for
    each other, `overlap` with the kernel ahead (see :func:`skinny`)."""

    m: int
    n: int
    k: int
    recipe: Recipe
    out: str
    split: int
    stages: int
    depth: int
    overlap: str = "none"
    share: int = 1

    def __post_init__(self) -> None:
        check_sizes(m=self.m, n=self.n, k=self.k)
        if self.m > MOST_ROWS:
            raise UsageError(f"m={self.m}", "rows are few here",
                             legal=f"1 to {MOST_ROWS}; gemm()", where=_WHERE)
        if self.out not in self.recipe.outputs:
            raise UsageError(f"out={self.out!r}", "is not what these sums are written as",
                             legal=list(self.recipe.outputs), where=_WHERE)
        if self.k * self.recipe.bytes % 16:
            raise UsageError(f"k={self.k}", "rows of a tensor map are a multiple of 16 bytes",
                             legal=f"a multiple of {16 // self.recipe.bytes}", where=_WHERE)
        if self.split not in SPLITS or self.split > self.slices:
            raise UsageError(f"split={self.split}", f"of {self.slices} slices",
                             legal=[str(s) for s in SPLITS if s <= self.slices], where=_WHERE)
        legal = self.shares()
        if self.share not in legal:
            raise UsageError(f"share={self.share}", f"of {self.columns} lines of A, split "
                             f"{self.split}", legal=[str(s) for s in legal], where=_WHERE)
        if self.overlap not in OVERLAPS:
            raise UsageError(f"overlap={self.overlap!r}", "is no way to follow another kernel",
                             legal=list(OVERLAPS), where=_WHERE)

    def shares(self) -> list[int]:
        """How many CTAs may copy A for each other: whole atoms of 8 lines each, and no split."""
        return [s for s in SHARES if s == 1 or (self.split == 1 and self.columns % (8 * s) == 0)]

    def stages_for(self, resident: int) -> range:
        """How many stages a CTA may have, when an SM is to hold `resident` of them."""
        most = (MOST_SHARED // resident - 2 * RESERVED) // self.stage_bytes
        sums = -(-self.columns * PITCH * 4 // self.stage_bytes)
        return range(max(2, sums), most + 1)

    @property
    def shared_bytes(self) -> int:
        """The ring, and barriers."""
        return self.stages * self.stage_bytes + RESERVED

    @property
    def columns(self) -> int:
        """N of the instruction: rows of A, filled up."""
        step = 16 if self.recipe.dtype == "s8" and self.m > 24 else 8
        return -(-self.m // step) * step

    @property
    def values(self) -> int:
        """Values of K in a slice."""
        return SLICE // self.recipe.bytes

    @property
    def slices(self) -> int:
        """Steps of the ring over all of K."""
        return -(-self.k // (self.values * self.depth))

    @property
    def slice_bytes(self) -> int:
        """B's lines, then A's."""
        return (LINES + self.columns) * SLICE

    @property
    def stage_bytes(self) -> int:
        """A stage."""
        return self.slice_bytes * self.depth

    @property
    def out_bytes(self) -> int:
        """Bytes of an element of C."""
        return isa.type_bits(self.out) // 8

    @property
    def tiles(self) -> int:
        """Tiles of B's lines."""
        return -(-self.n // LINES)

    @property
    def cluster(self) -> int:
        """CTAs of a cluster: along K, or of neighbouring tiles."""
        return self.split * self.share

    @property
    def ctas(self) -> int:
        """CTAs in whole clusters."""
        return -(-self.tiles // self.share) * self.cluster

    def runs(self) -> list[range]:
        """The slices of each CTA of a cluster: the first are one longer where it must be."""
        each, more = divmod(self.slices, self.split)
        starts = [at * each + min(at, more) for at in range(self.split + 1)]
        return [range(a, b) for a, b in pairwise(starts)]

    def maps(self) -> dict[str, MapShape]:
        """Of A and B."""
        words = "f32" if self.recipe.dtype == "tf32" else self.recipe.dtype
        pitch = self.k * self.recipe.bytes
        return {name: MapShape(words, (self.k, lines), (pitch,), (self.values, box), "128B")
                for name, lines, box in (("a", self.m, self.columns // self.share),
                                         ("b", self.n, LINES))}

    @property
    def params(self) -> tuple[Param, ...]:
        """A (M x K), B (N x K), C (M x N), all row-major."""
        return (
            Param("a", "in", self.recipe.dtype, (self.m, self.k), "A, M x K, rows contiguous"),
            Param("b", "in", self.recipe.dtype, (self.n, self.k), "B, stored N x K"),
            Param("c", "out", self.out, (self.m, self.n), "C = A x B, M x N, rows contiguous"),
        )
