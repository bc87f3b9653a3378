"""Registers: the ceiling, accumulators against it, and the budget that setmaxnreg divides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Accumulator", "Budget", "Ceiling", "SetMaxNReg", "accumulators", "budget", "ceiling",
           "setmaxnreg"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What ptxas says to a ``-maxrregcount``; "" where it accepts silently."""

    asked: int
    message: str
    toolkit: str


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A tile's accumulator in registers: M N (bits / 32) / threads, against 255."""

    tile: str
    m: int
    n: int
    threads: int
    registers: int
    fits: bool
    lives_in: str


@dataclass(frozen=True, slots=True)
class Budget:
    """Registers of a CTA whose warpgroups have these counts, against the SM's file."""

    per_thread: tuple[int, ...]
    threads: int
    total: int
    limit: int
    at_launch: int
    fits: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SetMaxNReg:
    """Whether ptxas keeps setmaxnreg, and its words where not."""

    in_force: bool
    message: str
    opcodes: tuple[str, ...]
    toolkit: str
    ptx: str


def ceiling(asked: Sequence[int] = (255, 256), toolkit: str | None = None) -> tuple[Ceiling, ...]:
    """Ask for these ``-maxrregcount`` values."""
    raise NotImplementedError


def accumulators(target: str | None = None) -> tuple[Accumulator, ...]:
    """Tiles of wgmma and tcgen05 as a warpgroup would hold them."""
    raise NotImplementedError


def budget(per_thread: Sequence[int], *, launch: int | None = None, threads: int = 128,
           target: str = "sm_90a") -> Budget:
    """Can warpgroups of `threads` threads have these counts; `launch` is the count at entry."""
    raise NotImplementedError


def setmaxnreg(*, maxntid: bool = True, target: str = "sm_90a", toolkit: str | None = None,
               options: tuple[str, ...] = ()) -> SetMaxNReg:
    """Assemble a kernel with setmaxnreg, with and without what makes it count."""
    raise NotImplementedError
