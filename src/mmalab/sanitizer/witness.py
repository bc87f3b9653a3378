"""From two unordered accesses to a finding: which edge is missing, how bad it is, what repairs it.

The strongest relation that *does* hold between the two names the fault. In this order:

==========================================  ======================================================
what holds                                  what is reported
==========================================  ======================================================
a side is asynchronous                      :mod:`mmalab.sanitizer.async_words`
the copy is known to its issuer only        ``missing-barrier``: the others were not told
nothing waits for the copy                  ``missing-cp-async-wait``, ``async-overlap``
PRACTISED                                   ``warp-sync-missing``, a warning: lockstep only
OFFERED                                     ``missing-acquire``: published, read without acquire
SCOPELESS, or two atomics too far apart     ``scope-too-narrow``
EXECUTION                                   ``missing-release``
nothing, but an mbarrier phase has it       ``missing-mbarrier-wait``
nothing                                     ``missing-barrier`` (shared), ``data-race`` (global)
==========================================  ======================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mmalab.sanitizer.accesses import Earlier, Pair, Verdict, doer, kind_of
from mmalab.sanitizer.agents import AgentKind, Proxy
from mmalab.sanitizer.async_words import AsyncWords
from mmalab.sanitizer.clocks import (
    EXECUTION,
    HARD,
    INITIALISED,
    OFFERED_HARD,
    OFFERED_SCOPELESS,
    PRACTISED,
    SCOPELESS,
)
from mmalab.sanitizer.copies import CopyQueues
from mmalab.sanitizer.guesses import guesses
from mmalab.sanitizer.lanes import COPIES
from mmalab.sanitizer.touch import Sweep
from mmalab.sanitizer.world import World

__all__ = ["Judge"]

#: Addresses of one buffer share what is above.
_BUFFER = 40


class Judge:
    """Names unordered pairs and reports them."""

    def __init__(self, world: World, queues: CopyQueues, words: AsyncWords) -> None:
        self._world = world
        self._queues = queues
        self._words = words
        self._guesses = guesses(world.program)
        #: Which (mbarrier address, phase) has received an epoch (CTA, row, lane, clock), if any.
        self.published: Callable[[int, int, int, int], tuple[int, int] | None] = _unpublished

    def report(self, pair: Pair) -> None:
        """Report a pair once per (code, earlier site, later site)."""
        world, touch = self._world, pair.touch
        row = world.ledger.table[:, pair.record]
        earlier = Earlier(*row.tolist())
        verdict = self._verdict(pair, earlier)
        if verdict is None:
            return
        world.reports.raced(touch.clock.cta, touch.site)
        world.reports.raced(earlier.home, earlier.site)
        if earlier.home == touch.clock.cta and world.reports.explained(
                earlier.home, earlier.warp, touch.clock.warp):
            return
        key = (earlier.site,)
        if world.reports.again(verdict.code, touch.site, *key):
            return
        world.report(
            verdict.code, verdict.severity, self._message(pair, earlier, verdict),
            cta=touch.clock.cta, warp=touch.clock.warp, site=touch.site, lane=pair.by, key=key,
            witness=self._witness(pair, earlier, verdict))

    # -- the verdict -----------------------------------------------------------------------------

    def _verdict(self, pair: Pair, earlier: Earlier) -> Verdict | None:
        if self._same_in_shared(pair, earlier):
            self._world.reports.excused = True
            return None
        if self._only_a_guess(pair, earlier):
            return None
        counts = pair.touch.counts or self._is_mbarrier(pair.touch.site)
        initialised = counts and self._world.family(earlier.site) == "mbarrier.init"
        if initialised and self._holds(INITIALISED, pair, earlier):
            return None
        hard = self._holds(HARD, pair, earlier)
        if hard or self._holds(PRACTISED, pair, earlier):
            if pair.touch.proxy == Proxy.TENSORMAP:
                return self._words.tensor_map(pair, earlier)
            if pair.touch.proxy == Proxy.ASYNC and (hard or not earlier.write):
                return self._words.proxy(pair, earlier, hard=hard)
            return self._lockstep(pair, earlier)
        if self._is_mbarrier(earlier.site) or counts:
            return self._mbarrier(pair, earlier, initialised=initialised)
        half = self._half(pair, earlier) if earlier.asynchronous else None
        if half is not None:
            return half
        if earlier.asynchronous and not self._words.strangers(pair, earlier):
            return self._words.agent(pair, earlier)
        if earlier.asynchronous:
            return self._nothing(pair, earlier)
        if earlier.kind == AgentKind.COPY:
            return self._copy(pair, earlier)
        if isinstance(pair.touch, Sweep) and pair.touch.kind == AgentKind.MBARRIER and (
                pair.touch.write and pair.touch.space == "shared"):
            return self._half(pair, earlier) or self._words.refill(pair.touch, earlier)
        return self._plain(pair, earlier)

    def _same_in_shared(self, pair: Pair, earlier: Earlier) -> bool:
        """Warps that hold copies of one value store it redundantly: Triton's replicated layouts.

        The same in global memory is a warning (decision A2).
        """
        return bool(pair.same_value and earlier.write and pair.touch.space == "shared"
                    and pair.touch.kind == AgentKind.THREAD == earlier.kind)

    def _only_a_guess(self, pair: Pair, earlier: Earlier) -> bool:
        """A weak read that only starts a compare-and-swap loop, against the atomics of others.

        The CUDA guide's pattern for atomics of one's own: the swap checks what the read guessed.
        """
        touch = pair.touch
        if touch.strength and not earlier.strength and not earlier.write:
            return earlier.site in self._guesses
        return bool(earlier.strength and earlier.write and not touch.write and not touch.strength
                    and touch.site in self._guesses)

    def _holds(self, relation: int, pair: Pair, earlier: Earlier) -> bool:
        one = np.array([[pair.by, earlier.cta, earlier.row, pair.lane, earlier.clock]], np.int64)
        by, cta, row, lane, clock = one.T
        return bool(pair.touch.clock.covers(relation, by, cta, row, lane, clock)[0])

    def _is_mbarrier(self, site: int) -> bool:
        return "mbarrier" in self._world.family(site)

    def _mbarrier(self, pair: Pair, earlier: Earlier, *, initialised: bool) -> Verdict:
        world = self._world
        if initialised:
            line = world.line(earlier.site)
            apart = earlier.cta != pair.touch.clock.cta
            return Verdict(
                "mbarrier-init-order", "error", "nothing",
                "no order between the initialisation and this use of the mbarrier",
                f"fence.mbarrier_init.release.cluster after line {line}, then barrier.cluster"
                if apart else f"bar.sync after line {line}")
        return Verdict(
            "mbarrier-lifetime", "error", "nothing",
            "no order between the use of the mbarrier and another use of its bytes",
            f"wait, then bar.sync before line {world.line(pair.touch.site)}")

    def _lockstep(self, pair: Pair, earlier: Earlier) -> Verdict:
        world = self._world
        lines = f"lines {world.line(earlier.site)} and {world.line(pair.touch.site)}"
        if earlier.warp == pair.touch.clock.warp and earlier.cta == pair.touch.clock.cta:
            repair = f"bar.warp.sync 0xffffffff between {lines}"
        else:
            repair = (f"bar.warp.sync in warp {earlier.warp} after line "
                      f"{world.line(earlier.site)}, before the elected lane publishes")
        return Verdict(
            "warp-sync-missing", "warning", "lockstep of converged lanes (practised)",
            "memory order between the lanes of the warp", repair)

    def _copy(self, pair: Pair, earlier: Earlier) -> Verdict:
        issuer = self._world.clock(earlier.cta, earlier.warp)
        queue = self._queues.of(earlier.cta, earlier.warp)
        line = self._world.line
        if issuer.own[HARD, COPIES, pair.lane] >= earlier.clock:
            code = "missing-barrier" if pair.touch.space == "shared" else "data-race"
            return Verdict(
                code, "error", "the issuing thread has waited for its copy",
                "the other thread was not told",
                queue.barrier_words(pair.lane, earlier.clock, line))
        words = queue.wait_words(pair.lane, earlier.clock, line)
        if pair.touch.kind == AgentKind.COPY and pair.touch.write and earlier.write:
            return Verdict(
                "async-overlap", "error", "both copies are issued, neither is waited for",
                "two copies in flight write the same bytes: which ends last is not defined", words)
        return Verdict(
            "missing-cp-async-wait", "error", "the copy is issued",
            "nothing on the way waits for the copy", words)

    def _plain(self, pair: Pair, earlier: Earlier) -> Verdict:
        touch, world = pair.touch, self._world
        first, last = world.line(earlier.site), world.line(touch.site)
        if earlier.strength and touch.strength:
            return Verdict(
                "scope-too-narrow", "error", "both accesses are strong",
                "their scopes do not include each other",
                f"scope .{_wide(world, pair, earlier)} in lines {first} and {last}")
        return self._half(pair, earlier) or self._nothing(pair, earlier)

    def _half(self, pair: Pair, earlier: Earlier) -> Verdict | None:
        """What a synchronisation lacks that is there: one end is relaxed, or a scope short."""
        world = self._world
        first, last = world.line(earlier.site), world.line(pair.touch.site)
        if any(self._holds(row, pair, earlier) for row in range(OFFERED_HARD, OFFERED_SCOPELESS)):
            return Verdict(
                "missing-acquire", "error", "the writer released, the reader read relaxed",
                "no acquire on the reading side",
                f"drop .relaxed from the read of the flag, or fence.acq_rel before line {last}")
        if self._holds(SCOPELESS, pair, earlier):
            return Verdict(
                "scope-too-narrow", "error", "release and acquire, one of too narrow a scope",
                "a scope that includes both threads",
                f"scope .{_wide(world, pair, earlier)} on release and acquire")
        if self._holds(OFFERED_SCOPELESS, pair, earlier):
            return Verdict(
                "missing-acquire", "error", "the writer released, the reader read relaxed",
                "no acquire on the reading side, and a scope that is too narrow",
                f"acquire, or fence.acq_rel before line {last}, at scope "
                f".{_wide(world, pair, earlier)}")
        if self._holds(EXECUTION, pair, earlier):
            return Verdict(
                "missing-release", "error", "order in time along relaxed synchronisation",
                "nothing publishes the earlier access",
                f"release, or fence.acq_rel after line {first} and before the flag is set")
        return None

    def _nothing(self, pair: Pair, earlier: Earlier) -> Verdict:
        touch, world = pair.touch, self._world
        first, last = world.line(earlier.site), world.line(touch.site)
        if touch.space == "global":
            benign = bool(touch.write and earlier.write and pair.same_value
                      and not touch.strength and not earlier.strength)
            same_cta = earlier.cta == touch.clock.cta
            missing = ("both write the same value, without any order" if benign
                       else "no order between the two accesses")
            if self._repeated(pair, earlier):
                missing += ": both CTAs execute this store"
            return Verdict(
                "data-race", "warning" if benign else "error", "nothing", missing,
                self._apart(pair, earlier) if self._repeated(pair, earlier)
                else f"bar.sync {_between(first, last)}" if same_cta
                else "a flag: release at .gpu scope by one thread, acquire by the other")
        same_warp = (earlier.warp, earlier.home) == (touch.clock.warp, touch.clock.cta)
        published = self.published(earlier.cta, earlier.row, pair.lane, earlier.clock)
        if published is not None and not same_warp:
            address, phase = published
            return Verdict(
                "missing-mbarrier-wait", "error",
                f"the earlier access is published in phase {phase} of the mbarrier at shared "
                f"{address:#x}", "the other thread does not wait for that phase",
                f"wait on the mbarrier at shared {address:#x} for parity {phase & 1} before line "
                f"{last}")
        return Verdict(
            "missing-barrier", "error",
            "nothing: the lanes are on different paths" if same_warp else "nothing",
            "no order between the two accesses",
            f"bar.warp.sync on both paths, {_between(first, last)}" if same_warp
            else f"bar.sync {_between(first, last)}" if earlier.home == touch.clock.cta
            else f"barrier.cluster.arrive and wait {_between(first, last)}")

    def _repeated(self, pair: Pair, earlier: Earlier) -> bool:
        """Whether two CTAs store the same bytes with the same instruction."""
        touch = pair.touch
        return bool(touch.space == "global" and touch.write and earlier.write
                    and earlier.site == touch.site and earlier.home != touch.clock.cta
                    and touch.kind == earlier.kind
                    and touch.kind in (AgentKind.THREAD, AgentKind.BULK_WRITE))

    def _apart(self, pair: Pair, earlier: Earlier) -> str:
        world = self._world
        places = zip("xyz", world.place(earlier.home), world.place(pair.touch.clock.cta),
                     strict=True)
        axes = [f"%ctaid.{axis}" for axis, one, other in places if one != other]
        return (f"an address that depends on {' and '.join(axes)} (the grid is "
                f"{' x '.join(map(str, world.grid))}), a smaller grid, or one CTA alone to store; "
                "if they take turns, a flag: release at .gpu scope by one, acquire by the other")

    # -- words -----------------------------------------------------------------------------------

    def _message(self, pair: Pair, earlier: Earlier, verdict: Verdict) -> str:
        touch, world = pair.touch, self._world
        return (f"{world.named(touch.site)} {_verb(touch.write)} {touch.space} bytes "
                f"[{pair.address:#x}, {pair.address + pair.size:#x}) that "
                f"{self._actor(earlier)} {_past(bool(earlier.write))} with "
                f"{world.named(earlier.site)}: {verdict.missing}. Repair: {verdict.repair}")

    def _actor(self, earlier: Earlier) -> str:
        who = f"warp {earlier.warp} of CTA {self._world.place(earlier.home)}"
        return who if earlier.kind == AgentKind.THREAD else f"a {doer(earlier.kind)} of {who}"

    def _witness(self, pair: Pair, earlier: Earlier, verdict: Verdict) -> dict[str, Any]:
        touch, world = pair.touch, self._world
        span = [pair.address, pair.address + pair.size]
        return {
            "earlier": {
                "actor": doer(earlier.kind), "cta": world.place(earlier.home),
                "warp": earlier.warp,
                "lanes": [earlier.issuer if earlier.asynchronous else pair.lane],
                "line": world.line(earlier.site), "text": world.text(earlier.site),
                "class": kind_of(write=bool(earlier.write), strength=earlier.strength,
                                 proxy=earlier.proxy), "space": touch.space,
                "bytes": span,
            },
            "later": {
                "actor": doer(touch.kind),
                "cta": world.place(touch.clock.cta), "warp": touch.clock.warp,
                "lanes": list(pair.lanes), "line": world.line(touch.site),
                "text": world.text(touch.site),
                "class": kind_of(write=touch.write, strength=touch.strength, proxy=touch.proxy),
                "space": touch.space, "bytes": span,
            },
            "holds": verdict.holds, "missing": verdict.missing, "repair": verdict.repair,
            **({"family": f"stores that CTAs repeat, {pair.address >> _BUFFER:#x}"}
               if verdict.code == "data-race" and self._repeated(pair, earlier) else {}),
        }


def _unpublished(_cta: int, _row: int, _lane: int, _clock: int) -> None:
    return None


def _between(first: int, last: int) -> str:
    if first == last:
        return f"between two executions of line {first}, or one thread alone to execute it"
    return f"between lines {first} and {last}"


def _verb(write: bool) -> str:
    return "writes" if write else "reads"


def _past(write: bool) -> str:
    return "wrote" if write else "read"


def _wide(world: World, pair: Pair, earlier: Earlier) -> str:
    return world.distance(earlier.cta, pair.touch.clock.cta).name.lower()
