"""What one product is made of: sizes, instruction, tile, and the numbers that follow.

    >>> from mmalab.kernels.sm80_mma.recipe import recipe
    >>> from mmalab.kernels.sm80_mma.tile import tile
    >>> p = Problem(264, 136, 72, recipe("bf16"), tile())
    >>> p.grid, p.slices, p.last_bytes       # 2 x 3 blocks; 32 + 32 + 8 values of K
    ((2, 3, 1), 3, 16)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.bands import fewest
from mmalab.kernels.sm80_mma.recipe import Recipe
from mmalab.kernels.sm80_mma.tile import LINES, Tile
from mmalab.ptx.kernel import Param

__all__ = ["BARRIERS", "MULTIPLE", "Problem", "check_sizes", "matrix_params"]

#: M, N and K are multiples of this.
MULTIPLE = 8
#: The slices that one promotion may span: the loop is unrolled by as many.
_MOST_PERIOD = 8
#: Columns of C that are dealt out among the lanes of a quad, four to each.
_DEAL = 16
#: Bytes behind the stages for barriers.
BARRIERS = 1024
#: Threads of a warpgroup, registers of one that fills.
_GROUP, _FILLING = 128, 24
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
        if size >= _MOST:
            raise UsageError(f"{name}={size}", "coordinates have 31 bits",
                             legal=str((_MOST - 1) // multiple * multiple), where=_WHERE)


def matrix_params(m: int, n: int, k: int, row: Recipe) -> tuple[Param, ...]:
    """A (M x K), B (N x K), C (M x N), all row-major."""
    return (
        Param("a", "in", row.dtype, (m, k), "A, M x K, rows contiguous"),
        Param("b", "in", row.dtype, (n, k), "B, stored N x K, rows contiguous"),
        Param("c", "out", row.accumulator, (m, n), "C = A x B, M x N, rows contiguous"),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One product, checked. `promote_every` None: the accumulator runs over all of K.

    `band` is 0 where blocks lie in the grid as C does; else so many rows of C are finished before
    the next begin, and everything is laid out for blocks that fill an SM (see `carried`).
    `box` says that tensor maps bring the operands (see `fed`), to blocks that fill `sms` SMs.
    """

    m: int
    n: int
    k: int
    recipe: Recipe
    tile: Tile
    promote_every: int | None = None
    band: int = 0
    box: bool = False
    sms: int = 132
    #: The last two waves of tiles are dealt out by slices of K (see `waves`), where that helps.
    evenly: bool = False
    #: With TMA, k-steps at the end of a tile that are multiplied row by row (see `fed`).
    drain: int = 2

    def __post_init__(self) -> None:
        check_sizes(m=self.m, n=self.n, k=self.k)
        widest = max(self.k * self.recipe.bytes, self.n * self.recipe.result_bytes)
        lines = max(self.tile.block)
        if widest * lines >= _MOST:
            raise UsageError(f"a row of {widest} bytes", "is too long for the kernel's offsets",
                             legal=f"at most {_MOST // lines - 1}", where=_WHERE)
        if self.box and self.promote_every is not None:
            raise UsageError(f"promote_every={self.promote_every}", "has no kernel that TMA feeds",
                             legal="copy='threads'", where=_WHERE)
        if self.box and self.row_bytes % 16:
            raise UsageError(f"rows of {self.row_bytes} bytes", "cannot be described to TMA",
                             legal="copy='threads', or K whose rows are multiples of 16 bytes",
                             where="PTX ISA, tensor maps: globalStrides")
        if self.promote_every is not None:
            self._check_promotion(self.promote_every)

    def _check_promotion(self, every: int) -> None:
        row, per = self.recipe, self.values
        inside = [size for size in range(row.k, per + 1, row.k) if per % size == 0]
        across = [per * count for count in range(2, _MOST_PERIOD + 1)]
        if row.accumulator != "f32":
            raise UsageError(f"promote_every={every}", "adds partial sums in FP32 registers",
                             legal="accumulate='f32'", where=_WHERE)
        legal = (inside + across if self.tile.warp_tile == (64, 32) and not self.band else inside)
        if every not in legal:
            raise UsageError(f"promote_every={every}", f"with {row.k} values of K an instruction "
                             f"and {per} a slice", legal=[str(size) for size in legal],
                             where=_WHERE)

    @property
    def target(self) -> str:
        """The oldest chip that has the instructions and the shared memory."""
        if self.box:  # setmaxnreg is one of sm_90a's own
            return "sm_90a"
        oldest = isa.target(self.recipe.target).capability
        return next(name for name in ("sm_80", "sm_89", "sm_90")
                    if isa.target(name).capability >= oldest
                    and isa.limits(name).shared_per_cta >= self.shared_bytes)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self.tile.shared_bytes + (BARRIERS if self.box else 0)

    @property
    def values(self) -> int:
        """Values of K in a slice."""
        return self.tile.span // self.recipe.bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of A or B."""
        return self.k * self.recipe.bytes

    @property
    def slices(self) -> int:
        """Slices of K, the last one perhaps not full."""
        return -(-self.row_bytes // self.tile.span)

    @property
    def last_bytes(self) -> int:
        """Bytes of a line in the last slice."""
        return self.row_bytes - (self.slices - 1) * self.tile.span

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
        return range(-(-self.last_bytes // (self.tile.span // self.steps)))

    @property
    def unroll(self) -> int:
        """Slices in the body of the loop: stages and promotions come round together; with TMA the
        stage is a register."""
        if self.box:
            return 1
        return lcm(self.tile.stages, max(1, (self.promote_every or 1) // self.values))

    @property
    def promotes_across(self) -> bool:
        """Whether partial sums live for more than one slice, in registers of their own."""
        return self.promote_every is not None and self.promote_every > self.values

    @property
    def blocks_per_sm(self) -> int:
        """Blocks whose registers should fit an SM: one computes while the other waits."""
        rows, columns = self.tile.block
        return 1 if self.promotes_across or rows * columns > LINES * LINES else 2

    @property
    def threads(self) -> int:
        """Threads of a block: those that multiply and, with TMA, a warpgroup that fills."""
        return self.tile.threads + (_GROUP if self.box else 0)

    @property
    def registers(self) -> tuple[int, int]:
        """With TMA, registers of a thread that fills and of one that multiplies: what a block
        gets at its launch, dealt out anew in eights."""
        groups = self.tile.threads // _GROUP
        each = isa.limits(self.target).registers // (self.blocks_per_sm * self.threads) // 8 * 8
        return _FILLING, (each * (groups + 1) - _FILLING) // groups // 8 * 8

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of C along M and N."""
        rows, columns = self.tile.block
        return -(-self.m // rows), -(-self.n // columns)

    @property
    def band_rows(self) -> int:
        """Rows of tiles in a band."""
        return max(1, min(self.band // self.tile.block[0], self.tiles[0]))

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along N and M; in bands, one after the other; with TMA, the fewest that take as
        many waves as all that the SMs hold."""
        down, across = self.tiles
        if self.box:
            return self._room if self.even else fewest(down * across, self._room), 1, 1
        return (down * across, 1, 1) if self.band else (across, down, 1)

    @property
    def _room(self) -> int:
        """Blocks that the SMs hold, as far as there are tiles for them."""
        return min(self.tiles[0] * self.tiles[1], self.sms * self.blocks_per_sm)

    @property
    def even(self) -> bool:
        """Whether blocks share tiles: where some would wait for others, and slices are whole."""
        total, room = self.tiles[0] * self.tiles[1], self._room
        return (self.evenly and self.box and total > room and total % room != 0
                and self.steps_of(self.slices - 1) == range(self.steps)
                and (room + 1) * 2 * room * self.slices < 1 << 32)

    @property
    def whole_waves(self) -> int:
        """Waves of tiles that are one block's each, where the last ones are shared."""
        return self.tiles[0] * self.tiles[1] // self.grid[0] - 1

    @property
    def edges(self) -> tuple[bool, bool, bool]:
        """Whether M, N and K leave a part of the last tile or slice empty."""
        rows, columns = self.tile.block
        return (self.m % rows != 0, self.n % columns != 0, self.last_bytes != self.tile.span)

    @property
    def deal(self) -> int:
        """Columns of B that are dealt out together, 0 for none: a thread holds a quarter of them,
        neighbours of C.

        Line ``2 t + b + 8 f`` of 16 in shared memory, column 2 t + b of fragment f, is column
        ``4 t + 2 f + b`` of C. Copies must take whole deals of lines.
        """
        if not self.band:
            return 0
        if self.box:
            return _DEAL if self.n % _DEAL == 0 else 0
        return _DEAL if self.tile.copy_lines(self.copy_unit) % _DEAL == 0 else 0
