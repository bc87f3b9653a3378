"""Release and acquire on ordinary memory words: flags, counters, locks.

A strong write (relaxed and up, volatile, atomic) leaves a *publication* at its word: what the
writing lane knew, and how it published it. A strong read that observes the word receives it; which
rows move is :func:`mmalab.sanitizer.clocks.routes`'s table. A store starts a new sequence; an
atomic continues the one that it finds, so a counter that four CTAs bump carries four publications.
``red`` publishes and never receives.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access, Fence
from mmalab.sanitizer.clocks import (
    FENCED_HARD,
    OFFERED_HARD,
    Knowledge,
    Level,
    lanes_of,
    level_of,
    routes,
)
from mmalab.sanitizer.gathering import Gathering, Snapshot
from mmalab.sanitizer.lanes import WarpClock
from mmalab.sanitizer.world import World

__all__ = ["Publications"]

_RELEASING = ("release", "acq_rel", "sc")
_ACQUIRING = ("acquire", "acq_rel", "sc")
#: Snapshots that one publication keeps apart before it joins them.
_FOLD = 64
#: A relaxed access to more words than this, by a warp that never fenced, leaves no publication:
#: it could only have named the fault better, and split-K reductions touch millions of words.
_FLAGS = 4


class _How(NamedTuple):
    """Who published, and how: equal ones are folded together."""

    cta: int
    level: Level
    releasing: bool


class _Publication:
    """What some lanes of one CTA published at a word, as snapshots until somebody reads it.

    Never changed by later accesses, so that words which are always accessed together share it.
    Knowledge only grows, so of one set of lanes the latest snapshot is enough.
    """

    __slots__ = ("_gathered", "_snapshots", "taken")

    def __init__(self, snapshots: dict[tuple[int, int], Snapshot], gathered: Knowledge) -> None:
        self._snapshots = snapshots
        self._gathered = gathered
        #: Which lanes of which warp have received it.
        self.taken: dict[tuple[int, int], int] = {}

    def extended(self, snapshot: Snapshot, mask: int) -> _Publication:
        """With the knowledge of further lanes."""
        if len(self._snapshots) >= _FOLD:
            return _Publication({(snapshot.warp, mask): snapshot}, self.knowledge())
        return _Publication({**self._snapshots, (snapshot.warp, mask): snapshot}, self._gathered)

    def is_from(self, event: Access, mask: int) -> bool:
        """Whether nobody but the one lane in `mask` published: it knows what it did itself."""
        return (not self._gathered.parts and mask & (mask - 1) == 0
                and all(key == (event.warp, mask) and snapshot.cta == event.cta
                        for key, snapshot in self._snapshots.items()))

    def knowledge(self) -> Knowledge:
        """The join of everything that was published."""
        if self._snapshots:
            gathering = Gathering()
            gathering.join(self._gathered)
            for (_, mask), snapshot in self._snapshots.items():
                gathering.add(snapshot, mask)
            self._gathered = gathering.knowledge()
            self._snapshots = {}
        return self._gathered


_Word: TypeAlias = dict[_How, _Publication]
_NOTHING = _Publication({}, Knowledge())


class Publications:
    """The publications of all words, and the objects of fence.sc."""

    def __init__(self, world: World, *, restricted: bool = True) -> None:
        self._world = world
        #: Whether fences for shared memory alone (.sync_restrict) count.
        self._restricted = restricted
        #: (owner CTA or -1 for global) -> word address -> publications
        self._words: dict[int, dict[int, _Word]] = {}
        self._fences: dict[tuple[Level, int], Knowledge] = {}

    def on(self, event: Access, owner: int, addresses: NDArray[np.int64]) -> None:
        """An access by the lanes of the event's mask; `addresses` [n] in their order."""
        words = self._words.get(owner)
        if event.semantics == "weak":
            if words and event.kind == "write":
                for address in addresses.tolist():
                    words.pop(address, None)
            return
        by_word = _by_word(event.mask, addresses)
        family = self._world.family(event.site)
        if words and event.kind != "write" and family != "red":
            self._receive(event, by_word, words)
        if event.kind != "read":
            self._publish(event, by_word, self._words.setdefault(owner, {}))

    def _publish(self, event: Access, by_word: dict[int, int], words: dict[int, _Word]) -> None:
        clock = self._world.clock(event.cta, event.warp)
        how = _How(event.cta, _level(event), event.semantics in _RELEASING)
        if not how.releasing and len(by_word) > _FLAGS and not _has_fenced(clock):
            return
        snapshot = clock.snapshot()
        fresh: dict[tuple[int, int], _Word] = {}
        for address, mask in by_word.items():
            old: _Word = words.get(address, _EMPTY) if event.kind == "atomic" else _EMPTY
            known = fresh.get((id(old), mask))
            if known is None:
                publication = old.get(how, _NOTHING).extended(snapshot, mask)
                known = fresh[id(old), mask] = {**old, how: publication}
            words[address] = known
        clock.bump()

    def _receive(self, event: Access, by_word: dict[int, int], words: dict[int, _Word]) -> None:
        """Take in what the words publish, each publication once."""
        found: dict[int, tuple[_How, _Publication, int]] = {}
        for address, mask in by_word.items():
            for how, publication in words.get(address, _EMPTY).items():
                earlier = found.get(id(publication))
                found[id(publication)] = (how, publication,
                                          mask if earlier is None else mask | earlier[2])
        clock = self._world.clock(event.cta, event.warp)
        who = (event.cta, event.warp)
        for how, publication, mask in found.values():
            taken = publication.taken.get(who, 0)
            if mask & ~taken == 0 or publication.is_from(event, mask):
                continue
            publication.taken[who] = taken | mask
            clock.receive(mask, publication.knowledge(), routes(
                releasing=how.releasing, acquiring=event.semantics in _ACQUIRING,
                write_level=how.level, read_level=_level(event),
                distance=self._world.distance(how.cta, event.cta)))

    def fence(self, event: Fence) -> None:
        """fence and membar of the generic proxy."""
        if event.restrict and not self._restricted:
            return
        clock = self._world.clock(event.cta, event.warp)
        level = level_of(event.scope)
        sc = event.semantics == "sc"
        both = event.semantics in ("sc", "acq_rel", "weak")
        clock.fence(event.mask, level, accept=both or event.semantics == "acquire",
                    publish=both or event.semantics == "release")
        if sc:
            self._sequence(event, clock, level)

    def _sequence(self, event: Fence, clock: WarpClock, level: Level) -> None:
        """Sequentially consistent fences whose scopes include each other follow one another."""
        mine = clock.released(event.mask)
        objects = [(Level.CTA, event.cta)] if level == Level.CTA else [
            (Level.CTA, event.cta), (Level.GPU, -1)]
        for key in objects:
            earlier = self._fences.get(key)
            if earlier is not None:
                clock.receive(event.mask, earlier, _SEQUENCE)
            self._fences[key] = mine if earlier is None else earlier.joined(mine)
        clock.bump()


_EMPTY: _Word = {}
_SEQUENCE = tuple((row, row) for row in range(FENCED_HARD))


def _by_word(mask: int, addresses: NDArray[np.int64]) -> dict[int, int]:
    """Word address -> mask of the lanes that touch it.

    With more words than a few flags all lanes stand for all words: they run in lockstep, so that
    only warnings about lockstep can be lost, and words that go together can share their state.
    """
    masks: dict[int, int] = {}
    for lane, address in zip(lanes_of(mask).tolist(), addresses.tolist(), strict=True):
        masks[address] = masks.get(address, 0) | 1 << lane
    return masks if len(masks) <= _FLAGS else dict.fromkeys(masks, mask)


def _has_fenced(clock: WarpClock) -> bool:
    return any(
        part[FENCED_HARD:OFFERED_HARD].any()
        for _, knowledge in clock.parts for part in knowledge.parts.values()
    ) or bool(clock.own[FENCED_HARD:OFFERED_HARD].any())


def _level(event: Access) -> Level:
    return Level.GPU if event.semantics == "volatile" else level_of(event.scope)
