"""Whether an instruction is legal: on a target, in a PTX version, with its operands, and why not.

    >>> legal("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "sm_75").reason
    'mma.sync needs sm_80+, sm_75 is not among them'

A verdict names the rule that decided: ``opcode`` (no such instruction), ``target``,
``ptx-version``, ``operands``, ``value``; or ``not-in-table`` for the parts of the ISA that the
table does not hold, where `known` is False and nothing is claimed. Legal means that an assembler
takes it and nothing more: what goes wrong at run time is the sanitizer's business.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Protocol

from mmalab.errors import UnknownForm, UsageError
from mmalab.isa.absent import why_absent, why_no_operand
from mmalab.isa.form import Form, OperandSpec
from mmalab.isa.lookup import find, in_later_issue, nearest, needs_of, row_of
from mmalab.isa.operand_text import Given, split
from mmalab.isa.ports import instead, replacements
from mmalab.isa.targets import Target, parse_targets
from mmalab.isa.targets import target as target_row
from mmalab.isa.vocabulary import type_bits

__all__ = ["Verdict", "legal", "operand_problem", "usage"]

_WHERE = "mmalab.isa.legal"


class _HasText(Protocol):
    """A parsed instruction: its exact text."""

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """`legal`, in words why not, the nearest legal spellings, and the rule that decided."""

    legal: bool
    reason: str = ""
    nearest: list[str] = field(default_factory=list)
    rule: str = ""
    known: bool = True
    #: What does the job on that target, or why no target has it, in words.
    instead: str = ""

    def __bool__(self) -> bool:
        return self.legal


def legal(
    instruction: str | _HasText,
    target: str | None = None,
    ptx_version: tuple[int, int] | str | None = None,
) -> Verdict:
    """The verdict on an opcode alone or on a whole instruction.

    Args:
        instruction: ``"add.f32"``, ``"@%p add.f32 %f1, %f2, %f3;"``, or a parsed instruction.
        target: without it, legal on some target is legal.
        ptx_version: (8, 7) or "8.7"; without it the newest that the table knows.

    Raises:
        UsageError: no such target.
    """
    text = instruction if isinstance(instruction, str) else getattr(instruction, "text", None)
    if not isinstance(text, str):
        raise UsageError(f"an instruction of type {type(instruction).__name__}", "is not text",
                         legal='"add.f32", "add.f32 %f1, %f2, %f3;"', where=_WHERE)
    opcode, operands = split(text)
    try:
        form = find(opcode)
    except UnknownForm as error:
        if in_later_issue(opcode):
            return Verdict(False, str(error.rule), rule="not-in-table", known=False)
        return Verdict(False, str(error).splitlines()[0], list(error.legal), "opcode",
                       instead=why_absent(opcode))
    on = None if target is None else target_row(target)
    version = _version(ptx_version)
    problem = _target_problem(form, on) or _version_problem(form, on, version)
    if problem:
        return Verdict(False, problem[1], _elsewhere(form, on, version), problem[0],
                       instead=_way_out(form, on, problem[0]))
    if operands is not None:
        fault = operand_problem(form, operands, on, version)
        if fault:
            more = len(operands) > len(form.operands)
            return Verdict(False, fault[1], [usage(form)], fault[0],
                           instead=why_no_operand(form.key) if more else "")
    return Verdict(True, _grounds(form), rule="form")


def _version(given: tuple[int, int] | str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    try:
        major, minor = (map(int, given.split(".")) if isinstance(given, str)
                        else map(operator.index, given))
    except (TypeError, ValueError):
        raise UsageError(f"PTX version {given!r}", "is no pair of numbers", legal='(8, 7), "8.7"',
                         where=_WHERE) from None
    return major, minor


def _grounds(form: Form) -> str:
    return f"{form.source}; {form.targets}, PTX {form.ptx[0]}.{form.ptx[1]}"


# --- target and version ---------------------------------------------------------------------------


def _target_problem(form: Form, on: Target | None) -> tuple[str, str] | None:
    if form.gone:
        return "target", f"{form.key}: {form.gone}"
    if on is None:
        if form.targets == "no target":
            return "target", f"{form.key}: no target has all that it asks for"
        return None
    if on.name in parse_targets(form.targets):
        return None
    row = row_of(form.key)
    if row is not None:
        for who, need in needs_of(row, dict(form.modifiers)):
            allowed = parse_targets(need.targets)
            if on.name not in allowed:
                return "target", f"{who} needs {allowed}, {on} is not among them"
    return "target", f"{form.key} needs {form.targets}, {on} is not among them"


def _version_problem(
    form: Form, on: Target | None, version: tuple[int, int] | None
) -> tuple[str, str] | None:
    if form.until is not None and (version is None or version > form.until):
        return "ptx-version", f"{form.key} was removed after PTX {_dotted(form.until)}"
    if version is None:
        return None
    if on is not None and version < on.ptx:
        return "ptx-version", f"{on} needs PTX {_dotted(on.ptx)}, the version is {_dotted(version)}"
    first = form.first_version(on.name) if on is not None else form.ptx
    if version < first:
        there = f" on {on}" if first != form.ptx else ""
        return "ptx-version", (
            f"{form.key} needs PTX {_dotted(first)}{there}, the version is {_dotted(version)}")
    return None


def _way_out(form: Form, on: Target | None, rule: str) -> str:
    """What does the job on that target: for a version that is too old, a newer one."""
    if on is None:
        return ""
    if rule == "ptx-version" and form.until is None:
        return f".version {_dotted(max(on.ptx, form.first_version(on.name)))} or newer"
    return instead(form.key, on)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _elsewhere(
    form: Form, on: Target | None, version: tuple[int, int] | None
) -> list[str]:
    """What the target and the version do have: first what does the job on that chip, then near
    spellings, the same family, density, input types and accumulator before others."""
    near = [find(other) for other in nearest(form.key, 200)]
    near.sort(key=partial(_unlike, form))
    ports = replacements(form.key, on) if on is not None else []
    if form.shape is None and (ports or (on is not None and instead(form.key, on))):
        near = [other for other in near if other.family == form.family]
    candidates = [*map(find, ports), *near]
    legal_there = (
        other.key for other in candidates if other.key != form.key
        and not _target_problem(other, on) and not _version_problem(other, on, version))
    return list(islice(dict.fromkeys(legal_there), 3))


def _unlike(form: Form, other: Form) -> tuple[int, ...]:
    """How far another form's job is from a form's, the graver differences first."""
    if form.shape is None:
        return (form.family != other.family,)
    mine, its = form.modifiers, other.modifiers
    return (
        form.family != other.family,
        mine.get("atype", "")[:1] in "su" and mine.get("atype") != its.get("atype"),
        mine.get("atype") != its.get("atype"),
        mine.get("dtype") != its.get("dtype"),
        "kind" in its and "kind" not in mine,
        abs(type_bits(its["atype"]) - type_bits(mine["atype"])) if "atype" in its and (
            "atype" in mine) else 0,
        sum(abs(x - y) for x, y in zip(form.shape, other.shape or (0, 0, 0), strict=True)),
    )


# --- operands -------------------------------------------------------------------------------------


def usage(form: Form, listed: Sequence[OperandSpec] | None = None) -> str:
    """The instruction with its operands by name: ``bar.arrive a, n``; `listed`: one of its other
    lists of operands."""
    words: list[str] = []
    for spec in form.operands if listed is None else listed:
        word = _named(spec)
        words.append(f"{{, {word}}}" if spec.optional else f", {word}" if words else word)
    return f"{form.key} {''.join(words)}".rstrip()


def _named(spec: OperandSpec) -> str:
    if spec.role == "sink":
        return "_"
    name = f"{{{spec.name} x {spec.count}}}" if spec.vector else spec.name
    if spec.role == "address":
        return f"[{spec.name}, {{{spec.count} coordinates}}]" if spec.vector else f"[{name}]"
    return f"{name}|p" if spec.pair_required else name


def operand_problem(
    form: Form,
    operands: Sequence[Given],
    on: Target | None = None,
    version: tuple[int, int] | None = None,
) -> tuple[str, str] | None:
    """(rule, reason) of the first operand that does not fit, None when all fit."""
    if form.family == "call":
        return None
    specs = form.fit([given.kind for given in operands])
    if specs is None:
        lists = (form.operands, *form.others)
        least = min(sum(not spec.optional for spec in listed) for listed in lists)
        most = max(map(len, lists))
        wanted = str(most) if least == most else f"{least} to {most}"
        return "operands", f"{form.key} takes {wanted} operands, {len(operands)} given"
    for position, (spec, given) in enumerate(zip(specs, operands, strict=True), 1):
        where = f"operand {position} ({spec.name}) of {form.key}"
        for rule, problem in _faults(form, spec, given, on, version):
            return rule, f"{where} {problem}"
    return None


def _faults(
    form: Form, spec: OperandSpec, given: Given, on: Target | None,
    version: tuple[int, int] | None,
) -> Iterator[tuple[str, str]]:
    if spec.targets and on is not None and on.name not in parse_targets(spec.targets):
        yield "target", f"needs {parse_targets(spec.targets)}, {on} is not among them"
    if spec.optional and version is not None and version < spec.ptx:
        yield "ptx-version", f"needs PTX {_dotted(spec.ptx)}"
    for values, targets, first in spec.late:
        if given.value in values and on is not None and on.name not in parse_targets(targets):
            yield "value", f"{given.value} needs {parse_targets(targets)}, {on} is not among them"
        if given.value in values and version is not None and version < first:
            yield "ptx-version", f"{given.value} needs PTX {_dotted(first)}"
    fault = _SHAPES[spec.role](form, spec, given)
    if fault:
        yield "operands", fault
    yield from (("value", text) for text in _value_faults(form, spec, given))


def _register(form: Form, spec: OperandSpec, given: Given) -> str:
    """Problem of a read or written operand."""
    if given.kind == "vector":
        return _vector(spec, given)
    if spec.vector and not (given.kind == "register" and "vec" in form.modifiers):
        return f"must be a vector of {spec.count}"
    if given.kind == "address":
        return "must not be an address"
    if given.kind == "pair":
        return "" if spec.pair else "must not be a pair"
    if spec.pair_required:
        return "must be a pair, d|p"
    return ""


def _vector(spec: OperandSpec, given: Given) -> str:
    count = len(given.items)
    if spec.vector:
        return "" if count == spec.count else f"must have {spec.count} registers, it has {count}"
    if spec.packs:
        return "" if count in (1, 2, 4) else f"packs 2 or 4 registers, not {count}"
    # A register in braces is that register: Triton writes ld.global.b16 {%rs1}, [%rd1].
    return "" if count == 1 else "must not be a vector"


#: Families whose result may be dropped, ``atom.add.u32 _, [a], b``.
_DROPPING = ("mbarrier.arrive", "atom")


def _written(form: Form, spec: OperandSpec, given: Given) -> str:
    if given.kind in ("immediate", "negated"):
        return "must be a register"
    if given.kind == "sink" and not (spec.pair or form.family.startswith(_DROPPING)):
        waits = form.family.startswith("mbarrier.")
        return "must be a register" + ", which is all that a wait gives" * waits
    return _register(form, spec, given)


def _read(form: Form, spec: OperandSpec, given: Given) -> str:
    if given.kind == "sink":
        return "must be a register"
    if given.kind == "negated" and given.text[0] == "!" and "pred" not in (
        spec.type, spec.alternative
    ):
        return "must not be negated"
    return _register(form, spec, given)


def _address(_form: Form, spec: OperandSpec, given: Given) -> str:
    if given.kind != "address":
        return "must be an address, [a]"
    if not given.text:
        return ""  # whoever made the record does not say what is inside
    coordinates = len(given.items[1].items) if len(given.items) == 2 else 0
    wanted = spec.count if spec.vector else 0
    if coordinates == wanted:
        return ""
    return f"must have {wanted or 'no'} coordinates, it has {coordinates or 'none'}"


def _immediate(_form: Form, spec: OperandSpec, given: Given) -> str:
    if spec.vector:
        ok = given.kind == "vector" and len(given.items) == spec.count and all(
            item.kind == "immediate" for item in given.items)
        return "" if ok else f"must be {spec.count} immediates in braces"
    return "" if given.kind == "immediate" else "must be an immediate"


def _sink(_form: Form, _spec: OperandSpec, given: Given) -> str:
    return "" if given.kind == "sink" else "must be the sink _"


def _name(_form: Form, _spec: OperandSpec, given: Given) -> str:
    return "" if given.kind == "register" else "must be a name"


_SHAPES = {
    "read": _read, "write": _written, "update": _written, "address": _address,
    "immediate": _immediate, "sink": _sink, "label": _name, "symbol": _name,
    "call": lambda *_: "",
}

#: Bytes that a block-scale vector may begin at, by its size.
_SCALE_BYTES: Mapping[str, tuple[int, ...]] = {"1X": (0, 1, 2, 3), "2X": (0, 2), "4X": (0,)}


def _value_faults(form: Form, spec: OperandSpec, given: Given) -> Iterator[str]:
    if spec.vector and spec.role == "immediate":
        size = form.modifiers.get("scale_vec") or (
            "1X" if form.modifiers.get("kind") == "mxf8f6f4" else "2X")
        threads = range(2) if spec.name == "ida" else range(4)
        named = zip(("byte", "thread"), given.items, (_SCALE_BYTES[size], threads), strict=False)
        for word, item, allowed in named:
            if item.value is not None and item.value not in allowed:
                yield f"{word} id {item.value} is not one of {_listed(tuple(allowed))}"
    elif spec.values is not None and given.value is not None and given.value not in spec.values:
        yield f"is {given.value}, legal are {_listed(spec.values)}"


def _listed(values: range | tuple[int, ...]) -> str:
    if isinstance(values, range) and len(values) > 4:
        step = f" in steps of {values.step}" if values.step != 1 else ""
        return f"{values[0]} to {values[-1]}{step}"
    return ", ".join(map(str, values))
