"""Names: what a ``{ ... }`` of PTX declares, and what a name in it means.

ptxas wants a name declared before it is used (only labels may come later), one meaning per scope,
and hides outer meanings behind inner ones. ``.reg .b32 %r<4>`` declares %r0 to %r3::

    >>> scope = Scope(None)
    >>> scope.declare_registers("%r", 4, "b32", 0, 1)
    >>> scope.find("%r3").type, scope.find("%r4")
    ('b32', None)

A label is seen from the scope it stands in and from those inside it, not from outside.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field

from mmalab.ptx.nodes import Function, Parameter, Variable

__all__ = ["Clash", "Scope", "Symbol", "components"]

#: Digits of the largest member that a family may have.
_DIGITS = 9


def _splits(name: str) -> Iterator[tuple[str, int]]:
    """The families that a name may belong to: r12 is member 12 of r<n>, or member 2 of r1<n>."""
    for at in range(len(name) - 1, max(0, len(name) - 1 - _DIGITS), -1):
        digits = name[at:]
        if not (digits.isascii() and digits.isdigit()):
            return
        if digits[0] != "0" or len(digits) == 1:
            yield name[:at], int(digits)


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name means: `what` is ``register``, a state space, ``function``, ``label``,
    ``table`` or ``prototype``; `lanes` the components of a ``.v2``/``.v4`` register."""

    what: str
    type: str = ""
    lanes: int = 1
    line: int = 0
    variable: Variable | Parameter | None = None
    function: Function | None = None


def components(symbol: Symbol) -> str:
    """The components that a name has: ``xy`` of a .v2 register, none of a scalar."""
    return "xyzw"[: symbol.lanes] if symbol.what == "register" and symbol.lanes > 1 else ""


@dataclass(frozen=True, slots=True)
class Clash:
    """A name that one scope declares twice."""

    name: str
    line: int
    first: int
    function: str = ""


@dataclass(slots=True, eq=False)
class Scope:
    """The names of one ``{ ... }``; `outer` None is the module."""

    outer: Scope | None
    names: dict[str, Symbol] = field(default_factory=dict)
    families: dict[str, tuple[int, Symbol]] = field(default_factory=dict)
    clashes: list[Clash] = field(default_factory=list)

    def declare(self, name: str, symbol: Symbol) -> None:
        """Give `name` a meaning; a second one in this scope is a clash."""
        first = self.own(name)
        if first is not None:
            self.clashes.append(Clash(name, symbol.line, first.line))
        self.names[name] = symbol

    def declare_registers(
        self, name: str, count: int | None, type_: str, lanes: int, line: int
    ) -> None:
        """``.reg .type name`` or, with a count, ``name<count>``."""
        symbol = Symbol("register", type_, max(1, lanes), line)
        if count is None:
            self.declare(name, symbol)
            return
        known = self.families.get(name)
        if known is not None:
            self.clashes.append(Clash(f"{name}<{count}>", line, known[1].line))
        self.families[name] = (count, symbol)

    def own(self, name: str) -> Symbol | None:
        """The meaning that this very scope gives a name."""
        found = self.names.get(name)
        if found is not None or not self.families:
            return found
        for prefix, number in _splits(name):
            family = self.families.get(prefix)
            if family is not None and number < family[0]:
                return family[1]
        return None

    def find(self, name: str) -> Symbol | None:
        """The meaning of a name here, None where nothing declares it."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.own(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def owner(self, name: str) -> Scope | None:
        """The scope whose declaration a name means."""
        scope: Scope | None = self
        while scope is not None and scope.own(name) is None:
            scope = scope.outer
        return scope

    def _visible(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            yield from (f"{prefix}0" for prefix in scope.families)
            scope = scope.outer

    def nearest(self, name: str) -> list[str]:
        """Declared names that look like `name`, and how far a family goes that nearly has it."""
        scope: Scope | None = self
        while scope is not None:
            for prefix, _ in _splits(name):
                count = scope.families.get(prefix, (0,))[0]
                if count:
                    return [f"{prefix}0 to {prefix}{count - 1}"]
            scope = scope.outer
        return difflib.get_close_matches(name, list(self._visible()), 3, 0.6)
