"""Collectives: who must stand at an instruction before anybody executes it.

An ``.aligned`` collective (mma, ldmatrix, bar.sync) needs every lane of the warp that has not
ended; ``shfl.sync`` and its kin need the lanes of their mask; ``bar.warp.sync`` needs them at *any*
``bar.warp.sync`` with the same mask. Lanes that come early wait there (status GATHERING).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import WarpSync
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Site
from mmalab.emulator.state import Status, all_lanes, any_lane, pack, unpack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["ALIGNED", "MASKED", "Gatherer", "is_aligned"]

#: Families that every live lane of the warp executes together.
ALIGNED = frozenset({
    "mma.sync", "mma.sp", "wmma.load", "wmma.mma", "wmma.store", "ldmatrix", "stmatrix",
    "movmatrix", "wgmma.fence", "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group",
    "tensormap.cp_fenceproxy", "setmaxnreg",
})
#: Families with a lane mask as their last operand.
MASKED = frozenset({
    "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync", "bar.warp.sync",
})
_BARRIERS = frozenset({"bar.sync", "bar.arrive", "bar.red"})


def is_aligned(site: Site) -> bool:
    """Whether all live lanes of the warp must stand at the site together."""
    family = site.form.family
    if family in _BARRIERS:
        return site.form.key.startswith("bar.") or "aligned" in site.form.modifiers
    if family.startswith("barrier.cluster"):
        return "aligned" in site.form.modifiers
    return family in ALIGNED


class Gatherer:
    """Decides which lanes of a collective may execute now."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._kinds = [2 if s.form.family in MASKED else int(is_aligned(s))
                       for s in machine.program.sites]
        #: The mask with which a lane waits at bar.warp.sync.
        self._sync_mask = np.zeros((machine.state.rows, 32), np.uint32)

    def collects(self, site: Site) -> bool:
        """Whether the site is a collective at all."""
        return self._kinds[site.index] != 0

    def gather(self, site: Site, rows: NDArray[np.int64], standing: NDArray[np.bool_],
               mask: NDArray[np.bool_], *, force: bool = False) -> NDArray[np.bool_]:
        """The lanes that execute; the others of `mask` are set to wait at the site."""
        state = self._machine.state
        state.status[rows] = np.where(standing, np.uint8(Status.RUNNING), state.status[rows])
        if self._kinds[site.index] == 1:
            return self._aligned(site, rows, standing, mask, force=force)
        return self._masked(site, rows, mask, force=force)

    def _aligned(self, site: Site, rows: NDArray[np.int64], standing: NDArray[np.bool_],
                 mask: NDArray[np.bool_], *, force: bool) -> NDArray[np.bool_]:
        live = self._machine.state.live[rows]
        complete = all_lanes(standing == live)
        if force:
            self._report_divergence(site, rows, standing, ~complete, "other lanes of the warp"
                                    " stand elsewhere and cannot come")
            complete[:] = True
        wait = standing & ~complete[:, None]
        self._hold(site, rows, wait)
        ready = complete[:, None] & mask
        mixed = complete & any_lane(ready) & any_lane(standing & ~mask)
        self._report_divergence(site, rows, ready, mixed, "its guard differs between the lanes")
        return np.asarray(ready)

    def _masked(self, site: Site, rows: NDArray[np.int64], mask: NDArray[np.bool_], *,
                force: bool) -> NDArray[np.bool_]:
        if not mask.any():
            return mask
        lanes = Lanes(self._machine, site, rows, mask)
        members = lanes.read(len(site.operands) - 1).astype(np.uint32)
        own = np.uint32(1) << np.arange(32, dtype=np.uint32)
        self._check_members(site, rows, mask, members, own)
        members = members | own
        warp_sync = site.form.family == "bar.warp.sync"
        present = np.broadcast_to(pack(mask)[:, None], members.shape)
        if warp_sync:
            present = present | self._waiting_elsewhere(rows, mask, members)
        need = members & pack(self._machine.state.live[rows])[:, None]
        missing = mask & ((need & ~present) != 0)
        if force:
            self._report_missing(site, rows, missing, need & ~present)
            missing = np.zeros_like(missing)
        self._hold(site, rows, missing)
        if warp_sync:
            self._sync_mask[rows] = np.where(mask, members, self._sync_mask[rows])
            self._release(site, rows, mask & ~missing, members)
        return np.asarray(mask & ~missing)

    def _hold(self, site: Site, rows: NDArray[np.int64], wait: NDArray[np.bool_]) -> None:
        if wait.any():
            state = self._machine.state
            state.pc[rows] = np.where(wait, np.int32(site.index), state.pc[rows])
            state.status[rows] = np.where(wait, np.uint8(Status.GATHERING), state.status[rows])

    # --- bar.warp.sync at different places ----------------------------------------------------

    def _at_warp_sync(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        state = self._machine.state
        sites = self._machine.program.sites
        there = np.array([s.form.family == "bar.warp.sync" for s in sites] + [False])
        return np.asarray((state.status[rows] == Status.GATHERING) & there[
            np.minimum(state.pc[rows], len(sites))])

    def _waiting_elsewhere(self, rows: NDArray[np.int64], mask: NDArray[np.bool_],
                           members: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """[warps, 32]: for each lane, the lanes that wait with the same mask at another site."""
        waiting = self._at_warp_sync(rows) & ~mask
        if not waiting.any():
            return np.zeros_like(members)
        masks = self._sync_mask[rows]
        same = (masks[:, None, :] == members[:, :, None]) & waiting[:, None, :]
        return pack(same)

    def _release(self, site: Site, rows: NDArray[np.int64], ready: NDArray[np.bool_],
                 members: NDArray[np.uint32]) -> None:
        state, machine = self._machine.state, self._machine
        for position in np.nonzero(any_lane(ready))[0].tolist():
            row = int(rows[position])
            for member in np.unique(members[position][ready[position]]).tolist():
                others = (self._at_warp_sync(rows[position : position + 1])[0]
                          & (self._sync_mask[row] == member) & ~ready[position])
                state.status[row][others] = Status.RUNNING
                state.pc[row][others] += 1
                if machine.observed:
                    cta, warp = state.where(row)
                    together = others | (ready[position] & (members[position] == member))
                    machine.emit(WarpSync(cta, warp, site.index, int(pack(together)), member))
                machine.version += 1

    # --- reports ------------------------------------------------------------------------------

    def _report_divergence(self, site: Site, rows: NDArray[np.int64], lanes: NDArray[np.bool_],
                           bad: NDArray[np.bool_], why: str) -> None:
        for position in np.nonzero(bad & any_lane(lanes))[0][:1].tolist():
            self._machine.report(
                "divergent-collective",
                f"{site.form.key} is executed by lanes {int(pack(lanes[position])):#010x} only:"
                f" {why}", site=site, row=int(rows[position]),
                lane=int(np.nonzero(lanes[position])[0][0]),
                witness={"lanes": int(pack(lanes[position]))})

    def _report_missing(self, site: Site, rows: NDArray[np.int64], lanes: NDArray[np.bool_],
                        absent: NDArray[np.uint32]) -> None:
        for position, lane in zip(*(i[:1].tolist() for i in np.nonzero(lanes)), strict=True):
            self._machine.report(
                "warp-sync-mask", f"{site.form.key} names lanes {int(absent[position, lane]):#010x}"
                " that wait elsewhere and cannot come", site=site, row=int(rows[position]),
                lane=lane, witness={"absent": int(absent[position, lane])})

    def _check_members(self, site: Site, rows: NDArray[np.int64], mask: NDArray[np.bool_],
                       members: NDArray[np.uint32], own: NDArray[np.uint32]) -> None:
        outside = mask & ((members & own) == 0)
        for position, lane in zip(*(i[:1].tolist() for i in np.nonzero(outside)), strict=True):
            self._machine.report(
                "warp-sync-mask", f"lane {lane} executes {site.form.key} with mask"
                f" {int(members[position, lane]):#010x}, which does not name it", site=site,
                row=int(rows[position]), lane=lane,
                witness={"mask": int(members[position, lane])})
        state = self._machine.state
        ended = pack(state.present[rows] & ~state.live[rows])[:, None]
        lost = mask & ((members & ended) != 0)
        severity = "error" if site.form.family == "bar.warp.sync" else "warning"
        for position, lane in zip(*(i[:1].tolist() for i in np.nonzero(lost)), strict=True):
            gone = int(members[position, lane] & ended[position, 0])
            self._machine.report(
                "warp-sync-mask", f"{site.form.key} names lanes {gone:#010x}, which have ended",
                site=site, row=int(rows[position]), lane=lane,
                severity="error" if severity == "error" else "warning",
                witness={"ended": gone})


def lanes_of(mask: int) -> NDArray[np.bool_]:
    """[32] bool of a mask."""
    return unpack(np.array(mask, np.uint32))
