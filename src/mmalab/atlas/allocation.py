"""What tcgen05.alloc, relinquish and dealloc become, and the guards around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Allocator", "ColumnCount", "allocator", "column_counts"]


@dataclass(frozen=True, slots=True)
class Allocator:
    """Article B's probe as compiled: `handlers` are trap names (without prefix) and how often each
    is named in the listing, `references` the lines that name one; `sequences` the SASS of each
    PTX instruction (alloc, relinquish, dealloc, mma, ld ...), in order.

    `checks` is ptxas's Tensor Memory access check: "default", "on" or "off".
    """

    target: str
    toolkit: str
    opt_level: int
    checks: str
    instructions: int
    registers: int
    shared: int
    handlers: Mapping[str, int]
    references: int
    sequences: Mapping[str, tuple[str, ...]]
    ptx: str


@dataclass(frozen=True, slots=True)
class ColumnCount:
    """ptxas's words about a column count, "" where it says nothing."""

    columns: int
    immediate: str
    register: str
    toolkit: str


def allocator(
    toolkit: str | None = None,
    opt_level: int = 3,
    *,
    target: str = "sm_100a",
    checks: str = "default",
    without: Iterable[str] = (),
    cta_group: int = 1,
) -> Allocator:
    """Compile the probe and read the allocator out of it.

    Args:
        without: instructions left out of the probe: "alloc", "relinquish", "dealloc", "mma", "ld".
    """
    raise NotImplementedError


def column_counts(
    counts: Iterable[int] = (16, 32, 48, 64, 96, 128, 256, 512, 1024),
    toolkit: str | None = None,
    target: str = "sm_100a",
) -> tuple[ColumnCount, ...]:
    """Column counts as an immediate and through a register."""
    raise NotImplementedError
