"""The happens-before model as a listener: every event goes to the rules that it concerns.

    program, launch  ->  HappensBefore  <-  events, in the order in which the machine executed them
                              |
    warps   barriers   publications   cpasync   mbarrier   races   uninitialised
    bulk    wgmma    warpgroups    proxies    cluster_barrier    lifetime    sweep

For an access the order of the steps matters: it is *checked* before it *acquires* (an acquiring
load of a flag races with an ordinary store of the flag even if the flag's value arrived), and it is
entered under the epoch in which it was made before a release starts the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import events as ev
from mmalab.emulator.program import Program
from mmalab.findings import Finding
from mmalab.sanitizer.agents import Agents
from mmalab.sanitizer.async_words import AsyncWords
from mmalab.sanitizer.barriers import CtaBarriers
from mmalab.sanitizer.bulk import BulkRule
from mmalab.sanitizer.clocks import lanes_of, level_of, mask_of_lanes
from mmalab.sanitizer.cluster_barrier import ClusterBarriers
from mmalab.sanitizer.copies import CopyQueues
from mmalab.sanitizer.cpasync import CpAsyncRule
from mmalab.sanitizer.groups import Groups
from mmalab.sanitizer.lifetime import Lifetimes
from mmalab.sanitizer.mbarrier import Mbarriers
from mmalab.sanitizer.proxies import ProxyFences
from mmalab.sanitizer.publications import Publications
from mmalab.sanitizer.races import Races
from mmalab.sanitizer.shadow import Page
from mmalab.sanitizer.sweep import Sweeps
from mmalab.sanitizer.tile_steps import StepRule
from mmalab.sanitizer.touch import Touch
from mmalab.sanitizer.unchecked import unchecked_waits
from mmalab.sanitizer.uninitialised import Uninitialised
from mmalab.sanitizer.warpgroups import WarpgroupRule
from mmalab.sanitizer.warps import WarpRules
from mmalab.sanitizer.wgmma import WgmmaRule
from mmalab.sanitizer.witness import Judge
from mmalab.sanitizer.world import LaunchShape, World

__all__ = ["HappensBefore"]

#: Events of lanes that execute one instruction in one go; that they have met may be news.
_TOGETHER = (ev.Access, ev.CpAsync, ev.CpAsyncCommit, ev.CpAsyncWait, ev.CpAsyncArrive,
             ev.BarrierArrive, ev.Collective, ev.Fence, ev.Mbarrier, ev.BulkCommit, ev.BulkWait,
             ev.Wgmma, ev.WgmmaFence, ev.WgmmaCommit, ev.WgmmaWait, ev.SetRegisters,
             ev.ClusterArrive, ev.ClusterWait)
#: Events of instructions that a whole warpgroup executes.
_GROUPED = (ev.Wgmma, ev.WgmmaFence, ev.WgmmaCommit, ev.WgmmaWait)
#: Words of global memory have no owning CTA.
_GLOBAL = -1
#: No CTA has more shared memory than this.
_SHARED = 1 << 18
#: The part of a cluster's shared address that is an offset in one CTA.
_OFFSET = (1 << 24) - 1


class HappensBefore:
    """Listens to one run; :meth:`findings` says what was not ordered or not allowed.

    Fences for shared memory alone (.sync_restrict) count for all memory, or with `restricted` false
    for none: a run that has some asks one model about shared and another about global memory.
    """

    def __init__(self, program: Program, launch: LaunchShape, *, restricted: bool = True) -> None:
        world = self._world = World(program, launch)
        queues, groups, agents = CopyQueues(), Groups(), Agents(world.warps)
        words = AsyncWords(world, groups)
        judge = Judge(world, queues, words)
        self._uninitialised = Uninitialised(world)
        self._races = Races(world, judge, self._uninitialised)
        sweeps = Sweeps(world, judge)
        self._proxies = ProxyFences(world)
        sweeps.map_known = self._proxies.map_known
        self._publications = Publications(world, restricted=restricted)
        self._copies = CpAsyncRule(world, self._races, queues)
        self._mbarriers = Mbarriers(world, self._races, sweeps, agents, queues)
        judge.published, words.delivered = self._mbarriers.published, self._mbarriers.delivered
        self._lifetimes = Lifetimes(world, self._mbarriers)
        steps = StepRule(world, sweeps)
        self._bulk = BulkRule(world, sweeps, agents, groups, self._mbarriers, self._lifetimes,
                              steps)
        self._wgmma = WgmmaRule(world, sweeps, agents, groups, steps)
        self._cluster = ClusterBarriers(world)
        self._barriers = CtaBarriers(world, queues)
        self._warps = WarpRules(world)
        self._warpgroups = WarpgroupRule(world)
        self._checked = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Access: self._access, ev.CpAsync: self._copy, ev.CpAsyncCommit: self._copies.commit,
            ev.CpAsyncWait: self._copies.wait, ev.CpAsyncArrive: self._mbarriers.copies_arrive,
            ev.BarrierArrive: self._arrive, ev.BarrierRelease: self._barriers.release,
            ev.WarpSync: self._warps.sync, ev.Collective: self._warps.collective,
            ev.Fence: self._fence, ev.Mbarrier: self._mbarrier,
            ev.Async: self._bulk.issue, ev.BulkCommit: self._bulk.commit,
            ev.BulkWait: self._bulk.wait, ev.Wgmma: self._wgmma.issue,
            ev.WgmmaFence: self._wgmma.fence, ev.WgmmaCommit: self._wgmma.commit,
            ev.WgmmaWait: self._wgmma.wait, ev.Registers: self._wgmma.touch,
            ev.SetRegisters: self._warpgroups.set_registers,
            ev.ClusterArrive: self._cluster.arrive, ev.ClusterWait: self._cluster.wait,
            ev.Diverge: self._diverge, ev.Reconverge: self._reconverge, ev.Exit: self._exit,
        }

    def on(self, event: ev.Event) -> None:
        """Take in one event."""
        if isinstance(event, _TOGETHER):
            self._world.clock(event.cta, event.warp).executed(event.mask)
        if isinstance(event, _GROUPED):
            self._warpgroups.step(event)
        self._handlers[type(event)](event)

    def findings(self) -> list[Finding]:
        """Everything found, one finding per pair of places, with counts in the witness."""
        self._uninitialised.finish()
        if not self._checked:
            self._checked = True
            unchecked_waits(self._world)
        return self._world.reports.findings()

    @property
    def excused(self) -> bool:
        """Whether it depends on stored values, or on where copies come from, that something is no
        finding."""
        return self._world.reports.excused

    def lines_in_races(self) -> frozenset[int]:
        """PTX lines of the instructions that took part in a race."""
        return self._world.reports.lines_in_races(self._world.line)

    # -- accesses --------------------------------------------------------------------------------

    def _access(self, event: ev.Access) -> None:
        if not event.mask or event.space in ("const", "param"):
            return
        lanes = lanes_of(event.mask)
        if event.space == "global":
            self._touch(event, event.addresses[lanes].astype(np.int64), None, _GLOBAL)
        elif event.space == "local":
            if event.addresses[lanes].max() < max(self._world.program.local_bytes, 1):
                self._uninitialised.local(event)
        elif event.owners is None:
            self._shared(event, event.cta)
        else:
            owners = event.owners[lanes]
            for owner in np.unique(owners).tolist():
                part = _restricted(event, lanes[owners == owner])
                if owner != event.cta:
                    self._lifetimes.touches(event.cta, event.warp, part.mask, event.site, owner,
                                            write=event.kind != "read")
                self._shared(part, owner)

    def _shared(self, event: ev.Access, owner: int) -> None:
        addresses = event.addresses[lanes_of(event.mask)].astype(np.int64)
        if addresses.max() >= _SHARED:
            # Far outside: the machine reports it, and the shadow need not grow that far.
            return
        if not self._mbarriers.touched(owner, event.warp, event.site, addresses, event.size,
                                       write=event.kind != "read"):
            self._touch(event, addresses, self._world.cta(owner).shared, owner)

    def _touch(self, event: ev.Access, addresses: NDArray[np.int64], page: Page | None,
               owner: int) -> None:
        clock = self._world.clock(event.cta, event.warp)
        lanes = lanes_of(event.mask)
        if event.kind == "write":
            self._warps.collisions(event, addresses)
        self._races.touch(Touch(
            clock=clock, row=event.warp, epoch=clock.now, site=event.site,
            space="global" if page is None else "shared", write=event.kind != "read",
            strength=_strength(event), addresses=addresses, mask=event.mask, size=event.size,
            values=None if event.values is None else event.values[lanes],
            reads=event.kind != "write"), page)
        self._publications.on(event, owner, addresses)

    def _copy(self, event: ev.CpAsync) -> None:
        if event.mask:
            self._copies.issue(event)

    def _fence(self, event: ev.Fence) -> None:
        if event.proxy:
            self._proxies.on(event)
        else:
            self._publications.fence(event)

    def _mbarrier(self, event: ev.Mbarrier) -> None:
        if not event.mask:
            return
        if event.owners is not None:
            lanes = lanes_of(event.mask)
            owners = event.owners[lanes]
            for owner in np.unique(owners[owners != event.cta]).tolist():
                # A relaxed arrival tells nothing by itself; that its phase completed tells of it.
                self._lifetimes.touches(event.cta, event.warp,
                                        mask_of_lanes(lanes[owners == owner]), event.site, owner,
                                        write=event.semantics != "relaxed")
        self._mbarriers.on(event)

    # -- control ---------------------------------------------------------------------------------

    def _arrive(self, event: ev.BarrierArrive) -> None:
        self._warps.barrier(event)
        self._barriers.arrive(event)

    def _diverge(self, event: ev.Diverge) -> None:
        self._world.clock(event.cta, event.warp).diverge(event.groups)

    def _reconverge(self, event: ev.Reconverge) -> None:
        self._world.clock(event.cta, event.warp).converge(event.mask)

    def _exit(self, event: ev.Exit) -> None:
        cta = self._world.cta(event.cta)
        clock = cta.clocks[event.warp]
        self._bulk.exit(event.cta, event.warp, event.mask)
        cta.ended.add(clock, event.mask)
        clock.leave(event.mask)
        if not clock.live:
            self._warpgroups.exit(event.cta, event.warp)
        if any(one.live for one in cta.clocks):
            return
        self._lifetimes.exit(event.cta)
        peers = self._world.peers(event.cta)
        if len(peers) == self._world.cluster_size and not any(
                one.live for peer in peers for one in peer.clocks):
            for peer in peers:
                peer.retire()
                self._mbarriers.retire(peer.index)
                self._wgmma.retire(peer.index)
                self._warpgroups.retire(peer.index)
            self._cluster.retire(event.cta)


def _restricted(event: ev.Access, lanes: NDArray[np.int64]) -> ev.Access:
    """The event for the lanes that reach one CTA's shared memory, with offsets in it."""
    return replace(event, mask=mask_of_lanes(lanes), owners=None,
                   addresses=event.addresses & np.uint64(_OFFSET))


def _strength(event: ev.Access) -> int:
    """0 for a weak access, else 1 + the level of its scope; volatile counts as relaxed.sys."""
    if event.semantics == "weak":
        return 0
    return 1 + level_of("sys" if event.semantics == "volatile" else event.scope)
