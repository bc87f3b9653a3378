"""The operands of SASS, by the register file they live in.

nvdisasm prints one text per operand; here it becomes one record::

    R36.reuse              Register("R", 36, reuse=True)
    -RZ                    Register("R", None, negated=True)      the zero register
    !UPT                   Register("UP", None, inverted=True)    the true predicate, negated
    c[0x0][0x210]          Constant(bank=0, offset=0x210)
    desc[UR4][R2.64+0x10]  Memory("global", base=R2.64, offset=0x10, descriptor=UR4)
    tmem[UR9]              Memory("tmem", uniform=UR9)
    gdesc[UR14]            Memory("gdesc", uniform=UR14)          a shared-memory matrix descriptor
    0x3f800000             Immediate(0x3f800000)
    `(.L_x_4)              Label(".L_x_4", 0x1d0)

Files: ``R`` (a thread's), ``UR`` (a warp's, uniform), ``P`` and ``UP`` predicates, ``B``
convergence barriers, ``SB`` scoreboards, ``SR`` special registers. A text that fits none of these
is an :class:`Other`, kept as it is: an unknown operand is never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Constant", "Immediate", "Label", "Memory", "Operand", "Other", "Register",
           "SpecialRegister", "read_operand", "split_operands"]


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one of the files; `index` None is RZ, URZ, PT or UPT.

    `view` is what follows the name (``64``, ``H0_H0``, ``COL``), `reuse` the operand cache flag.
    """

    file: str
    index: int | None
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    reuse: bool = False
    view: tuple[str, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """``SR_TID.X``, ``SR_CgaCtaId``, ``SRZ``."""

    name: str
    text: str = ""
    file: str = "SR"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Constant:
    """``c[bank][offset]``, or with registers inside: ``c[0x0][UR4+0x8]``, ``cx[UR4][0x10]``."""

    bank: int | None
    offset: int
    base: Register | None = None
    bindless: Register | None = None
    negated: bool = False
    absolute: bool = False
    text: str = ""
    file: str = "c"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Memory:
    """An address in brackets. `space` is the word before them, ``global`` after ``desc[...]``.

    `base` and `uniform` are added, with `offset`; `scale` multiplies the base (``[R7.X4]``).
    ``tmem``, ``gdesc`` and ``idesc`` hold one uniform register and perhaps flags in `view`.
    """

    space: str
    base: Register | None = None
    uniform: Register | None = None
    offset: int = 0
    scale: int = 1
    descriptor: Register | None = None
    view: tuple[str, ...] = ()
    text: str = ""
    file: str = "memory"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number written in the instruction."""

    value: int | float
    text: str = ""
    file: str = "immediate"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Label:
    """A branch or call target: `address` in the section, None for a place outside it."""

    name: str
    address: int | None
    text: str = ""
    file: str = "label"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Other:
    """A text that this reader has no record for."""

    text: str
    file: str = "other"

    def __str__(self) -> str:
        return self.text


Operand: TypeAlias = Register | SpecialRegister | Constant | Memory | Immediate | Label | Other

_ZERO = {"RZ": "R", "URZ": "UR", "PT": "P", "UPT": "UP"}
_REGISTER = re.compile(
    r"(?P<sign>[-!~]?)(?P<bar>\|?)(?P<name>RZ|URZ|PT|UPT|UR\d+|UP\d+|SB\d+|gsb\d+|R\d+|P\d+|B\d+)"
    r"(?P<view>(?:\.\w+)*)(?P<bar2>\|?)(?P<after>(?:\.\w+)*)")
_CONSTANT = re.compile(r"(?P<sign>-?)(?P<bar>\|?)c(?P<x>x?)\[(?P<bank>[^\]]+)\]\[(?P<at>[^\]]+)\]"
                       r"(?:\.\w+)*\|?(?:\.\w+)*")
_MEMORY = re.compile(r"(?:(?P<word>desc|gdesc|idesc|tmem|a)\[(?P<inner>[^\]]*)\])?"
                     r"(?:\[(?P<at>[^\]]*)\])?(?P<view>(?:\.\w+)*)")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|INF|QNAN|SNAN)")
_LABEL = re.compile(r"`\((?P<name>.+?)\)")


def split_operands(text: str) -> list[str]:
    """Cut at commas that stand outside brackets and braces; ``R2 `(f)`` is two operands."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign in "[{(":
            depth += 1
        elif sign in "]})":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [word for part in parts for word in part.split()]


def read_operand(text: str, labels: Mapping[str, int]) -> Operand:
    """One operand; `labels` gives the addresses of names in the section."""
    if found := _REGISTER.fullmatch(text):
        return _register(found)
    if text[:1] == "`" and (found := _LABEL.fullmatch(text)):
        return Label(found["name"], labels.get(found["name"]), text)
    if text.startswith("SR"):
        return SpecialRegister(text.removeprefix("SR_"), text)
    if (value := _number(text)) is not None:
        return Immediate(value, text)
    if found := _CONSTANT.fullmatch(text):
        return _constant(found)
    if "[" in text and (found := _MEMORY.fullmatch(text)):
        return _memory(found)
    return Other(text)


def _register(found: re.Match[str]) -> Register:
    name = found["name"]
    file = _ZERO.get(name) or name.rstrip("0123456789")
    views = [word for word in (found["view"] + found["after"]).split(".") if word]
    return Register(
        file="SB" if file == "gsb" else file,
        index=None if name in _ZERO else int(name.lstrip("RUPBSgsb")),
        negated=found["sign"] == "-", inverted=found["sign"] in ("!", "~"),
        absolute=bool(found["bar"]), reuse="reuse" in views,
        view=tuple(word for word in views if word != "reuse"), text=found[0])


def _number(text: str) -> int | float | None:
    body = text.lstrip("+-")
    if body[:2] == "0x" or body.isdigit():
        try:
            value = int(body, 0)
        except ValueError:
            return None
        return -value if text[0] == "-" else value
    if _FLOAT.fullmatch(text):
        sign = -1.0 if text[0] == "-" else 1.0
        return sign * (math.inf if body == "INF" else math.nan if "NAN" in body else float(body))
    return None


def _constant(found: re.Match[str]) -> Operand:
    base, uniform, offset, _ = _terms(found["at"])
    bank = _number(found["bank"])
    inside = _REGISTER.fullmatch(found["bank"])
    if bank is None and inside is None:
        return Other(found[0])
    return Constant(
        bank=int(bank) if bank is not None else None, offset=offset, base=base or uniform,
        bindless=_register(inside) if inside else None,
        negated=bool(found["sign"]), absolute=bool(found["bar"]), text=found[0])


def _memory(found: re.Match[str]) -> Operand:
    word, inner, at = found["word"], found["inner"], found["at"]
    view = tuple(part for part in found["view"].split(".") if part)
    if word in (None, "desc") and at is None:
        # A bare desc[UR12] is a descriptor operand of its own (cache hint of a tensor copy).
        if word is None:
            return Other(found[0])
        word, at, inner = "desc", inner, None
    base, uniform, offset, scale = _terms(at if at is not None else inner)
    descriptor = _REGISTER.fullmatch(inner) if at is not None and inner else None
    space = "global" if word == "desc" and descriptor else word or "generic"
    return Memory(space, base, uniform, offset, scale,
                  _register(descriptor) if descriptor else None, view, found[0])


def _terms(text: str) -> tuple[Register | None, Register | None, int, int]:
    """Read ``R2.64+UR4+-0x100`` as base register, uniform register, offset and scale."""
    base: Register | None = None
    uniform: Register | None = None
    offset, scale = 0, 1
    for term in text.split("+"):
        found = _REGISTER.fullmatch(term)
        if found is None:
            offset += int(_number(term) or 0)
            continue
        register = _register(found)
        for view in register.view:
            if view[0] == "X" and view[1:].isdigit():
                scale = int(view[1:])
        if register.file == "UR":
            uniform = register
        else:
            base = register
    return base, uniform, offset, scale
