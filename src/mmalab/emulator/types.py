"""PTX types as the emulator needs them: how wide, which kind, which NumPy dtype.

    >>> width("bf16x2"), width("pred"), kind("s64"), is_signed("s8")
    (32, 1, 's', True)
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError

__all__ = ["as_float", "as_signed", "is_float", "is_signed", "kind", "width"]

_ODD = {
    "pred": 1, "tf32": 32, "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 4, "ue8m0": 8,
    "ue4m3": 8, "ue5m3": 8, "s2f6": 8,
}
_PLAIN = re.compile(r"(?:([busf])|(bf))(\d+)")
_WIDTHS: dict[str, int] = {}


def width(name: str) -> int:
    """Bits of a register or memory word of PTX type `name` (packed types in all their lanes)."""
    found = _WIDTHS.get(name)
    if found is None:
        found = _WIDTHS[name] = _width(name)
    return found


def _width(name: str) -> int:
    scalar, _, lanes = name.partition("x")
    if name in ("b1", "b4", "b4x16", "b6x16"):
        return int(name[1])
    count = int(lanes) if lanes.isdigit() else 1
    plain = _PLAIN.fullmatch(scalar)
    if scalar in _ODD:
        return _ODD[scalar] if not lanes else max(8, _ODD[scalar] * count)
    if plain is None:
        raise UsageError(f"type .{name}", "not a PTX type", legal="b32, u32, s32, f32, bf16x2 ...",
                         where="PTX ISA, Types")
    return int(plain.group(3)) * count


def kind(name: str) -> str:
    """``b``, ``u``, ``s`` for integers, ``f`` for floating point, ``p`` for predicates."""
    if name == "pred":
        return "p"
    plain = _PLAIN.fullmatch(name.partition("x")[0])
    return plain.group(1) if plain and plain.group(1) else "f"


def is_signed(name: str) -> bool:
    """Whether narrow words of the type are sign-extended into wider registers."""
    return name[:1] == "s" and name[1:2].isdigit() and name != "s2f6x2"


def is_float(name: str) -> bool:
    """Whether words of the type are floating-point numbers."""
    return kind(name) == "f"


def as_signed(words: NDArray[np.unsignedinteger]) -> NDArray[np.signedinteger]:
    """The same bits as two's complement."""
    return words.view(f"i{words.dtype.itemsize}")


def as_float(words: NDArray[np.unsignedinteger]) -> NDArray[np.floating]:
    """The same bits as IEEE numbers of that width."""
    return words.view(f"f{words.dtype.itemsize}")
