"""Agents: who carries out an asynchronous operation, so that its end is not its issuer's.

The thread that issues a bulk copy or a wgmma has not done it. The operation starts after what its
issuer has done and ends when its agent's epoch is known, which only the completion mechanism hands
out. An agent is a lane of an actor row behind the warps and their cp.async agents:

==============  =====================================================  =========================
agent           one lane of a row for                                  its epochs count
==============  =====================================================  =========================
``MBARRIER``    each mbarrier that copies complete on                  phases of that mbarrier
``BULK_READ``   each lane of a warp that issues bulk stores (sources)  its bulk groups
``BULK_WRITE``  the same lanes (results)                               its bulk groups
``WGMMA``       each warpgroup                                         its wgmma groups
==============  =====================================================  =========================

Example: 4 warps, two mbarriers, lane 0 of warp 0 stores in bulk. Rows 0..3 are the warps, 4..7
their cp.async agents; row 8 holds the mbarriers in lanes 0 and 1, rows 9 and 10 the bulk store in
lane 0. A CTA with more than 256 such mbarriers shares their lanes: a known epoch of one then counts
for another as well, so that an order may be taken for granted, never found missing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from mmalab.sanitizer.clocks import LANES

__all__ = ["Agent", "AgentKind", "Agents", "Proxy"]

_MBARRIER_ROWS = 8


class AgentKind(IntEnum):
    """What does an access: the thread itself, or on whose behalf it is done."""

    THREAD = 0
    COPY = 1
    MBARRIER = 2
    BULK_READ = 3
    BULK_WRITE = 4
    WGMMA = 5


class Proxy(IntEnum):
    """The way to memory: G, A and M of the ordering model."""

    GENERIC = 0
    ASYNC = 1
    TENSORMAP = 2


class Agent(NamedTuple):
    """One lane of an actor row of a CTA."""

    kind: AgentKind
    cta: int
    row: int
    lane: int

    @property
    def place(self) -> tuple[int, int, int]:
        """(CTA, row, lane), as clocks name it."""
        return self.cta, self.row, self.lane


class Agents:
    """The agents of all CTAs, made when they are first asked for."""

    def __init__(self, warps: int) -> None:
        self._first = 2 * warps
        #: CTA -> (kind, number of the row among its kind) -> actor row
        self._rows: dict[int, dict[tuple[AgentKind, int], int]] = {}
        self._mbarriers: dict[int, dict[int, int]] = {}

    def mbarrier(self, cta: int, address: int) -> Agent:
        """The agent that delivers what completes on the mbarrier at this shared address."""
        numbers = self._mbarriers.setdefault(cta, {})
        number = numbers.setdefault(address, len(numbers)) % (_MBARRIER_ROWS * LANES)
        return self._agent(AgentKind.MBARRIER, cta, number)

    def bulk(self, kind: AgentKind, cta: int, warp: int, lane: int) -> Agent:
        """The agent that reads the sources, or writes the results, of a lane's bulk groups."""
        return self._agent(kind, cta, warp * LANES + lane)

    def warpgroup(self, cta: int, group: int) -> Agent:
        """The agent that carries out the products of a warpgroup."""
        return self._agent(AgentKind.WGMMA, cta, group)

    def _agent(self, kind: AgentKind, cta: int, number: int) -> Agent:
        rows = self._rows.setdefault(cta, {})
        row = rows.setdefault((kind, number // LANES), self._first + len(rows))
        return Agent(kind, cta, row, number % LANES)
