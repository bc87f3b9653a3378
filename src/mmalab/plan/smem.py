"""Shared memory of a pipelined kernel: stages that fit, with every alignment counted.

    >>> found = stage_plan(128, 256, 64, "bf16", target="sm_90a")
    >>> found.stage_bytes, found.max_stages
    (49152, 4)

A stage holds the A tile (M x K) and the B tile (N x K), each at its swizzle's alignment (1024 bytes
for 128B, 512 for 64B, 256 for 32B), block scales if there are, and two mbarriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab.plan.misfit import Misfit
from mmalab.plan.swizzle import SwizzleSearch

__all__ = ["Member", "Placed", "SharedLayout", "StagePlan", "capacity", "shared_layout",
           "stage_plan"]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the shared-memory struct; `per_stage` members come once for each stage."""

    name: str
    bytes: int
    align: int = 16
    per_stage: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A member with its byte offset, and the padding in front of it."""

    name: str
    offset: int
    bytes: int
    padding: int


@dataclass(frozen=True)
class SharedLayout:
    """A struct laid out: total bytes with padding, and against the limit of a CTA."""

    target: str
    members: tuple[Placed, ...]
    bytes: int
    padding: int
    limit: int
    misfit: Misfit | None

    @property
    def fits(self) -> bool:
        """Whether one CTA may have it."""
        return self.misfit is None


@dataclass(frozen=True)
class StagePlan:
    """A pipeline's shared memory on one chip."""

    m: int
    n: int
    k: int
    dtype: str
    scales: str | None
    target: str
    stages: int
    swizzle: str
    stage_bytes: int
    layout: SharedLayout
    max_stages: int
    ctas: int
    conflicts: SwizzleSearch | None
    misfit: Misfit | None

    @property
    def fits(self) -> bool:
        """Whether the stages asked for fit."""
        return self.misfit is None


def capacity(target: str) -> int:
    """Bytes of shared memory that one CTA may ask for (with the opt-in attribute)."""
    raise NotImplementedError


def shared_layout(members: Sequence[Member], stages: int, target: str) -> SharedLayout:
    """Lay members out in order, each at its alignment, stages behind each other.

    Raises:
        UsageError: a size or alignment that is none.
    """
    raise NotImplementedError


def stage_plan(m: int, n: int, k: int, dtype: str, *, target: str, stages: int | None = None,
               scales: str | None = None, epilogue: int = 0, cta_group: int = 1) -> StagePlan:
    """How many stages of M x N x K fit (`stages` None: as many as do), and how they lie.

    Raises:
        UsageError: rows that no TMA box or 16-byte copy can fill, unknown types or targets.
    """
    raise NotImplementedError
