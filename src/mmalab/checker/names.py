"""Names: declared before they are used, and once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmalab.checker.rule import Fault, message
from mmalab.checker.scopes import Clash, Symbol, components
from mmalab.checker.special_registers import SPECIAL_REGISTERS
from mmalab.checker.subject import Site, Subject
from mmalab.isa import parse_targets
from mmalab.ptx.nodes import Address, Call, Name, Negated, Operand, Pair, Register, Vector

__all__ = ["declared", "declared_once", "special_targets"]


#: Suggestions are looked for this many times in a module: each reads all names in reach.
_SUGGESTIONS = 20


def declared(subject: Subject) -> Iterator[Fault]:
    """Registers, labels, variables and functions that nothing declares: each once a function."""
    uses: dict[tuple[int, str], list[Site]] = {}
    for site, name in subject.undeclared:
        uses.setdefault((id(site.body), name), []).append(site)
    for count, ((_, name), sites) in enumerate(uses.items()):
        site = sites[0]
        witness = {"name": name, "lines": sorted({s.line for s in sites})}
        later = site.scope.find(name)
        plain, _, component = name.partition(".")
        if component and (hiding := site.scope.find(plain)) is not None:
            yield _no_component(site, name, plain, hiding, witness)
        elif later is not None:
            yield Fault(message(name, f"is declared only in line {later.line}, after its use",
                                [f"a declaration of {name} before line {site.line}"]), site.line,
                        witness)
        else:
            near = site.scope.nearest(name) if count < _SUGGESTIONS else []
            yield Fault(message(name, f"no {_what(site, name)} of this name is declared here",
                                near), site.line, witness)


def _no_component(site: Site, name: str, plain: str, symbol: Symbol,
                  witness: dict[str, Any]) -> Fault:
    """``%tid.x`` where a ``.reg .b32 %tid`` hides the special register, ``%v.z`` of a .v2."""
    has = ([f"{plain}.{axis}" for axis in components(symbol)] if symbol.lanes > 1
           else [plain, f".reg .v4 .{symbol.type} {plain}"])
    also = (", and hides the special register" if name in SPECIAL_REGISTERS else "")
    what = f"vector of {symbol.lanes}" if symbol.lanes > 1 else "scalar"
    return Fault(message(name, f"{plain} is declared in line {symbol.line} as a {what}{also}: it "
                         f"has no component .{name.partition('.')[2]}", has), site.line, witness,
                 code="operand-mismatch")


def _what(site: Site, name: str) -> str:
    guard = site.instruction.guard
    if name.startswith("%") or (guard is not None and guard.register == name):
        return "register"
    form = site.instruction.opcode.partition(".")[0]
    return {"bra": "label", "brx": "label list", "call": "function"}.get(form, "symbol")


def declared_once(subject: Subject) -> Iterator[Fault]:
    """Names with two meanings in one scope."""
    clashes: list[Clash] = list(subject.scope.clashes)
    for body in subject.bodies:
        clashes += body.clashes
    for clash in clashes:
        yield Fault(message(clash.name, f"is already declared in line {clash.first}",
                            ["another name", "a scope { } of its own"]), clash.line,
                    {"name": clash.name, "first": clash.first})


# --- special registers ----------------------------------------------------------------------------


def special_targets(subject: Subject) -> Iterator[Fault]:
    """Special registers that the target or the PTX version does not have."""
    seen: set[str] = set()
    for body in subject.bodies:
        for site in body.sites:
            for kind, operand in zip(site.kinds, site.instruction.operands, strict=False):
                if kind.tag == "special" and isinstance(operand, Register):
                    if operand.name not in seen:
                        yield from _special(subject, operand.name, site.line)
                    seen.add(operand.name)


def _special(subject: Subject, name: str, line: int) -> Iterator[Fault]:
    row, on = SPECIAL_REGISTERS[name], subject.target
    if on is not None and on.name not in parse_targets(row.need):
        yield Fault(message(name, f"needs {parse_targets(row.need)}, {on} is not among them"), line)
    elif subject.version < row.ptx:
        have, want = (".".join(map(str, v)) for v in (subject.version, row.ptx))
        yield Fault(message(name, f"needs PTX {want}, the version is {have}",
                            [f".version {want} or newer"]), line, code="ptx-version")


def registers_of(operand: Operand) -> Iterator[str]:
    """The names of all registers in an operand."""
    match operand:
        case Register(name):
            yield name
        case Address(base, _, coordinates):
            if base is not None:
                yield from registers_of(base)
            for item in coordinates:
                yield from registers_of(item)
        case Vector(items):
            for item in items:
                yield from registers_of(item)
        case Pair(first, second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Negated(register):
            yield register.name
        case Name(name):
            yield name
        case Call(results, target, arguments):
            for item in (*results, target, *arguments):
                yield from registers_of(item)
