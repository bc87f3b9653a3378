"""Why nothing can run any more: who waits for what, and what would have let it go on.

Every group of lanes that waits becomes one entry: the instruction, the barrier and its phase, who
has arrived and how much is pending. :mod:`mmalab.emulator.deadlock_causes` then looks for the cause
among them, and the summary puts the cause first::

    tx-mismatch: the mbarrier at 0x400 was promised 1024 bytes (line 12) and got 512 (line 13); ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mmalab.emulator.deadlock_causes import causes_of, named_warps
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.state import Status, pack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["explain_deadlock"]

_SHOWN = 32
#: What the witness of bytes that differ says.
_BYTES = ("address", "phase", "announced_bytes", "delivered_bytes", "announce_line",
          "deliver_line")


def explain_deadlock(machine: Machine, *, spinning: bool = False) -> dict[str, Any]:
    """A JSON-able report: one entry per waiting group of lanes, causes, and a summary in words.

    `spinning`: lanes still execute, but registers and memory repeat.
    """
    waiting = [entry for row in range(machine.state.rows) for entry in _of_warp(machine, row)]
    causes = causes_of(machine, waiting)
    words = [cause.words for cause in causes] + [entry["because"] for entry in waiting]
    summary = "; ".join(dict.fromkeys(words)) or "no lane is left"
    if spinning:
        summary = f"lanes spin, and neither registers nor memory change any more: {summary}"
    report = {"summary": summary, "waiting": waiting[:_SHOWN], "count": len(waiting),
              "spinning": spinning, "causes": [cause.as_dict() for cause in causes]}
    first = waiting[0] if waiting else None
    repairs = "; ".join(dict.fromkeys(cause.repair for cause in causes if cause.repair))
    _report(machine, "deadlock", summary + (f". Repair: {repairs}" if repairs else ""), report,
            first, first["line"] if first else 0)
    for cause in causes:
        if cause.code:
            entry = waiting[cause.entry]
            _report(machine, cause.code, f"{cause.words}. Repair: {cause.repair}",
                    {"repair": cause.repair, **{
                        name: entry["waits_for"][name] for name in _BYTES}}, entry,
                    cause.line or entry["line"])
    for entry in waiting:
        del entry["row"], entry["first_lane"], entry["site"]
    return report


def _report(machine: Machine, code: str, words: str, witness: dict[str, Any],
            entry: dict[str, Any] | None, line: int) -> None:
    site = next((s for s in machine.program.sites if entry and s.line == line), None)
    machine.report(code, words, site=site, witness=witness,
                   row=entry["row"] if entry else None,
                   lane=entry["first_lane"] if entry else None)


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
    waits: dict[str, Any] = {}
    if status == Status.BARRIER:
        waits = machine.barriers.explain(row, lane) or machine.cluster_barriers.explain(row, lane)
        because = _barrier_words(waits)
    elif status == Status.PARKED:
        wait = machine.waits[row]
        site = wait["site"]
        if "explain" in wait:
            waits = wait["explain"](row)
            because = _pool_words(waits) if "setmaxnreg" in waits else _warpgroup_words(waits)
        else:
            waits = machine.mbarriers.explain(
                Lanes(machine, site, np.array([row]), lanes[None]), wait)
            because = _mbarrier_words(waits)
    else:
        because = (f"line {site.line} waits for other lanes of the warp"
                   if status == Status.GATHERING else f"lanes loop at line {site.line}")
    return {"cta": machine.shape.cta_coordinates(cta), "warp": warp, "lanes": int(pack(lanes)),
            "row": row, "first_lane": lane, "site": site.index,
            "line": waits.get("line", site.line), "waits_for": waits, "because": because,
            "released_by": _release_words(waits), "instruction": site.shown}


# --- words ----------------------------------------------------------------------------------------

def _barrier_words(waits: dict[str, Any]) -> str:
    if not waits:
        return "a barrier that nobody completes"
    if waits["barrier"] == "cluster":
        return f"the cluster barrier waits for {named_warps(waits['missing'])}"
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


def _pool_words(waits: dict[str, Any]) -> str:
    have = ", ".join(map(str, waits["warps_have"]))
    return (f"setmaxnreg to {waits['setmaxnreg']} waits for {waits['missing_registers']} registers:"
            f" the pool has {waits['free_registers']} left of {waits['launch_registers']} a thread"
            f" at launch, the warps have {have}")


def _mbarrier_words(waits: dict[str, Any]) -> str:
    if not waits:
        return "a wait on something that is no mbarrier"
    parts = [(f"the mbarrier at {waits['address']:#x} is in phase {waits['phase']}, waited for with"
             f" parity {waits['waits_for_parity']}: {waits['pending_arrivals']} of"
             f" {waits['expected_arrivals']} arrivals are pending")]
    if waits["pending_arrivals"]:
        parts.append(f"arrived have {named_warps(waits['arrived'])}" if waits["arrived"]
                     else "nobody has arrived in this phase")
    if waits["pending_bytes"] > 0:
        parts.append(f"{waits['pending_bytes']} bytes are announced and did not come")
    elif waits["pending_bytes"]:
        parts.append(f"{-waits['pending_bytes']} bytes came that nobody announced")
    return ", ".join(parts)


def _release_words(waits: dict[str, Any]) -> str:
    """What would let the lanes go on."""
    if "waits_for_parity" in waits:
        parts = []
        if waits["pending_arrivals"]:
            parts.append(f"{waits['pending_arrivals']} more arrivals")
        if waits["pending_bytes"] > 0:
            parts.append(f"{waits['pending_bytes']} more bytes")
        elif waits["pending_bytes"]:
            parts.append(f"an expect_tx of {-waits['pending_bytes']} bytes")
        return " and ".join(parts)
    if "missing_registers" in waits:
        return f"{waits['missing_registers']} more registers in the pool"
    if "missing" in waits:
        return f"the arrival of {named_warps(waits['missing'])}"
    if "missing_warps" in waits:
        missing = ", ".join(map(str, waits["missing_warps"]))
        return f"the arrival of warps {missing}" if missing else ""
    return ""
