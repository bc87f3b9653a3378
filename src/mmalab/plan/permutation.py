"""A swizzle formula as somebody wrote it: is it a permutation, how many passes, what is its name.

    >>> found = permutation(lambda row, chunk: chunk ^ (row >> 1 & 3), rows=128, chunks=4)
    >>> found.bijective, found.reads, found.writes, str(found.swizzle)
    (True, (64, 64), (64, 64), 'Swizzle<2,4,3>')
    >>> permutation(lambda row, chunk: chunk ^ (row & 3), rows=128, chunks=4).reads
    (128, 64)

A tile has `rows` rows of `chunks` chunks of 16 bytes; the formula says to which place of its row a
chunk goes. Reads are ldmatrix (32 rows of one chunk), writes consecutive chunks by consecutive
lanes: (passes, passes without conflicts) of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError
from mmalab.layouts import Swizzle
from mmalab.layouts.banks import wavefronts
from mmalab.plan.shared_tile import check_tile
from mmalab.plan.swizzle import Access, column_reads, row_writes

__all__ = ["Permutation", "permutation"]

_CHUNK = 16
_WHERE = "mmalab.plan.permutation"


@dataclass(frozen=True)
class Permutation:
    """A formula on a tile. `places` is (rows, chunks): where each chunk goes in its row;
    `clashes` pairs of (row, chunk) that want one place; `swizzle` counts bytes."""

    places: tuple[tuple[int, ...], ...]
    clashes: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    reads: tuple[int, int]
    writes: tuple[int, int]
    swizzle: Swizzle | None

    @property
    def bijective(self) -> bool:
        """Whether no two chunks want one place."""
        return not self.clashes

    @property
    def free(self) -> bool:
        """Whether neither reads nor writes conflict."""
        return self.reads[0] == self.reads[1] and self.writes[0] == self.writes[1]

    def picture(self, rows: int = 8) -> str:
        """The first rows: which chunk lies at each place (``.``: none)."""
        lines = []
        for row, places in enumerate(self.places[:rows]):
            cells = ["."] * len(places)
            for chunk, place in enumerate(places):
                cells[place] = str(chunk) if cells[place] == "." else "!"
            lines.append(f"row {row:>3}: " + " ".join(cells))
        return "\n".join(lines)


def permutation(formula: Callable[[int, int], int], *, rows: int, chunks: int) -> Permutation:
    """Try ``formula(row, chunk) -> place`` on a tile of `rows` rows of `chunks` 16-byte chunks.

    Raises:
        UsageError: an empty tile, or a place outside of the row.
    """
    if rows < 1 or chunks < 1:
        raise UsageError(f"a tile of {rows} rows of {chunks} chunks", "is empty",
                         legal="from 1 x 1 on", where=_WHERE)
    check_tile(rows, chunks * _CHUNK, _WHERE)
    places = np.array([[formula(row, chunk) for chunk in range(chunks)] for row in range(rows)])
    if places.min() < 0 or places.max() >= chunks:
        row, chunk = (int(at) for at in np.argwhere((places < 0) | (places >= chunks))[0])
        raise UsageError(f"chunk {chunk} of row {row} at place {places[row, chunk]}",
                         "is outside of its row", legal=f"0 to {chunks - 1}", where=_WHERE)
    at = (np.arange(rows)[:, None] * chunks + places) * _CHUNK
    cols = chunks * _CHUNK
    return Permutation(
        tuple(tuple(map(int, row)) for row in places), tuple(_clashes(places)),
        _passes(at, column_reads(rows, cols, 8)), _passes(at, row_writes(rows, cols, 8)),
        _named(at),
    )


def _clashes(places: NDArray[np.int64]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for row, line in enumerate(places.tolist()):
        seen: dict[int, int] = {}
        for chunk, place in enumerate(line):
            if place in seen:
                yield (row, seen[place]), (row, chunk)
            seen.setdefault(place, chunk)


def _passes(at: NDArray[np.int64], access: Access) -> tuple[int, int]:
    passes, ideal = wavefronts(at[access.row, access.col // _CHUNK], access.size)
    return int(passes.sum()), int(ideal.sum())


def _named(at: NDArray[np.int64]) -> Swizzle | None:
    """The swizzle of byte addresses that is the same permutation, if there is one."""
    plain = np.arange(at.size).reshape(at.shape) * _CHUNK
    for bits in range(4):
        for shift in range(max(bits, 1), 8):
            candidate = Swizzle(bits, 4, shift)
            if (candidate(plain) == at).all():
                return candidate
    return None
