"""What the builder makes of Python values, and how it compares them with an instruction's form.

    5 -> 5        1.5 in add.f32 -> 0f3FC00000      [r, s] -> {%r0, %r1}
    "tile" -> tile       "%tid.x" -> %tid.x         a node of mmalab.ptx.nodes -> itself

A float is the exact word of the instruction's last type, rounded to nearest even; other types have
no float literals in PTX.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Protocol, SupportsFloat

from mmalab.errors import UsageError
from mmalab.ptx.declarations import TYPES
from mmalab.ptx.lexer import IDENTIFIER
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

if TYPE_CHECKING:
    from mmalab.ptx.operations import Given

__all__ = ["FormLike", "OperandLike", "check_operands", "checked_name", "checked_type",
           "operand_of", "refuse_special"]

_WHERE = "mmalab.ptx.KernelBuilder"
_NAME = re.compile(IDENTIFIER, re.ASCII)
_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|n?clusterid|n?cluster_n?ctaid|cluster_n?ctarank|laneid|n?warpid|n?smid"
    r"|gridid|lanemask_\w+|clock\w*|globaltimer\w*|dynamic_smem_size|total_smem_size)(?:\.[xyz])?")
_NODES = (Address, Call, Immediate, Name, Negated, Pair, Register, Sink, Vector)


class OperandLike(Protocol):
    """One operand position, as :class:`mmalab.isa.form.OperandSpec` has it."""

    @property
    def name(self) -> str:
        """The manual's letter for it."""

    @property
    def role(self) -> str:
        """read, write, update, address, immediate, label, symbol or call."""

    @property
    def count(self) -> int:
        """How many registers its braces hold."""

    @property
    def vector(self) -> bool:
        """Whether it has braces."""

    @property
    def packs(self) -> bool:
        """Whether a vector of 2 or 4 may stand for one wide register."""

    @property
    def optional(self) -> bool:
        """Whether it may be missing."""


class FormLike(Protocol):
    """What the builder reads of :class:`mmalab.isa.form.Form`."""

    @property
    def operands(self) -> Sequence[OperandLike]:
        """All operand positions in text order."""

    def fit(self, kinds: Sequence[str]) -> Sequence[OperandLike] | None:
        """Give the positions that operands of these kinds fill, None if they fill none."""


def checked_type(type_: str) -> str:
    """Give `type_` back; UsageError if nothing is declared with it."""
    if type_ not in TYPES:
        raise UsageError(f"{type_} is not a type of a register or a variable", legal=sorted(TYPES),
                         where=_WHERE)
    return type_


def checked_name(name: str) -> str:
    """Give `name` back; UsageError if PTX cannot name anything so."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a name in PTX",
                         "a letter, or one of _ $ % and more, then letters, digits, _ and $",
                         legal=["tile", "$L_1"], where=_WHERE)
    return name


def operand_of(given: Given, opcode: str) -> Operand:
    """Make the operand that `given` stands for in an instruction `opcode`."""
    if isinstance(given, _NODES):
        return given
    if isinstance(given, str):
        return Register(given) if given.startswith("%") else Name(checked_name(given))
    if isinstance(given, Sequence):
        return Vector(tuple(operand_of(item, opcode) for item in given))
    return _immediate(given, opcode)


def _immediate(given: float, opcode: str) -> Immediate:
    try:
        value = index(given)  # type: ignore[arg-type]
    except TypeError:
        return _float(given, opcode)
    if not -(1 << 63) <= value < 1 << 64:
        raise UsageError(f"{opcode}: {value} does not fit in 64 bits",
                         legal="-2^63 to 2^64 - 1", where=_WHERE)
    return Immediate(value, str(value))


def _float(given: SupportsFloat, opcode: str) -> Immediate:
    """Spell a float as the word of the instruction's last type, rounded to nearest."""
    types = [part for part in opcode.split(".") if part in TYPES]
    last = types[-1] if types else ""
    if last not in ("f32", "f64"):
        raise UsageError(f"{opcode}: {given!r} is a float, but a literal of {last or 'no type'}",
                         "has no spelling", legal=("an integer word", "a register"), where=_WHERE)
    try:
        word = struct.pack(">f" if last == "f32" else ">d", float(given)).hex().upper()
    except OverflowError:
        raise UsageError(f"{opcode}: {given!r} is too large for f32",
                         legal="up to 3.4e38", where=_WHERE) from None
    exact = struct.unpack(">f" if last == "f32" else ">d", bytes.fromhex(word))[0]
    return Immediate(exact, f"0{last[0] if last == 'f32' else 'd'}{word}", int(word, 16))


_KINDS = {Address: "address", Vector: "vector", Immediate: "immediate", Sink: "sink",
          Pair: "pair", Negated: "negated", Call: "call"}


def check_operands(opcode: str, nodes: Sequence[Operand], form: FormLike | None) -> None:
    """Compare an operand list with its form: how many, vectors of how many, where addresses."""
    if form is None:
        raise UsageError(f"{opcode} is not a known form", legal="emit(..., unchecked=True)",
                         where=_WHERE)
    specs = form.fit([_KINDS.get(type(node), "register") for node in nodes])
    if specs is None:
        least = sum(not spec.optional for spec in form.operands)
        raise UsageError(f"{opcode}: {len(nodes)} operands",
                         f"takes {_range(least, len(form.operands))}",
                         legal=", ".join(map(_shown, form.operands)), where=_WHERE)
    for node, spec in zip(nodes, specs, strict=True):
        given = len(node.items) if isinstance(node, Vector) else (
            len(node.coordinates) if isinstance(node, Address) else 0)
        wanted = spec.count if spec.vector else 0
        if given != wanted and not (spec.packs and given in (2, 4)):
            raise UsageError(f"{opcode}: operand {spec.name} is {_vector_of(given)}",
                             f"takes {_vector_of(wanted)}", legal=_shown(spec), where=_WHERE)
        if isinstance(node, Address) != (spec.role == "address"):
            is_ = "an address" if isinstance(node, Address) else "no address"
            raise UsageError(f"{opcode}: operand {spec.name} is {is_}", legal=_shown(spec),
                             where=_WHERE)


def refuse_special(opcode: str, nodes: Sequence[Operand]) -> None:
    """Raise UsageError for a special register where ptxas takes none: outside mov and cvt."""
    if opcode.partition(".")[0] in ("mov", "cvt"):
        return
    for node in nodes:
        if isinstance(node, Register) and _SPECIAL.fullmatch(node.name):
            raise UsageError(f"{opcode}: {node.name}", "is read by mov and cvt alone",
                             legal=f'b.mov("u32", "{node.name}")', where=_WHERE)


def _range(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _vector_of(count: int) -> str:
    return f"a vector of {count}" if count else "a single operand"


def _shown(spec: OperandLike) -> str:
    name = f"[{spec.name}]" if spec.role == "address" else spec.name
    return f"{{{name} x {spec.count}}}" if spec.vector else name
