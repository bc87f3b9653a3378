"""Parts of Tensor Memory into allocations: the fewest columns that the rules allow.

    >>> found = pack([Part("D", 384), Part("SFA", 4), Part("SFB0", 4), Part("SFB1", 4)])
    >>> found.allocations, found.columns, found.allocated
    ((512,), 396, 512)

Four allocations of their own would take 512 + 32 + 32 + 32 = 608 columns of the 512.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Packing", "Part", "Placement", "pack", "separate_columns"]


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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a part lies: allocation number, first column of Tensor Memory, base lane (0 or 16)."""

    part: Part
    allocation: int
    column: int
    lane: int = 0


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
        raise NotImplementedError


def separate_columns(parts: Sequence[Part]) -> int:
    """Columns of one allocation for each part: each rounded up to a power of two from 32."""
    raise NotImplementedError


def pack(parts: Sequence[Part], *, capacity: int = 512) -> Packing | None:
    """The packing with the fewest columns, then the fewest allocations; None when there is none.

    Parts whose phases do not overlap may share columns.
    """
    raise NotImplementedError
