"""Where variables and parameters lie: offsets, sizes, initial bytes.

    >>> place([(1, 1), (8, 8), (4, 4)])                          # (bytes, alignment) in order
    ([0, 8, 16], 20)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np

from mmalab import formats
from mmalab.emulator.types import is_float, width
from mmalab.errors import UsageError
from mmalab.ptx.nodes import Immediate, Parameter, Variable

__all__ = [
    "FUNCTION_TAG", "alignment", "byte_size", "encode_number", "immediate_word", "initial_bytes",
    "place",
]

#: Function addresses are numbers under this tag: nothing can be loaded from there.
FUNCTION_TAG = 4
_SYMBOL = re.compile(r"(?:generic\()?([^()+]+)\)?(?:\+(\d+))?")


def place(things: Iterable[tuple[int, int]], start: int = 0) -> tuple[list[int], int]:
    """Offsets of (bytes, alignment) one behind the other, and the end."""
    offsets, end = [], start
    for size, align in things:
        offset = -(-end // align) * align
        offsets.append(offset)
        end = offset + size
    return offsets, end


def _element(type_: str, vector: str) -> int:
    return width(type_) // 8 * (int(vector[1:]) if vector else 1)


def byte_size(thing: Variable | Parameter) -> int:
    """Bytes of a variable; 0 for ``x[]``."""
    vector = thing.vector if isinstance(thing, Variable) else ""
    return _element(thing.type, vector) * prod(thing.dims)


def alignment(thing: Variable | Parameter) -> int:
    """The declared alignment, or the natural one.

    Raises:
        UsageError: not a power of two.
    """
    vector = thing.vector if isinstance(thing, Variable) else ""
    if thing.align is not None and thing.align.bit_count() != 1:
        raise UsageError(f".align {thing.align} of {thing.name}", "not a power of two",
                         legal="1, 2, 4, 8, 16 ...", where="PTX ISA, .align")
    return max(thing.align or 0, _element(thing.type, vector), 1)


def encode_number(value: float, type_: str) -> int:
    """A number as a raw word of PTX type `type_`."""
    bits = width(type_)
    if is_float(type_):
        if type_ == "f64":
            return int(struct.unpack("<Q", struct.pack("<d", float(value)))[0])
        return int(formats.encode(np.array([float(value)]), type_, saturate=False)[0])
    if isinstance(value, float):
        return encode_number(value, "f64" if bits == 64 else "f32") & ((1 << bits) - 1)
    return int(value) & ((1 << bits) - 1)


def immediate_word(literal: Immediate, type_: str) -> int:
    """A literal as a raw word of the operand's type.

    ``0f3F800000`` in a b32 operand is its bits, in an f64 operand the number 1.0; an integer in an
    f16x2 operand is its bits.
    """
    if type_ == "pred":
        return int(bool(literal.value))
    if literal.bits is not None:
        own = "f32" if literal.text.lower().lstrip("-").startswith("0f") else "f64"
        if type_ in ("f32", "f64") and type_ != own:
            return encode_number(literal.value, type_)
        return literal.bits & ((1 << max(width(type_), width(own))) - 1)
    if isinstance(literal.value, int) and type_ not in ("f32", "f64"):
        return literal.value & ((1 << max(width(type_), 32)) - 1)
    return encode_number(literal.value, type_)


def initial_bytes(variable: Variable, address_of: Callable[[str], int]) -> bytes:
    """The bytes that a variable starts with, zero where nothing is written.

    Raises:
        UsageError: more values than elements, or a name that is no address.
    """
    size = byte_size(variable)
    values: Sequence[float | int | str] = variable.initializer or ()
    step = width(variable.type) // 8
    if len(values) * step > size:
        raise UsageError(f"{len(values)} values for {variable.name}",
                         f"the variable has {size // step}", legal=f"at most {size // step}",
                         where=f"line {variable.line}")
    out = bytearray(size)
    for index, value in enumerate(values):
        word = (_symbol_word(value, address_of, variable.name) if isinstance(value, str)
                else encode_number(value, variable.type))
        piece = (word & ((1 << 8 * step) - 1)).to_bytes(step, "little")
        out[index * step : (index + 1) * step] = piece
    return bytes(out[:size])


def _symbol_word(text: str, address_of: Callable[[str], int], variable: str) -> int:
    match = _SYMBOL.fullmatch(text.replace(" ", ""))
    if match is None:
        raise UsageError(f"initialiser {text} of {variable}", "not a symbol with an offset",
                         legal="name, name+4, generic(name)", where="PTX ISA, Initializers")
    return address_of(match[1]) + int(match[2] or 0)
