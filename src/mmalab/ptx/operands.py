"""Operands: the grammar, and a memo in front of it.

The grammar reads one operand from a cursor::

    %r1   tile   tile+16   tile[2]   -1.5   4*8   _   !%p1   -%r1   %p1|%p2
    {%r1, %r2}   [%rd1+8]   [%rd1, {%r1, %r2}]   [%rd1].unified

Most operands of a file are seen more than once, and nearly all have one of a few plain shapes. So
the fast path looks an operand's text up in a :class:`Memo`, which reads plain shapes with one
regular expression and everything else with this grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmalab.errors import SourceError
from mmalab.ptx.expressions import hexadecimal_float, immediate, integer
from mmalab.ptx.lexer import IDENTIFIER, Cursor
from mmalab.ptx.nodes import (
    Address,
    Call,
    Immediate,
    Name,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Vector,
)

__all__ = ["Memo", "Scope", "operand", "operands"]


#: The components of a vector register; as colours they are the same four.
_COMPONENTS = {
    f".{letter}": f".{axis}" for letter, axis in zip("xyzwrgba", "xyzwxyzw", strict=True)}


class Scope:
    """The names that ``.reg`` declares and the sizes of variables, in one ``{ ... }``.

    Only names without a leading % need it: those with one are registers by their spelling.
    """

    __slots__ = ("element_bytes", "outer", "registers")

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.registers: dict[str, int | None] = {}
        self.element_bytes: dict[str, int] = {}

    @property
    def only_percent(self) -> bool:
        """Whether only names with a leading % are registers here."""
        return not self.registers and (self.outer is None or self.outer.only_percent)

    def declare(self, name: str, count: int | None) -> None:
        """Note ``.reg .b32 name`` or ``.reg .b32 name<count>``."""
        if not name.startswith("%"):
            self.registers[name] = count

    def is_register(self, name: str) -> bool:
        """Whether `name` is a register here."""
        if name[0] == "%":
            return True
        base = name.partition(".")[0]
        scope: Scope | None = self
        while scope is not None:
            if scope.registers and scope.declares(base):
                return True
            scope = scope.outer
        return False

    def declares(self, name: str) -> bool:
        """Whether a ``.reg`` of this very scope declares `name`."""
        if name in self.registers and self.registers[name] is None:
            return True
        # r12 may be family r<n> at 12 or family r1<n> at 2.
        for split in range(len(name) - 1, max(0, len(name) - 12), -1):
            if not name[split].isdigit():
                return False
            count, number = self.registers.get(name[:split]), name[split:]
            if count is not None and (number == "0" or number[0] != "0"):
                return int(number) < count
        return False

    def size_of(self, name: str) -> int | None:
        """Bytes of one element of the variable `name`, None if it is not declared so far."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.element_bytes:
                return scope.element_bytes[name]
            scope = scope.outer
        return None


def operands(cursor: Cursor, scope: Scope, opcode: str) -> tuple[Operand, ...]:
    """Read the operands of one instruction up to its semicolon."""
    if opcode == "call" or opcode.startswith("call."):
        return (_call(cursor, scope),)
    if cursor.kind in ("dot", "end") or cursor.value in (";", "}", "@"):
        return ()  # a missing semicolon is for the caller to see
    found = [operand(cursor, scope)]
    while cursor.take(","):
        found.append(operand(cursor, scope))
    return tuple(found)


def operand(cursor: Cursor, scope: Scope) -> Operand:
    """Read one operand of any kind except a call's."""
    if cursor.at("{"):
        return _vector(cursor, scope)
    if cursor.at("["):
        return _address(cursor, scope)
    if cursor.at("!") or cursor.at("-"):
        return _signed(cursor, scope)
    first = _item(cursor, scope)
    if cursor.at("|") and not isinstance(first, Immediate):
        cursor.advance()
        start = cursor.start
        second = _item(cursor, scope)
        if isinstance(second, Immediate):
            cursor.fail("'|' pairs two destinations", start, cursor.last - start)
        return Pair(first, second)
    return first


def _item(cursor: Cursor, scope: Scope) -> Register | Name | Sink | Immediate:
    """Read what a vector may hold: a register, a symbol, ``_`` or a constant expression."""
    word = cursor.value
    if cursor.kind != "word" or word == "WARP_SZ":
        return immediate(cursor)
    if word == "_":
        cursor.advance()
        return Sink()
    if scope.is_register(word):
        cursor.advance()
        if "." not in word and cursor.value in _COMPONENTS:  # "%v .x" is %v.x to ptxas
            word += cursor.value
            cursor.advance()
        base, dot, component = word.partition(".")
        return Register(base + _COMPONENTS.get(dot + component, dot + component))
    if "." in word:
        cursor.fail(f"{word} has a component, but {word.partition('.')[0]} is no register")
    cursor.advance()
    if cursor.take("+"):
        return Name(word, integer(cursor, "an offset"))
    if cursor.at("["):
        return _element(cursor, scope, word)
    return Name(word)


def _element(cursor: Cursor, scope: Scope, name: str) -> Name:
    size = scope.size_of(name)
    if size is None:
        cursor.fail(f"{name}[...] is an address only if the array {name} is declared before")
    cursor.advance()
    index = integer(cursor, "an index")
    cursor.expect("]", "after an index")
    return Name(name, index * size)


def _signed(cursor: Cursor, scope: Scope) -> Operand:
    """``!%p``, ``-%r``, or a constant expression with a sign."""
    start, sign = cursor.start, cursor.value
    cursor.advance()
    if cursor.kind == "word" and cursor.value != "WARP_SZ":
        name = cursor.value
        if not scope.is_register(name):
            cursor.fail(f"'{sign}' stands before a register or a number, not before {name}")
        cursor.advance()
        return Negated(Register(name), sign)
    cursor.seek(start)
    return immediate(cursor)


def _vector(cursor: Cursor, scope: Scope) -> Vector:
    cursor.expect("{", "before a vector")
    items: list[Operand] = [_item(cursor, scope)]
    while cursor.take(","):
        items.append(_item(cursor, scope))
    cursor.expect("}", "after a vector")
    return Vector(tuple(items))


def _address(cursor: Cursor, scope: Scope) -> Address:
    cursor.expect("[", "before an address")
    base, offset = _base(cursor, scope)
    behind: list[Operand] = []
    while cursor.take(","):
        behind.append(_vector(cursor, scope) if cursor.at("{") else _item(cursor, scope))
    coordinates = tuple(behind)
    if len(behind) == 1 and isinstance(behind[0], Vector):
        coordinates = behind[0].items
    cursor.expect("]", "after an address")
    qualifier = ""
    if cursor.kind == "dot":
        qualifier = cursor.value
        if qualifier != ".unified":
            cursor.fail(f"{qualifier} cannot follow an address", legal=".unified")
        cursor.advance()
    return Address(base, offset, coordinates, qualifier)


def _base(cursor: Cursor, scope: Scope) -> tuple[Register | Name | None, int]:
    if cursor.kind != "word" or cursor.value in ("WARP_SZ", "_"):
        return None, integer(cursor, "an address")
    name = cursor.value
    base = Register(name) if scope.is_register(name) else Name(name)
    if "." in name:
        cursor.fail(f"{name} has a component: an address has none",
                    legal=f"a register of its own in place of {name}")
    cursor.advance()
    if cursor.at("-"):
        cursor.fail("an offset follows '+', also a negative one", legal=f"[{name}+-8]")
    return base, integer(cursor, "an offset") if cursor.take("+") else 0


def _call(cursor: Cursor, scope: Scope) -> Call:
    """``(ret), target, (args), prototype``; all but the target may be missing."""
    results: tuple[Operand, ...] = ()
    if cursor.at("("):
        results = _list(cursor, scope)
        cursor.expect(",", "between the results and the target of a call")
    if cursor.kind != "word" or cursor.value == "_":
        cursor.fail(f"expected the target of a call, found {cursor.shown}")
    target = _item(cursor, scope)
    arguments: tuple[Operand, ...] = ()
    prototype: Operand | None = None
    if cursor.take(","):
        if not cursor.at("("):
            return Call(results, target, (), Name(cursor.identifier("a prototype")))
        arguments = _list(cursor, scope)
        if cursor.take(","):
            prototype = Name(cursor.identifier("a prototype"))
    return Call(results, target, arguments, prototype)


def _list(cursor: Cursor, scope: Scope) -> tuple[Operand, ...]:
    cursor.expect("(", "before a list")
    found: list[Operand] = []
    if not cursor.at(")"):
        found.append(_item(cursor, scope))
        while cursor.take(","):
            found.append(_item(cursor, scope))
    cursor.expect(")", "after a list")
    return tuple(found)


# --- the memo -------------------------------------------------------------------------------------

_is_register = re.compile(r"%[\w$]++(?:\.[xyzw](?!\w))?", re.ASCII).fullmatch
_PLAIN = re.compile(
    r"(?P<number>-?(?:0|[1-9]\d{0,17}))"
    rf"|(?P<name>(?!WARP_SZ\Z){IDENTIFIER})"
    r"|(?P<float>0[fF][0-9a-fA-F]{8})"
    r"|\[[ ]*+(?P<base>%[\w$]++)[ ]*+(?:\+[ ]*+(?P<offset>-?(?:0|[1-9]\d{0,17}))[ ]*+)?\]"
    r"|\{(?P<items>[^{}\[\]]*+)\}",
    re.ASCII,
)
_COMMA = re.compile(r"[ \t\r\n]*+,[ \t\r\n]*+")
_OPERAND = r"(?:[^\s,{}\[\]]++|\{[^{}\[\]]*+\}|\[[^{}\[\]]*+(?:\{[^{}\[\]]*+\}[^{}\[\]]*+)?\])"
_SPLIT = re.compile(_OPERAND)
_LIST = re.compile(rf"\s*+{_OPERAND}(?:\s*+,\s*+{_OPERAND})*+\s*+")

#: What a vector may hold; the memo also knows pairs and addresses, which it may not.
_ITEMS = frozenset((Register, Immediate, Name, Sink))


@dataclass(slots=True)
class _Draft:
    """A register while it is made: see the same trick in :mod:`mmalab.ptx.statements`."""

    name: str


class Memo(dict[str, Operand]):
    """Operand text -> node, filled on demand. Raises SourceError for text that is no operand.

    `shared` is the memo of texts in which only names with a leading % are registers: it serves
    those that begin with one whatever the scope declares.
    """

    def __init__(self, scope: Scope, shared: Memo | None = None) -> None:
        super().__init__()
        self.scope = scope
        self.shared = shared

    def read(self, listed: str) -> tuple[Operand, ...]:
        """Split a list of operands at its outer commas and look each of them up."""
        if "{" not in listed:
            try:
                return tuple(map(self.__getitem__, listed.split(", ")))
            except SourceError:  # perhaps other blanks than a compiler's
                return tuple(map(self.__getitem__, _COMMA.split(listed.strip())))
        if _LIST.fullmatch(listed) is None:
            raise SourceError("not a list of operands", source=listed, offset=0)
        return tuple(map(self.__getitem__, _SPLIT.findall(listed)))

    def __missing__(self, text: str) -> Operand:
        if not _is_register(text):
            node = self._plain(text) or self._general(text)
        elif self.shared is not None:
            node = self.shared[text]
        else:
            node = _Draft(text)  # type: ignore[assignment]
            node.__class__ = Register
        self[text] = node
        return node

    def _plain(self, text: str) -> Operand | None:
        found = _PLAIN.fullmatch(text)
        if found is None:
            return None
        kind = found.lastgroup
        if kind == "number":
            return Immediate(int(text), text)
        if kind == "name":
            return Register(text) if self.scope.is_register(text) else Name(text)
        if kind == "float":
            return hexadecimal_float(text)
        if kind == "items":
            items = tuple([self[item.strip(" \t\r\n")] for item in found["items"].split(",")])
            return Vector(items) if _ITEMS.issuperset(map(type, items)) else None
        return Address(self[found["base"]], int(found["offset"] or 0))  # type: ignore[arg-type]

    def _general(self, text: str) -> Operand:
        cursor = Cursor(text)
        node = operand(cursor, self.scope)
        if cursor.kind != "end":
            raise SourceError("not one operand", source=text, offset=cursor.start)
        return node
