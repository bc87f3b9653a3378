"""Which slots are live behind each site where compiled code may leave a region.

Backward data flow over the fine regions. A guarded write does not end a value's life: the lanes
that do not execute keep it. Everything is live at a stop's operands only as far as Python reads it.
"""

from __future__ import annotations

from mmalab.emulator.native.regions import Region, is_branch, is_exit
from mmalab.emulator.program import Addr, Guarded, Op, Program, Reg, Site, Target, Vec

__all__ = ["Key", "live_after", "reads_of", "writes_of"]

Key = tuple[str, int]


def _registers(op: Op) -> list[Reg]:
    if isinstance(op, Reg):
        return [op]
    if isinstance(op, Guarded):
        return [op.reg]
    if isinstance(op, Vec):
        return [r for item in op.items for r in _registers(item)]
    if isinstance(op, Addr):
        bases = [op.base] if op.base is not None else []
        return bases + [r for item in op.coordinates for r in _registers(item)]
    return []


def _keys(op: Op) -> set[Key]:
    found = set()
    for register in _registers(op):
        found.add((register.file, register.slot))
        if register.bits == 128:
            found.add((register.file, register.slot + 1))
    return found


def reads_of(site: Site) -> set[Key]:
    """Slots that the site reads (a guarded write keeps old lanes, which is not a read here)."""
    keys: set[Key] = set() if site.guard is None else {("p", site.guard[0])}
    for spec, op in zip(site.form.operands, site.operands, strict=False):
        if spec.role != "write":
            keys |= _keys(op)
    return keys


def writes_of(site: Site) -> set[Key]:
    """Slots that the site may write."""
    keys: set[Key] = set()
    for spec, op in zip(site.form.operands, site.operands, strict=False):
        if spec.role in ("write", "update"):
            keys |= _keys(op)
    return keys


def _successors(program: Program, region: Region) -> list[int]:
    """Sites at which control may arrive from the end of the region."""
    last = program.sites[region.stop - 1]
    if is_branch(last):
        targets = [s for op in last.operands if isinstance(op, Target) for s in op.sites]
        falls = last.guard is not None or last.form.family == "brx.idx"
        return [*targets, region.stop] if falls else targets
    if is_exit(last) and last.guard is None:
        return []
    return [region.stop]


def _before(site: Site, live: set[Key]) -> set[Key]:
    if site.guard is None:
        live = live - writes_of(site)
    return live | reads_of(site)


def live_after(program: Program, regions: tuple[Region, ...]) -> dict[int, set[Key]]:
    """Live slots behind the last site of every region, keyed by that site's index."""
    count = len(program.sites)
    at = {region.start: region.number for region in regions}
    live_in: list[set[Key]] = [set() for _ in regions]
    live_out: list[set[Key]] = [set() for _ in regions]
    following = [[at[s] for s in _successors(program, r) if s < count] for r in regions]
    changed = True
    while changed:
        changed = False
        for region in reversed(regions):
            out: set[Key] = set().union(*(live_in[n] for n in following[region.number]))
            live = out
            for index in range(region.stop - 1, region.start - 1, -1):
                live = _before(program.sites[index], live)
            live_out[region.number] = out
            if live != live_in[region.number]:
                live_in[region.number] = live
                changed = True
    return {r.stop - 1: live_out[r.number] for r in regions}
