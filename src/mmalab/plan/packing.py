"""Parts of Tensor Memory into allocations: the fewest columns that the rules allow.

    >>> found = pack([Part("D", 384), Part("SFA", 4), Part("SFB0", 4), Part("SFB1", 4)])
    >>> found.allocations, found.columns, found.allocated
    ((512,), 396, 512)

Four allocations of their own would take 512 + 32 + 32 + 32 = 608 columns of the 512. The rules:

    an allocation is a power of two from 32 columns on; a CTA's allocations never grow in size
    a part lies inside one allocation, because two need not be neighbours
    parts share columns only when their phases do not overlap, or when they take different halves
    of the lanes (accumulators with M = 64: lanes 0-15 or 16-31 of every 32)

Every multiset of legal sizes is tried from the fewest columns on, then from the fewest
allocations; within one, parts are placed by backtracking, each against the end of another.

Source: PTX ISA, tcgen05.alloc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import COLUMNS, GRANULE

__all__ = ["Packing", "Part", "Placement", "legal_size", "pack", "separate_columns"]

#: Places tried for one multiset of sizes before it counts as too small.
_TRIES = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """Something that lies in Tensor Memory: `columns` columns during phases `start` to `end`
    (exclusive). `half` parts use 16 of every 32 lanes, so two of them share columns.
    """

    name: str
    columns: int
    start: int = 0
    end: int = 1
    half: bool = False
    role: str = "accumulator"

    def __post_init__(self) -> None:
        if self.columns < 1 or self.end <= self.start:
            raise UsageError(
                f"{self.name}: {self.columns} columns in phases {self.start} to {self.end}",
                "is nothing to place", legal="columns from 1, an end behind the start",
                where="mmalab.plan.packing",
            )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a part lies: allocation number, column, and base lane (0 or 16).

    Columns count as in a pool with no other CTA, where the allocations follow each other.
    """

    part: Part
    allocation: int
    column: int
    lane: int = 0

    def meets(self, other: Placement) -> bool:
        """Whether both want a cell at the same time."""
        return (
            self.column < other.column + other.part.columns
            and other.column < self.column + self.part.columns
            and self.part.start < other.part.end and other.part.start < self.part.end
            and not (self.part.half and other.part.half and self.lane != other.lane)
        )


@dataclass(frozen=True)
class Packing:
    """Allocations in the order in which the kernel makes them (never growing), and the places."""

    allocations: tuple[int, ...]
    placements: tuple[Placement, ...]

    @property
    def allocated(self) -> int:
        """Columns of all allocations."""
        return sum(self.allocations)

    @property
    def columns(self) -> int:
        """Columns that some part uses."""
        used: set[int] = set()
        for place in self.placements:
            used.update(range(place.column, place.column + place.part.columns))
        return len(used)

    @property
    def bases(self) -> tuple[int, ...]:
        """First column of each allocation in a pool with no other CTA."""
        return tuple(sum(self.allocations[:at]) for at in range(len(self.allocations)))

    def as_dict(self) -> dict[str, Any]:
        """The packing as JSON-able data."""
        return {"allocations": list(self.allocations), "allocated": self.allocated,
                "columns": self.columns,
                "placements": [{**asdict(place.part), "allocation": place.allocation,
                                "column": place.column, "lane": place.lane}
                               for place in self.placements]}


def legal_size(columns: int) -> int:
    """The smallest legal allocation that holds `columns`: a power of two from 32 on."""
    return max(GRANULE, 1 << max(columns - 1, 0).bit_length())


def separate_columns(parts: Sequence[Part]) -> int:
    """Columns of one allocation for each part: each rounded up to a power of two from 32."""
    return sum(legal_size(part.columns) for part in parts)


def pack(parts: Sequence[Part], *, capacity: int = COLUMNS) -> Packing | None:
    """The packing with the fewest columns, then the fewest allocations; None when there is none.

    Parts whose phases do not overlap may share columns. `capacity` is the pool's.
    """
    if not parts:
        return Packing((), ())
    widest = max(part.columns for part in parts)
    least = max(widest, *(_needed(parts, phase) for phase in {part.start for part in parts}))
    # Large parts first: what is left over fits into the gaps.
    order = sorted(range(len(parts)), key=lambda at: (-parts[at].columns, parts[at].start, at))
    for total in range(-(-least // GRANULE), capacity // GRANULE + 1):
        for sizes in _partitions(total):
            if sizes[0] * GRANULE < widest:
                continue
            allocations = tuple(size * GRANULE for size in sizes)
            found = _Placer(allocations).place([parts[at] for at in order])
            if found is not None:
                by_part = dict(zip(order, found, strict=True))
                return Packing(allocations, tuple(by_part[at] for at in range(len(parts))))
    return None


def _needed(parts: Sequence[Part], phase: int) -> int:
    """Columns that no packing can save in one phase: two halves may share theirs."""
    alive = [part for part in parts if part.start <= phase < part.end]
    halves = sum(part.columns for part in alive if part.half)
    return sum(part.columns for part in alive if not part.half) + -(-halves // 2)


@lru_cache(maxsize=64)
def _partitions(total: int) -> tuple[tuple[int, ...], ...]:
    """Powers of two that add up to `total`, largest first; the fewest parts first."""
    found: list[tuple[int, ...]] = []

    def extend(sizes: tuple[int, ...], rest: int) -> None:
        if not rest:
            found.append(sizes)
            return
        size = min(sizes[-1] if sizes else total, 1 << (rest.bit_length() - 1))
        size = 1 << (size.bit_length() - 1)
        while size:
            extend((*sizes, size), rest - size)
            size >>= 1

    extend((), total)
    return tuple(sorted(found, key=lambda sizes: (len(sizes), sizes)))


class _Placer:
    """Backtracking over the places of each part in fixed allocations."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.bases = [sum(sizes[:at]) for at in range(len(sizes))]
        self.placed: list[Placement] = []
        self.tries = 0

    def place(self, parts: Sequence[Part]) -> list[Placement] | None:
        if not parts:
            return list(self.placed)
        for candidate in self._candidates(parts[0]):
            self.tries += 1
            if self.tries > _TRIES:
                return None
            if any(candidate.meets(other) for other in self.placed):
                continue
            self.placed.append(candidate)
            found = self.place(parts[1:])
            if found is not None:
                return found
            self.placed.pop()
        return None

    def _candidates(self, part: Part) -> Iterator[Placement]:
        """At the start of an allocation or right behind another part of it."""
        empty_seen: set[int] = set()
        for number, (base, size) in enumerate(zip(self.bases, self.sizes, strict=True)):
            here = [place for place in self.placed if place.allocation == number]
            if not here:
                if size in empty_seen:  # as good as the one before
                    continue
                empty_seen.add(size)
            ends = {place.column + place.part.columns for place in here}
            starts = {place.column for place in here}
            for column in sorted({base} | ends | starts):
                if column + part.columns <= base + size:
                    yield Placement(part, number, column)
                    if part.half:
                        yield Placement(part, number, column, 16)
