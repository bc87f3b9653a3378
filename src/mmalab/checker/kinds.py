"""What an operand is, as far as legality goes: ``%r1`` declared ``.b32`` is "a .b32 register".

A kernel of two thousand instructions has a few dozen kinds of operands. Kinds are interned: equal
kinds are one object, so an instruction's opcode with the kinds of its operands is a cheap key, and
each such combination is judged once.

    >>> register("f32") is register("f32"), str(vector((register("b32"), SINK)))
    (True, '{.b32 register, _}')
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from mmalab.isa import Given

__all__ = [
    "OTHER", "SINK", "UNDECLARED", "Kind", "Tag", "address", "float_literal", "integer", "name",
    "negated", "pair", "register", "special", "vector", "vector_register",
]

Tag = Literal[
    "register", "vector register", "special", "integer", "float", "name", "sink", "negated",
    "vector", "pair", "address", "undeclared", "other",
]


class Kind:
    """One kind of operand.

    `type` is the PTX type of a register, the state space of a name (or ``function``, ``label``,
    ``table``, ``prototype``), or how a float literal is written (``0f``, ``0d``, ``1.5``).
    """

    __slots__ = ("given", "items", "sign", "tag", "type", "value")

    def __init__(self, tag: Tag, type_: str = "", items: tuple[Kind, ...] = (),
                 value: float | None = None, sign: str = "") -> None:
        self.tag = tag
        self.type = type_
        self.items = items
        self.value = value
        self.sign = sign
        #: The same operand for the instruction table's own check of shapes and values.
        self.given = _given(self)

    @property
    def base(self) -> Kind:
        """The base of an address, the register of a negation."""
        return self.items[0]

    def __str__(self) -> str:
        match self.tag:
            case "register" | "vector register":
                return f".{self.type} {self.tag}"
            case "special":
                return f".{self.type} special register"
            case "integer" | "float":
                return f"{self.tag} literal"
            case "name":
                return f".{self.type} symbol" if self.type in _SPACES else self.type
            case "sink":
                return "_"
            case "vector":
                return "{" + ", ".join(map(str, self.items)) + "}"
            case "pair":
                return "|".join(map(str, self.items))
            case "address":
                return f"[{self.base}]"
            case "negated":
                return f"{self.sign}{self.base}"
        return self.tag


_SPACES = frozenset({"shared", "global", "const", "param", "local"})


def _given(kind: Kind) -> Given:
    match kind.tag:
        case "integer":
            return Given("immediate", str(kind.value), value=int(kind.value or 0))
        case "float":
            return Given("immediate", str(kind.value))
        case "sink":
            return Given("sink", "_")
        case "negated":
            return Given("negated", kind.sign)
        case "vector":
            return Given("vector", items=tuple(item.given for item in kind.items))
        case "pair":
            return Given("pair", items=tuple(item.given for item in kind.items))
        case "address":
            return Given("address")
        case "other":
            return Given("call")
    return Given("register")


@lru_cache(maxsize=256)
def register(type_: str) -> Kind:
    """A register declared with that type."""
    return Kind("register", type_)


@lru_cache(maxsize=64)
def vector_register(type_: str, count: int) -> Kind:
    """A register declared ``.v2`` or ``.v4``."""
    return Kind("vector register", type_, (register(type_),) * count)


@lru_cache(maxsize=64)
def special(type_: str, count: int = 1, also: tuple[str, ...] = ()) -> Kind:
    """A special register; `also` are further types under which it may be read."""
    return Kind("special", type_, (register(type_),) * count if count > 1 else
                tuple(register(t) for t in also), value=count)


@lru_cache(maxsize=4096)
def integer(value: int) -> Kind:
    """An integer literal."""
    return Kind("integer", value=value)


@lru_cache(maxsize=4096)
def float_literal(spelling: str, value: float) -> Kind:
    """A float literal, written as ``0f...``, ``0d...`` or ``1.5``."""
    return Kind("float", spelling, value=value)


@lru_cache(maxsize=64)
def name(what: str) -> Kind:
    """A symbol of a state space, or a ``function``, ``label``, ``table``, ``prototype``."""
    return Kind("name", what)


@lru_cache(maxsize=64)
def negated(kind: Kind, sign: str) -> Kind:
    """``!%p`` or ``-%r``."""
    return Kind("negated", items=(kind,), sign=sign)


@lru_cache(maxsize=16384)
def vector(items: tuple[Kind, ...]) -> Kind:
    """``{a, b}``."""
    return Kind("vector", items=items)


@lru_cache(maxsize=1024)
def pair(first: Kind, second: Kind) -> Kind:
    """``a|b``."""
    return Kind("pair", items=(first, second))


@lru_cache(maxsize=1024)
def address(base: Kind) -> Kind:
    """``[base+offset]``; offsets do not matter for kinds."""
    return Kind("address", items=(base,))


#: The operand ``_``.
SINK = Kind("sink")
#: A name that nothing declares; it is reported once and judged no further.
UNDECLARED = Kind("undeclared")
#: The operands of a call, which have rules of their own.
OTHER = Kind("other")
