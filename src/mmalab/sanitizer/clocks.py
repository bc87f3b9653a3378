"""Vector clocks: what an observer knows to have happened before it, in several senses at once.

A clock component is a *lane of an actor*: actor rows 0..W-1 of a CTA are its W warps, rows W..2W-1
the agents that carry out the cp.async copies of those warps; further rows come with the first bulk
copy or wgmma (:mod:`mmalab.sanitizer.agents`). A :class:`Knowledge` holds, for every CTA that the
observer has heard of, one array ``[relation, row, lane]`` of counters; counter 7 at
``[HARD, 2, 5]`` says that everything lane 5 of warp 2 did in its epochs 1..7 is ordered before.

The relations are rows of one array because every synchronisation moves all of them together:

=============  ===================================================================================
HARD           edges that the documents promise (H of the ordering model)
PRACTISED      H and what hardware and the large libraries rely on (P): lanes in lockstep
SCOPELESS      H if every scope were wide enough; only finds words for ``scope-too-narrow``
EXECUTION      order in time along any synchronisation, relaxed ones included (X)
TIME           X, and from the warps that issue a product to whoever sees its end
FENCED_*       what the observer has fenced at a scope, so that relaxed writes may publish it
OFFERED_*      what relaxed reads brought, so that a later fence at a scope may accept it
PROXY_*        what a fence.proxy.async made known to the async proxy: shared, global (F)
INITIALISED    mbarriers that a fence.mbarrier_init published: their init only
MAPS           tensor maps whose changes a tensormap fence released
=============  ===================================================================================

Worked example, message passing with a relaxed flag. Lane 0 of CTA 0 writes data in epoch 1, then
``fence.acq_rel.gpu`` copies its HARD row to FENCED_HARD; its relaxed store publishes that row.
Lane 0 of CTA 1 reads the flag relaxed: the row lands in OFFERED_HARD, and only its own fence moves
it on to HARD. Without the reader's fence the data stays OFFERED, which names ``missing-acquire``;
without the writer's fence only EXECUTION arrives, which names ``missing-release``.

A Knowledge is immutable: every warp that leaves a barrier can share one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CARRIED",
    "EXECUTION",
    "FENCED_HARD",
    "FENCED_PRACTISED",
    "HARD",
    "INITIALISED",
    "LANES",
    "LEVELS",
    "MAPS",
    "OFFERED_HARD",
    "OFFERED_PRACTISED",
    "OFFERED_SCOPELESS",
    "ORDER",
    "PRACTISED",
    "PROXY_GLOBAL",
    "PROXY_SHARED",
    "RELATIONS",
    "SCOPELESS",
    "SOFT",
    "TIME",
    "Clocks",
    "Knowledge",
    "Level",
    "Route",
    "absorbed",
    "accepted",
    "flags_of",
    "grown",
    "lanes_of",
    "level_of",
    "mask_of",
    "mask_of_lanes",
    "only",
    "routes",
]

LANES = 32
#: [relation, row, lane] counters of one CTA's actors.
Clocks: TypeAlias = NDArray[np.uint32]
#: Rows of a route that are compared before they are taken in: it may be that none is news.
_FEW = 4
#: (row of the receiver, row of the sender) pairs.
Route: TypeAlias = tuple[tuple[int, int], ...]


class Level(IntEnum):
    """How far apart two threads are, and how far a scope reaches."""

    CTA = 0
    CLUSTER = 1
    GPU = 2


LEVELS = len(Level)
HARD, PRACTISED, SCOPELESS, EXECUTION, TIME = range(5)
FENCED_HARD = 5
FENCED_PRACTISED = FENCED_HARD + LEVELS
OFFERED_HARD = FENCED_PRACTISED + LEVELS
OFFERED_PRACTISED = OFFERED_HARD + LEVELS
OFFERED_SCOPELESS = OFFERED_PRACTISED + LEVELS
PROXY_SHARED, PROXY_GLOBAL, INITIALISED, MAPS = range(OFFERED_SCOPELESS + 1, OFFERED_SCOPELESS + 5)
RELATIONS = MAPS + 1
#: Rows in which a lane's own epochs count without any synchronisation.
ORDER = (HARD, PRACTISED, SCOPELESS, EXECUTION, TIME)
_OFFERED = tuple(range(OFFERED_HARD, OFFERED_SCOPELESS + 1))
#: Rows that say which of the known epochs were fenced. They prove nothing without HARD or
#: PRACTISED, so they travel along every synchronisation, relaxed or too narrow.
CARRIED = (PROXY_SHARED, PROXY_GLOBAL, INITIALISED, MAPS)
#: Rows that all lanes of a converged group share: lockstep moves them, memory order does not.
SOFT = (PRACTISED, EXECUTION, TIME, *_OFFERED, *CARRIED)

_SCOPES = {"cta": Level.CTA, "cluster": Level.CLUSTER, "gpu": Level.GPU, "sys": Level.GPU}


def level_of(scope: str, default: Level = Level.GPU) -> Level:
    """The reach of a written scope; `default` when none is written. System peers are not kept."""
    return _SCOPES.get(scope, default)


@lru_cache(maxsize=4096)
def lanes_of(mask: int) -> NDArray[np.int64]:
    """The lane numbers in a mask, ascending. Shared between callers: not to be changed."""
    return np.flatnonzero((mask >> np.arange(LANES)) & 1).astype(np.int64)


@lru_cache(maxsize=4096)
def flags_of(mask: int) -> NDArray[np.bool_]:
    """[32] bool of a mask. Shared between callers: not to be changed."""
    return np.asarray((mask >> np.arange(LANES)) & 1 == 1, np.bool_)


def mask_of(flags: NDArray[np.bool_]) -> int:
    """The mask with bit l set where ``flags[l]``."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def mask_of_lanes(lanes: NDArray[np.int64]) -> int:
    """The mask with the bits of the given lanes set."""
    return int(np.bitwise_or.reduce(np.left_shift(1, lanes), initial=0))


def grown(part: Clocks, rows: int) -> Clocks:
    """A copy of `part` with at least this many actor rows."""
    if rows <= part.shape[1]:
        return part.copy()
    return np.pad(part, ((0, 0), (0, rows - part.shape[1]), (0, 0)))


def absorbed(mine: Clocks, theirs: Clocks) -> Clocks:
    """The maximum of both: `mine`, changed in place, unless `theirs` has more actor rows."""
    rows = theirs.shape[1]
    if rows > mine.shape[1]:
        mine = grown(mine, rows)
    part = mine[:, :rows]
    np.maximum(part, theirs, out=part)
    return mine


class Knowledge:
    """What one observer knows, per CTA. Never changed after it was built."""

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[int, Clocks] | None = None) -> None:
        self.parts: Mapping[int, Clocks] = {} if parts is None else parts

    def joined(self, other: Knowledge) -> Knowledge:
        """Component-wise maximum of all relations."""
        if other is self or not other.parts:
            return self
        parts = dict(self.parts)
        for cta, theirs in other.parts.items():
            mine = parts.get(cta)
            parts[cta] = (theirs if mine is None or mine is theirs
                          else absorbed(mine.copy(), theirs))
        return Knowledge(parts)

    def received(self, other: Knowledge, route: Route) -> Knowledge:
        """Join single rows: for each (to, from) of `route`, row `to` takes in `other`'s `from`.

        The same object where nothing is news.
        """
        parts = dict(self.parts)
        for cta, theirs in other.parts.items():
            mine = parts.get(cta)
            rows = theirs.shape[1]
            if mine is not None and len(route) <= _FEW and rows <= mine.shape[1] and all(
                    (mine[to, :rows] >= theirs[source]).all() for to, source in route):
                continue
            fresh = (np.zeros((RELATIONS, rows, LANES), np.uint32) if mine is None
                     else grown(mine, rows))
            for to, source in route:
                part = fresh[to, :rows]
                np.maximum(part, theirs[source], out=part)
            parts[cta] = fresh
        if all(part is self.parts.get(cta) for cta, part in parts.items()):
            return self
        return Knowledge(parts)

    def learned(self, cta: int, row: int, lane: int, clock: int, relations: tuple[int, ...],
                ) -> Knowledge:
        """With one more epoch: `clock` of that actor's lane, in these relations."""
        mine = self.parts.get(cta)
        rows = list(relations)
        if mine is not None and row < mine.shape[1] and (mine[rows, row, lane] >= clock).all():
            return self
        fresh = (np.zeros((RELATIONS, row + 1, LANES), np.uint32) if mine is None
                 else grown(mine, row + 1))
        fresh[rows, row, lane] = np.maximum(fresh[rows, row, lane], clock)
        return Knowledge({**self.parts, cta: fresh})

    def look(self, relation: int, cta: NDArray[np.int64] | int, row: NDArray[np.int64],
             lane: NDArray[Any]) -> NDArray[np.uint32]:
        """Counters known for the given actors' lanes (0 where nothing is known)."""
        if isinstance(cta, int):
            return self._look_in(relation, cta, row, lane)
        first = int(cta[0])
        if (cta == first).all():
            return self._look_in(relation, first, row, lane)
        known = np.zeros(len(cta), np.uint32)
        for one in np.unique(cta):
            here = cta == one
            known[here] = self._look_in(relation, int(one), row[here], lane[here])
        return known

    def _look_in(self, relation: int, cta: int, row: NDArray[np.int64],
                 lane: NDArray[Any]) -> NDArray[np.uint32]:
        part = self.parts.get(cta)
        if part is None:
            return np.zeros(len(row), np.uint32)
        counters = part[relation].reshape(-1)
        at = row * LANES + lane
        known: NDArray[np.uint32]
        if int(at.max(initial=0)) < len(counters):
            known = counters.take(at)
            return known
        # Actors that came later than this was learned.
        known = counters.take(np.minimum(at, len(counters) - 1))
        known[at >= len(counters)] = 0
        return known

    def row(self, relation: int, cta: int, row: int) -> NDArray[np.uint32]:
        """[32] counters known for the lanes of one actor."""
        part = self.parts.get(cta)
        if part is None or row >= part.shape[1]:
            return np.zeros(LANES, np.uint32)
        counters: NDArray[np.uint32] = part[relation, row]
        return counters


@cache
def routes(*, releasing: bool, acquiring: bool, write_level: Level, read_level: Level,
           distance: Level) -> Route:
    """Which rows move when a strong read observes a strong write `distance` apart.

    A releasing write publishes the writer's rows as they are, a relaxed one what was fenced. An
    acquiring read takes them at once, a relaxed one parks them until a fence. A scope on either
    side that does not reach the other thread leaves only SCOPELESS and EXECUTION.
    """
    published = {row: row for row in range(RELATIONS)}
    if not releasing:
        published |= {
            HARD: FENCED_HARD + distance, PRACTISED: FENCED_PRACTISED + distance,
            SCOPELESS: FENCED_HARD + Level.CTA,
        }
    if write_level < distance or (acquiring and read_level < distance):
        published = {row: published[row] for row in (SCOPELESS, EXECUTION, TIME, *_OFFERED,
                                                 *CARRIED)}
    if acquiring:
        return tuple(published.items())
    return tuple(_parked(published, distance, reaches=read_level >= distance))


def _parked(published: dict[int, int], distance: Level, *, reaches: bool,
            ) -> Iterator[tuple[int, int]]:
    """Rows that a relaxed read moves."""
    yield EXECUTION, published[EXECUTION]
    yield TIME, published[TIME]
    yield OFFERED_SCOPELESS, published[SCOPELESS]
    for row in (*_OFFERED, *CARRIED):
        yield row, published[row]
    if reaches and HARD in published:
        yield OFFERED_HARD + distance, published[HARD]
        yield OFFERED_PRACTISED + distance, published[PRACTISED]


def accepted(level: Level) -> Route:
    """Rows that a fence of reach `level` moves on from OFFERED."""
    hard = [(to, OFFERED_HARD + k) for k in range(level + 1) for to in (HARD, PRACTISED)]
    soft = [(PRACTISED, OFFERED_PRACTISED + k) for k in range(level + 1)]
    return (*hard, *soft, (SCOPELESS, OFFERED_SCOPELESS))


def only(route: Iterable[tuple[int, int]], rows: tuple[int, ...]) -> Route:
    """The part of a route that ends in `rows`."""
    return tuple((to, source) for to, source in route if to in rows)
