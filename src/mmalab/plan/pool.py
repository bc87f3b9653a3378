"""The allocator of Tensor Memory with several CTAs on one SM: who waits, who never gets on.

``tcgen05.alloc`` takes an aligned run of free columns or waits for one. A kernel that holds columns
while it waits for more can block another for ever::

    >>> half = Script.parse("alloc 256; alloc 256; work 10; free 1; free 0")
    >>> print(simulate([half, half]).deadlock)   # doctest: +ELLIPSIS
    CTA 0 holds 256 columns and waits for 256 ...

Steps of a script: ``alloc N``, ``free I`` (the I-th allocation of the CTA), ``work T`` (ticks),
``relinquish``. First fit, aligned to the allocation's size; a failed alloc is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mmalab.findings import Finding

__all__ = ["Event", "Pool", "Script", "Simulation", "Step", "simulate"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a CTA."""

    action: Literal["alloc", "free", "work", "relinquish"]
    amount: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """What one CTA does, in order."""

    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str) -> Script:
        """A script from ``alloc 256; work 10; free 0``.

        Raises:
            UsageError: a word that is no step.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Event:
    """What happened at `tick`: `columns` from `column` on were taken, freed or asked for."""

    tick: int
    cta: int
    action: Literal["alloc", "wait", "free", "relinquish", "exit"]
    columns: int = 0
    column: int | None = None


@dataclass(frozen=True)
class Simulation:
    """The run. `waited` is ticks spent waiting by CTA, `peak` the most columns in use at once."""

    events: tuple[Event, ...]
    ticks: int
    waited: tuple[int, ...]
    peak: int
    leaked: int
    findings: tuple[Finding, ...]
    deadlock: str | None


class Pool:
    """The columns of one SM as a mask of 32-column granules."""

    def __init__(self, capacity: int = 512) -> None:
        self.capacity = capacity


def simulate(scripts: Sequence[Script], *, capacity: int = 512, max_ticks: int = 1_000_000,
             resident: int | None = None) -> Simulation:
    """Run the CTAs' scripts on one SM, `resident` at a time (all when None), in order of number."""
    raise NotImplementedError
