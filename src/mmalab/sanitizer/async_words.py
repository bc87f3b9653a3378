"""Verdicts where one side is asynchronous: which wait, fence or barrier is missing.

==========================================  ======================================================
the earlier access, and what holds          what is reported
==========================================  ======================================================
a copy on an mbarrier                       ``missing-mbarrier-wait``; two such writes:
                                            ``async-overlap``
a bulk group, a wgmma group                 ``missing-bulk-wait``, ``missing-wgmma-wait``; if the
                                            issuer has waited: ``missing-barrier``
a bulk group of a thread that is not        ``data-race``
ordered before at all, in global memory
a tensor map in use by a copy               ``tensormap-in-use``
a thread, later is a copy on an mbarrier    ``missing-mbarrier-wait`` for the first phase,
                                            else ``missing-barrier``
generic, ordered, later is async            ``missing-proxy-fence``
a write to a tensor map, ordered            ``missing-tensormap-fence``
a generic read, lockstep only               ``missing-proxy-fence``, a warning (decision P2)
==========================================  ======================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmalab.sanitizer.accesses import Earlier, Pair, Verdict
from mmalab.sanitizer.agents import AgentKind, Proxy
from mmalab.sanitizer.clocks import EXECUTION, HARD
from mmalab.sanitizer.groups import Groups
from mmalab.sanitizer.touch import Sweep
from mmalab.sanitizer.world import World

__all__ = ["AsyncWords"]

_CODES = {
    AgentKind.MBARRIER: "missing-mbarrier-wait", AgentKind.BULK_READ: "missing-bulk-wait",
    AgentKind.BULK_WRITE: "missing-bulk-wait", AgentKind.WGMMA: "missing-wgmma-wait",
}
_BULK = (AgentKind.BULK_READ, AgentKind.BULK_WRITE)
_WHAT = {
    AgentKind.MBARRIER: "copy", AgentKind.BULK_READ: "bulk store",
    AgentKind.BULK_WRITE: "bulk store", AgentKind.WGMMA: "product",
}


class AsyncWords:
    """Names unordered pairs with an asynchronous side."""

    def __init__(self, world: World, groups: Groups) -> None:
        self._world = world
        self._groups = groups
        #: The (address, phase) that an epoch of an mbarrier's agent (CTA, row, lane) stands for.
        self.delivered: Callable[[tuple[int, int, int], int], tuple[int, int] | None] = _unknown

    def proxy(self, pair: Pair, earlier: Earlier, *, hard: bool) -> Verdict:
        """A generic access that the async proxy of a later operation may not know."""
        world, touch = self._world, pair.touch
        space = ".shared::cta" if touch.space == "shared" else ".global"
        first = world.line(earlier.site)
        if hard:
            holds, severity = "order of the accesses, through the generic proxy", "error"
        else:
            holds, severity = "lockstep of converged lanes (practised)", "warning"
        verb = "write" if earlier.write else "read"
        return Verdict(
            "missing-proxy-fence", "error" if severity == "error" else "warning", holds,
            f"no fence.proxy.async between the generic {verb} and the asynchronous operation",
            f"fence.proxy.async{space} after line {first}, before the arrive or barrier that "
            "publishes it" + ("" if hard else "; or bar.warp.sync before the elected arrive"))

    def tensor_map(self, pair: Pair, earlier: Earlier) -> Verdict:
        """A tensor map that was written before, without the two fences of its proxy."""
        first, last = (self._world.line(site) for site in (earlier.site, pair.touch.site))
        return Verdict(
            "missing-tensormap-fence", "error", "order of the accesses, through the generic proxy",
            "the tensor map was changed, and its change is not released and acquired for the "
            "tensormap proxy",
            f"fence.proxy.tensormap::generic.release.gpu after line {first}, and "
            f"fence.proxy.tensormap::generic.acquire.gpu [map], 128 before line {last}")

    def refill(self, sweep: Sweep, earlier: Earlier) -> Verdict:
        """A copy that completes on an mbarrier writes what a thread may still read or write."""
        line = self._world.line
        first, last = line(earlier.site), line(sweep.site)
        found = self.delivered(sweep.agent.place, sweep.epoch)
        if found is not None and found[1] == 0 and not earlier.write:
            return Verdict(
                "missing-mbarrier-wait", "error", "nothing",
                "the thread reads without waiting for the copy that brings the bytes",
                f"wait on the mbarrier at shared {found[0]:#x} for parity 0 before line {first}")
        verb = "writer" if earlier.write else "reader"
        return Verdict(
            "missing-barrier", "error", "nothing", "no order between the two accesses",
            f"the {verb} arrives on a second mbarrier after line {first}, the issuer waits for it "
            f"before line {last}; or a barrier of both")

    def agent(self, pair: Pair, earlier: Earlier) -> Verdict:
        """The earlier access is asynchronous: what would have waited for it."""
        touch, world = pair.touch, self._world
        kind = AgentKind(earlier.kind)
        if earlier.proxy == Proxy.TENSORMAP:
            return Verdict(
                "tensormap-in-use", "error", "the copy is issued",
                "nothing waits for the copy that still reads the tensor map",
                f"{self._wait(pair, earlier)} before line {world.line(touch.site)}")
        if kind == AgentKind.MBARRIER and touch.kind == kind and touch.write and earlier.write:
            return Verdict(
                "async-overlap", "error", "both copies are issued, neither is waited for",
                "two copies in flight write the same bytes: which ends last is not defined",
                f"{self._wait(pair, earlier)} before line {world.line(touch.site)}")
        what = _WHAT[kind]
        if kind != AgentKind.MBARRIER and self._issuer_knows(pair, earlier):
            code = "missing-barrier" if touch.space == "shared" else "data-race"
            return Verdict(code, "error", f"the issuing thread has waited for its {what}",
                           "the other thread was not told",
                           "bar.sync, or an mbarrier, after the wait for the group")
        return Verdict(_CODES[kind], "error", f"the {what} is issued",
                       f"nothing on the way waits for the {what}", self._wait(pair, earlier))

    def strangers(self, pair: Pair, earlier: Earlier) -> bool:
        """Whether a bulk group's access to global memory meets one of a thread that nothing has
        ordered behind even its issue: no wait alone would order the two."""
        touch = pair.touch
        if touch.space != "global" or earlier.kind not in _BULK:
            return False
        group = self._groups.of(AgentKind(earlier.kind), earlier.home, earlier.warp,
                                earlier.issuer)
        issued = group.issued(earlier.clock)
        if issued is None:
            return False
        one = np.array([[pair.by, earlier.home, earlier.warp, earlier.issuer, issued]], np.int64)
        return not touch.clock.covers(EXECUTION, *one.T)[0]

    def _wait(self, pair: Pair, earlier: Earlier) -> str:
        kind, world = AgentKind(earlier.kind), self._world
        if kind != AgentKind.MBARRIER:
            group = self._groups.of(kind, earlier.home, earlier.warp, earlier.issuer)
            return group.words(kind, earlier.clock, world.line)
        found = self.delivered((earlier.cta, earlier.row, pair.lane), earlier.clock)
        if found is None:
            return "wait on the mbarrier of the copy"
        address, phase = found
        text = f"wait on the mbarrier at shared {address:#x} for parity {phase & 1}"
        line = world.line(pair.touch.site)
        return text if pair.touch.proxy != Proxy.GENERIC else f"{text} before line {line}"

    def _issuer_knows(self, pair: Pair, earlier: Earlier) -> bool:
        issuer = self._world.clock(earlier.home, earlier.warp)
        one = np.array([[earlier.issuer, earlier.cta, earlier.row, pair.lane, earlier.clock]],
                       np.int64)
        by, cta, row, lane, clock = one.T
        return bool(issuer.parts and issuer.covers(HARD, by, cta, row, lane, clock)[0])


def _unknown(_agent: tuple[int, int, int], _epoch: int) -> None:
    return None
