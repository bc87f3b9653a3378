"""Two accesses in conflict, and how one of them is told.

A :class:`Pair` is an access on its way into shadow memory and an earlier one that is not ordered
before it; :class:`Earlier` is that one's row of the ledger, and :class:`Verdict` what to report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mmalab.findings import Severity
from mmalab.sanitizer.agents import AgentKind, Proxy
from mmalab.sanitizer.touch import Sweep, Touch

__all__ = ["Earlier", "Pair", "Verdict", "doer", "kind_of"]

_DOERS = {
    AgentKind.THREAD: "thread", AgentKind.COPY: "cp.async", AgentKind.MBARRIER: "bulk copy",
    AgentKind.BULK_READ: "bulk store", AgentKind.BULK_WRITE: "bulk store",
    AgentKind.WGMMA: "wgmma",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """An access, and an earlier one (record, lane) that is not ordered before its lane `by`."""

    touch: Touch | Sweep
    record: int
    lane: int
    by: int
    address: int
    size: int
    lanes: tuple[int, ...]
    same_value: bool


@dataclass(frozen=True, slots=True)
class Earlier:
    """The ledger row of the earlier access; `home` and `warp` issued it."""

    cta: int
    row: int
    clock: int
    warp: int
    site: int
    mask: int
    strength: int
    write: int
    kind: int
    proxy: int
    home: int
    swizzle: int

    @property
    def issuer(self) -> int:
        """The lane that issued it, of an agent."""
        return (self.mask & -self.mask).bit_length() - 1

    @property
    def asynchronous(self) -> bool:
        """Whether an agent does it on an mbarrier, in bulk groups or in wgmma groups."""
        return self.kind >= AgentKind.MBARRIER


class Verdict(NamedTuple):
    """What to report: code and severity, what does hold, what is missing, what repairs it."""

    code: str
    severity: Severity
    holds: str
    missing: str
    repair: str


def doer(kind: int) -> str:
    """Who does an access, in a word."""
    return _DOERS[AgentKind(kind)]


def kind_of(*, write: bool, strength: int, proxy: int) -> str:
    """The class of an access: "weak generic write", "async read"."""
    done = "write" if write else "read"
    if proxy == Proxy.GENERIC:
        return f"{'strong' if strength else 'weak'} generic {done}"
    return f"{'async' if proxy == Proxy.ASYNC else 'tensormap'} {done}"
