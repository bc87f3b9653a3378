"""What one product is made of: sizes, types, plan, and the numbers that follow.

    >>> from mmalab.kernels.sm90_wgmma.recipe import recipe
    >>> p = Problem(8192, 8192, 1000, recipe("bf16"), "bf16", Plan(tile=(128, 256)))
    >>> p.slices, p.tiles, p.grid             # 15 slices of 64 values and one of 40
    (16, (64, 32), (128, 1, 1))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from mmalab import isa
from mmalab.kernels.bands import fewest
from mmalab.kernels.sm90_wgmma.checks import check
from mmalab.kernels.sm90_wgmma.plan import EXPERT_ROWS, SLICE, Plan
from mmalab.kernels.sm90_wgmma.recipe import Recipe
from mmalab.ptx.kernel import Param

__all__ = ["Problem"]

#: Steps of a window ahead of those that are being multiplied.
_AHEAD = 3
#: Registers of words of A that are loaded ahead (see `loaded`).
_WORDS = 16


@dataclass(frozen=True, slots=True)
class Problem:
    """One product, checked. `out` is the type of C.

    `batch` products of the same sizes lie behind each other; with `experts` B is so many matrices,
    and each EXPERT_ROWS rows of A are multiplied by the one that an array names.
    """

    m: int
    n: int
    k: int
    recipe: Recipe
    out: str
    plan: Plan
    promote_every: int | None = None
    scaled: bool = False
    batch: int = 1
    experts: int = 0

    def __post_init__(self) -> None:
        check(self)

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
    def dealt(self) -> bool:
        """Whether B's columns are dealt out among threads, so that each holds neighbours of C."""
        return self.plan.store == "permuted" or (self.plan.store == "staged"
                                                 and self.out_bytes == 4)

    @property
    def deal(self) -> int:
        """Columns that are dealt out at a time: four threads hold 16 (or 8) bytes of each row, 32
        on their way through shared memory (see `staged`).

        Where lines are shifted a deal has all phases once, or the two of them any number of times;
        where they are in place it is a whole number of eights of each phase.
        """
        if self.shifted and self.phases > 2:
            return 4 * self.phases
        if self.plan.store == "staged" or self.in_place:
            return 32
        return 32 if self.out_bytes == 2 and self.n % 32 == self.plan.tile[1] % 32 == 0 else 16

    @property
    def dealt_in(self) -> int:
        """CTAs that copy a share of every `deal` columns each; 1: all of them at a time."""
        columns, parts = self.plan.tile[1], self.plan.cluster[0]
        return parts if self.dealt and columns // parts % self.deal else 1

    @property
    def pitch(self) -> int:
        """Bytes from one row of A or B to the next."""
        return self.k * self.recipe.bytes

    @property
    def unit(self) -> int:
        """Bytes that the beginnings of all rows of A and B are aligned to, 16 at most."""
        return gcd(16, self.pitch)

    @property
    def copy(self) -> str:
        """How A and B come into shared memory: the plan's way, as far as rows allow or need it."""
        if self.gathered:
            return "threads"
        copied = self.shifted or self.padded or self.windowed
        return self.plan.copy if copied else "tma"

    @property
    def gathered(self) -> bool:
        """Whether threads copy A and B, because tensor maps cannot."""
        return self.plan.copy == "threads" or (self.plan.copy == "" and self.unit < 16)

    @property
    def shifted(self) -> bool:
        """Whether lines arrive too far ahead, and are moved in shared memory."""
        return self.unit < 16 and self.plan.copy == "shifted"

    @property
    def loaded(self) -> bool:
        """Whether A reaches wgmma through registers, lines of one phase behind each other."""
        return self.shifted and self.plan.left == "registers"

    @property
    def by_phase(self) -> bool:
        """Whether lines of A of one phase lie behind each other in shared memory."""
        return self.loaded or self.in_place

    @property
    def phase_lines(self) -> int:
        """Lines behind each other that are rows of A of one phase: a tile's, or of the part of it
        that one CTA brings."""
        return self.plan.tile[0] // (1 if self.loaded else self.plan.cluster[1]) // self.phases

    @property
    def rows_apart(self) -> tuple[int, int]:
        """Rows of C from a thread's row to that of the next m64 block, and to its eighth below."""
        if not self.by_phase:
            return 64, 8
        lines, phases = self.phase_lines, self.phases
        if lines * phases == 64:  # the next block is another CTA's part
            return 64, 8 * phases
        return 64 // lines if 64 % lines == 0 else 64 * phases, 8 * phases

    @property
    def phases(self) -> int:
        """Rows of A or B after which one begins at a multiple of 16 bytes again."""
        return 16 // self.unit

    @property
    def lean(self) -> int:
        """Bytes that every next row of these begins further behind a multiple of 16."""
        return self.pitch % 16

    @property
    def padded(self) -> bool:
        """Whether A and B are copied to rows that tensor maps can describe."""
        return self.plan.copy == "padded"

    @property
    def copies(self) -> bool:
        """Whether all CTAs copy, in global memory, what they multiply."""
        return self.padded or self.windowed

    @property
    def windowed(self) -> bool:
        """Whether A and B come through windows of copies (see `windowed`)."""
        return self.unit < 16 and self.plan.copy == "windowed"

    @property
    def in_place(self) -> bool:
        """Whether rows that begin at multiples of 16 bytes are read where they lie, and only the
        others come through windows.

        Where every eighth row does, that would save little for many boxes. Warps take 16 rows of
        a phase, all m64 blocks of a group rows that are as far apart, and threads neighbours of C,
        which no register of two f16 sums holds.
        """
        plan, phases = self.plan, self.phases
        if not self.windowed or phases > 4 or self.pitch < 16:
            return False
        if plan.store not in ("permuted", "direct") or self.recipe.accumulator == "f16":
            return False
        if self.promote_every is not None and plan.part_columns != plan.tile[1]:
            return False
        dealt = plan.store == "permuted"
        rows, columns = plan.tile[0] // plan.cluster[1], plan.tile[1] // plan.cluster[0]
        lines = rows // phases
        return (rows % (16 * phases) == 0 and columns % (32 if dealt else 8 * phases) == 0
                and (self.n % 32 == 0 or not dealt)
                and (lines % plan.group_rows == 0
                     or (64 % lines == 0 and (rows == 64 or rows >= plan.group_rows))))

    def copied(self, rows: int) -> int:
        """Of so many first rows of A or B, those that come through a window."""
        return rows + -rows // self.phases if self.in_place else rows

    @property
    def row_pitch(self) -> int:
        """Bytes from one row to the next where tensor maps read A and B."""
        if self.shifted:
            return self.pitch - self.lean
        return self.padded_pitch if self.padded or self.windowed else self.pitch

    @property
    def padded_pitch(self) -> int:
        """Bytes from one row to the next of a copy."""
        return -(-self.pitch // 16) * 16

    @property
    def block_lines(self) -> int:
        """Lines of B in a step of the window: what a cluster multiplies at a time."""
        return self.plan.tile[1] * self.plan.cluster[1]

    @property
    def window_blocks(self) -> int:
        """Steps whose lines of B are there at a time: those under way, and some ahead."""
        return min(-(-self.clusters // self.band_rows) + _AHEAD, self.cluster_tiles[1])

    @property
    def window_steps(self) -> int:
        """Blocks of B, once for each band."""
        return -(-self.cluster_tiles[0] // self.band_rows) * self.cluster_tiles[1]

    @property
    def a_block_lines(self) -> int:
        """Lines of A that a cluster multiplies at a time."""
        return self.plan.tile[0] * self.plan.cluster[0]

    @property
    def a_window_blocks(self) -> int:
        """Rows of tiles whose lines of A are there at a time: the band that is multiplied, and the
        next."""
        return min(2 * self.band_rows, self.cluster_tiles[0])

    @property
    def left_over(self) -> tuple[int, int]:
        """Rows of A and B behind the last ones that fill all phases."""
        return (self.m % self.phases, self.n % self.phases) if self.shifted else (0, 0)

    @property
    def last_bytes(self) -> int:
        """Bytes of a row in the last slice."""
        return self.pitch - (self.slices - 1) * SLICE

    @property
    def row_values(self) -> int:
        """Values of a row that tensor maps read: shifted, those ahead of the last phase's too."""
        ahead = (self.phases - 1) * self.lean if self.shifted else 0
        return self.k + ahead // self.recipe.bytes

    def phases_of_b(self) -> tuple[int, ...]:
        """The phase of each line of B in shared memory, until they repeat."""
        if not self.dealt or self.phases == 2:
            return tuple(range(self.phases))
        return tuple(line % 2 + 2 * (line // 8) for line in range(self.deal))

    # --- sizes ------------------------------------------------------------------------------------

    @property
    def slices(self) -> int:
        """Slices of K, the last one perhaps not full."""
        return -(-self.k // self.values)

    @property
    def copied_slices(self) -> int:
        """Slices that travel: with shifted lines the end of K may lie in one more."""
        return -(-self.row_values // self.values)

    @property
    def shared_clocks(self) -> float:
        """Clocks that shared memory takes for a slice, 128 bytes each: wgmma reads each 64 rows of
        A and all of B, TMA writes all lines, and those that are shifted are read (by half words:
        twice) and written; A that is loaded is read by half words twice."""
        rows, columns = self.plan.tile
        lines = columns if self.loaded else rows + columns
        shifts = [phase * self.lean for phase in range(1, self.phases if self.shifted else 1)]
        moved = sum(2 if shift % 4 == 0 else 3 for shift in shifts) / self.phases
        halves = sum(shift % 4 != 0 for shift in shifts) / self.phases if self.loaded else 0
        return rows / 64 * (64 + columns) + rows + columns + lines * moved + rows * halves

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
    def band_rows(self) -> int:
        """Cluster tiles in a band."""
        height = self.plan.tile[0] * self.plan.cluster[0]
        return max(1, min(self.plan.band // height, self.cluster_tiles[0]))

    @property
    def work(self) -> int:
        """Tiles of whole clusters: what the clusters deal out among themselves."""
        return self.cluster_tiles[0] * self.cluster_tiles[1] * self.batch

    @property
    def lines(self) -> tuple[int, int]:
        """Rows of all A and of all B in memory."""
        return self.m * self.batch, self.n * max(self.batch, self.experts)

    @property
    def a_lines(self) -> int:
        """Rows of A where tensor maps read, or that its window holds."""
        if self.windowed:
            return self.copied(self.a_window_blocks * self.a_block_lines)
        return self.lines[0]

    @property
    def b_lines(self) -> int:
        """Rows of B where tensor maps read, or that its window holds."""
        if self.windowed:
            return self.copied(self.window_blocks * self.block_lines)
        return self.lines[1]

    @property
    def clusters(self) -> int:
        """Clusters that are launched: of those that take as many waves as all SMs do, the fewest,
        unless all have something to copy."""
        if not self.plan.persistent:
            return self.work
        room = max(1, self.plan.sms // self.plan.ctas)
        return min(room, self.work) if self.copies else fewest(self.work, room)

    @property
    def grid(self) -> tuple[int, int, int]:
        """CTAs that are launched."""
        return self.clusters * self.plan.ctas, 1, 1

    @property
    def edges(self) -> tuple[bool, bool]:
        """Whether rows and columns of C end inside a tile (or before one of a cluster's)."""
        return (self.tiles[0] * self.plan.tile[0] != self.m,
                self.tiles[1] * self.plan.tile[1] != self.n)

    @property
    def accumulators(self) -> int:
        """32-bit registers of a thread that hold sums, and words of A on their way to them."""
        plan = self.plan
        whole = plan.blocks * plan.tile[1] // (4 if self.recipe.accumulator == "f16" else 2)
        return (whole + (plan.parts * plan.part_columns // 2 if self.promote_every else 0)
                + (_WORDS if self.loaded else 0))

    @property
    def registers(self) -> tuple[int, int] | None:
        """Registers of a thread that fills and of one that multiplies; None: as launched."""
        return self.plan.registers_for(self.accumulators,
                                       gathered=self.unit if self.gathered else
                                       16 if self.shifted and not self.loaded else 0)

    # --- arguments --------------------------------------------------------------------------------

    @property
    def params(self) -> tuple[Param, ...]:
        """A (M x K), B (N x K), C (M x N), all row-major."""
        dtype = self.recipe.dtype
        blocks = self.k // SLICE
        scales = (
            Param("a_scales", "in", "f32", (self.m, blocks), "one for 1 x 128 values of A"),
            Param("b_scales", "in", "f32", (-(-self.n // SLICE), blocks),
                  "one for 128 x 128 values of B"),
        ) if self.scaled else ()
        many = (self.batch,) if self.batch > 1 else ()
        many_b = (self.experts,) if self.experts else many
        owners = (
            Param("experts", "in", "s32", (self.m // EXPERT_ROWS,),
                  f"which B each {EXPERT_ROWS} rows of A belong to, from 0"),
        ) if self.experts else ()
        return (
            Param("a", "in", dtype, (*many, self.m, self.k), "A, M x K, rows contiguous"),
            Param("b", "in", dtype, (*many_b, self.n, self.k), "B, stored N x K, rows contiguous"),
            *scales, *owners,
            Param("c", "out", self.out, (*many, self.m, self.n),
                  "C = A x B, M x N, rows contiguous"),
        )
