"""Waits after which a kernel, where the answer is false, does nothing but ask again.

``mbarrier.try_wait`` may say false at any time, so how often it does says nothing about a kernel.
All of these loops end when the answer is true, and leave the same behind however often they went
round::

    W: try_wait p, [b], r;         W: mov r, 0;                      W: try_wait p, [b], r;
       @p bra D;                      try_wait p, [b], r;               @!p bra.uni W;
       bra W;                         selp.b32 s, 1, 0, p;
    D:                                setp.eq.s32 q, s, 0; @q bra W;

A loop that counts its turns, or looks at a clock, is none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmalab.emulator.liveness import Slot, reads_of, writes_of
from mmalab.emulator.program import Guarded, Imm, Op, Program, Reg, Site, Target

__all__ = ["WAITS", "asks_again"]

#: Families of waits.
WAITS = frozenset({"mbarrier.try_wait", "mbarrier.test_wait"})
#: What may stand in such a loop beside the wait and its branches.
_STEPS = frozenset({"mov", "selp", "setp", "nanosleep", "add", "sub", "mul", "mad", "shl", "shr",
                    "and", "or", "xor", "cvt", "cvta"})


def asks_again(program: Program, wait: Site) -> bool:
    """Whether a wait's false answer does nothing but lead back to it."""
    answer = wait.operands[0]
    if wait.guard is not None or not isinstance(answer, Reg) or answer.file != "p":
        return False
    behind = _steps(program, wait.index + 1)
    branch = program.sites[behind[-1].index + 1 if behind else wait.index + 1]
    if branch.form.family != "bra" or branch.guard is None:
        return False
    slot, negated = branch.guard
    leads = []
    for value in (0, 1):
        known = _evaluated(behind, {("p", answer.slot): value})
        if ("p", slot) not in known:
            return False
        taken = bool(known["p", slot]) != negated
        leads.append(_landing(program, _target(branch) if taken else branch.index + 1))
    head = _steps(program, leads[0])
    reached = head[-1].index + 1 if head else leads[0]
    return (leads[0] != leads[1] and reached == wait.index
            and not _carried([*head, wait, *behind]))


def _steps(program: Program, index: int) -> list[Site]:
    """The plain sites from `index` on."""
    found = []
    for site in program.sites[index:-1]:
        if site.form.family not in _STEPS or site.guard is not None:
            break
        found.append(site)
    return found


def _landing(program: Program, index: int) -> int:
    """Where control comes from `index` on through branches that are always taken."""
    for _ in range(len(program.sites)):
        if index >= len(program.sites):
            break
        site = program.sites[index]
        if site.form.family != "bra" or site.guard is not None:
            break
        index = _target(site)
    return index


def _target(branch: Site) -> int:
    return next(op.sites[0] for op in branch.operands if isinstance(op, Target))


def _carried(loop: Sequence[Site]) -> bool:
    """Whether a turn reads what the one before it wrote."""
    written = set[Slot]().union(*(writes_of(site) for site in loop))
    fresh = set[Slot]()
    for site in loop:
        if reads_of(site) & written - fresh:
            return True
        fresh |= writes_of(site)
    return False


# --- the answer on its way to the branch ----------------------------------------------------------

def _evaluated(steps: Sequence[Site], known: dict[Slot, int]) -> dict[Slot, int]:
    """The slots whose values follow from those in `known`."""
    for site in steps:
        value = _value(site, known)
        for slot in writes_of(site):
            if value is None:
                known.pop(slot, None)
            else:
                known[slot] = value
    return known


def _value(site: Site, known: dict[Slot, int]) -> int | None:
    family, operands = site.form.family, site.operands
    if not isinstance(operands[0] if operands else None, Reg):
        return None
    values = [_of(op, known) for op in operands[1:]]
    if family == "mov":
        return values[0]
    if family == "selp":
        return None if values[2] is None else values[0] if values[2] else values[1]
    compares = site.form.modifiers.get("cmp")
    if family == "setp" and compares in ("eq", "ne") and len(values) == 2 and None not in values:
        return int((values[0] == values[1]) == (compares == "eq"))
    return None


def _of(op: Op, known: dict[Slot, int]) -> int | None:
    if isinstance(op, Imm):
        return op.word
    if isinstance(op, Guarded):
        held = known.get(("p", op.reg.slot))
        return None if held is None else held ^ op.negated
    return known.get((op.file, op.slot)) if isinstance(op, Reg) else None
