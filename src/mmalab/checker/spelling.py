"""Operand nodes as text, for messages."""

from __future__ import annotations

from mmalab.ptx.nodes import (
    Address,
    Immediate,
    Name,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Vector,
)

__all__ = ["spelled"]


def spelled(operand: Operand) -> str:
    """The operand as one would write it.

    >>> spelled(Address(Register("%rd1"), 8))
    '[%rd1+8]'
    """
    match operand:
        case Register(name):
            return name
        case Immediate():
            return operand.text
        case Name(name, offset):
            return f"{name}+{offset}" if offset else name
        case Sink():
            return "_"
        case Negated(register, sign):
            return f"{sign}{register.name}"
        case Vector(items):
            return "{" + ", ".join(map(spelled, items)) + "}"
        case Pair(first, second):
            return f"{spelled(first)}|{spelled(second)}"
        case Address(base, offset, coordinates):
            place = "" if base is None else spelled(base)
            if offset or base is None:
                place += f"+{offset}" if place else str(offset)
            behind = f", {{{', '.join(map(spelled, coordinates))}}}" if coordinates else ""
            return f"[{place}{behind}]"
    return f"a call of {spelled(operand.target)}"
