"""A tile written under one swizzle and read under another: which chunks are right, where others go.

Hardware swizzles are XORs of address bits, so a tensor map and a descriptor agree only if they name
one mode, and code that computes places by itself agrees with both only if it takes the same bits:

    >>> found = misread(64, 64, "f16", written="none", read="128B")
    >>> found.right, found.chunks, found.share
    (64, 512, '1/8')
    >>> print(found.picture(rows=2))
    row   0: 0 1 2 3 4 5 6 7
    row   1: 1 0 3 2 5 4 7 6

Three faults that look like a wrong layout are made of the same parts: a reader that swizzles
offsets in the tile although the tile does not begin where the pattern does (`relative`), one that
swizzles once and adds the rest of the offset afterwards (`step`), and parts of a tile that cut the
atoms of the pattern (:func:`atoms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.layouts import TMA_SWIZZLES, Swizzle
from mmalab.plan.asked import asked
from mmalab.plan.shared_tile import check_tile

__all__ = ["Atoms", "Misread", "atoms", "misread"]

_CHUNK, _ROWS = 16, 8
_WHERE = "mmalab.plan.misread"


@dataclass(frozen=True, eq=False)
class Misread:
    """What a reader gets. `got` is [rows, chunks of 16 bytes of a row]: the number of the chunk of
    the tile that it finds there, row by row, or -1 outside of the tile."""

    written: str
    read: str
    base: int
    got: NDArray[np.int64]
    #: Where a pattern of the reader's mode may begin.
    period: int

    @property
    def chunks(self) -> int:
        """All chunks of the tile."""
        return int(self.got.size)

    @property
    def right(self) -> int:
        """Chunks that the reader finds where it looks."""
        return int(self._same.sum())

    @property
    def share(self) -> str:
        """The share of right chunks, as a fraction."""
        return str(Fraction(self.right, self.chunks))

    @property
    def rows_right(self) -> list[int]:
        """Rows without a wrong chunk."""
        return [int(row) for row in np.flatnonzero(self._same.all(axis=1))]

    @property
    def _same(self) -> NDArray[np.bool_]:
        return np.equal(self.got, np.arange(self.got.size).reshape(self.got.shape))

    def picture(self, first: int = 0, rows: int = _ROWS) -> str:
        """The chunks that the reader gets, of rows `first` on; another row's as ``row.chunk``."""
        wide = self.got.shape[1]
        lines = []
        for row, line in enumerate(self.got[first : first + rows].tolist(), first):
            cells = ["-" if at < 0 else str(at % wide) if at // wide == row
                     else f"{at // wide}.{at % wide}" for at in line]
            lines.append(f"row {row:>3}: " + " ".join(cells))
        return "\n".join(lines)

    def text(self) -> str:
        """The verdict, and eight rows from the first wrong ones on."""
        head = f"written {self.written}, read {self.read}, the tile begins at byte {self.base}"
        if self.right == self.chunks:
            return f"{head}: all {self.chunks} chunks of 16 bytes are right"
        wrong = self.chunks - self.right
        rows = self.rows_right
        shown = ", ".join(map(str, rows[:4])) + (" ..." if len(rows) > 4 else "")
        first = int(np.flatnonzero(~self._same.all(axis=1))[0]) // _ROWS * _ROWS
        share = f"{wrong / self.chunks:.1%}"
        lines = [f"{head}: {wrong} of {self.chunks} chunks of 16 bytes are wrong ({share})",
                 f"{self.share} right; rows without a wrong chunk: {shown or 'none'}",
                 "the reader gets these chunks (row.chunk where another row's):",
                 self.picture(first)]
        inner = self.got.shape[1] * _CHUNK
        if f"{inner}B" in TMA_SWIZZLES and f"{inner}B" not in (self.written, self.read):
            lines.append(f"rows of {inner} bytes are the span of mode {inner}B")
        if self.base % self.period:
            lines.append(f"a pattern of this mode begins at multiples of {self.period} bytes: the "
                         f"tile begins {self.base % self.period} behind one")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON-able data."""
        return {"written": self.written, "read": self.read, "base": self.base,
                "chunks": self.chunks, "right": self.right, "share": self.share,
                "rows_right": self.rows_right, "period": self.period, "got": self.got.tolist()}


@asked
def misread(
    rows: int, cols: int, dtype: str | formats.Format, *, written: str, read: str, base: int = 0,
    relative: bool = False, step: int = 0,
) -> Misread:
    """Compare a writer's and a reader's places of all 16-byte chunks of a tile, row after row.

    Args:
        rows: rows of the tile, which lies at `base` without gaps.
        cols: elements of a row.
        dtype: their type.
        written: the mode of the writer, on absolute addresses as the hardware has it: none, 32B,
            64B, 128B.
        read: the mode of the reader.
        base: byte address of the tile.
        relative: the reader swizzles offsets in the tile instead of addresses.
        step: bytes after which the reader adds to a swizzled address instead of swizzling anew.

    Raises:
        UsageError: an unknown mode, rows of no whole chunks, a base between chunks.
    """
    inner = _inner(rows, cols, dtype)
    if base < 0 or base % _CHUNK or step < 0 or step % _CHUNK:
        raise UsageError(f"base {base}, step {step}", "16-byte chunks begin at multiples of 16",
                         legal="base 1024, step 32", where=_WHERE)
    offset = np.arange(0, rows * inner, _CHUNK)
    source = _mode(written)(offset + base) - base
    late = offset % inner // step * step if step else np.zeros_like(offset)
    origin = 0 if relative else base
    target = _mode(read)(offset - late + origin) - origin + late
    holds = dict(zip(source.tolist(), range(len(offset)), strict=True))
    got = np.array([holds.get(at, -1) for at in target.tolist()])
    how = read + (" on offsets in the tile" if relative else "") + (
        f", the rest added in steps of {step} bytes" if step else "")
    return Misread(written, how, base, got.reshape(rows, -1), _mode(read).period)


def _inner(rows: int, cols: int, dtype: str | formats.Format) -> int:
    inner, rest = divmod(cols * formats.get(dtype).bits, 8)
    if rows < 1 or inner < 1 or rest or inner % _CHUNK:
        raise UsageError(f"a tile of {rows} x {cols} {dtype}", "rows have whole 16-byte chunks",
                         legal=f"columns in multiples of {128 // formats.get(dtype).bits}",
                         where=_WHERE)
    check_tile(rows, inner, _WHERE)
    return inner


def _mode(name: str) -> Swizzle:
    if name == "none":
        return Swizzle(0, 4, 3)
    if name not in TMA_SWIZZLES:
        raise UsageError(f"swizzle mode {name}", "is not known", legal=["none", *TMA_SWIZZLES],
                         where=_WHERE)
    return TMA_SWIZZLES[name]


@dataclass(frozen=True)
class Atoms:
    """Whether parts of `rows` x `inner` bytes consist of whole atoms: 8 rows of `span` bytes."""

    mode: str
    rows: int
    inner: int
    span: int

    @property
    def whole(self) -> bool:
        """Whether no atom lies in two parts."""
        return self.rows % _ROWS == 0 and self.inner % self.span == 0

    def text(self) -> str:
        """The verdict in a line."""
        if self.whole:
            count = f"{self.rows // _ROWS} x {self.inner // self.span}"
            return f"{self.mode}: whole atoms, {count} of 8 rows of {self.span} bytes"
        return (f"{self.mode}: atoms are cut: parts of {self.rows} rows of {self.inner} bytes, "
                f"atoms of 8 rows of {self.span} bytes")


def atoms(rows: int, cols: int, dtype: str | formats.Format) -> list[Atoms]:
    """Whether parts (of a warp, say) of `rows` x `cols` cut the atoms of each mode.

        >>> [found.whole for found in atoms(16, 32, "bf16")]
        [True, True, False]

    Raises:
        UsageError: rows of no whole chunks.
    """
    inner = _inner(rows, cols, dtype)
    return [Atoms(mode, rows, inner, int(mode[:-1])) for mode in ("32B", "64B", "128B")]
