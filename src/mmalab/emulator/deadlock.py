"""Why nothing can run any more: who waits for what, and what would have let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mmalab.emulator.lanes import Lanes
from mmalab.emulator.state import Status, pack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["explain_deadlock"]

_SHOWN = 32


def explain_deadlock(machine: Machine, *, spinning: bool = False) -> dict[str, Any]:
    """A JSON-able report: one entry per waiting group of lanes, and a summary in words.

    `spinning`: lanes still execute, but registers and memory repeat.
    """
    waiting = [entry for row in range(machine.state.rows) for entry in _of_warp(machine, row)]
    summary = "; ".join(dict.fromkeys(entry["because"] for entry in waiting)) or "no lane is left"
    if spinning:
        summary = f"lanes spin, and neither registers nor memory change any more: {summary}"
    report = {"summary": summary, "waiting": waiting[:_SHOWN], "count": len(waiting),
              "spinning": spinning}
    first = waiting[0] if waiting else None
    site = next((s for s in machine.program.sites if first and s.line == first["line"]), None)
    machine.report("deadlock", summary, site=site, witness=report,
                   row=first["row"] if first else None,
                   lane=first["first_lane"] if first else None)
    for entry in waiting:
        del entry["row"], entry["first_lane"]
    return report


def _of_warp(machine: Machine, row: int) -> list[dict[str, Any]]:
    state = machine.state
    entries = []
    for status in (Status.RUNNING, Status.GATHERING, Status.BARRIER, Status.PARKED):
        lanes = state.status[row] == status
        if lanes.any():
            entries.append(_entry(machine, row, status, lanes))
    return entries


def _entry(machine: Machine, row: int, status: Status, lanes: np.ndarray[Any, Any],
           ) -> dict[str, Any]:
    state, sites = machine.state, machine.program.sites
    cta, warp = state.where(row)
    lane = int(np.nonzero(lanes)[0][0])
    behind = status in (Status.BARRIER, Status.PARKED)
    site = sites[min(max(int(state.pc[row, lane]) - behind, 0), len(sites) - 1)]
    entry: dict[str, Any] = {
        "cta": machine.shape.cta_coordinates(cta), "warp": warp, "lanes": int(pack(lanes)),
        "row": row, "first_lane": lane}
    if status == Status.BARRIER:
        waits = machine.barriers.explain(row, lane) or machine.cluster_barriers.explain(row, lane)
        entry["line"], entry["waits_for"] = waits.get("line", site.line), waits
        entry["because"] = _barrier_words(waits)
    elif status == Status.PARKED:
        wait = machine.waits[row]
        site = wait["site"]
        if "explain" in wait:
            waits = wait["explain"](row)
            entry["because"] = _warpgroup_words(waits)
        else:
            view = Lanes(machine, site, np.array([row]), lanes[None])
            waits = machine.mbarriers.explain(view, wait)
            entry["because"] = _mbarrier_words(waits)
        entry["line"], entry["waits_for"] = site.line, waits
    else:
        entry["line"], entry["waits_for"] = site.line, {}
        entry["because"] = (f"line {site.line} waits for other lanes of the warp"
                            if status == Status.GATHERING else f"lanes loop at line {site.line}")
    entry["instruction"] = site.text.strip()
    return entry


def _barrier_words(waits: dict[str, Any]) -> str:
    if not waits:
        return "a barrier that nobody completes"
    if waits["barrier"] == "cluster":
        missing = ", ".join(f"warp {m['warp']} of CTA {m['cta']}" for m in waits["missing"])
        return f"the cluster barrier waits for {missing}"
    if waits["expected_threads"] == "all live warps":
        missing = ", ".join(map(str, waits["missing_warps"])) or "some lanes"
        return f"barrier {waits['barrier']} waits for warps {missing}, which never arrive"
    return (f"barrier {waits['barrier']} expects {waits['expected_threads']} threads and"
            f" {waits['arrived_threads']} have arrived: "
            f"{waits['expected_threads'] - waits['arrived_threads']} more would release it")


def _warpgroup_words(waits: dict[str, Any]) -> str:
    if waits["warps"] < 4:
        return f"wgmma needs the four warps of a warpgroup, which has {waits['warps']}"
    missing = ", ".join(map(str, waits["missing_warps"]))
    ended = " (which have ended)" if waits["ended_warps"] == waits["missing_warps"] else ""
    return f"wgmma.wait_group waits for the parts of warps {missing}{ended} of the warpgroup"


def _mbarrier_words(waits: dict[str, Any]) -> str:
    if not waits:
        return "a wait on something that is no mbarrier"
    parts = [(f"the mbarrier at {waits['address']:#x} is in phase {waits['phase']}, waited for with"
             f" parity {waits['waits_for_parity']}: {waits['pending_arrivals']} of"
             f" {waits['expected_arrivals']} arrivals are pending")]
    if waits["pending_bytes"]:
        parts.append(f"{waits['pending_bytes']} bytes are announced and did not come")
    return ", ".join(parts)
