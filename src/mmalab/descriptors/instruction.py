"""The 32-bit instruction descriptor of ``tcgen05.mma``: types, shape and signs of a product.

Three layouts, by kind: the plain kinds (f16, tf32, f8f6f4, i8), mxf8f6f4, and mxf4 with mxf4nvf4.
M and N are held in units of 16 (128 for the mx kinds) and 8::

    >>> word = encode("f16", d="f32", a="bf16", b="bf16", m=128, n=256)
    >>> hex(word), decode("f16", word).values["n"], problems("f16", word, sparse=True)[0].given
    ('0x8400490', 256, 'sparsity = 0')

What a kind may hold comes from :mod:`mmalab.isa.tensor_memory`.

Source: PTX ISA, "Instruction descriptor" of tcgen05; CUTLASS, cute/arch/mma_sm100_desc.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mmalab.bits import Field
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import KINDS, kind_of, shape_problem

__all__ = ["InstrFormat", "Instruction", "decode", "encode", "instr_format", "problems"]

_WHERE = "PTX ISA, Instruction descriptor of tcgen05"

#: Type codes of A and B, by family of kinds.
_F16 = MappingProxyType({"f16": 0, "bf16": 1})
_NARROW = MappingProxyType({"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5})
_OPERANDS: Mapping[str, Mapping[str, int]] = MappingProxyType({
    "f16": _F16, "tf32": MappingProxyType({"tf32": 2}), "f8f6f4": _NARROW, "mxf8f6f4": _NARROW,
    "i8": MappingProxyType({"u8": 0, "s8": 1}),
    "mxf4": MappingProxyType({"e2m1": 1}), "mxf4nvf4": MappingProxyType({"e2m1": 1}),
})
_D: Mapping[str, int] = MappingProxyType({"f16": 0, "f32": 1, "s32": 2})
#: Codes of the scale type.
_SCALES: Mapping[str, Mapping[str, int]] = MappingProxyType({
    "mxf8f6f4": MappingProxyType({"ue8m0": 1}),
    "mxf4": MappingProxyType({"ue8m0": 1}),
    "mxf4nvf4": MappingProxyType({"ue4m3": 0, "ue8m0": 1, "ue5m3": 2}),
})

_SHARED = (
    Field(2, 2, "sparsity", "A is sparse (.sp)"), Field(9, 7, "a", "type of A"),
    Field(13, 13, "negate_a", "negate A"), Field(14, 14, "negate_b", "negate B"),
    Field(22, 17, "n", "N / 8"),
)
_MAJORS = (Field(15, 15, "transpose_a", "A is MN-major"),
           Field(16, 16, "transpose_b", "B is MN-major"))
_SCALE_IDS = (Field(5, 4, "sfb_id", "byte of B's scales"),
              Field(30, 29, "sfa_id", "byte of A's scales"))
#: M in units, by family.
_M16, _M128 = Field(28, 24, "m", "M / 16"), Field(28, 27, "m", "M / 128")


@dataclass(frozen=True, slots=True)
class InstrFormat:
    """The fields that the kinds of one family have; what is in none of them is reserved."""

    name: str
    fields: tuple[Field, ...]
    m_unit: int

    @property
    def reserved(self) -> int:
        """Bits that must be zero."""
        return ((1 << 32) - 1) & ~sum(field.mask for field in self.fields)


_PLAIN = InstrFormat("f16, tf32, f8f6f4, i8", (
    Field(1, 0, "sparsity_selector", "which lanes hold the metadata"), *_SHARED,
    Field(3, 3, "saturate", "clamp (i8)"), Field(5, 4, "d", "type of D"),
    Field(12, 10, "b", "type of B"), *_MAJORS, _M16,
    Field(29, 29, "k", "larger K (sm_107)"),
    Field(31, 30, "max_shift", "shift of B's reuse (.ws): 0, 8, 16, 32"),
), 16)
_MX8 = InstrFormat("mxf8f6f4", (
    *_SHARED, *_SCALE_IDS, Field(12, 10, "b", "type of B"), *_MAJORS,
    Field(23, 23, "scale", "type of the scales"),
    Field(26, 26, "sfa_lanes", "A's scales in 128 lanes (sm_107)"), _M128,
    Field(31, 31, "k", "larger K (sm_107)"),
), 128)
_MX4 = InstrFormat("mxf4, mxf4nvf4", (
    *_SHARED, Field(3, 3, "k_high", "upper bit of K (sm_107)"), *_SCALE_IDS,
    Field(11, 10, "b", "type of B"), Field(12, 12, "sparsity_version", "sm_107"),
    Field(24, 23, "scale", "type of the scales"), _M128,
    Field(31, 31, "k", "0: K of 64 (sparse 128); 1: 96 (sparse 192)"),
), 128)


def instr_format(kind: str) -> InstrFormat:
    """The fields of a kind's descriptor.

    Raises:
        UsageError: no such kind.
    """
    name = kind_of(kind).name
    return _MX8 if name == "mxf8f6f4" else _MX4 if name.startswith("mxf4") else _PLAIN


@dataclass(frozen=True, slots=True)
class Instruction:
    """A decoded descriptor: field name -> value; M and N in elements, types by name (their code,
    as ``code 7``, where there is none)."""

    kind: str
    word: int
    values: Mapping[str, Any]


def _codes(kind: str, field: str) -> Mapping[str, int] | None:
    """Names and codes of a field that holds a type."""
    if field in ("a", "b"):
        return _OPERANDS[kind]
    if field == "d":
        return {name: _D[name] for name in KINDS[kind].accumulators}
    return _SCALES.get(kind) if field == "scale" else None


def decode(kind: str, word: int) -> Instruction:
    """The fields of a word, whatever is wrong with them.

    Raises:
        UsageError: no such kind, or more than 32 bits.
    """
    layout = instr_format(kind)
    if not 0 <= word < 1 << 32:
        raise UsageError(f"instruction descriptor {word:#x}", "has more than 32 bits",
                         legal="0 to 0xffffffff", where=_WHERE)
    values: dict[str, Any] = {}
    for field in sorted(layout.fields, key=lambda one: one.lo):
        held, codes = field.decode(word), _codes(kind, field.name)
        if field.name in ("m", "n"):
            values[field.name] = held * (layout.m_unit if field.name == "m" else 8)
        elif codes is not None:
            named = [name for name, code in codes.items() if code == held]
            values[field.name] = named[0] if named else f"code {held}"
        else:
            values[field.name] = held
    return Instruction(kind, word, MappingProxyType(values))


def encode(kind: str, **values: Any) -> int:
    """The word of named fields; what is left out is 0 (types: the kind's first).

    Raises:
        UsageError: no such kind or field, a value that the field cannot hold, a type that the kind
            has not.
    """
    layout = instr_format(kind)
    known = {field.name: field for field in layout.fields}
    word = 0
    for name in [*values, *(n for n in ("a", "b", "d", "scale") if n in known and n not in values)]:
        if name not in known:
            raise UsageError(f"{name} = {values[name]}", f"kind {kind} has no such field",
                             legal=list(known), where=_WHERE)
        word |= known[name].encode(_held(kind, layout, name, values.get(name)))
    return word


def _held(kind: str, layout: InstrFormat, name: str, value: Any) -> int:
    codes = _codes(kind, name)
    if codes is not None:
        value = next(iter(codes)) if value is None else str(value)
        if value not in codes:
            raise UsageError(f"{name} = {value}", f"kind {kind} has no such type",
                             legal=list(codes), where=_WHERE)
        return codes[value]
    number, unit = int(value), {"m": layout.m_unit, "n": 8}.get(name, 1)
    if number % unit:
        low = number // unit * unit
        raise UsageError(f"{name} = {number}", f"is held in units of {unit}",
                         legal=[str(low), str(low + unit)], where=_WHERE)
    return number // unit


def problems(kind: str, word: int, *, cta_group: int = 1, sparse: bool | None = None,
             ws: bool = False) -> list[UsageError]:
    """Everything for which no ``tcgen05.mma`` of the kind takes the word.

    `sparse` is whether the instruction is spelled ``.sp``; None where that is not known.
    """
    layout, one = instr_format(kind), decode(kind, word)
    found = []
    if stray := word & layout.reserved:
        bits = ", ".join(str(bit) for bit in range(32) if stray >> bit & 1)
        found.append(UsageError(f"instruction descriptor {word:#010x}",
                                f"bits {bits} are reserved for kind {kind} and not zero",
                                legal=f"{word & ~layout.reserved:#010x}", where=_WHERE))
    held = bool(one.values["sparsity"])
    if sparse is not None and sparse != held:
        spelled = "with .sp" if sparse else "without .sp"
        found.append(UsageError(f"sparsity = {int(held)}", f"the instruction is spelled {spelled}",
                                legal=str(int(sparse)), where=_WHERE))
    found += _type_problems(kind, one)
    shape = shape_problem(kind, one.values["m"], one.values["n"], cta_group=cta_group,
                          sparse=held, ws=ws)
    if shape is not None:
        found.append(UsageError(shape[0], shape[1], legal=shape[2], where=_WHERE))
    return found


def _type_problems(kind: str, one: Instruction) -> Iterator[UsageError]:
    values, row = one.values, KINDS[kind]
    for name in ("a", "b", "d", "scale"):
        codes = _codes(kind, name)
        if name in values and codes is not None and values[name] not in codes:
            yield UsageError(f"{name} = {values[name]}", f"kind {kind} has no such type",
                             legal=[f"{code} ({known})" for known, code in codes.items()],
                             where=_WHERE)
    if kind == "f16" and values["a"] != values["b"]:
        yield UsageError(f"A {values['a']}, B {values['b']}", "kind f16 multiplies equal types",
                         legal=list(row.operands), where=_WHERE)
    if kind == "f16" and values["d"] == "f16" and values["a"] == "bf16":
        yield UsageError("D f16 of bf16", "has no such product", legal="f32", where=_WHERE)
    if kind == "i8":
        for name in ("negate_a", "negate_b"):
            if values[name]:
                yield UsageError(f"{name} = 1", "kind i8 negates nothing", legal="0", where=_WHERE)
    elif values.get("saturate"):
        yield UsageError("saturate = 1", f"kind {kind} does not clamp", legal="0", where=_WHERE)
    if not values["sparsity"] and values.get("sparsity_selector"):
        yield UsageError(f"sparsity_selector = {values['sparsity_selector']}",
                         "nothing is sparse", legal="0", where=_WHERE)
