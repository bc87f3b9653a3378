"""What one product is made of: sizes, types, plan, and the numbers that follow.

    >>> p = Problem(8192, 8192, 1000, recipe("bf16"), "bf16", Plan(tile=(128, 256)))
    >>> p.slices, p.tiles, p.grid             # 15 slices of 64 values and one of 40
    (16, (64, 32), (132, 1, 1))
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma.plan import SLICE, Plan
from mmalab.kernels.sm90_wgmma.recipe import Recipe
from mmalab.ptx.kernel import Param

__all__ = ["Problem"]

_WHERE = "mmalab.kernels.sm90_wgmma"
#: Coordinates of a tensor map are 32-bit and signed.
_MOST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One product, checked. `out` is the type of C."""

    m: int
    n: int
    k: int
    recipe: Recipe
    out: str
    plan: Plan

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _MOST:
                raise UsageError(f"{name}={size!r}", "is no size of a matrix",
                                 legal=f"1 to {_MOST}", where=_WHERE)
        if self.out not in self.recipe.outputs:
            raise UsageError(f"out={self.out!r}", f"is not what {self.recipe.accumulator} "
                             "accumulators are written as", legal=list(self.recipe.outputs),
                             where=_WHERE)
        self.recipe.form(self.plan.tile[1])
        self._check_strides()
        self._check_store()
        self.plan.check_shared(self.out_bytes)

    def _check_strides(self) -> None:
        step = 16 // self.recipe.bytes
        if self.k % step:
            raise UsageError(f"k={self.k}", f"rows of {self.k * self.recipe.bytes} bytes; a tensor "
                             "map's rows are a multiple of 16", legal=f"a multiple of {step}",
                             where="CUDA driver API, cuTensorMapEncodeTiled")

    def _check_store(self) -> None:
        if self.plan.store == "permuted":
            for name, size in (("n", self.n), ("columns of the tile", self.plan.tile[1])):
                if size % self.deal:
                    raise UsageError(f"{name} {size}", f"store 'permuted' deals out {self.deal} "
                                     "columns at a time", legal="store='pairs'", where=_WHERE)
        if self.plan.store == "staged":
            step = 16 // self.out_bytes
            if self.n % step or self.plan.tile[1] % 16:
                raise UsageError(f"n={self.n}", "rows of C in a tensor map are a multiple of 16 "
                                 "bytes, and columns leave 16 at a time", legal="store='pairs'",
                                 where=_WHERE)

    # --- types ------------------------------------------------------------------------------------

    @property
    def out_bytes(self) -> int:
        """Bytes of an element of C."""
        return isa.type_bits(self.out) // 8

    @property
    def values(self) -> int:
        """Values of K in a slice."""
        return SLICE // self.recipe.bytes

    @property
    def steps(self) -> int:
        """Instructions along K in a slice: each takes 32 bytes of a line."""
        return self.values // self.recipe.k

    @property
    def deal(self) -> int:
        """Columns that are dealt out at a time: four threads hold 16 (or 8) bytes of each row."""
        return 32 if self.out_bytes == 2 and self.plan.tile[1] % 32 == 0 else 16

    # --- sizes ------------------------------------------------------------------------------------

    @property
    def slices(self) -> int:
        """Slices of K, the last one perhaps not full."""
        return -(-self.k // self.values)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of C along M and N, in whole clusters."""
        along = []
        for size, tile, ctas in zip((self.m, self.n), self.plan.tile, self.plan.cluster,
                                    strict=True):
            along.append(-(-size // (tile * ctas)) * ctas)
        return along[0], along[1]

    @property
    def cluster_tiles(self) -> tuple[int, int]:
        """The same in clusters."""
        return self.tiles[0] // self.plan.cluster[0], self.tiles[1] // self.plan.cluster[1]

    @property
    def work(self) -> int:
        """Tiles of whole clusters: what the clusters deal out among themselves."""
        return self.cluster_tiles[0] * self.cluster_tiles[1]

    @property
    def clusters(self) -> int:
        """Clusters that are launched."""
        if not self.plan.persistent:
            return self.work
        return max(1, min(self.work, self.plan.sms // self.plan.ctas))

    @property
    def grid(self) -> tuple[int, int, int]:
        """CTAs that are launched."""
        return self.clusters * self.plan.ctas, 1, 1

    @property
    def edges(self) -> tuple[bool, bool]:
        """Whether rows and columns of C end inside a tile (or before one of a cluster's)."""
        return (self.tiles[0] * self.plan.tile[0] != self.m,
                self.tiles[1] * self.plan.tile[1] != self.n)

    # --- arguments --------------------------------------------------------------------------------

    @property
    def params(self) -> tuple[Param, ...]:
        """A (M x K), B (N x K), C (M x N), all row-major."""
        dtype = self.recipe.dtype
        return (
            Param("a", "in", dtype, (self.m, self.k), "A, M x K, rows contiguous"),
            Param("b", "in", dtype, (self.n, self.k), "B, stored N x K, rows contiguous"),
            Param("c", "out", self.out, (self.m, self.n), "C = A x B, M x N, rows contiguous"),
        )
