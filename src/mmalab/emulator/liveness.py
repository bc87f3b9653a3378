"""Which slots a site reads and writes, and which are live at the ends of each block.

A guarded write keeps the old value of the lanes whose guard is false, so it also reads: the slot
stays live before it. A .b128 register is two slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab.emulator.program import Addr, BasicBlock, Guarded, Op, Reg, Site, Vec

__all__ = ["Liveness", "Slot", "live_slots", "reads_of", "slots_of", "writes_of"]

Slot = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Liveness:
    """Slots (file, slot) that hold a value needed later, per block."""

    into: tuple[frozenset[Slot], ...]
    out_of: tuple[frozenset[Slot], ...]


def slots_of(op: Op) -> list[Slot]:
    """The slots that an operand names, those of an address included."""
    if isinstance(op, Reg):
        return [(op.file, op.slot + k) for k in range(2 if op.bits == 128 else 1)]
    if isinstance(op, Guarded):
        return slots_of(op.reg)
    if isinstance(op, Vec):
        return [slot for item in op.items for slot in slots_of(item)]
    if isinstance(op, Addr):
        found = slots_of(op.base) if op.base is not None else []
        return found + [slot for item in op.coordinates for slot in slots_of(item)]
    return []


def reads_of(site: Site) -> set[Slot]:
    """Slots whose value the site uses, its guard included."""
    found = set() if site.guard is None else {("p", site.guard[0])}
    for spec, op in zip(site.form.operands, site.operands, strict=False):
        if spec.role != "write":
            found.update(slots_of(op))
    return found


def writes_of(site: Site) -> set[Slot]:
    """Slots that the site sets (where its guard holds)."""
    return {slot for spec, op in zip(site.form.operands, site.operands, strict=False)
            if spec.role in ("write", "update") for slot in slots_of(op)}


def live_slots(sites: Sequence[Site], blocks: Sequence[BasicBlock]) -> Liveness:
    """Backward dataflow to the fixed point."""
    use: list[set[Slot]] = []
    define: list[set[Slot]] = []
    for block in blocks:
        used, defined = set[Slot](), set[Slot]()
        for site in sites[block.start : block.stop]:
            written = writes_of(site)
            needed = reads_of(site) | (written if site.guard is not None else set())
            used |= needed - defined
            if site.guard is None:
                defined |= written
        use.append(used)
        define.append(defined)
    into = [frozenset[Slot]()] * len(blocks)
    out_of = [frozenset[Slot]()] * len(blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for following in block.successors:
            before[following].append(block.index)
    pending = list(range(len(blocks)))
    while pending:
        index = pending.pop()
        out_of[index] = frozenset[Slot]().union(*(into[s] for s in blocks[index].successors))
        updated = frozenset(use[index] | (out_of[index] - define[index]))
        if updated != into[index]:
            into[index] = updated
            pending.extend(before[index])
    return Liveness(tuple(into), tuple(out_of))
