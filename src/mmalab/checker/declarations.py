"""Declarations that no name is missing from and that are wrong all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Subject
from mmalab.checker.types import REGISTER_TYPES
from mmalab.isa import type_bits
from mmalab.ptx.nodes import Block, Directive, RegisterDeclaration, Statement, Variable

__all__ = ["initial_symbols", "label_lists", "registers", "variables"]


#: Bits of the widest vector of registers.
_WIDEST = 128


def _statements(subject: Subject) -> Iterator[Statement]:
    """All statements of all bodies but instructions, blocks opened."""
    waiting = [iter(body.function.body or ()) for body in subject.bodies]
    while waiting:
        for statement in waiting[-1]:
            if isinstance(statement, Block):
                waiting.append(iter(statement.statements))
                break
            yield statement
        else:
            waiting.pop()


def registers(subject: Subject) -> Iterator[Fault]:
    """``.reg`` of a type, or a vector, that registers do not have."""
    for statement in _statements(subject):
        if isinstance(statement, RegisterDeclaration) and statement.type not in REGISTER_TYPES:
            yield Fault(message(f".reg .{statement.type}", "registers do not have this type",
                                [f".{t}" for t in REGISTER_TYPES]), statement.line)
        elif isinstance(statement, RegisterDeclaration) and statement.vector:
            yield from _vector(statement)


def _vector(declared: RegisterDeclaration) -> Iterator[Fault]:
    """A vector of two or four, of no predicates, of up to 128 bits."""
    given, lanes = f".reg .{declared.vector} .{declared.type}", int(declared.vector[1:])
    if declared.type == "pred":
        yield Fault(message(given, "predicates are scalars", [".reg .pred"]), declared.line)
    elif lanes not in (2, 4):
        yield Fault(message(given, "no register has so many components", [".v2", ".v4"]),
                    declared.line)
    elif lanes * type_bits(declared.type) > _WIDEST:
        yield Fault(message(given, f"has {lanes * type_bits(declared.type)} bits",
                            [f"up to {_WIDEST} bits"]), declared.line)


def _variables(subject: Subject) -> Iterator[Variable]:
    yield from subject.module.variables
    for statement in _statements(subject):
        if isinstance(statement, Variable):
            yield statement


def variables(subject: Subject) -> Iterator[Fault]:
    """Alignments, initial values and types that a variable may not have."""
    for variable in _variables(subject):
        named = f".{variable.space} {variable.name}"
        align = variable.align
        if align is not None and (align < 1 or align & (align - 1)):
            yield Fault(message(named, f".align {align} is not a power of two",
                                ["1, 2, 4, 8, 16, ..."]), variable.line)
        if variable.initializer is not None and variable.space not in ("global", "const"):
            yield Fault(message(named, f"no initial value is allowed in .{variable.space}",
                                [".global or .const", "a store at the start"]), variable.line)
        if variable.type == "pred":
            yield _predicate(named, variable.line)
    for body in subject.bodies:
        for parameter in (*body.function.parameters, *body.function.results):
            if parameter.type == "pred" and parameter.space != "reg":
                yield _predicate(f".param {parameter.name}", body.function.line)
    yield from _redeclared(subject)


def _predicate(named: str, line: int) -> Fault:
    return Fault(message(named, "predicates live in registers only", [".u8, .b32"]), line)


def _redeclared(subject: Subject) -> Iterator[Fault]:
    """Module variables declared twice (as extern and otherwise) in different ways."""
    first: dict[str, Variable] = {}
    for variable in subject.module.variables:
        known = first.setdefault(variable.name, variable)
        if (known.space, known.type) != (variable.space, variable.type):
            yield Fault(message(
                f".{variable.space} {variable.name}", f"is .{variable.space} .{variable.type} "
                f"here and .{known.space} .{known.type} in line {known.line}"), variable.line)


_SYMBOL = re.compile(r"[A-Za-z_$%][\w$]*")


def initial_symbols(subject: Subject) -> Iterator[Fault]:
    """Initial values that are addresses of nothing."""
    for variable in subject.module.variables:
        for value in variable.initializer or ():
            if not isinstance(value, str) or "=" in value:
                continue  # a number, or the settings of a sampler
            for match in _SYMBOL.finditer(value):
                name = match[0]
                if name != "generic" and subject.scope.find(name) is None and (
                    not value[:match.start()].endswith("0")  # the x of 0xff(a)
                ):
                    yield Fault(message(name, f"no symbol of this name is declared, and {value} is "
                                        f"an initial value of {variable.name}",
                                        subject.scope.nearest(name)), variable.line,
                                {"name": name})


def label_lists(subject: Subject) -> Iterator[Fault]:
    """``.branchtargets`` with labels that the function does not have."""
    for body in subject.bodies:
        labels: set[str] | None = None
        waiting = list(body.function.body or ())
        while waiting:
            statement = waiting.pop()
            if isinstance(statement, Block):
                waiting += statement.statements
            elif isinstance(statement, Directive) and statement.name == ".branchtargets":
                if labels is None:
                    labels = body.labels
                for name in statement.arguments.replace(",", " ").split():
                    if name not in labels:
                        yield Fault(message(name, "no label of this name is in the function",
                                            sorted(labels)[:3]), statement.line, {"name": name})
