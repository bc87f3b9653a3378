"""The clocks of one warp: what its lanes know, kept once while they agree.

Two tricks keep a converged warp at one Knowledge object instead of 32:

* *Own entries.* Lane l always knows its own epochs, and its own finished copies, without any
  synchronisation. These diagonal entries live in :attr:`WarpClock.own` ``[relation, actor, lane]``
  (actor 0 the warp, 1 its cp.async agent), outside the shared object, and are written into it only
  when a lane publishes what it knows.
* *Parts.* :attr:`WarpClock.parts` is a partition of the lanes by what they know. It has one part
  until lanes acquire separately (an elected lane waits on a flag) and again after the next
  synchronisation of the whole warp.

Example: all 32 lanes store in epoch 4, then ``bar.warp.sync``. Before it, lane 0 knows lane 1 up to
the previous synchronisation only, so reading lane 1's word is not ordered in HARD; it is ordered in
PRACTISED because :attr:`WarpClock.together` says that the two lanes run in lockstep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.clocks import (
    EXECUTION,
    FENCED_HARD,
    FENCED_PRACTISED,
    HARD,
    LANES,
    OFFERED_HARD,
    OFFERED_SCOPELESS,
    ORDER,
    PRACTISED,
    RELATIONS,
    SOFT,
    TIME,
    Clocks,
    Knowledge,
    Level,
    Route,
    accepted,
    flags_of,
    lanes_of,
    mask_of,
    only,
)
from mmalab.sanitizer.gathering import LOCKSTEP, Gathering, Snapshot, near_lanes

__all__ = ["COPIES", "WARP", "WarpClock"]

#: Actors that a warp has of its own: itself, and its cp.async agent.
WARP, COPIES = 0, 1
_SOFT_ORDER = (PRACTISED, EXECUTION, TIME)
_SOFT_ROUTE: Route = tuple((row, row) for row in SOFT)
_BIT = np.uint32(1) << np.arange(LANES, dtype=np.uint32)


class WarpClock:
    """The clocks of one warp. `exists` are the lanes that the launch gave it."""

    def __init__(self, cta: int, warp: int, warps: int, exists: int, start: Knowledge) -> None:
        self.cta = cta
        self.warp = warp
        self.warps = warps
        self.now = 1
        self.live = exists
        self.exists = exists
        self.own = np.zeros((RELATIONS, 2, LANES), np.uint32)
        self.own[: len(ORDER), WARP] = 1
        #: [32] per lane the lanes that run in lockstep with it.
        self.together = np.where(_BIT & np.uint32(exists), np.uint32(exists), np.uint32(0))
        #: Whether the live lanes are in more than one such group.
        self.split = False
        self.parts: list[tuple[int, Knowledge]] = [(0xFFFFFFFF, start)]

    @property
    def _own_rows(self) -> slice:
        """The rows of the warp and of its cp.async agent."""
        return slice(self.warp, 2 * self.warps, self.warps)

    # -- reading ---------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The clocks as they are now, at the cost of a small copy."""
        return Snapshot(self.cta, self.warp, self.warps, self.exists, tuple(self.parts),
                        self.own.copy(), self.together.copy())

    def released(self, mask: int) -> Knowledge:
        """The join of what the lanes in `mask` know, as a release publishes it."""
        gathering = Gathering()
        gathering.add(self, mask)
        return gathering.knowledge()

    def covers(self, relation: int, by: NDArray[np.int64], cta: NDArray[np.int64] | None,
               row: NDArray[np.int64], lane: NDArray[Any], clock: NDArray[np.int64],
               ) -> NDArray[np.bool_]:
        """Which epochs (cta, row, lane, clock) [n] are ordered before lane ``by[n]`` now.

        `cta` None: all of them are of this warp's CTA.
        """
        done = self._look(relation, by, cta, row, lane) >= clock
        if done.all():
            return done
        mine = (row % self.warps == self.warp) & (row < 2 * self.warps) & ~done
        if cta is not None:
            mine &= cta == self.cta
        if mine.any():
            near = self._near(relation, by, lane) & mine
            own = self.own[relation].reshape(-1).take(
                np.minimum(row // self.warps, COPIES) * LANES + lane)
            done |= near & (own >= clock)
        return done

    def _look(self, relation: int, by: NDArray[np.int64], cta: NDArray[np.int64] | None,
              row: NDArray[np.int64], lane: NDArray[Any]) -> NDArray[np.uint32]:
        if len(self.parts) == 1:
            return self.parts[0][1].look(relation, self.cta if cta is None else cta, row, lane)
        known = np.zeros(len(by), np.uint32)
        for mask, knowledge in self.parts:
            here = (mask >> by) & 1 == 1
            if here.any():
                known[here] = knowledge.look(relation, self.cta if cta is None else cta[here],
                                             row[here], lane[here])
        return known

    def _near(self, relation: int, by: NDArray[np.int64], lane: NDArray[Any],
              ) -> NDArray[np.bool_]:
        if relation not in SOFT:
            return np.asarray(by == lane, np.bool_)
        return np.asarray((self.together[by] >> lane.astype(np.uint32)) & 1 == 1, np.bool_)

    def unknown(self, relation: int, by: NDArray[np.int64], cta: int, row: int, clock: int,
                ) -> NDArray[np.uint32]:
        """Per observing lane ``by[n]``: the mask of the actor's lanes not known up to `clock`."""
        result = np.zeros(len(by), np.uint32)
        for mask, knowledge in self.parts:
            missing = mask_of(knowledge.row(relation, cta, row) < clock)
            if missing:
                result[(mask >> by) & 1 == 1] = missing
        mine = cta == self.cta and row % self.warps == self.warp and row < 2 * self.warps
        if mine and result.any():
            own = mask_of(self.own[relation, row // self.warps] >= clock)
            near = self.together[by] if relation in SOFT else _BIT[by]
            result &= ~(near & np.uint32(own))
        return result

    # -- changing --------------------------------------------------------------------------------

    def bump(self) -> None:
        """Start a new epoch: what follows is not covered by what was published before."""
        self.now += 1
        self.own[: len(ORDER), WARP] = self.now

    def assign(self, mask: int, knowledge: Knowledge) -> None:
        """Give the lanes in `mask` this knowledge, which includes what they knew."""
        parts = [(lanes & ~mask, known) for lanes, known in self.parts if lanes & ~mask]
        # Lanes that never existed or have ended follow along, so that the warp becomes one part.
        idle = ~self.live & 0xFFFFFFFF
        if all(lanes & ~idle == 0 for lanes, _ in parts):
            parts, mask = [], 0xFFFFFFFF
        for at, (lanes, known) in enumerate(parts):
            if known is knowledge:
                parts[at] = (lanes | mask, known)
                break
        else:
            parts.append((mask, knowledge))
        self.parts = parts

    def receive(self, mask: int, source: Knowledge, route: Route) -> None:
        """The lanes in `mask` take `route`; the lanes in lockstep with them take its soft part."""
        near = self.near(mask) & ~mask
        soft = only(route, SOFT)
        for lanes, knowledge in tuple(self.parts):
            for some, rows in ((lanes & mask, route), (lanes & near, soft)):
                known = knowledge.received(source, rows) if some and rows else knowledge
                if known is not knowledge:
                    self.assign(some, known)

    def learn(self, mask: int, agent: tuple[int, int, int], clock: int) -> None:
        """The lanes in `mask` know that an agent (CTA, row, lane) is done up to `clock`."""
        near = self.near(mask) & ~mask
        for lanes, knowledge in tuple(self.parts):
            if lanes & mask:
                self.assign(lanes & mask, knowledge.learned(*agent, clock, ORDER))
            if lanes & near:
                self.assign(lanes & near, knowledge.learned(*agent, clock, _SOFT_ORDER))

    def near(self, mask: int) -> int:
        """All lanes that run in lockstep with a lane of `mask`, and `mask` itself."""
        return near_lanes(self.together, mask)

    def sync(self, mask: int, knowledge: Knowledge | None = None) -> None:
        """Memory order among the lanes in `mask`: they leave with one knowledge."""
        joined = self.released(mask) if knowledge is None else knowledge
        rest = self.near(mask) & ~mask
        self.assign(mask, joined)
        if rest:
            self._soften(rest, joined)
        self.bump()

    def _soften(self, mask: int, source: Knowledge) -> None:
        for lanes, knowledge in tuple(self.parts):
            if lanes & mask:
                self.assign(lanes & mask, knowledge.received(source, _SOFT_ROUTE))

    def diverge(self, groups: tuple[int, ...]) -> None:
        """A lockstep group splits: each side keeps what the group had done so far."""
        union = 0
        for group in groups:
            union |= group
        self._remember(union)
        for group in groups:
            self.together[lanes_of(group)] = group
        self._note_split()
        self.bump()

    def _remember(self, mask: int) -> None:
        """Write down in lockstep order what the lanes of `mask` have done until now."""
        flags = flags_of(mask)
        for lanes, knowledge in tuple(self.parts):
            if lanes & mask:
                fresh = self._fresh(knowledge)
                own = fresh[:, self._own_rows]
                for relation in LOCKSTEP:
                    np.maximum(own[relation], self.own[relation], out=own[relation], where=flags)
                self.assign(lanes & mask, Knowledge({**knowledge.parts, self.cta: fresh}))

    def _fresh(self, knowledge: Knowledge) -> Clocks:
        """A copy of the own CTA's clocks, to be changed."""
        part = knowledge.parts.get(self.cta)
        if part is None:
            return np.zeros((RELATIONS, 2 * self.warps, LANES), np.uint32)
        return part.copy()

    def converge(self, mask: int) -> None:
        """From here on exactly these lanes run in lockstep; lanes left behind go their own way."""
        for group in sorted({int(group) for group in self.together[lanes_of(mask)]}):
            if group & ~mask:
                self.diverge((group & mask, group & ~mask))
        self.meet(mask, stay=True)

    def executed(self, mask: int) -> None:
        """These lanes execute one instruction together: the groups that they belong to are one."""
        if self.split:
            self.meet(self.near(mask), stay=True)

    def meet(self, mask: int, *, stay: bool) -> None:
        """Lanes come to one instruction; with `stay` they go on in lockstep."""
        lanes = lanes_of(mask)
        if (self.together[lanes] & np.uint32(mask) == mask).all():
            return
        if len(self.parts) == 1:
            self._remember(mask)
        else:
            self._soften(mask, self.released(mask))
        if stay:
            self.together[lanes] = mask
            self._note_split()
        self.bump()

    def fence(self, mask: int, level: Level, *, accept: bool, publish: bool) -> None:
        """fence.acq_rel, .sc, .acquire (accept only) or .release (publish only)."""
        for lanes, knowledge in tuple(self.parts):
            here = lanes & mask
            if here and accept and _offered(knowledge):
                self.assign(here, knowledge.received(knowledge, accepted(level)))
        if publish:
            self._publish(mask, level)
        self.bump()

    def _publish(self, mask: int, level: Level) -> None:
        """Copy HARD and PRACTISED to the FENCED rows up to `level`."""
        hard = slice(FENCED_HARD, FENCED_HARD + level + 1)
        soft = slice(FENCED_PRACTISED, FENCED_PRACTISED + level + 1)
        flags = flags_of(mask)
        for rows, order in ((hard, HARD), (soft, PRACTISED)):
            np.maximum(self.own[rows], self.own[order], out=self.own[rows], where=flags)
        for lanes, knowledge in tuple(self.parts):
            for group in sorted(set(self.together[lanes_of(lanes & mask)].tolist())):
                here = lanes & mask & group
                fresh = {cta: part.copy() for cta, part in knowledge.parts.items()}
                fresh[self.cta] = self._fresh(knowledge)
                for part in fresh.values():
                    np.maximum(part[hard], part[HARD], out=part[hard])
                    np.maximum(part[soft], part[PRACTISED], out=part[soft])
                own = fresh[self.cta][soft, self._own_rows]
                np.maximum(own, self.own[PRACTISED], out=own, where=flags_of(group))
                self.assign(here, Knowledge(fresh))

    def carry(self, mask: int, rows: tuple[int, ...]) -> None:
        """A fence of CARRIED rows: what the lanes in `mask` know in HARD goes into `rows`."""
        for row in rows:
            np.maximum(self.own[row], self.own[HARD], out=self.own[row], where=flags_of(mask))
        for lanes, knowledge in tuple(self.parts):
            if lanes & mask:
                self.assign(lanes & mask, knowledge.received(
                    knowledge, tuple((row, HARD) for row in rows)))
        rest = self.near(mask)
        if len(self.parts) > 1:
            joined = self.released(mask)
            for lanes, knowledge in tuple(self.parts):
                if lanes & rest:
                    self.assign(lanes & rest, knowledge.received(
                        joined, tuple((row, row) for row in rows)))
        self.bump()

    def leave(self, mask: int) -> None:
        """The lanes in `mask` have ended."""
        self.live &= ~mask
        keep = np.uint32(~mask & 0xFFFFFFFF)
        self.together &= keep
        self.together[lanes_of(mask)] = 0
        self._note_split()

    def retire(self) -> None:
        """Nobody of the CTA runs any more: keep only which copies were waited for."""
        self.parts = []
        self.own = self.own[:1].copy()

    def _note_split(self) -> None:
        self.split = bool((self.together[lanes_of(self.live)] != self.live).any())


def _offered(knowledge: Knowledge) -> bool:
    return any(part[OFFERED_HARD : OFFERED_SCOPELESS + 1].any()
               for part in knowledge.parts.values())
