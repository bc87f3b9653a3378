"""The block tile: who copies, who reads, where each byte lies in shared memory.

A block computes 128 x 128 of C, or another `block`. Of each operand it stages 128 lines of 64 bytes
(32 bf16, 64 FP8, 16 tf32 values of K), in one of three layouts of (line, byte):

    plain      (128,64):(64,1)                   rows 0, 2, 4, 6 share banks: 4 passes a matrix
    padded     (128,64):(80,1)                   16 unused bytes a row: 1 pass, 25 % more memory
    swizzled   Swizzle<2,4,3> o (128,64):(64,1)  chunk c of row r at c ^ ((r >> 1) & 3): 1 pass

    >>> tile("swizzled").shared(2, 0)            # row 2, chunk 0 lies at chunk 1
    144

A slice may hold 128 bytes of every line instead (`span`): half as many barriers, and a swizzle over
eight rows, Swizzle<3,4,3>.

The same objects are composed with the lanes of the instructions to place bytes in the kernel
(:mod:`mmalab.kernels.placement`), and given to :func:`mmalab.layouts.banks.wavefronts`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.layouts import TMA_SWIZZLES, ComposedLayout, Layout, Swizzle, compose, make_layout

__all__ = ["LINES", "SLICE", "Tile", "tile"]

#: Rows and columns of a block's tile of C, bytes of a line in one slice of K, where nothing else is
#: asked.
LINES, SLICE = 128, 64

#: Bytes between two rows beside their own, and whether bytes are swizzled.
_LAYOUTS: dict[str, tuple[int, bool]] = {
    "swizzled": (0, True), "padded": (16, False), "plain": (0, False),
}
_SPANS = (64, 128)
_WARP_TILES = ((64, 32), (64, 64))
_WHERE = "mmalab.kernels.sm80_mma.gemm"
#: The most lines of an operand's tile: what a box of a tensor map holds.
_MOST_LINES = 256
#: Registers that a thread needs beside its sums and two sets of fragments.
_WORKING = 16
_WARPS = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class Tile:
    """Shared-memory layout, number of stages, the part of C that one warp owns, and the block's;
    bytes of a line in a slice."""

    layout: str
    stages: int
    warp_tile: tuple[int, int]
    block: tuple[int, int] = (LINES, LINES)
    span: int = SLICE

    @property
    def pitch(self) -> int:
        """Bytes from one line to the next."""
        return self.span + _LAYOUTS[self.layout][0]

    @property
    def swizzle(self) -> Swizzle | None:
        """The XOR on byte offsets."""
        return TMA_SWIZZLES[f"{self.span}B"] if _LAYOUTS[self.layout][1] else None

    def lines(self, operand: str) -> int:
        """Lines of an operand's tile: rows of A, columns of B."""
        return self.block[0 if operand == "A" else 1]

    def shared_of(self, operand: str) -> Layout | ComposedLayout:
        """(line, byte) -> byte offset in an operand's tile."""
        lines = Layout((self.lines(operand), self.span), (self.pitch, 1))
        return lines if self.swizzle is None else compose(self.swizzle, lines)

    @property
    def shared(self) -> Layout | ComposedLayout:
        """The same for A."""
        return self.shared_of("A")

    def operand_bytes(self, operand: str) -> int:
        """One operand's tile."""
        return self.lines(operand) * self.pitch

    def starts_at(self, operand: str) -> int:
        """Where an operand's tile lies in a stage: B behind A."""
        return 0 if operand == "A" else self.operand_bytes("A")

    @property
    def stage_bytes(self) -> int:
        """Both operands' tiles."""
        return self.operand_bytes("A") + self.operand_bytes("B")

    @property
    def shared_bytes(self) -> int:
        """All stages."""
        return self.stages * self.stage_bytes

    @property
    def warps(self) -> tuple[int, int]:
        """Warps along M and N."""
        return self.block[0] // self.warp_tile[0], self.block[1] // self.warp_tile[1]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps[0] * self.warps[1]

    def warp_lines(self, operand: str) -> Layout:
        """Warp -> its first line of an operand's tile."""
        height, width = self.warp_tile
        strides = (height, 0) if operand == "A" else (0, width)
        return Layout(self.warps, strides)

    def reads(self, lanes: Layout, operand: str) -> Layout:
        """Thread -> line + lines * byte that it names to ldmatrix, for the warp's first tile."""
        return make_layout(lanes, self.warp_lines(operand))

    def copies(self, unit: int, operand: str = "A") -> Layout:
        """Thread -> line + lines * byte of the first `unit` bytes that it copies."""
        chunks = self.span // unit
        return Layout((chunks, self.threads // chunks), (self.lines(operand) * unit, 1))

    def copy_lines(self, unit: int) -> int:
        """Lines that all threads copy at once, `unit` bytes each."""
        return self.threads * unit // self.span


def tile(layout: str = "swizzled", stages: int = 3, warp_tile: tuple[int, int] = (64, 32),
         block: tuple[int, int] = (LINES, LINES), span: int = SLICE, *, sums: int = 4,
         target: str = "sm_89", beside: int = 0) -> Tile:
    """Check the choices and make the tile.

    `sums` are the bytes of an accumulator, `target` a chip whose shared memory is to hold the
    stages (sm_89 has as little as any from sm_80 on) and `beside` bytes more.

    Raises:
        UsageError: an unknown layout, fewer than 2 stages, stages that no SM has room for, or
            tiles of a warp or a block that these kernels do not have.
    """
    if layout not in tuple(_LAYOUTS):
        raise UsageError(f"layout {layout!r}", "is no layout of the shared tiles",
                         legal=list(_LAYOUTS), where=_WHERE)
    warp_tile, block = _pair("warp_tile", warp_tile), _pair("tile", block)
    if isinstance(stages, bool) or not isinstance(stages, int):
        raise UsageError(f"stages={stages!r}", "is no number of slices", legal="2 or more",
                         where=_WHERE)
    if warp_tile not in _WARP_TILES:
        raise UsageError(f"warp_tile {warp_tile}", "is no tile of a warp",
                         legal=[str(t) for t in _WARP_TILES], where=_WHERE)
    if span not in _SPANS:
        raise UsageError(f"span={span}", "bytes of a line in a slice", legal=[*map(str, _SPANS)],
                         where=_WHERE)
    made = Tile(layout, stages, warp_tile, block, span)
    if not _fits(made, sums):
        raise UsageError(f"tile {block}", f"is no tile of warps of {made.warp_tile} whose "
                         "sums fit an SM's registers",
                         legal=[str(t.block) for t in _blocks(made) if _fits(t, sums)],
                         where=_WHERE)
    room = isa.limits(target).shared_per_cta - beside
    most = room // made.stage_bytes
    if not 2 <= stages <= most:
        raise UsageError(f"stages={stages}", f"a {layout} stage takes {made.stage_bytes} bytes, "
                         f"a block at most {room}", legal=f"2 to {most}", where=_WHERE)
    return made


def _pair(name: str, given: object) -> tuple[int, int]:
    """Rows and columns.

    Raises:
        UsageError: something else.
    """
    if (isinstance(given, tuple | list) and len(given) == 2
            and all(isinstance(size, int) and not isinstance(size, bool) for size in given)):
        return given[0], given[1]
    raise UsageError(f"{name} {given!r}", "is no pair of rows and columns", legal="(64, 64)"
                     if name == "warp_tile" else "(256, 128)", where=_WHERE)


def _blocks(made: Tile) -> list[Tile]:
    """The same with every block of whole warps."""
    height, width = made.warp_tile
    return [replace(made, block=(rows, columns))
            for rows in range(height, _MOST_LINES + 1, height)
            for columns in range(width, _MOST_LINES + 1, width)]


def _fits(made: Tile, sums: int) -> bool:
    """Whether the block is made of whole warps, in numbers that layouts can write as bits, that
    copy whole passes, and whose registers an SM has."""
    if any(size % each or size > _MOST_LINES
           for size, each in zip(made.block, made.warp_tile, strict=True)):
        return False
    down, across = made.warps
    if down * across not in _WARPS or down & (down - 1):
        return False
    if any(made.lines(operand) % made.copy_lines(16) for operand in "AB"):
        return False
    height, width = made.warp_tile
    registers = height * width * sums // 128 + (height + width) // 2 + _WORKING
    chip = isa.limits("sm_80")
    return registers <= min(chip.registers_per_thread, chip.registers // made.threads)
