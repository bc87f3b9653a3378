"""Bulk and tensor copies, st.async and red.async: what they touch, and who learns that they end.

An operation that signals an mbarrier is done by that object's agent and known to whoever acquires
the phase. One without a signal belongs to the bulk groups of the lane that issued it; only that
lane can wait for them, and ``.read`` tells it about the sources only (decision S1)::

    cp.async.bulk.global.shared [out], [tile], 512    tile <- read by (BULK_READ, lane 0, epoch 1)
    commit_group; wait_group.read 0                   lane 0 knows BULK_READ up to 1, not BULK_WRITE
    st.shared [tile]                                  ordered

A thread must not end before its sources are read (decision S2): shared memory ends with the CTA.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mmalab.emulator.events import Async, BulkCommit, BulkWait, Span
from mmalab.sanitizer.agents import Agent, AgentKind, Agents, Proxy
from mmalab.sanitizer.clocks import Level, lanes_of
from mmalab.sanitizer.groups import Groups
from mmalab.sanitizer.lifetime import Lifetimes
from mmalab.sanitizer.mbarrier import Mbarriers
from mmalab.sanitizer.phases import Place
from mmalab.sanitizer.sweep import Sweeps
from mmalab.sanitizer.tile_steps import StepRule
from mmalab.sanitizer.touch import Sweep
from mmalab.sanitizer.world import World

__all__ = ["BulkRule"]

_PROXIES = {"async": Proxy.ASYNC, "generic": Proxy.GENERIC, "tensormap": Proxy.TENSORMAP}


class _Doer(NamedTuple):
    agent: Agent
    epoch: int


class _Source(NamedTuple):
    """The latest operation of a lane that reads shared memory in its bulk groups."""

    epoch: int
    site: int


class BulkRule:
    """Follows bulk operations and bulk groups."""

    def __init__(self, world: World, sweeps: Sweeps, agents: Agents, groups: Groups,
                 mbarriers: Mbarriers, lifetimes: Lifetimes, steps: StepRule) -> None:
        self._world = world
        self._sweeps = sweeps
        self._agents = agents
        self._groups = groups
        self._mbarriers = mbarriers
        self._lifetimes = lifetimes
        self._steps = steps
        self._sources: dict[tuple[int, int], dict[int, _Source]] = {}
        #: The last reduction of each warp: its lanes that follow may repeat it.
        self._reduced: dict[tuple[int, int], Async] = {}

    def issue(self, event: Async) -> None:
        """Check every span with what the issuer knows, and enter it under its agent."""
        self._check_repeated(event)
        if event.signals:
            self._steps.copied(event)
        done_by: dict[int, _Doer] = {}
        first: _Doer | None = None
        for signal in event.signals:
            if signal.owner != event.cta:
                self._remote(event, signal.owner)
            target = self._mbarriers.signalled(event, signal)
            if target is None:
                continue
            doer = _Doer(target.agent, target.epoch)
            first = first or doer
            done_by |= dict.fromkeys(signal.spans, doer)
        if event.signals and first is None:
            # Nothing will tell anybody that it ends; the missing object is the finding.
            return
        for index, span in enumerate(event.spans):
            self._sweep(event, span, done_by.get(index, first) or self._grouped(event, span))

    def _check_repeated(self, event: Async) -> None:
        """Several lanes of one instruction reduce the same words into the same words."""
        if not any(span.kind == "atomic" for span in event.spans) or not any(
                span.kind == "read" and span.space == "shared" for span in event.spans):
            return
        key = event.cta, event.warp
        last, self._reduced[key] = self._reduced.get(key), event
        if last is None or last.site != event.site or last.lane >= event.lane or not all(
                one.owner == other.owner and one.size == other.size
                and np.array_equal(one.starts, other.starts)
                for one, other in zip(last.spans, event.spans, strict=True)):
            return
        world = self._world
        world.report(
            "async-overlap", "warning",
            f"{world.named(event.site)}: lanes {last.lane} and {event.lane} reduce the same bytes "
            "into the same bytes, which then count several times. Repair: one elected lane",
            cta=event.cta, warp=event.warp, site=event.site, lane=event.lane,
            witness={"lanes": [last.lane, event.lane]})

    def _sweep(self, event: Async, span: Span, doer: _Doer) -> None:
        shared = span.space == "shared"
        if shared and span.owner != event.cta:
            self._remote(event, span.owner)
            if span.kind != "read":
                self._lifetimes.lands(span.owner, doer.agent, doer.epoch, event)
        elif shared and span.kind == "read" and doer.agent.cta != event.cta:
            self._lifetimes.leaves(doer.agent, doer.epoch, event)
        if not len(span.starts) or not span.size:  # outside the tensor, or a copy of 0 bytes
            return
        starts = span.starts if (span.starts[1:] >= span.starts[:-1]).all() else (
            np.sort(span.starts))
        if shared and span.kind != "read":
            self._mbarriers.copied_over(span.owner, starts, span.size, Place(
                event.cta, event.warp, event.lane, event.site))
        self._sweeps.sweep(Sweep(
            self._world.clock(event.cta, event.warp), event.lane, doer.agent, doer.epoch,
            event.site, span.space, span.kind != "read", starts, span.size,
            strength=1 + Level.GPU if span.kind == "atomic" else 0, proxy=_PROXIES[span.proxy],
            swizzle=self._sweeps.layout(span.swizzle, span.box)),
            self._world.cta(span.owner).shared if shared else None)

    def _remote(self, event: Async, owner: int) -> None:
        self._lifetimes.started(event.cta, event.warp, 1 << event.lane, event.site, owner)

    def _grouped(self, event: Async, span: Span) -> _Doer:
        """The lane's bulk groups: one agent for sources, one for results."""
        group = self._groups.bulk(event.cta, event.warp, event.lane)
        group.issue(self._world.clock(event.cta, event.warp).now)
        reads = span.kind == "read"
        if reads and span.space == "shared":
            sources = self._sources.setdefault((event.cta, event.warp), {})
            sources[event.lane] = _Source(group.epoch, event.site)
        kind = AgentKind.BULK_READ if reads else AgentKind.BULK_WRITE
        return _Doer(self._agents.bulk(kind, event.cta, event.warp, event.lane), group.epoch)

    # -- groups ----------------------------------------------------------------------------------

    def commit(self, event: BulkCommit) -> None:
        """The open groups of these lanes end here."""
        for lane in lanes_of(event.mask).tolist():
            self._groups.bulk(event.cta, event.warp, lane).commit()

    def wait(self, event: BulkWait) -> None:
        """Each lane learns that its own groups up to the wait's reach are done, or read."""
        clock = self._world.clock(event.cta, event.warp)
        kinds = (AgentKind.BULK_READ,) if event.read else (
            AgentKind.BULK_READ, AgentKind.BULK_WRITE)
        for lane in lanes_of(event.mask).tolist():
            group = self._groups.bulk(event.cta, event.warp, lane)
            reach = group.wait(event.newest, event.site, read=event.read)
            for kind in kinds if reach else ():
                agent = self._agents.bulk(kind, event.cta, event.warp, lane)
                clock.learn(1 << lane, agent.place, reach)

    def exit(self, cta: int, warp: int, mask: int) -> None:
        """Threads end: shared memory that their bulk stores still read may be gone (S2)."""
        world = self._world
        for lane, source in self._sources.get((cta, warp), {}).items():
            group = self._groups.bulk(cta, warp, lane)
            if not mask >> lane & 1 or source.epoch <= group.read:
                continue
            words = group.words(AgentKind.BULK_READ, source.epoch, world.line)
            world.report(
                "missing-bulk-wait", "error",
                f"the thread ends while {world.named(source.site)} may still read its shared "
                f"memory, which ends with the CTA. Repair: {words}",
                cta=cta, warp=warp, site=source.site, lane=lane, key=("exit",),
                witness={"repair": words})
