"""The cause among many waits: bytes that differ, a parity that repeats, a count, a cycle.

==============  ==================================================================================
cause           sign
==============  ==================================================================================
bytes           all arrivals and all known copies are in, and the announced bytes are others
registers       setmaxnreg asks for more than the CTA's pool will ever have
warpgroup       a warp of a warpgroup does not issue its part of a product
unannounced     bytes came to an mbarrier on which nobody ever arrived
parity aliased  the phase that the warp was after has passed: its parity came round again
count           all warps that ever arrived have arrived, or have ended, and more are expected
initial parity  nobody ever arrived, and the waiting warp has produced nothing yet: a producer's
                first wait for an empty slot has parity 1, which a fresh mbarrier passes
phase skipped   a warp waits for a phase and has not waited for the one before: its parity did not
                flip, or it went on to another slot than the others
cycle           warps wait for each other, one after the other; or a warp for itself
no arrival      nobody ever arrived
==============  ==================================================================================

The kinds are in order of rank: where one shows, the later ones are its consequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mmalab.emulator.program import Program
from mmalab.emulator.state import Status
from mmalab.isa.form import Form

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Cause", "causes_of", "named_warps"]

_Entry = dict[str, Any]
_RANK = ("bytes", "registers", "warpgroup", "unannounced", "parity aliased", "count",
         "initial parity", "phase skipped", "cycle", "no arrival")
#: Instructions that make data, and that use it, for telling a producer from a consumer.
_MAKES = ("st", "stmatrix", "cp.async", "cp.async.bulk", "cp.async.bulk.tensor", "st.async")
_USES = ("ld", "ldmatrix", "wgmma.mma_async", "mma.sync")
#: Instructions that arrive at an mbarrier.
_ARRIVES = ("mbarrier.arrive", "mbarrier.arrive_drop", "cp.async.mbarrier.arrive")
#: State spaces of loads and stores that are no part of a ring.
_ELSEWHERE = ("param", "global", "local", "const")
_FAR = 4096
#: Warps of a warpgroup, lanes of a warp.
_GROUP, _LANES = 4, 32


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
    """Warps in words: ``warps 4-11 of CTA 0, warp 0 of CTA 1``."""
    named = []
    for cta, group in groupby(sorted(warps, key=lambda one: (one["cta"], one["warp"])),
                              key=lambda one: one["cta"]):
        numbers = [one["warp"] for one in group]
        few = len(numbers) == 1
        named.append(f"warp{'' if few else 's'} {_ranges(numbers)} of CTA {cta}")
    return ", ".join(named)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: 4, 5, 6, 9 -> "4-6, 9"."""
    runs = [[number for _, number in run] for _, run in groupby(
        enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def causes_of(machine: Machine, waiting: Sequence[_Entry]) -> list[Cause]:
    """What explains the waits: all causes of the highest rank; empty when nothing stands out."""
    found: dict[Any, Cause] = {}
    for number, entry in enumerate(waiting):
        for cause in _of_entry(machine, waiting, number):
            found.setdefault((cause.kind, entry["waits_for"].get("address")), cause)
    causes = [*found.values(), *_cycle(machine, waiting)]
    if all(cause.kind != "initial parity" for cause in causes):
        causes += _all_fresh(machine, waiting)
    first = min((_RANK.index(cause.kind) for cause in causes), default=0)
    return [cause for cause in causes if cause.kind == _RANK[first]]


def _of_entry(machine: Machine, waiting: Sequence[_Entry], number: int) -> Iterator[Cause]:
    entry = waiting[number]
    waits = entry["waits_for"]
    if "setmaxnreg" in waits:
        yield _registers(waiting, number)
    elif "wgmma" in waits:
        yield from _warpgroup(machine, waiting, number)
    elif "waits_for_parity" in waits:
        yield from _of_mbarrier(machine, waiting, number)


# --- mbarriers ------------------------------------------------------------------------------------

def _of_mbarrier(machine: Machine, waiting: Sequence[_Entry], number: int) -> Iterator[Cause]:
    entry = waiting[number]
    waits = entry["waits_for"]
    where = f"the mbarrier at {waits['address']:#x}"
    if machine.space.cluster_size > 1:
        where += f" of CTA {machine.state.where(entry['row'])[0]}"
    if not waits["pending_arrivals"]:
        if waits["pending_bytes"] and waits["carried"] == waits["ever_carried"]:
            yield _bytes(waits, where, number)
        return
    wanted = int(waits["last_phase_seen"]) + 1
    wanted += wanted & 1 != waits["waits_for_parity"]
    if wanted + 2 <= waits["phase"]:
        yield _aliased(machine, entry, number, where, wanted)
    if wanted == waits["phase"] and wanted - waits["last_phase_seen"] > 1 and (
            waits["passed_before"]):
        yield _skipped(machine, entry, number, where)
    if not waits["ever_arrived"]:
        if waits["pending_bytes"] < 0:
            yield _unannounced(waits, where, number)
        yield _nobody(machine, waiting, number, where)
    elif all(_ended(machine, one) for one in _absent(waits)):
        yield _count(waits, where, number)


def _aliased(machine: Machine, entry: _Entry, number: int, where: str, wanted: int) -> Cause:
    waits = entry["waits_for"]
    words = (f"{_name(machine, entry)} slept through phase {wanted} of {where}: it is complete, and"
             f" parity {waits['waits_for_parity']} now means phase {waits['phase']}")
    if 2 * waits["expected_arrivals"] <= _LANES <= waits["blind_arrivals"]:
        return Cause(
            "parity aliased", f"{words}; one warp has arrived {waits['blind_arrivals']} times (line"
            f" {waits['arrive_line']}), and a phase takes {waits['expected_arrivals']}",
            "one elected thread arrives, or mbarrier.init with the count of all that arrive",
            entry=number)
    return Cause(
        "parity aliased", words,
        "let the waiters arrive on a second mbarrier, and wait for that one, with a parity that "
        "flips each time round, before the phase after theirs can complete", entry=number)


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


def _unannounced(waits: dict[str, Any], where: str, number: int) -> Cause:
    delivered = waits["delivered_bytes"]
    return Cause(
        "unannounced", f"{where} got {delivered} bytes (line {waits['deliver_line']}) that nobody "
        "announced, and nobody has ever arrived on it",
        f"mbarrier.arrive.expect_tx of {delivered} bytes, in each CTA that gets the copy",
        "tx-mismatch", number, waits["deliver_line"])


def _skipped(machine: Machine, entry: _Entry, number: int, where: str) -> Cause:
    phase = entry["waits_for"]["phase"]
    times = sum(log.ever[entry["row"]] for log in machine.mbarriers.logs.values())
    lanes = entry["lanes"].bit_count()
    often = f"{times // lanes} times" if times % lanes == 0 else f"with {times} threads"
    return Cause(
        "phase skipped",
        f"{_name(machine, entry)}, which has arrived {often} so far, waits for phase {phase} of "
        f"{where} (line {entry['line']}) and has not waited for phase {phase - 1}: its parity has "
        "not flipped since it was last there, or it stands at another slot than the others",
        "slot and parity go on from step to step and from tile to tile: the parity flips each time "
        "that the slot wraps, and nowhere else", entry=number)


def _absent(waits: dict[str, Any]) -> list[dict[str, int]]:
    """Warps that have arrived in earlier phases and not in this one."""
    return [one for one in waits["ever_arrived"] if one not in waits["arrived"]]


def _count(waits: dict[str, Any], where: str, number: int) -> Cause:
    there = waits["expected_arrivals"] - waits["pending_arrivals"]
    gone = _absent(waits)
    who = (f"{named_warps(gone)} arrived before and have ended" if gone
           else "all warps that ever arrived have arrived")
    repair = ("mbarrier.arrive_drop before they end" if gone
              else f"mbarrier.init with {there} arrivals, or the arrivals that are missing")
    return Cause("count", f"{where} expects {waits['expected_arrivals']} arrivals, {there} came in "
                 f"phase {waits['phase']}, and {who}", repair, entry=number)


def _nobody(machine: Machine, waiting: Sequence[_Entry], number: int, where: str) -> Cause:
    entry = waiting[number]
    waits, row = entry["waits_for"], entry["row"]
    idle = not any(log.ever[row] for log in machine.mbarriers.logs.values())
    if (idle and not waits["passed_before"] and len(waiting) > 1
            and _produces(machine.program, entry["site"])):
        return Cause(
            "initial parity",
            f"{_name(machine, entry)} waits with parity {waits['waits_for_parity']} on {where}, on "
            "which nobody has ever arrived, before it produces anything",
            f"the first wait for an empty slot uses parity 1 (line {entry['line']})", entry=number)
    return Cause("no arrival", f"nobody has ever arrived on {where}{_peers(machine, entry)}",
                 f"{waits['pending_arrivals']} arrivals, or a count of those that come",
                 entry=number)


def _peers(machine: Machine, entry: _Entry) -> str:
    """Arrivals on the same mbarrier of other CTAs of the cluster: a rank may be wrong."""
    space, logs = machine.space, machine.mbarriers.logs
    own = entry["row"] // machine.shape.warps
    first = own // space.cluster_size * space.cluster_size
    found = {cta: sum(logs[index].ever.values())
             for cta in range(first, first + space.cluster_size)
             if cta != own and (index := cta * space.shared_stride
                                + entry["waits_for"]["address"]) in logs}
    shown = ", ".join(f"{count} on that of CTA {int(machine.state.ctas[cta])}"
                      for cta, count in found.items() if count)
    return f", but {shown} at the same offset" if shown else ""


def _all_fresh(machine: Machine, waiting: Sequence[_Entry]) -> Iterator[Cause]:
    """Everybody waits at mbarriers, and nobody has arrived on any."""
    places = {entry["waits_for"].get("address") for entry in waiting}
    if len(places) < 2 or None in places or any(
            log.ever for log in machine.mbarriers.logs.values()):
        return
    standing = {entry["line"]: _name(machine, entry) for entry in waiting}
    yield Cause(
        "initial parity", "nobody has arrived on any mbarrier, and everybody waits for one: "
        + ", ".join(f"{name} (line {line})" for line, name in standing.items()),
        "who fills the slots finds them empty at first: its first wait uses parity 1, which a "
        f"fresh mbarrier passes (line {' or '.join(map(str, standing))})")


def _produces(program: Program, site: int) -> bool:
    """Whether the code behind a wait makes data before it uses any."""
    for form in _behind(program, site):
        if form.modifiers.get("space", "") not in _ELSEWHERE or form.family.startswith("cp."):
            if form.family in _MAKES:
                return True
            if form.family in _USES:
                return False
    return False


def _may_arrive(program: Program, site: int) -> bool:
    """Whether the code behind a wait arrives at any mbarrier."""
    return any(form.family in _ARRIVES for form in _behind(program, site))


def _behind(program: Program, site: int) -> Iterator[Form]:
    """The instructions that may follow a site, the near ones first."""
    block_of = {index: block for block in program.blocks
                for index in range(block.start, block.stop)}
    open_sites, done = deque([site + 1]), set[int]()
    while open_sites and len(done) < _FAR:
        index = open_sites.popleft()
        if index in done or index not in block_of:
            continue
        done.add(index)
        yield program.sites[index].form
        block = block_of[index]
        if index + 1 < block.stop:
            open_sites.append(index + 1)
        else:
            open_sites.extend(program.blocks[k].start for k in block.successors)


# --- registers and warpgroups ---------------------------------------------------------------------

def _registers(waiting: Sequence[_Entry], number: int) -> Cause:
    """What the warpgroups would have against what the launch gave, and who has not given yet."""
    entry = waiting[number]
    waits = entry["waits_for"]
    launch, have = waits["launch_registers"], list(waits["warps_have"])
    here = [one for one in waiting if one["cta"] == entry["cta"]]
    for one in here:
        have[one["warp"]] = one["waits_for"].get("setmaxnreg", have[one["warp"]])
    groups = [max(have[at : at + _GROUP]) for at in range(0, len(have), _GROUP)]
    words = (f"setmaxnreg to {waits['setmaxnreg']} in warp {entry['warp']}: the warpgroups would "
             f"have {' + '.join(map(str, groups))} = {sum(groups)} registers a thread, and the "
             f"launch gave {len(groups)} x {launch} = {len(groups) * launch}")
    late = [one for one in here if have[one["warp"]] == launch]
    if late:
        named = f"{'' if len(late) == 1 else 's'} {_ranges([one['warp'] for one in late])}"
        return Cause("registers", f"{words}: warp{named} (line {late[0]['line']}) keep theirs",
                     "setmaxnreg in those warps before they wait for anything", entry=number)
    return Cause("registers", words,
                 "smaller increases, or larger decreases in the other warpgroups", entry=number)


def _warpgroup(machine: Machine, waiting: Sequence[_Entry], number: int) -> Iterator[Cause]:
    entry = waiting[number]
    rows = _needed(machine, entry)
    others = [one for one in waiting if one["row"] in rows and "wgmma" not in one["waits_for"]]
    if others:
        one = others[0]
        yield Cause(
            "warpgroup", f"{_name(machine, one)} does not issue its part of the product that warp "
            f"{entry['warp']} waits for (line {entry['line']}): it stands at line {one['line']}",
            "all four warps of a warpgroup execute the same wgmma", entry=number)


# --- who waits for whom ---------------------------------------------------------------------------

def _needed(machine: Machine, entry: _Entry) -> list[int]:
    """Rows of warps that are known to be missing where a warp waits."""
    waits, warps = entry["waits_for"], machine.shape.warps
    if "missing_warps" in waits:
        return [entry["row"] // warps * warps + warp for warp in waits["missing_warps"]]
    absent = waits.get("missing", ())
    if "waits_for_parity" in waits:
        absent = _absent(waits) if waits["pending_arrivals"] else [
            one for one in waits["ever_carried"] if one not in waits["carried"]]
    return [_row(machine, one) for one in absent]


def _name(machine: Machine, entry: _Entry) -> str:
    return f"warp {entry['warp']} of CTA {machine.state.where(entry['row'])[0]}"


def _row(machine: Machine, one: dict[str, int]) -> int:
    resident = int((machine.state.ctas == one["cta"]).argmax())
    return resident * machine.shape.warps + one["warp"]


def _ended(machine: Machine, one: dict[str, int]) -> bool:
    return bool((machine.state.status[_row(machine, one)] == Status.EXITED).all())


def _cycle(machine: Machine, waiting: Sequence[_Entry]) -> Iterator[Cause]:
    """The shortest ring of warps that wait for each other, if there is one.

    An mbarrier on which nobody ever arrived may wait for any other warp of the cluster that has
    an arrival before it.
    """
    standing = {entry["row"]: number for number, entry in enumerate(waiting)
                if entry["waits_for"]}
    size = machine.space.cluster_size * machine.shape.warps
    after: dict[int, list[int]] = {}
    for row, number in standing.items():
        entry = waiting[number]
        rows = _needed(machine, entry)
        if not rows and entry["waits_for"].get("ever_arrived") == []:
            rows = [other for other, at in standing.items()
                    if other // size == row // size and other != row
                    and _may_arrive(machine.program, waiting[at]["site"])]
        after[row] = [other for other in rows if other in standing]
    rings = [ring for ring in (_ring(after, row) for row in standing) if ring]
    if not rings:
        return
    ring = [waiting[standing[row]] for row in min(rings, key=len)]
    names = [_name(machine, one) for one in ring]
    lines = [one["line"] for one in ring]
    if len(ring) == 1:
        yield Cause("cycle", f"{names[0]} waits (line {lines[0]}) for its own arrival",
                    f"an arrival before line {lines[0]}, or the parity of the phase that is "
                    "complete", entry=standing[ring[0]["row"]])
        return
    steps = [f"{name} waits (line {line}) for {following}" for name, line, following
             in zip(names, lines, [*names[1:], names[0]], strict=True)]
    yield Cause("cycle", f"cycle: {', and '.join(steps)}",
                f"move one of the lines {', '.join(map(str, lines))} behind what the others wait "
                "for", entry=standing[ring[0]["row"]])


def _ring(after: dict[int, list[int]], start: int) -> list[int]:
    """The shortest way from a warp back to itself, without the return."""
    before: dict[int, int] = {}
    reached = deque([start])
    while reached:
        row = reached.popleft()
        for other in after[row]:
            if other == start:
                ring = [row]
                while ring[-1] != start:
                    ring.append(before[ring[-1]])
                return ring[::-1]
            if other not in before:
                before[other] = row
                reached.append(other)
    return []
