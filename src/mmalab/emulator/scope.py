"""Names while lowering: scopes, register slots, and what an entry can reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mmalab.emulator.program import Reg
from mmalab.emulator.types import width
from mmalab.ptx.nodes import (
    Address,
    Call,
    Function,
    Instruction,
    Module,
    Name,
    Operand,
    Pair,
    Vector,
)

__all__ = ["Reach", "Scope", "Slots", "VariableAt", "reachable"]

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class VariableAt:
    """A variable's state space and its address there."""

    space: str
    address: int


@dataclass(frozen=True, slots=True)
class RegisterFamily:
    """A ``.reg`` declaration; `count` None for a single register."""

    type: str
    count: int | None
    vector: str


@dataclass(slots=True, eq=False)
class Scope:
    """The names of one ``{ ... }``."""

    outer: Scope | None
    registers: dict[str, RegisterFamily] = field(default_factory=dict)
    variables: dict[str, VariableAt] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    #: ``.branchtargets`` lists by label.
    tables: dict[str, list[str]] = field(default_factory=dict)

    def _chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def declare(self, name: str, type_: str, count: int | None, vector: str) -> None:
        """Note a register declaration."""
        self.registers[name] = RegisterFamily(type_, count, vector)

    def register(self, name: str) -> tuple[Scope, RegisterFamily] | None:
        """The scope that declares a register (without ``.x``), and the declaration."""
        for scope in self._chain():
            found = scope.registers.get(name)
            if found is not None and found.count is None:
                return scope, found
            for split in range(len(name) - 1, 0, -1):
                if not name[split].isdigit():
                    break
                family = scope.registers.get(name[:split])
                number = name[split:]
                if (family is not None and family.count is not None
                        and _NUMBERED.fullmatch(number) and int(number) < family.count):
                    return scope, family
        return None

    def variable(self, name: str) -> VariableAt | None:
        """The innermost variable of that name."""
        return next((s.variables[name] for s in self._chain() if name in s.variables), None)

    def label(self, name: str) -> int | None:
        """The innermost label of that name."""
        return next((s.labels[name] for s in self._chain() if name in s.labels), None)

    def table(self, name: str) -> list[str] | None:
        """The innermost ``.branchtargets`` list of that name."""
        return next((s.tables[name] for s in self._chain() if name in s.tables), None)


class Slots:
    """Register slots, one per declared register that is used."""

    def __init__(self) -> None:
        self._next = {"r": 0, "q": 0, "p": 0}
        self._known: dict[tuple[int, str], Reg] = {}
        self._scopes: list[Scope] = []
        self.names: dict[tuple[str, int], str] = {}

    def counts(self) -> dict[str, int]:
        """Slots per file."""
        return dict(self._next)

    def of(self, scope: Scope, name: str, type_: str) -> Reg:
        """The slot of the register `name` that `scope` declares."""
        key = (id(scope), name)
        found = self._known.get(key)
        if found is None:
            # Kept alive, or another scope could get the same id.
            self._scopes.append(scope)
            found = self._known[key] = self.fresh(type_, name)
        return found

    def fresh(self, type_: str, name: str) -> Reg:
        """A slot of its own."""
        bits = width(type_)
        if bits == 1:
            return self._take("p", 1, bits, name)
        if bits <= 32:
            return self._take("r", 1, bits, name)
        return self._take("q", bits // 64, bits, name)

    def _take(self, file: str, count: int, bits: int, name: str) -> Reg:
        slot = self._next[file]
        self._next[file] += count
        for each in range(slot, slot + count):
            self.names[file, each] = name
        return Reg("p" if file == "p" else "r" if file == "r" else "q", slot, bits, name)


# --- what an entry reaches ------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Reach:
    """Functions that an entry may call, names they mention, functions whose address is taken, and
    functions that may call themselves."""

    functions: tuple[Function, ...]
    names: frozenset[str]
    addressed: tuple[str, ...]
    recursive: frozenset[str]


def reachable(module: Module, entry: Function) -> Reach:
    """Follow the calls from `entry`."""
    by_name = {f.name: f for f in module.functions if f.body is not None}
    in_data = _addressed_in_data(module, by_name)
    pending, seen, names, addressed = [entry], {entry.name: entry}, set[str](), list(in_data)
    indirectly: set[str] = set()
    calls: dict[str, set[str]] = {}
    while pending:
        function = pending.pop()
        for instruction in function.instructions():
            called, other, indirect = _mentions(instruction)
            calls.setdefault(function.name, set()).update(called)
            if indirect:
                indirectly.add(function.name)
            names |= other
            addressed += [n for n in sorted(other) if n in by_name and n not in addressed]
            more = called | (set(addressed) if indirect else set())
            for name in sorted(more):
                if name in by_name and name not in seen:
                    seen[name] = by_name[name]
                    pending.append(by_name[name])
    for name in indirectly:
        calls[name] |= set(addressed)
    return Reach(tuple(seen.values()), frozenset(names), tuple(dict.fromkeys(addressed)),
                 frozenset(name for name in calls if _reaches(calls, name, name)))


def _reaches(calls: dict[str, set[str]], start: str, goal: str) -> bool:
    """Whether some chain of calls leads from `start` to `goal`."""
    pending, seen = list(calls.get(start, ())), set[str]()
    while pending:
        name = pending.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            pending.extend(calls.get(name, ()))
    return False


def _addressed_in_data(module: Module, functions: dict[str, Function]) -> list[str]:
    found = []
    for variable in module.variables:
        for value in variable.initializer or ():
            if isinstance(value, str):
                name = value.removeprefix("generic(").rstrip(")").partition("+")[0]
                if name in functions:
                    found.append(name)
    return list(dict.fromkeys(found))


def _mentions(instruction: Instruction) -> tuple[set[str], set[str], bool]:
    """(functions called, other names, whether a call goes through a register)."""
    called, names, indirect = set[str](), set[str](), False
    stack: list[Operand] = list(instruction.operands)
    while stack:
        operand = stack.pop()
        if isinstance(operand, Call):
            if isinstance(operand.target, Name):
                called.add(operand.target.name)
            else:
                indirect = True
            stack.extend((*operand.arguments, *operand.results))
        elif isinstance(operand, Name):
            names.add(operand.name)
        elif isinstance(operand, Vector):
            stack.extend(operand.items)
        elif isinstance(operand, Pair):
            stack.extend((operand.first, operand.second))
        elif isinstance(operand, Address) and isinstance(operand.base, Name):
            names.add(operand.base.name)
    return called, names, indirect
