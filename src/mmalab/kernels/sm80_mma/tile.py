"""The block tile: who copies, who reads, where each byte lies in shared memory.

A block computes 128 x 128 of C. Of each operand it stages 128 lines of 64 bytes (32 bf16, 64 FP8,
16 tf32 values of K), in one of three layouts of (line, byte):

    plain      (128,64):(64,1)                   rows 0, 2, 4, 6 share banks: 4 passes a matrix
    padded     (128,64):(80,1)                   16 unused bytes a row: 1 pass, 25 % more memory
    swizzled   Swizzle<2,4,3> o (128,64):(64,1)  chunk c of row r at c ^ ((r >> 1) & 3): 1 pass

    >>> tile("swizzled").shared(2, 0)            # row 2, chunk 0 lies at chunk 1
    144

The same objects are composed with the lanes of the instructions to place bytes in the kernel
(:mod:`mmalab.kernels.placement`), and given to :func:`mmalab.layouts.banks.wavefronts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mmalab.errors import UsageError
from mmalab.layouts import TMA_SWIZZLES, ComposedLayout, Layout, Swizzle, compose, make_layout

__all__ = ["LINES", "SLICE", "Tile", "tile"]

#: Lines of each operand's tile (the tile of C is 128 x 128), bytes of a line in one slice of K.
LINES, SLICE = 128, 64

LayoutName = Literal["swizzled", "padded", "plain"]
_LAYOUTS: dict[str, tuple[int, Swizzle | None]] = {
    "swizzled": (64, TMA_SWIZZLES["64B"]),
    "padded": (80, None),
    "plain": (64, None),
}
_WARP_TILES = ((64, 32), (64, 64))
_WHERE = "mmalab.kernels.sm80_mma.gemm"
#: Shared memory that any chip from sm_80 on lets one block have (sm_86, sm_89: 99 KB).
MOST_SHARED = 99 * 1024


@dataclass(frozen=True, slots=True)
class Tile:
    """Shared-memory layout, number of stages, and the part of C that one warp owns."""

    layout: str
    stages: int
    warp_tile: tuple[int, int]

    @property
    def pitch(self) -> int:
        """Bytes from one line to the next."""
        return _LAYOUTS[self.layout][0]

    @property
    def swizzle(self) -> Swizzle | None:
        """The XOR on byte offsets."""
        return _LAYOUTS[self.layout][1]

    @property
    def shared(self) -> Layout | ComposedLayout:
        """(line, byte) -> byte offset in an operand's tile."""
        lines = Layout((LINES, SLICE), (self.pitch, 1))
        return lines if self.swizzle is None else compose(self.swizzle, lines)

    @property
    def operand_bytes(self) -> int:
        """One operand's tile."""
        return LINES * self.pitch

    @property
    def stage_bytes(self) -> int:
        """Both operands' tiles: B lies behind A."""
        return 2 * self.operand_bytes

    @property
    def shared_bytes(self) -> int:
        """All stages."""
        return self.stages * self.stage_bytes

    @property
    def warps(self) -> tuple[int, int]:
        """Warps along M and N."""
        return LINES // self.warp_tile[0], LINES // self.warp_tile[1]

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
        """Thread -> line + LINES * byte that it names to ldmatrix, for the warp's first tile."""
        return make_layout(lanes, self.warp_lines(operand))

    def copies(self, unit: int) -> Layout:
        """Thread -> line + LINES * byte of the first `unit` bytes that it copies."""
        chunks = SLICE // unit
        return Layout((chunks, self.threads // chunks), (LINES * unit, 1))

    def copy_lines(self, unit: int) -> int:
        """Lines that all threads copy at once, `unit` bytes each."""
        return self.threads * unit // SLICE


def tile(layout: str = "swizzled", stages: int = 3, warp_tile: tuple[int, int] = (64, 32)) -> Tile:
    """Check the choices and make the tile.

    Raises:
        UsageError: an unknown layout, fewer than 2 stages, stages that no SM has room for, or a
            warp tile that these kernels do not have.
    """
    if layout not in _LAYOUTS:
        raise UsageError(f"layout {layout!r}", "is no layout of the shared tiles",
                         legal=list(_LAYOUTS), where=_WHERE)
    if tuple(warp_tile) not in _WARP_TILES:
        raise UsageError(f"warp_tile {warp_tile}", "is no tile of a warp",
                         legal=[str(t) for t in _WARP_TILES], where=_WHERE)
    made = Tile(layout, stages, (int(warp_tile[0]), int(warp_tile[1])))
    most = MOST_SHARED // made.stage_bytes
    if not 2 <= stages <= most:
        raise UsageError(f"stages={stages}", f"a {layout} stage takes {made.stage_bytes} bytes, "
                         f"a block at most {MOST_SHARED}", legal=f"2 to {most}", where=_WHERE)
    return made
