"""Aligned instructions where part of a warp cannot come.

``bar.sync``, ``mma.sync.aligned`` and their like are for whole warps. The rule speaks only where a
branch splits a warp beyond doubt::

    mov.u32     %r1, %tid.x;
    setp.lt.s32 %p1, %r1, 48;      lanes 0 to 15 of warp 1 go one way, the others the other
    @!%p1 bra   $skip;
    bar.sync    0;                 for half a warp

that is: the predicate compares %tid.x (or %laneid) with a constant that is no multiple of 32, and
the instruction stands under it as guard, or behind the branch with no label in between. Threads
that have exited do not count, so a branch to ``ret`` splits nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mmalab.checker.names import registers_of
from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Site, Subject
from mmalab.isa import Form
from mmalab.ptx.nodes import Immediate, Instruction, Label, Name, Register

__all__ = ["whole_warps"]

_LANES = ("%tid.x", "%laneid")
_BARRIERS = ("bar.sync", "bar.red", "bar.arrive")
_EXITS = ("ret", "exit", "trap")


def whole_warps(subject: Subject) -> Iterator[Fault]:
    """Aligned instructions that a part of a warp executes."""
    if not any(_aligned(form) for form in subject.forms.values() if form is not None):
        return
    for body in subject.bodies:
        splits = _splitting(body)
        if splits:
            yield from _under_guard(subject, body, splits)
            yield from _behind_branch(subject, body, splits)


def _aligned(form: Form) -> bool:
    # bar.sync is short for barrier.sync.aligned.
    return "aligned" in form.modifiers or (
        form.family in _BARRIERS and form.key.startswith("bar."))


def _splitting(body: Body) -> dict[str, str]:
    """Predicates that are true for a part of some warp only, and the comparison that says so.

    Only registers with one definition in the whole function count; a name that several scopes
    declare has several.
    """
    extent = _extent(body)
    written: Counter[str] = Counter()
    numbers: dict[str, tuple[str, int]] = {}
    found: dict[str, tuple[str, str]] = {}
    for site in body.sites:
        instruction = site.instruction
        operands = instruction.operands
        for operand in operands[:1]:
            written.update(registers_of(operand))
        if instruction.guard is not None or len(operands) < 2:
            continue
        first, source = operands[:2]
        if not isinstance(first, Register) or not isinstance(source, Register):
            continue
        if instruction.opcode.startswith("mov.") and source.name in _LANES:
            numbers[first.name] = source.name, min(extent, 32) if "lane" in source.name else extent
        elif source.name in numbers:
            shown, count = numbers[source.name]
            if _is_lane(instruction):
                numbers[first.name] = f"{shown} & 31", min(count, 32)
            elif said := _comparison(instruction, count):
                found[first.name] = source.name, f"{shown} {said}"
    return {p: said for p, (number, said) in found.items()
            if written[p] == 1 and written[number] == 1}


def _extent(body: Body) -> int:
    """Values that %tid.x surely takes: those of .reqntid, else those of one warp."""
    text = dict(body.function.attributes).get(".reqntid", "32")
    return int(text.split(",")[0])


def _is_lane(instruction: Instruction) -> bool:
    """``and.b32 %r2, %r1, 31``."""
    mask = instruction.operands[2] if len(instruction.operands) == 3 else None
    return instruction.opcode == "and.b32" and isinstance(mask, Immediate) and mask.value == 31


def _comparison(instruction: Instruction, count: int) -> str:
    """``lt 48`` where comparing the numbers 0 to count - 1 with a constant splits a warp."""
    parts = instruction.opcode.split(".")
    if parts[0] != "setp" or len(parts) != 3 or parts[2] not in ("s32", "u32"):
        return ""
    bound = instruction.operands[2]
    if not isinstance(bound, Immediate) or not isinstance(bound.value, int):
        return ""
    value = bound.value
    if not 0 <= value < count or count < 2:
        return ""
    split = {
        "eq": True, "ne": True, "lt": value % 32 != 0, "ge": value % 32 != 0,
        "le": value % 32 != 31 and value != count - 1,
        "gt": value % 32 != 31 and value != count - 1,
    }.get(parts[1], False)
    return f"{parts[1]} {value}" if split else ""


def _under_guard(subject: Subject, body: Body, splits: dict[str, str]) -> Iterator[Fault]:
    for site in body.sites:
        guard, form = site.instruction.guard, subject.forms[site.instruction.opcode]
        if guard is not None and guard.register in splits and form is not None and _aligned(form):
            yield _fault(site, f"its guard is {splits[guard.register]}")


def _behind_branch(subject: Subject, body: Body, splits: dict[str, str]) -> Iterator[Fault]:
    leaving = _leaving(body)
    said = ""
    for item in body.stream:
        if isinstance(item, Label):
            said = ""
            continue
        instruction = item.instruction
        form = subject.forms[instruction.opcode]
        if said and form is not None and _aligned(form) and instruction.guard is None:
            yield _fault(item, said)
        if form is None or form.family not in ("bra", "brx.idx", *_EXITS):
            continue
        guard = instruction.guard
        target = instruction.operands[0] if instruction.operands else None
        if form.family == "bra" and guard is not None and guard.register in splits and (
            isinstance(target, Name) and target.name not in leaving
        ):
            said = f"the branch in line {item.line} splits one: {splits[guard.register]}"
        elif guard is None:
            said = ""


def _leaving(body: Body) -> set[str]:
    """Labels behind which nothing comes but the end of the thread."""
    found: set[str] = set()
    waiting: list[str] = []
    for item in body.stream:
        if isinstance(item, Label):
            waiting.append(item.name)
        else:
            if item.instruction.opcode.split(".")[0] in _EXITS:
                found.update(waiting)
            waiting = []
    return found | set(waiting)


def _fault(site: Site, said: str) -> Fault:
    return Fault(message(site.instruction.text.strip(), f"is for whole warps, and {said}",
                         instead="execute it outside the branch, or the form without .aligned"),
                 site.line)
