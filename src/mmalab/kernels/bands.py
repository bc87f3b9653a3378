"""Which tile comes when, and on how many SMs: bands of rows, so that tiles computed at a time
share operands in L2.

Within a band the row runs fastest, then the column; a band of 2,048 rows by as many columns as the
SMs reach is about square, and so reads the fewest lines of A and B for its tiles.

    >>> rows_of(40, 16)            # rows of tiles in each band of 16
    [16, 16, 8]
"""

from __future__ import annotations

from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["emit_in_bands", "fewest", "rows_of"]


def fewest(tiles: int, most: int) -> int:
    """The fewest of up to `most` CTAs that take no more waves than all of them: those that would
    idle in the last wave take no power in the others, and the rest run at a higher clock.

    >>> fewest(512, 132), fewest(528, 132), fewest(20, 132)      # four waves, four, one
    (128, 132, 20)
    """
    waves = -(-tiles // most)
    return -(-tiles // waves)


def rows_of(tiles: int, band: int) -> list[int]:
    """Rows of tiles in each band, the last perhaps with fewer."""
    return [min(band, tiles - at) for at in range(0, tiles, band)]


def emit_in_bands(b: KernelBuilder, at: Register, down: int, across: int,
                  band: int) -> tuple[Register, Register]:
    """Row and column, in tiles, of tile number `at` of `down` x `across`."""
    number = b.div("u32", at, band * across)
    rest = b.sub("u32", at, b.mul_lo("u32", number, band * across))
    first = b.mul_lo("u32", number, band)
    if down % band:
        rows: Register | int = b.min("u32", b.sub("u32", b.mov("u32", down), first), band)
    else:
        rows = band
    column = b.div("u32", rest, rows)
    row = b.add("u32", first, b.sub("u32", rest, b.mul_lo("u32", column, rows)))
    return row, column
