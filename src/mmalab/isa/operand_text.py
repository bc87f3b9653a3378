"""Operands as the table sees them: what kind each is, how many registers, which literal.

The verdict needs no more of an operand than its shape, so it reads instruction text itself; whoever
has parsed operands makes the same :class:`Given` records from them.

    >>> [g.kind for g in split("mma.sync {%f0,%f1}, %r1, [smem+8], 0x10, !%p")[1]]
    ['vector', 'register', 'address', 'immediate', 'negated']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Given", "Kind", "classify", "split"]

Kind = Literal[
    "register", "immediate", "address", "vector", "pair", "sink", "negated", "call"
]


@dataclass(frozen=True, slots=True)
class Given:
    """One operand of an instruction. `register` stands for any name: register, symbol or label.

    `items` are the members of a vector or pair, or a tensor map's address and coordinates;
    `value` is an integer literal's value.
    """

    kind: Kind
    text: str = ""
    items: tuple[Given, ...] = ()
    value: int | None = None


_GUARD = re.compile(r"\s*@!?[\w$%]+\s+")
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[fFdD][0-9a-fA-F]{8,16}|\d+)U?")
_FLOAT = re.compile(r"-?\d+\.\d*([eE][-+]?\d+)?|-?\d+[eE][-+]?\d+")


def split(text: str) -> tuple[str, tuple[Given, ...] | None]:
    """Opcode and operands of an instruction's text; None where nothing follows the opcode.

    A guard in front and a semicolon behind are allowed.
    """
    body = _GUARD.sub("", text.strip(), count=1).rstrip("; \t\n")
    opcode, _, rest = body.partition(" ")
    if "\t" in opcode:
        opcode, _, rest = body.partition("\t")
    rest = rest.strip()
    return opcode, tuple(classify(t) for t in _commas(rest)) if rest else None


def _commas(text: str) -> list[str]:
    """The pieces between commas outside of all brackets."""
    pieces, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        if ch in "{[(":
            depth += 1
        elif ch in "}])":
            depth -= 1
        elif ch == "," and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    return [*pieces, text[start:].strip()]


def classify(text: str) -> Given:
    """The shape of one operand's text."""
    if text == "_":
        return Given("sink", text)
    if text.startswith("{"):
        return Given("vector", text, tuple(classify(t) for t in _commas(text[1:-1].strip())))
    if text.startswith("["):
        inside = _commas(text[1:-1].strip())
        return Given("address", text, tuple(map(classify, inside)) if len(inside) > 1 else ())
    if text.startswith("("):
        return Given("call", text)
    if "|" in text:
        return Given("pair", text, tuple(classify(t.strip()) for t in text.split("|", 1)))
    if _NUMBER.fullmatch(text):
        return Given("immediate", text, value=_integer(text))
    if _FLOAT.fullmatch(text) or text == "WARP_SZ":
        return Given("immediate", text)
    return Given("negated" if text[0] in "!-" else "register", text)


def _integer(text: str) -> int | None:
    word = text.rstrip("U")
    digits = word.lstrip("-").lower()
    if digits.startswith(("0f", "0d")):
        return None
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    value = int(digits, 8) if octal and not set("89") & set(digits) else int(digits, 0)
    return -value if word.startswith("-") else value
