"""The cause among many waits: bytes that differ, a parity that repeats, a count, a cycle.

==============  ==================================================================================
cause           sign
==============  ==================================================================================
bytes           all arrivals are in, and what was announced is not what the copies delivered
initial parity  nobody ever arrived, and the waiting warp would go on to produce: a producer's first
                wait for an empty slot has parity 1, which a fresh mbarrier passes
parity aliased  the phase that the warp was after has passed: its parity came round again
count           more arrivals are pending than threads are left that could arrive
registers       setmaxnreg asks for more than the CTA's pool will ever have
cycle           the missing warps of a barrier wait themselves, for those that wait for them
==============  ==================================================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mmalab.emulator.program import Program
from mmalab.emulator.state import Status

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Cause", "causes_of", "named_warps"]

_Entry = dict[str, Any]
#: Instructions that make data, and that use it, for telling a producer from a consumer.
_MAKES = ("st", "stmatrix", "cp.async", "cp.async.bulk", "cp.async.bulk.tensor", "st.async")
_USES = ("ld", "ldmatrix", "wgmma.mma_async", "mma.sync")
#: State spaces of loads and stores that are no part of a ring.
_ELSEWHERE = ("param", "global", "local", "const")
_FAR = 4096


@dataclass(frozen=True, slots=True)
class Cause:
    """What went wrong; `code` where it is a fault of its own beside the deadlock."""

    kind: str
    words: str
    repair: str = ""
    code: str = ""
    #: The waiting entry that shows it, and the line to blame (0: the wait's).
    entry: int = 0
    line: int = 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def named_warps(warps: Iterable[dict[str, int]]) -> str:
    """Warps in words: ``warp 0 of CTA 1, warp 2 of CTA 1``."""
    return ", ".join(f"warp {one['warp']} of CTA {one['cta']}" for one in warps)


def causes_of(machine: Machine, waiting: Sequence[_Entry]) -> list[Cause]:
    """What explains the waits, the surest first; empty when nothing stands out."""
    found: dict[tuple[str, Any], Cause] = {}
    for number, entry in enumerate(waiting):
        waits = entry["waits_for"]
        if "waits_for_parity" in waits:
            cause = _of_mbarrier(machine, waiting, number)
            if cause is not None:
                found.setdefault((cause.kind, waits["address"]), cause)
        if "setmaxnreg" in waits:
            found.setdefault(("registers", entry["cta"]), _registers(entry, number))
    for cause in _cycles(machine, waiting):
        found.setdefault((cause.kind, ""), cause)
    return sorted(found.values(), key=lambda cause: not cause.code)


def _of_mbarrier(machine: Machine, waiting: Sequence[_Entry], number: int) -> Cause | None:
    entry = waiting[number]
    waits = entry["waits_for"]
    where = f"the mbarrier at {waits['address']:#x}"
    if not waits["pending_arrivals"] and waits["pending_bytes"]:
        return _bytes(waits, where, number)
    aliased = _slept_through(waits)
    if aliased is not None:
        return Cause(
            "parity aliased",
            f"warp {entry['warp']} slept through phase {aliased} of {where}: it is complete, and "
            f"parity {waits['waits_for_parity']} now means phase {waits['phase']}",
            "let the waiters arrive on a second mbarrier before the phase after theirs can "
            "complete", entry=number)
    fresh = waits["phase"] == 0 and not waits["ever_arrived"]
    if fresh and len(waiting) > 1 and _produces(machine.program, entry["site"]):
        return Cause(
            "initial parity",
            f"warp {entry['warp']} waits with parity 0 on {where}, on which nobody has ever "
            "arrived, before it produces anything",
            f"the first wait for an empty slot uses parity 1 (line {entry['line']})", entry=number)
    able = _able(machine, waiting, waits["address"], entry)
    if waits["pending_arrivals"] > able and waits["ever_arrived"]:
        there = waits["expected_arrivals"] - waits["pending_arrivals"]
        return Cause(
            "count",
            f"{where} expects {waits['expected_arrivals']} arrivals, {there} came and {able} "
            "threads are left that could arrive",
            f"mbarrier.init with {there} arrivals" if there else "an arrival that completes the "
            "phase", entry=number)
    return None


def _registers(entry: _Entry, number: int) -> Cause:
    waits = entry["waits_for"]
    have = list(waits["warps_have"])
    have[entry["warp"]] = waits["setmaxnreg"]
    return Cause(
        "registers", f"setmaxnreg to {waits['setmaxnreg']} in warp {entry['warp']}: the CTA has "
        f"{waits['launch_registers'] * len(have)} registers for one lane of each warp, and "
        f"{sum(have)} would be taken",
        "smaller increases, or larger decreases in the other warpgroups", entry=number)


def _bytes(waits: dict[str, Any], where: str, number: int) -> Cause:
    announced, delivered = waits["announced_bytes"], waits["delivered_bytes"]
    told = f" (line {waits['announce_line']})" if announced else ""
    came = f" (line {waits['deliver_line']})" if delivered else ""
    repair = (f"announce {delivered} bytes" if delivered
              else "a copy that signals this mbarrier, or no announcement")
    return Cause(
        "bytes", f"{where} was promised {announced} bytes{told} and got {delivered}{came} in "
        f"phase {waits['phase']}", repair, "tx-mismatch", number,
        waits["announce_line"] or waits["arrive_line"])


def _slept_through(waits: dict[str, Any]) -> int | None:
    """The phase that the warp was after, when it has passed; phases are seen one by one."""
    wanted = int(waits["last_phase_seen"]) + 1
    if wanted & 1 != waits["waits_for_parity"]:
        wanted += 1
    return wanted if wanted + 2 <= waits["phase"] else None


def _able(machine: Machine, waiting: Sequence[_Entry], address: int, entry: _Entry) -> int:
    """Threads of the cluster that live and do not wait for this very mbarrier."""
    size = machine.space.cluster_size * machine.shape.warps
    first = entry["row"] // size * size
    live = int((machine.state.status[first : first + size] != Status.EXITED).sum())
    stuck = sum(int(one["lanes"]).bit_count() for one in waiting
                if one["cta"] == entry["cta"] and one["waits_for"].get("address") == address)
    return live - stuck


def _produces(program: Program, site: int) -> bool:
    """Whether the code behind a wait makes data before it uses any."""
    block_of = {index: block for block in program.blocks
                for index in range(block.start, block.stop)}
    open_sites, done = deque([site + 1]), set[int]()
    while open_sites and len(done) < _FAR:
        index = open_sites.popleft()
        if index in done or index not in block_of:
            continue
        done.add(index)
        form = program.sites[index].form
        if form.modifiers.get("space", "") not in _ELSEWHERE or form.family.startswith("cp."):
            if form.family in _MAKES:
                return True
            if form.family in _USES:
                return False
        block = block_of[index]
        if index + 1 < block.stop:
            open_sites.append(index + 1)
        else:
            open_sites.extend(program.blocks[k].start for k in block.successors)
    return False


def _cycles(machine: Machine, waiting: Sequence[_Entry]) -> Iterator[Cause]:
    """Barriers whose missing warps wait for something else themselves."""
    standing = {entry["row"]: entry for entry in waiting}
    for number, entry in enumerate(waiting):
        rows = _missing_rows(machine, entry)
        others = [standing[row] for row in rows if row in standing]
        if not others or len(others) < len(rows):
            continue
        first = others[0]
        if "barrier" in first["waits_for"] and first["waits_for"] == entry["waits_for"]:
            continue
        yield Cause(
            "cycle",
            f"cycle: warp {entry['warp']} of CTA {_linear(machine, entry)} waits (line "
            f"{entry['line']}) for warp {first['warp']} of CTA {_linear(machine, first)}, which "
            f"waits (line {first['line']}) for what only comes later",
            f"let the arrival that line {first['line']} waits for come before line "
            f"{entry['line']}", entry=number)


def _missing_rows(machine: Machine, entry: _Entry) -> list[int]:
    waits, warps = entry["waits_for"], machine.shape.warps
    if waits.get("barrier") == "cluster":
        place = {int(cta): index for index, cta in enumerate(machine.state.ctas)}
        return [place[one["cta"]] * warps + one["warp"] for one in waits["missing"]]
    if "missing_warps" in waits:
        return [entry["row"] // warps * warps + warp for warp in waits["missing_warps"]]
    return []


def _linear(machine: Machine, entry: _Entry) -> int:
    return machine.state.where(entry["row"])[0]
