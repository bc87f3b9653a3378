"""Constant expressions: what stands for a number in PTX, computed as ptxas computes it.

Integers are 64 bits wide, ``.s64`` unless a ``U`` or their size makes them ``.u64``; an operation
with one unsigned side is unsigned; division truncates, shifts take their count modulo 64 bits.

    (1<<3) + 4*8  -> 40          -1 > 0U  -> 1 (the left side is 2^64-1)
    WARP_SZ/2     -> 16          1.5*2.0  -> 3.0

Operators bind as in C: ``?:`` ``||`` ``&&`` ``|`` ``^`` ``&`` ``==`` ``<`` ``<<`` ``+`` ``*``, then
``+ - ! ~`` and the casts ``(.s64)`` and ``(.u64)``. Depth is bounded: see `MAX_DEPTH`.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from mmalab.ptx.lexer import Cursor, squeeze
from mmalab.ptx.nodes import Immediate

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_DEPTH", "hexadecimal_float", "immediate", "integer"]

#: Nesting of parentheses and prefix operators that is still read.
MAX_DEPTH = 32

_MASK = (1 << 64) - 1
_FLOATS = {"f": ">f", "F": ">f", "d": ">d", "D": ">d"}
_LEVELS: dict[str, int] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}
#: (value, is unsigned); floats are never unsigned.
_Value = tuple[int | float, bool]


def immediate(cursor: Cursor) -> Immediate:
    """Read a constant expression. `text` is its spelling; `bits` of a lone ``0f``/``0d`` word."""
    start, kind, word = cursor.start, cursor.kind, cursor.value
    value, _ = _expression(cursor, 0)
    text = cursor.text[start : cursor.last]
    if kind == "number" and text == word:
        return hexadecimal_float(word) if word[1:2] in _FLOATS else Immediate(value, word)
    return Immediate(value, squeeze(text))


def hexadecimal_float(word: str) -> Immediate:
    """Make the node of ``0f3F800000`` or ``0d3FF0000000000000``."""
    exact = bytes.fromhex(word[2:])
    value = struct.unpack(_FLOATS[word[1]], exact)[0]
    # One NaN object for all NaNs: tuples that hold it then compare equal; `bits` has the payload.
    return Immediate(_canonical(value), word, int.from_bytes(exact))


def integer(cursor: Cursor, what: str, *, in_angles: bool = False) -> int:
    """Read a constant expression that must be an integer, as a size or a count.

    Inside ``<...>`` only operators that bind tighter than ``>`` belong to it.
    """
    start = cursor.start
    value, _ = _binary(cursor, 9, 0) if in_angles else _expression(cursor, 0)
    if isinstance(value, float):
        cursor.fail(f"{what} must be an integer", start, cursor.last - start)
    return value


def _expression(cursor: Cursor, depth: int) -> _Value:
    chosen = _binary(cursor, 1, depth)
    if not cursor.take("?"):
        return chosen
    if depth > MAX_DEPTH:
        cursor.fail(f"constant expression nested deeper than {MAX_DEPTH}")
    yes = _expression(cursor, depth + 1)
    cursor.expect(":", "in a ?: expression")
    no = _expression(cursor, depth + 1)
    return yes if chosen[0] else no


def _binary(cursor: Cursor, lowest: int, depth: int) -> _Value:
    """Precedence climbing: take operators that bind at least as tightly as `lowest`."""
    left = _unary(cursor, depth)
    while cursor.kind == "operator" and (level := _LEVELS.get(cursor.value, 0)) >= lowest:
        operator, offset = cursor.value, cursor.start
        cursor.advance()
        right = _binary(cursor, level + 1, depth)
        left = _apply(cursor, operator, left, right, offset)
    return left


def _unary(cursor: Cursor, depth: int) -> _Value:
    if depth > MAX_DEPTH:
        cursor.fail(f"constant expression nested deeper than {MAX_DEPTH}")
    operator = cursor.value if cursor.kind == "operator" else ""
    if operator in ("+", "-", "!", "~"):
        return _prefixed(cursor, operator, depth)
    if cursor.take("("):
        if cursor.kind == "dot":
            return _cast(cursor, depth)
        inner = _expression(cursor, depth + 1)
        cursor.expect(")", "in a constant expression")
        return inner
    return _literal(cursor)


def _prefixed(cursor: Cursor, operator: str, depth: int) -> _Value:
    offset = cursor.start
    cursor.advance()
    if operator == "-" and cursor.value[:2] in ("0f", "0F", "0d", "0D"):
        cursor.fail("a minus cannot stand before a hexadecimal float: set its sign bit")
    value, unsigned = _unary(cursor, depth + 1)
    if operator == "!":
        return int(not value), False
    if isinstance(value, float):
        if operator == "~":
            cursor.fail("~ takes an integer", offset)
        return (-value if operator == "-" else value), False
    return _wrap({"+": value, "-": -value, "~": ~value}[operator], unsigned), unsigned


def _cast(cursor: Cursor, depth: int) -> _Value:
    name, offset = cursor.value, cursor.start
    if name not in (".s64", ".u64"):
        cursor.fail(f"no cast to {name}", legal=("(.s64)", "(.u64)"))
    cursor.advance()
    cursor.expect(")", "after the type of a cast")
    value, _ = _unary(cursor, depth + 1)
    if isinstance(value, float):
        cursor.fail("a cast takes an integer", offset)
    return _wrap(value, name == ".u64"), name == ".u64"


def _literal(cursor: Cursor) -> _Value:
    word = cursor.value
    if word == "WARP_SZ":
        cursor.advance()
        return 32, False
    if cursor.kind != "number":
        cursor.fail(f"expected an operand, found {cursor.shown}")
    value = _number(word)
    if value is None:
        cursor.fail(f"{word[:40]} does not fit in 64 bits", legal="0 to 18446744073709551615")
    cursor.advance()
    if isinstance(value, float):
        return value, False
    return value, word.endswith("U") or value > _MASK >> 1


def _number(word: str) -> int | float | None:
    """Read a literal; None is an integer of more than 64 bits."""
    head = word[:2].lower()
    if head in ("0f", "0d"):
        return hexadecimal_float(word).value
    if head not in ("0x", "0b") and ("." in word or "e" in word or "E" in word):
        return float(word)
    digits = word.rstrip("U").lower()
    base = 16 if head == "0x" else 2 if head == "0b" else 8 if digits[0] == "0" else 10
    digits = digits[2:] if base in (16, 2) else digits
    significant = digits.lstrip("0") or "0"
    # Python refuses decimal strings of thousands of digits; 64 bits need at most 64 of any base.
    value = int(significant, base) if len(significant) <= 64 else _MASK + 1
    return value if value <= _MASK else None


def _canonical(value: float) -> float:
    return math.nan if math.isnan(value) else value


def _wrap(value: int, unsigned: bool) -> int:
    value &= _MASK
    return value if unsigned or value <= _MASK >> 1 else value - _MASK - 1


def _apply(cursor: Cursor, operator: str, left: _Value, right: _Value, offset: int) -> _Value:
    a, b = left[0], right[0]
    if operator in ("&&", "||"):
        return int(bool(a and b) if operator == "&&" else bool(a or b)), False
    if isinstance(a, float) or isinstance(b, float):
        return _apply_floats(cursor, operator, float(a), float(b), offset)
    unsigned = left[1] if operator in ("<<", ">>") else left[1] or right[1]
    a, b = _wrap(a, unsigned), _wrap(b, unsigned)
    if operator in ("/", "%") and b == 0:
        cursor.fail("division by zero in a constant expression", offset)
    if operator in _COMPARE:
        return int(_COMPARE[operator](a, b)), False
    return _wrap(_INTEGER[operator](a, b), unsigned), unsigned


def _apply_floats(cursor: Cursor, operator: str, a: float, b: float, offset: int) -> _Value:
    if operator in _COMPARE:
        return int(_COMPARE[operator](a, b)), False
    if operator == "/" and b == 0.0:
        cursor.fail("division by zero in a constant expression", offset)
    if operator not in ("+", "-", "*", "/"):
        cursor.fail(f"{operator} takes integers", offset, len(operator))
    exact = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}
    return _canonical(exact[operator]), False


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": _quotient, "%": lambda a, b: a - _quotient(a, b) * b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63),
}
