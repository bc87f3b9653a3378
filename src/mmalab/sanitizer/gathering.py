"""Joins in the making: what the arrivals of a barrier generation or an mbarrier phase bring.

A :class:`Gathering` takes in single lanes of a warp, their own epochs included, and ends as one
:class:`~mmalab.sanitizer.clocks.Knowledge` that everybody who leaves shares::

    gathering = Gathering()
    gathering.add(warp_0, 0xFFFFFFFF)       # 32 lanes arrive
    gathering.learn(cta, row, lane, 1)      # and an agent ends its epoch 1
    warp_1.sync(0xFFFFFFFF, gathering.knowledge())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.clocks import (
    CARRIED,
    EXECUTION,
    LANES,
    ORDER,
    PRACTISED,
    RELATIONS,
    TIME,
    Clocks,
    Knowledge,
    absorbed,
    flags_of,
    grown,
    lanes_of,
)

__all__ = ["IN_TIME", "LOCKSTEP", "Gathering", "Known", "Snapshot", "TimeGathering", "near_lanes"]

#: Relations in which the lanes of a converged group know each other's epochs.
LOCKSTEP = (PRACTISED, EXECUTION, TIME, *CARRIED)


#: How to receive what a :class:`TimeGathering` knows.
IN_TIME = ((TIME, 0),)


class Known(Protocol):
    """The clocks of a warp, now or at some moment."""

    @property
    def cta(self) -> int:
        """Linear CTA number."""

    @property
    def warp(self) -> int:
        """The warp in the CTA."""

    @property
    def warps(self) -> int:
        """Warps of a CTA."""

    @property
    def exists(self) -> int:
        """The lanes that the launch gave the warp."""

    @property
    def parts(self) -> tuple[tuple[int, Knowledge], ...] | list[tuple[int, Knowledge]]:
        """Lane masks, and what these lanes know."""

    @property
    def own(self) -> NDArray[np.uint32]:
        """[relation, actor, lane] what each lane knows of itself."""

    @property
    def together(self) -> NDArray[np.uint32]:
        """[32] per lane the lanes that run in lockstep with it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A warp's clocks at one moment, to be read later, lane by lane."""

    cta: int
    warp: int
    warps: int
    exists: int
    parts: tuple[tuple[int, Knowledge], ...]
    own: NDArray[np.uint32]
    together: NDArray[np.uint32]


class Gathering:
    """A join in the making: what the arrivals of a barrier generation or phase bring together."""

    def __init__(self) -> None:
        self._parts: dict[int, Clocks] = {}
        self._seen: list[Knowledge] = []

    def join(self, knowledge: Knowledge) -> None:
        """Take in everything of `knowledge`. The same object again costs nothing."""
        if any(knowledge is one for one in self._seen):
            return
        self._seen.append(knowledge)
        for cta, theirs in knowledge.parts.items():
            mine = self._parts.get(cta)
            self._parts[cta] = theirs.copy() if mine is None else absorbed(mine, theirs)

    def learn(self, cta: int, row: int, lane: int, clock: int) -> None:
        """Take in one epoch of an agent: it is done."""
        mine = self._grown_part(cta, row + 1)
        rows = slice(0, len(ORDER))
        mine[rows, row, lane] = np.maximum(mine[rows, row, lane], clock)

    def add_executed(self, source: Known, mask: int, relations: tuple[int, ...]) -> None:
        """Take in the lanes in `mask` in these relations only: an operation ends after its issue.

        `relations` are EXECUTION and TIME, or one of them.
        """
        rows = list(relations)
        for lanes, knowledge in source.parts:
            if lanes & mask:
                for cta, theirs in knowledge.parts.items():
                    part = self._grown_part(cta, theirs.shape[1])
                    part[rows, : theirs.shape[1]] = np.maximum(
                        part[rows, : theirs.shape[1]], theirs[rows])
        near = flags_of(near_lanes(source.together, mask))
        own = self._grown_part(source.cta, 2 * source.warps)
        for row in rows:
            mine = own[row, source.warp : 2 * source.warps : source.warps]
            np.maximum(mine, source.own[row], out=mine, where=near)

    def _grown_part(self, cta: int, rows: int) -> Clocks:
        part = self._parts.get(cta)
        if part is None:
            part = self._parts[cta] = np.zeros((RELATIONS, rows, LANES), np.uint32)
        elif rows > part.shape[1]:
            part = self._parts[cta] = grown(part, rows)
        return part

    def add(self, source: Known, mask: int) -> None:
        """Take in what the lanes in `mask` know at this moment, their own epochs included."""
        for lanes, knowledge in source.parts:
            if lanes & mask:
                self.join(knowledge)
        part = self._grown_part(source.cta, 2 * source.warps)
        own = part[:, source.warp : 2 * source.warps : source.warps]
        if mask & source.exists == source.exists:
            np.maximum(own, source.own, out=own)
            return
        np.maximum(own, source.own, out=own, where=flags_of(mask))
        near = flags_of(near_lanes(source.together, mask))
        for relation in LOCKSTEP:
            np.maximum(own[relation], source.own[relation], out=own[relation], where=near)

    def knowledge(self) -> Knowledge:
        """The finished join. Nothing may be added afterwards."""
        return Knowledge(self._parts)

    def peek(self) -> Knowledge:
        """The join so far, to be looked at before anything else is added."""
        return Knowledge(self._parts)


class TimeGathering:
    """A join of order in time alone: of all relations the one that tells when something started.

    Many of these are kept where a warp may wait for any of many operations.
    """

    def __init__(self) -> None:
        #: CTA -> [1, row, lane]
        self._parts: dict[int, Clocks] = {}

    def add(self, source: Known, mask: int) -> None:
        """Take in what the lanes in `mask` know to have started, themselves included."""
        for lanes, knowledge in source.parts:
            if lanes & mask:
                for cta, theirs in knowledge.parts.items():
                    self._take(cta, theirs[TIME : TIME + 1])
        own = np.zeros((1, 2 * source.warps, LANES), np.uint32)
        own[0, source.warp :: source.warps] = np.where(
            flags_of(near_lanes(source.together, mask)), source.own[TIME], np.uint32(0))
        self._take(source.cta, own)

    def join(self, other: TimeGathering) -> None:
        """Take in all of another one."""
        for cta, theirs in other._parts.items():
            self._take(cta, theirs)

    def _take(self, cta: int, theirs: Clocks) -> None:
        mine = self._parts.get(cta)
        self._parts[cta] = theirs.copy() if mine is None else absorbed(mine, theirs)

    def knowledge(self) -> Knowledge:
        """The join so far, to be received by :data:`IN_TIME`."""
        return Knowledge(self._parts)


def near_lanes(together: NDArray[np.uint32], mask: int) -> int:
    """All lanes that run in lockstep with a lane of `mask`, and `mask` itself."""
    return int(np.bitwise_or.reduce(together[lanes_of(mask)], initial=0)) | mask
