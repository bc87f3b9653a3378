"""Calls: a function that may be called, with as many arguments and results as it declares."""

from __future__ import annotations

from collections.abc import Iterator

from mmalab.checker.rule import Fault, message
from mmalab.checker.scopes import Symbol
from mmalab.checker.subject import Site, Subject
from mmalab.isa import type_bits
from mmalab.ptx.nodes import Call, Name, Operand, Parameter, Register, Variable

__all__ = ["calls"]


def calls(subject: Subject) -> Iterator[Fault]:
    """Calls that the callee's declaration does not allow."""
    for site in subject.of_family("call"):
        operand = site.instruction.operands[0] if site.instruction.operands else None
        if isinstance(operand, Call):
            yield from _call(site, operand)


def _call(site: Site, call: Call) -> Iterator[Fault]:
    target = call.target
    if isinstance(target, Register):
        if call.prototype is None:
            yield _fault(site, f"{target.name} is called through a register without a prototype",
                         "a .callprototype or .calltargets label as last operand")
        return
    symbol = site.scope.find(target.name) if isinstance(target, Name) else None
    if symbol is None:
        return
    callee = symbol.function
    if callee is None or callee.kind == "entry":
        what = "an entry" if callee is not None else f"a {symbol.what}"
        yield _fault(site, f"{target.name if isinstance(target, Name) else ''} is {what}",
                     "a .func")
        return
    for word, given, wanted in (("arguments", call.arguments, callee.parameters),
                                ("results", call.results, callee.results)):
        if len(given) != len(wanted):
            yield _fault(site, f"{callee.name} has {len(wanted)} {word}, {len(given)} given",
                         f"{len(wanted)} {word}")
            continue
        for operand, parameter in zip(given, wanted, strict=True):
            yield from _passed(site, operand, parameter)


def _passed(site: Site, operand: Operand, parameter: Parameter) -> Iterator[Fault]:
    """A ``.param`` variable must have the size of the parameter it is passed for."""
    symbol = site.scope.find(operand.name) if isinstance(operand, Name) else None
    if symbol is None or not isinstance(symbol.variable, Variable | Parameter):
        return
    have, want = size_of(symbol), _bytes(parameter)
    if symbol.what == "param" and have and want and have != want:
        yield _fault(site, f"{symbol.variable.name} has {have} bytes, parameter "
                     f"{parameter.name} has {want}", f".param of {want} bytes")


def size_of(symbol: Symbol) -> int | None:
    """Bytes of a variable or parameter, None where the size is open (``x[]``) or unknown."""
    return _bytes(symbol.variable) if symbol.variable is not None else None


def _bytes(variable: Variable | Parameter) -> int | None:
    try:
        size = (type_bits(variable.type) + 7) // 8
    except KeyError:
        return None  # a texture, a sampler
    vector = variable.vector if isinstance(variable, Variable) else ""
    size *= int(vector.lstrip(".v") or 1)
    for count in variable.dims:
        size *= count
    return size or None


def _fault(site: Site, reason: str, legal: str) -> Fault:
    return Fault(message(site.instruction.text.strip(), reason, [legal]), site.line)
