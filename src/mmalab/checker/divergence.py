"""Aligned instructions where part of a warp, or of a warpgroup, cannot come.

``bar.sync``, ``mma.sync.aligned`` and their like are for whole warps, ``wgmma`` and ``setmaxnreg``
for whole warpgroups. The rule speaks only where a branch splits one beyond doubt::

    mov.u32     %r1, %tid.x;
    setp.lt.s32 %p1, %r1, 48;      lanes 0 to 15 of warp 1 go one way, the others the other
    @!%p1 bra   $skip;
    bar.sync    0;                 for half a warp

that is: the predicate compares %tid.x (or %laneid, or %tid.x shifted) with a constant that is no
multiple of 32 (of 128 threads for warpgroups), and the instruction stands under it as guard, or
behind the branch with no label in between. Threads that have exited do not count, so a branch to
``ret`` splits nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from mmalab.checker.names import registers_of
from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Body, Site, Subject
from mmalab.checker.warpgroups import GROUP, of_warpgroup
from mmalab.isa import Form
from mmalab.ptx.nodes import Immediate, Instruction, Label, Name, Register

__all__ = ["whole_warps"]

_LANES = ("%tid.x", "%laneid")
_BARRIERS = ("bar.sync", "bar.red", "bar.arrive")
_EXITS = ("ret", "exit", "trap")
_WARP = 32


class _Number(NamedTuple):
    """A register that counts threads: its value is the thread's number shifted right."""

    shown: str
    #: Threads that there surely are.
    threads: int
    shift: int = 0


class _Split(NamedTuple):
    """A comparison that parts the threads of some warp (32) or only of some warpgroup (128)."""

    said: str
    unit: int


def whole_warps(subject: Subject) -> Iterator[Fault]:
    """Aligned instructions that a part of a warp executes, or of a warpgroup."""
    if not any(_together(form) for form in subject.forms.values() if form is not None):
        return
    for body in subject.bodies:
        splits = _splitting(body)
        if splits:
            yield from _under_guard(subject, body, splits)
            yield from _behind_branch(subject, body, splits)


def _together(form: Form) -> int:
    """How many threads must execute the instruction together; 0: each for itself."""
    if of_warpgroup(form):
        return GROUP
    # bar.sync is short for barrier.sync.aligned.
    aligned = "aligned" in form.modifiers or (
        form.family in _BARRIERS and form.key.startswith("bar."))
    return _WARP if aligned else 0


def _splitting(body: Body) -> dict[str, _Split]:
    """Predicates that are true for a part of some warp or warpgroup only, and why.

    Only registers with one definition in the whole function count; a name that several scopes
    declare has several.
    """
    extent = _extent(body)
    written: Counter[str] = Counter()
    numbers: dict[str, _Number] = {}
    found: dict[str, tuple[str, _Split]] = {}
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
            numbers[first.name] = _Number(
                source.name, min(extent, _WARP) if "lane" in source.name else extent)
        elif source.name in numbers:
            number = numbers[source.name]
            if _is_lane(instruction) and not number.shift:
                numbers[first.name] = _Number(f"{number.shown} & 31", min(number.threads, _WARP))
            elif (shift := _shift(instruction)) is not None:
                numbers[first.name] = number._replace(
                    shown=f"{number.shown} >> {shift}", shift=number.shift + shift)
            elif split := _comparison(instruction, number):
                found[first.name] = source.name, split
    return {p: split for p, (number, split) in found.items()
            if written[p] == 1 and written[number] == 1}


def _extent(body: Body) -> int:
    """Values that %tid.x surely takes: those of .reqntid, else those of one warp."""
    text = dict(body.function.attributes).get(".reqntid", "32")
    return int(text.split(",")[0])


def _is_lane(instruction: Instruction) -> bool:
    """``and.b32 %r2, %r1, 31``."""
    mask = instruction.operands[2] if len(instruction.operands) == 3 else None
    return instruction.opcode == "and.b32" and isinstance(mask, Immediate) and mask.value == 31


def _shift(instruction: Instruction) -> int | None:
    """5 for ``shr.u32 %r2, %r1, 5``."""
    by = instruction.operands[2] if len(instruction.operands) == 3 else None
    if instruction.opcode not in ("shr.u32", "shr.s32", "shr.b32") or not isinstance(
            by, Immediate) or not isinstance(by.value, int) or not 0 <= by.value < _WARP:
        return None
    return by.value


def _comparison(instruction: Instruction, number: _Number) -> _Split | None:
    """What comparing the threads' numbers with a constant splits, if anything."""
    parts = instruction.opcode.split(".")
    if parts[0] != "setp" or len(parts) != 3 or parts[2] not in ("s32", "u32"):
        return None
    bound = instruction.operands[2]
    if not isinstance(bound, Immediate) or not isinstance(bound.value, int):
        return None
    first, behind = bound.value << number.shift, bound.value + 1 << number.shift
    edges = {"eq": (first, behind), "ne": (first, behind), "lt": (first,), "ge": (first,),
             "le": (behind,), "gt": (behind,)}.get(parts[1], ())
    said = f"{number.shown} {parts[1]} {bound.value}"
    for unit in (_WARP, GROUP):
        if any(edge % unit and _whole(edge, unit, number.threads) for edge in edges):
            return _Split(said, unit)
    return None


def _whole(thread: int, unit: int, threads: int) -> bool:
    """Whether the CTA has the thread, and all of its warpgroup."""
    return 0 <= thread < threads and (
        unit == _WARP or thread // unit * unit + unit <= threads)


def _under_guard(subject: Subject, body: Body, splits: dict[str, _Split]) -> Iterator[Fault]:
    for site in body.sites:
        guard, form = site.instruction.guard, subject.forms[site.instruction.opcode]
        split = splits.get(guard.register) if guard is not None else None
        if split is not None and form is not None and _together(form) >= split.unit:
            yield _fault(site, form, f"its guard is {split.said}")


def _behind_branch(subject: Subject, body: Body, splits: dict[str, _Split]) -> Iterator[Fault]:
    leaving = _leaving(body)
    behind: _Split | None = None
    for item in body.stream:
        if isinstance(item, Label):
            behind = None
            continue
        instruction = item.instruction
        form = subject.forms[instruction.opcode]
        if (behind is not None and form is not None and _together(form) >= behind.unit
                and instruction.guard is None):
            yield _fault(item, form, behind.said)
        if form is None or form.family not in ("bra", "brx.idx", *_EXITS):
            continue
        guard = instruction.guard
        target = instruction.operands[0] if instruction.operands else None
        if form.family == "bra" and guard is not None and guard.register in splits and (
            isinstance(target, Name) and target.name not in leaving
        ):
            split = splits[guard.register]
            behind = split._replace(
                said=f"the branch in line {item.line} splits one: {split.said}")
        elif guard is None:
            behind = None


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


def _fault(site: Site, form: Form, said: str) -> Fault:
    group = _together(form) == GROUP
    return Fault(message(site.instruction.text.strip(),
                         f"is for whole warp{'group' if group else ''}s, and {said}",
                         instead="a branch that all four warps take the same way" if group else
                         "execute it outside the branch, or the form without .aligned"),
                 site.line)
