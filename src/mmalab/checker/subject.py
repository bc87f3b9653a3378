"""The module under check, walked once: every instruction with the scope that it stands in.

Rules read this and nothing else. A :class:`Site` is one instruction with its scope and the kinds of
its operands; sites with one opcode are grouped, because most questions (does the target have it?)
are about the opcode alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mmalab.checker import kinds
from mmalab.checker.kinds import Kind
from mmalab.checker.scopes import Clash, Scope, Symbol, components
from mmalab.checker.special_registers import SPECIAL_REGISTERS
from mmalab.errors import UnknownForm, UsageError
from mmalab.isa import Form, Target, find
from mmalab.isa import target as target_row
from mmalab.ptx.nodes import (
    Address,
    Block,
    Directive,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Parameter,
    Register,
    RegisterDeclaration,
    Sink,
    Statement,
    Variable,
    Vector,
)

__all__ = ["Body", "Site", "Subject", "inspect"]

#: Labelled directives, by what their label means.
_LABELLED = {".branchtargets": "table", ".calltargets": "table", ".callprototype": "prototype"}


@dataclass(slots=True, eq=False)
class Site:
    """One instruction in its place."""

    instruction: Instruction
    scope: Scope
    body: Body
    kinds: tuple[Kind, ...]
    #: The kind of its guard, None without one.
    guard: Kind | None = None

    @property
    def line(self) -> int:
        """Its line in the text."""
        return self.instruction.line


@dataclass(slots=True, eq=False)
class Body:
    """One function with a body. `stream` holds its sites and labels in text order."""

    function: Function
    stream: list[Site | Label] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)

    @property
    def sites(self) -> Iterator[Site]:
        """Its instructions in text order."""
        return (item for item in self.stream if isinstance(item, Site))

    @property
    def labels(self) -> set[str]:
        """The names of its labels."""
        return {item.name for item in self.stream if isinstance(item, Label)}


@dataclass(slots=True, eq=False)
class Subject:
    """The module, the chip it is checked for (None if unknown), and what the walk found."""

    module: Module
    target: Target | None
    version: tuple[int, int]
    scope: Scope
    bodies: list[Body]
    #: Names that nothing declares, or whose component their register does not have: (site, name).
    undeclared: list[tuple[Site, str]]
    groups: dict[str, list[Site]] = field(default_factory=dict)
    #: The table's record of each opcode, None where it has none.
    forms: dict[str, Form | None] = field(default_factory=dict)
    #: Whether it is launched so that it may begin before the kernel ahead has ended.
    dependent: bool = False

    def of_family(self, *families: str) -> Iterator[Site]:
        """The sites whose instruction belongs to one of the families."""
        for opcode, sites in self.groups.items():
            form = self.forms[opcode]
            if form is not None and form.family in families:
                yield from sites


def inspect(module: Module, target: str | None, *, dependent: bool = False) -> Subject:
    """Walk a module; `dependent`: its kernel is launched programmatically.

    Raises:
        UsageError: `target` is no target (that of the module itself is judged, not raised).
    """
    on = target_row(target) if target is not None else _known(module.target)
    version = module.version
    if target is not None and on is not None and version < on.ptx:
        version = on.ptx  # as the assembler retargets: .version is raised where it must be
    scope = _module_scope(module)
    subject = Subject(module, on, version, scope, [], [], dependent=dependent)
    for function in module.functions:
        if function.body is not None:
            subject.bodies.append(_Walk(subject, function).body)
    groups: defaultdict[str, list[Site]] = defaultdict(list)
    for body in subject.bodies:
        for site in body.sites:
            groups[site.instruction.opcode].append(site)
    subject.groups = dict(groups)
    subject.forms = {opcode: _form(opcode) for opcode in groups}
    return subject


def _known(name: str) -> Target | None:
    try:
        return target_row(name)
    except UsageError:
        return None


def _form(opcode: str) -> Form | None:
    try:
        return find(opcode)
    except UnknownForm:
        return None


def _module_scope(module: Module) -> Scope:
    scope = Scope(None)
    for variable in module.variables:
        scope.declare(variable.name, Symbol(
            variable.space, variable.type, line=variable.line, variable=variable))
    for function in module.functions:
        first = scope.names.get(function.name)
        line = first.line if first is not None else function.line
        defined = function
        if first is not None and first.function is not None:
            if first.function.body is not None and function.body is not None:
                scope.clashes.append(Clash(function.name, function.line, first.line))
            defined = function if function.body is not None else first.function
        scope.names[function.name] = Symbol("function", line=line, function=defined)
    # A second declaration of an extern variable is one, not a clash.
    externs = {v.name for v in module.variables if v.linkage in ("extern", "common")}
    scope.clashes = [clash for clash in scope.clashes if clash.name not in externs]
    return scope


class _Walk:
    """One function body being read, with the scope that is open."""

    def __init__(self, subject: Subject, function: Function) -> None:
        self.subject = subject
        self.body = Body(function)
        #: Kinds by operand node (the parser shares nodes of equal text) and by name of a guard.
        self.known: dict[int | str, Kind] = {}
        self.line = 0
        self.missing: list[str] = []
        scope = Scope(subject.scope)
        for parameter in (*function.results, *function.parameters):
            _declare_parameter(scope, parameter, function.line)
        self.scope = scope
        self._block(function.body or (), scope)

    def _block(self, statements: Iterable[Statement], scope: Scope) -> None:
        statements = tuple(statements)
        for statement in statements:
            if isinstance(statement, Label):
                scope.declare(statement.name, Symbol("label", line=statement.line))
        outer, known = self.scope, self.known
        self.scope = scope
        for statement in statements:
            if isinstance(statement, Instruction):
                self._instruction(statement)
            elif isinstance(statement, Block):
                self.known = {}
                self._block(statement.statements, Scope(scope))
                self.known = known
            elif isinstance(statement, Label):
                self.body.stream.append(statement)
            else:
                self._declaration(statement)
                self.known = known = {}
        self.scope = outer
        self.body.clashes += scope.clashes

    def _declaration(self, statement: Statement) -> None:
        scope = self.scope
        if isinstance(statement, RegisterDeclaration):
            lanes = int(statement.vector.lstrip(".v") or 1)
            for name, count in statement.names:
                scope.declare_registers(name, count, statement.type.lstrip("."), lanes,
                                        statement.line)
        elif isinstance(statement, Variable):
            scope.declare(statement.name, Symbol(
                statement.space, statement.type, line=statement.line, variable=statement))
        elif isinstance(statement, Directive) and statement.label:
            what = _LABELLED.get(statement.name, "label")
            scope.declare(statement.label, Symbol(what, line=statement.line))

    def _instruction(self, instruction: Instruction) -> None:
        self.line = instruction.line
        known = self.known
        found = []
        for operand in instruction.operands:
            kind = known.get(id(operand))
            if kind is None:
                kind = self._remember(operand)
            found.append(kind)
        guard = None
        if instruction.guard is not None:
            name = instruction.guard.register
            guard = known.get(name)
            if guard is None:
                guard = self._register(name)
                if guard is not kinds.UNDECLARED:
                    known[name] = guard
        site = Site(instruction, self.scope, self.body, tuple(found), guard)
        self.body.stream.append(site)
        if self.missing:
            self.subject.undeclared += [(site, name) for name in self.missing]
            self.missing = []

    def _remember(self, operand: Operand) -> Kind:
        before = len(self.missing)
        kind = self._kind(operand)
        if len(self.missing) == before:
            self.known[id(operand)] = kind
        return kind

    def _kind(self, operand: Operand) -> Kind:
        match operand:
            case Register(name):
                return self._register(name)
            case Immediate():
                return _literal(operand)
            case Address(base, _, coordinates):
                for item in coordinates:
                    self._kind(item)
                return kinds.address(kinds.integer(0) if base is None else self._kind(base))
            case Vector(items):
                return kinds.vector(tuple(map(self._kind, items)))
            case Name(name):
                return self._name(name)
            case Pair(first, second):
                return kinds.pair(self._kind(first), self._kind(second))
            case Negated(register, sign):
                return kinds.negated(self._kind(register), sign)
            case Sink():
                return kinds.SINK
        for item in (*operand.results, operand.target, *operand.arguments):
            self._kind(item)
        if operand.prototype is not None:
            self._kind(operand.prototype)
        return kinds.OTHER

    def _register(self, name: str) -> Kind:
        symbol = self.scope.find(name)
        component = ""
        if symbol is None and "." in name:  # a declaration hides the special register
            plain, _, component = name.partition(".")
            symbol = self.scope.find(plain)
        if symbol is None and (special := SPECIAL_REGISTERS.get(name)) is not None:
            return kinds.special(special.type, 4 if special.vector else 1, special.also)
        if symbol is None or (component and component not in components(symbol)):
            self.missing.append(name)
            return kinds.UNDECLARED
        if symbol.what != "register":
            return kinds.name(symbol.what)
        if symbol.lanes > 1 and not component:
            return kinds.vector_register(symbol.type, symbol.lanes)
        return kinds.register(symbol.type)

    def _name(self, name: str) -> Kind:
        symbol = self.scope.find(name)
        if symbol is None or (symbol.what != "label" and symbol.line > self.line):
            self.missing.append(name)
            return kinds.UNDECLARED
        return self._register(name) if symbol.what == "register" else kinds.name(symbol.what)


def _declare_parameter(scope: Scope, parameter: Parameter, line: int) -> None:
    what = "register" if parameter.space == "reg" else "param"
    scope.declare(parameter.name, Symbol(what, parameter.type, line=line, variable=parameter))


def _literal(literal: Immediate) -> Kind:
    if isinstance(literal.value, int):
        return kinds.integer(literal.value)
    head = literal.text.lstrip("-")[:2].lower()
    return kinds.float_literal(head if head in ("0f", "0d") else "1.5", literal.value)
