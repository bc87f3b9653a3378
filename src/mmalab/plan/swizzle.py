"""Which swizzle or padding frees a shared-memory tile of bank conflicts, reads and writes together.

A tile of `rows` x `cols` elements lies in shared memory row by row. It is written one way (16-byte
copies by consecutive threads) and read another (ldmatrix: eight rows of 16 bytes). A permutation
that helps the reads can hurt the writes, so both are counted for every candidate:

    >>> print(swizzle_search(128, 32, "bf16"))
    128 x 32 bf16, 19 arrangements tried
    arrangement      TMA  bytes  reads   writes
    plain            -    8192   256/64  64/64
    Swizzle<2,3,3>   64B  8192   64/64   64/64
    padded 16 bytes  -    10240  64/64   128/64

(passes / ideal: 80-byte rows free the reads, but eight lanes that write two rows of four chunks now
meet in one bank group. No padding frees both here.)

Candidates are tried from the smallest: fewest bits, then the shortest shift; the fewest least
bytes of padding. Padding costs memory (``bytes``); a swizzle costs none, and has to keep the tile
inside its own bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.layouts import TMA_SWIZZLES, Swizzle
from mmalab.layouts.banks import LANES, wavefronts
from mmalab.plan.asked import asked
from mmalab.plan.shared_tile import check_tile

__all__ = [
    "Access",
    "Arrangement",
    "SwizzleSearch",
    "column_reads",
    "row_writes",
    "swizzle_search",
    "swizzle_table",
]

_WHERE = "mmalab.plan.swizzle"


@dataclass(frozen=True, eq=False)
class Access:
    """All the accesses of one kind to a tile.

    `row` and `col` are (instructions, lanes) element coordinates of the first element of each
    lane, `size` the bytes that a lane takes.
    """

    name: str
    size: int
    row: NDArray[np.int64]
    col: NDArray[np.int64]


@dataclass(frozen=True)
class Arrangement:
    """One way to lay the tile out, and the wavefronts of each access under it.

    `swizzle` counts elements (None for plain and padded tiles, or where the element is no power of
    two wide), `byte_swizzle` bytes; `tma` names the hardware's mode if it is one.
    """

    name: str
    bytes: int
    pad: int
    byte_swizzle: Swizzle | None
    swizzle: Swizzle | None
    tma: str | None
    by_access: dict[str, tuple[int, int]]

    @property
    def passes(self) -> int:
        """Wavefronts of all accesses together."""
        return sum(passes for passes, _ in self.by_access.values())

    @property
    def ideal(self) -> int:
        """Wavefronts without conflicts."""
        return sum(ideal for _, ideal in self.by_access.values())

    @property
    def free(self) -> bool:
        """Whether there is no conflict at all."""
        return self.passes == self.ideal

    def as_dict(self) -> dict[str, Any]:
        """The arrangement as JSON-able data."""
        return {
            "name": self.name, "bytes": self.bytes, "pad": self.pad,
            "swizzle": None if self.swizzle is None else str(self.swizzle),
            "byte_swizzle": None if self.byte_swizzle is None else str(self.byte_swizzle),
            "tma": self.tma, "passes": self.passes, "ideal": self.ideal,
            "by_access": {
                name: {"passes": passes, "ideal": ideal}
                for name, (passes, ideal) in self.by_access.items()
            },
        }


@dataclass(frozen=True)
class SwizzleSearch:
    """The plain tile, and the smallest swizzle and padding with the fewest wavefronts.

    `swizzle` and `padding` are free of conflicts if any is (``.free``); None if none is possible.
    """

    rows: int
    cols: int
    dtype: str
    plain: Arrangement
    swizzle: Arrangement | None
    padding: Arrangement | None
    tried: int

    @property
    def best(self) -> Arrangement:
        """What to use: the fewest wavefronts, then the fewest bytes, then the simplest."""
        return min(self._found, key=lambda a: (a.passes, a.bytes))

    @property
    def _found(self) -> list[Arrangement]:
        return [a for a in (self.plain, self.swizzle, self.padding) if a is not None]

    def table(self) -> str:
        """The three arrangements as aligned text."""
        head = f"{self.rows} x {self.cols} {self.dtype}, {self.tried} arrangements tried"
        return f"{head}\n{arrangements_text(self._found)}"

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON-able data."""
        return {
            "rows": self.rows, "cols": self.cols, "dtype": self.dtype, "tried": self.tried,
            "plain": self.plain.as_dict(),
            "swizzle": None if self.swizzle is None else self.swizzle.as_dict(),
            "padding": None if self.padding is None else self.padding.as_dict(),
            "best": self.best.name,
        }


def arrangements_text(arrangements: Sequence[Arrangement]) -> str:
    """Arrangements as aligned text: bytes, then passes/ideal of every access."""
    names = list(arrangements[0].by_access)
    rows = [["arrangement", "TMA", "bytes", *names]]
    for item in arrangements:
        counts = [f"{passes}/{ideal}" for passes, ideal in item.by_access.values()]
        rows.append([item.name, item.tma or "-", str(item.bytes), *counts])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def column_reads(rows: int, cols: int, bits: int, size: int = 16) -> Access:
    """Reads as ldmatrix: 32 consecutive rows, `size` bytes of each, for every chunk of the row.

    Tiles with fewer than 32 rows, or a rest of rows, use as many lanes as there are rows.
    """
    per_chunk = size * 8 // bits
    lanes = min(rows, LANES)
    firsts = np.arange(0, rows - lanes + 1, lanes)
    chunks = np.arange(0, cols - per_chunk + 1, per_chunk)
    row = firsts[:, None, None] + np.arange(lanes)
    row, col = np.broadcast_arrays(row, chunks[None, :, None])
    return Access("reads", size, row.reshape(-1, lanes), col.reshape(-1, lanes))


def row_writes(rows: int, cols: int, bits: int, size: int = 16) -> Access:
    """Writes as cp.async: consecutive lanes write consecutive chunks of `size` bytes."""
    per_chunk = size * 8 // bits
    chunks = cols // per_chunk
    lanes = min(LANES, rows * chunks)
    at = np.arange(rows * chunks // lanes * lanes).reshape(-1, lanes)
    return Access("writes", size, at // chunks, at % chunks * per_chunk)


@asked
def swizzle_search(
    rows: int,
    cols: int,
    dtype: str | formats.Format,
    accesses: Sequence[Access] | None = None,
) -> SwizzleSearch:
    """The smallest swizzle and the smallest padding that leave no conflict in any access.

    Without `accesses`, the tile is read by 16-byte ldmatrix rows and written by 16-byte copies.
    """
    tile = _Tile(rows, cols, formats.get(dtype), accesses)
    swizzles = _until_free(tile.arrange(swizzle=candidate) for candidate in tile.swizzles())
    paddings = _until_free(tile.arrange(pad=pad) for pad in range(tile.step, 129, tile.step))
    return SwizzleSearch(
        rows, cols, tile.fmt.name, tile.arrange(),
        swizzle=min(swizzles, key=lambda a: a.passes, default=None),
        padding=min(paddings, key=lambda a: a.passes, default=None),
        tried=1 + len(swizzles) + len(paddings),
    )


def _until_free(arrangements: Iterator[Arrangement]) -> list[Arrangement]:
    """All arrangements up to the first one without conflicts."""
    found = []
    for arrangement in arrangements:
        found.append(arrangement)
        if arrangement.free:
            break
    return found


@asked
def swizzle_table(
    rows: int,
    cols: int,
    dtype: str | formats.Format,
    accesses: Sequence[Access] | None = None,
) -> list[Arrangement]:
    """The tile plain and under the 32, 64 and 128-byte modes of TMA (those that fit in it)."""
    tile = _Tile(rows, cols, formats.get(dtype), accesses)
    modes = [TMA_SWIZZLES[mode] for mode in ("32B", "64B", "128B")]
    return [tile.arrange(), *(tile.arrange(swizzle=s) for s in modes if tile.holds(s))]


class _Tile:
    """A tile with its accesses, to be tried under one arrangement after another."""

    def __init__(self, rows: int, cols: int, fmt: formats.Format,
                 accesses: Sequence[Access] | None) -> None:
        self.fmt = fmt
        self.row_bytes, rest = divmod(cols * fmt.bits, 8)
        if rows < 1 or cols < 1 or rest:
            raise UsageError(
                f"a tile of {rows} x {cols} {fmt}", "empty, or its rows are no whole bytes",
                legal="positive rows and columns that fill bytes", where=_WHERE,
            )
        check_tile(rows, self.row_bytes, _WHERE)
        self.rows = rows
        self.accesses = accesses or _default_accesses(rows, cols, fmt, self.row_bytes)
        #: Bytes that stay together under every candidate.
        self.step = max(access.size for access in self.accesses)

    def swizzles(self) -> Iterator[Swizzle]:
        """Byte swizzles that permute the tile's own bytes, the smallest first."""
        base = self.step.bit_length() - 1
        top = (self.rows * self.row_bytes - 1).bit_length()
        for bits in range(1, 4):
            for shift in range(bits, top - base):
                candidate = Swizzle(bits, base, shift)
                if self.holds(candidate):
                    yield candidate

    def holds(self, swizzle: Swizzle) -> bool:
        """Whether the swizzled tile stays in its own bytes."""
        units = np.arange(0, self.rows * self.row_bytes, 1 << swizzle.base)
        return int(swizzle(units).max()) + (1 << swizzle.base) <= self.rows * self.row_bytes

    def arrange(self, *, pad: int = 0, swizzle: Swizzle | None = None) -> Arrangement:
        by_access = {}
        for access in self.accesses:
            at = access.row * (self.row_bytes + pad) + access.col * self.fmt.bits // 8
            passes, ideal = wavefronts(swizzle(at) if swizzle else at, access.size)
            by_access[access.name] = int(passes.sum()), int(ideal.sum())
        elements = None
        if swizzle and self.fmt.bits & (self.fmt.bits - 1) == 0:
            elements = swizzle.recast(8, self.fmt.bits)
        tma = next((mode for mode, s in TMA_SWIZZLES.items() if s == swizzle), None)
        name = str(elements or swizzle) if swizzle else f"padded {pad} bytes" if pad else "plain"
        return Arrangement(
            name, self.rows * (self.row_bytes + pad), pad, swizzle, elements, tma, by_access
        )


def _default_accesses(rows: int, cols: int, fmt: formats.Format, row_bytes: int) -> list[Access]:
    if row_bytes % 16:
        raise UsageError(
            f"rows of {cols} {fmt}, {row_bytes} bytes", "16-byte accesses do not fill a row",
            legal="rows of a multiple of 16 bytes, or accesses of your own", where=_WHERE,
        )
    return [column_reads(rows, cols, fmt.bits), row_writes(rows, cols, fmt.bits)]
