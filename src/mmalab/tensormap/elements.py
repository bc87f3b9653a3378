"""Element types, swizzles and fills of tensor maps, one record each.

A type has three numbers: the driver's enum, the code in the 128 bytes of a map, and the literal of
``tensormap.replace.tile.elemtype``; they differ from f32.ftz on. Types narrower than a byte are
packed in global memory, 16 elements at a time, and may have padding behind each 16 in shared
memory::

    b4x16      64 bits of 16 elements            in 8 bytes of shared memory
    b4x16_p64  64 bits, then 8 bytes of padding  in 16
    b6x16_p32  96 bits, then 4 bytes of padding  in 16
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mmalab.errors import UsageError
from mmalab.layouts import TMA_SWIZZLES, Swizzle

__all__ = ["ELEMENTS", "NAN_FILL", "SWIZZLES", "Element", "SwizzleMode", "element", "element_of",
           "swizzle"]

_WHERE = "mmalab.TensorMap"
#: The 16 bits that fill what lies outside the tensor with ``fill="nan"``, in every floating type
#: (measured on an H200).
NAN_FILL = 0x7FF7


@dataclass(frozen=True, slots=True)
class Element:
    """One element type. `bits` in global memory; `pads` of each 16 bytes in shared memory are
    padding behind 16 packed elements."""

    name: str
    driver: int
    code: int
    literal: int
    bits: int
    floating: bool = False
    tf32: bool = False
    pads: int = 0

    @property
    def narrow(self) -> bool:
        """Whether elements are narrower than a byte."""
        return self.bits < 8

    def global_bytes(self, count: int) -> int:
        """Bytes of `count` elements in global memory (rounded down)."""
        return count * self.bits // 8

    def shared_bytes(self, count: int) -> int:
        """Bytes of `count` elements in shared memory, padding included."""
        return count if self.pads else self.global_bytes(count)


_TABLE = (
    Element("u8", 0, 0, 0, 8), Element("u16", 1, 1, 1, 16), Element("u32", 2, 2, 2, 32),
    Element("s32", 3, 3, 3, 32), Element("u64", 4, 4, 4, 64), Element("s64", 5, 5, 5, 64),
    Element("f16", 6, 6, 6, 16, floating=True),
    Element("f32", 7, 7, 7, 32, floating=True),
    Element("f32.ftz", 10, 8, 8, 32, floating=True),
    Element("f64", 8, 9, 9, 64, floating=True),
    Element("bf16", 9, 10, 10, 16, floating=True),
    Element("tf32", 11, 7, 11, 32, floating=True, tf32=True),
    Element("tf32.ftz", 12, 8, 12, 32, floating=True, tf32=True),
    Element("b4x16", 13, 11, 13, 4), Element("b4x16_p64", 14, 12, 14, 4, pads=8),
    Element("b6x16_p32", 15, 13, 15, 6, pads=4),
)
#: By PTX name.
ELEMENTS = {row.name: row for row in _TABLE}
#: Other names of the same words: tensor maps know no narrow floats, only their bytes.
_ALIASES = {
    "s8": "u8", "b8": "u8", "e4m3": "u8", "e5m2": "u8", "ue8m0": "u8", "ue4m3": "u8",
    "s16": "u16", "b16": "u16", "b32": "u32", "b64": "u64",
}
_OF_DTYPE = {np.dtype(dtype): name for dtype, name in (
    (np.uint8, "u8"), (np.int8, "u8"), (np.uint16, "u16"), (np.int16, "u16"), (np.uint32, "u32"),
    (np.int32, "s32"), (np.uint64, "u64"), (np.int64, "s64"), (np.float16, "f16"),
    (np.float32, "f32"), (np.float64, "f64"), (ml_dtypes.bfloat16, "bf16"),
    (ml_dtypes.float8_e4m3fn, "u8"), (ml_dtypes.float8_e5m2, "u8"),
    (ml_dtypes.float8_e8m0fnu, "u8"), (np.bool_, "u8"),
)}


def element(name: Any) -> Element:
    """The record of a PTX type name.

    Raises:
        UsageError: no element type of tensor maps.
    """
    found = ELEMENTS.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is None:
        raise UsageError(f"dtype {name!r}", "is no element type of tensor maps",
                         legal=[*ELEMENTS], where=_WHERE)
    return found


def element_of(dtype: np.dtype[Any]) -> Element:
    """The record for an array's own type.

    Raises:
        UsageError: no element type has these words.
    """
    name = _OF_DTYPE.get(dtype)
    if name is None:
        raise UsageError(f"an array of {dtype}", "has no element type of its own in tensor maps",
                         legal="dtype= one of " + " ".join(ELEMENTS), where=_WHERE)
    return ELEMENTS[name]


@dataclass(frozen=True, slots=True)
class SwizzleMode:
    """A swizzle: codes of its mode and of its atoms' size, and what it does to an address.

    `span` is the most bytes that the inner box dimension may have, `align` the address bits that a
    destination must leave zero (log2), `flips` whether adjacent 8 bytes trade places on odd lines.
    """

    name: str
    driver: int
    code: int
    atom: int
    function: Swizzle
    span: int
    align: int = 7
    flips: bool = False

    @property
    def pitch(self) -> int:
        """Bytes from one row of a box to the next (measured on an H200; 96B: inferred)."""
        return 128 if self.code > 2 else self.span

    @property
    def repeat(self) -> int:
        """Bytes after which the pattern repeats: what a destination should be a multiple of."""
        if not self.code:
            return 16
        return 1024 if self.code == 3 else 128 << self.function.bits

    def place(self, address: Any) -> Any:
        """Where the byte that would lie at this shared address lies (arrays too)."""
        placed = self.function(address)
        return placed ^ (address >> 4 & 8) if self.flips else placed


_NONE = TMA_SWIZZLES["none"]
_MODES = (
    SwizzleMode("none", 0, 0, 0, _NONE, 1 << 20),
    SwizzleMode("32B", 1, 1, 0, TMA_SWIZZLES["32B"], 32),
    SwizzleMode("64B", 2, 2, 0, TMA_SWIZZLES["64B"], 64),
    SwizzleMode("128B", 3, 3, 0, TMA_SWIZZLES["128B"], 128),
    SwizzleMode("128B_ATOM_32B", 4, 3, 1, TMA_SWIZZLES["128B_ATOM_32B"], 128),
    SwizzleMode("128B_ATOM_32B_FLIP_8B", 5, 3, 2, TMA_SWIZZLES["128B_ATOM_32B"], 128, flips=True),
    SwizzleMode("128B_ATOM_64B", 6, 3, 3, TMA_SWIZZLES["128B_ATOM_64B"], 128),
    # code 4: the mode's two bits are zero and the bit of 96 bytes is set
    SwizzleMode("96B", 7, 4, 0, TMA_SWIZZLES["96B"], 96),
)
#: By the name that users give.
SWIZZLES = {mode.name: mode for mode in _MODES}


def swizzle(name: Any) -> SwizzleMode:
    """The record of a swizzle's name.

    Raises:
        UsageError: not one.
    """
    found = SWIZZLES.get(name) if isinstance(name, str) else None
    if found is None:
        raise UsageError(f"swizzle {name!r}", "is not known", legal=[*SWIZZLES], where=_WHERE)
    return found
