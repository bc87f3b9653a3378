"""The number formats of the PTX ISA, one record each.

A floating format is six numbers and a rule for its highest codes; a fixed-point format (integers
among them) is a width, a sign and a count of fraction bits. One decoder and one rounder read these
records and serve all of them.

    >>> e4m3 = get("e4m3")
    >>> e4m3.bias, e4m3.max_value, e4m3.min_subnormal, hex(e4m3.nan_word)
    (7, 448.0, 0.001953125, '0x7f')
    >>> get("float8_e5m2").name, get("half_t").name, get("fp4").name
    ('e5m2', 'f16', 'e2m1')

Bits of a word, from the top: padding that is ignored (the top bit of `ue4m3`), sign, exponent,
mantissa, `low_padding` bits that are ignored (13 in `tf32`). Read without sign and padding, the
magnitude code counts up from zero through all finite values in order; that is why rounding works on
the code alone.

Sources: PTX ISA 5.2 (fundamental, alternate and packed types) and 9.7.9.21 (cvt); OCP 8-bit
floating point 1.0 and OCP microscaling formats 1.0 for the encodings.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from mmalab.errors import UsageError

__all__ = ["ALIASES", "FORMATS", "Format", "Specials", "get"]


class Specials(StrEnum):
    """What the highest codes of a floating format mean."""

    #: All-ones exponent: mantissa 0 is infinity, any other is NaN (IEEE 754).
    IEEE = "ieee"
    #: Only the all-ones code is NaN; there is no infinity (E4M3, E8M0).
    NAN_ONLY = "nan-only"
    #: Every code is a number (FP6, FP4, integers).
    FINITE = "finite"


@dataclass(frozen=True)
class Format:
    """One number format. `bits` is the width of the word that holds a value, padding included."""

    name: str
    bits: int
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    specials: Specials = Specials.FINITE
    signed: bool = True
    #: Whether exponent code 0 holds zero and subnormals (E8M0: it is a power of two like the rest).
    subnormals: bool = True
    #: Ignored bits below the mantissa.
    low_padding: int = 0
    #: Fixed point: value = integer * 2^-fraction_bits. Floating formats have exponent bits.
    fraction_bits: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether it has an exponent (integers and s2f6 have none)."""
        return self.exponent_bits > 0

    @property
    def is_integer(self) -> bool:
        """Whether it holds whole numbers only."""
        return not self.is_float and not self.fraction_bits

    @property
    def sign_shift(self) -> int:
        """Position of the sign bit of a floating word."""
        return self.exponent_bits + self.mantissa_bits + self.low_padding

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias if self.subnormals else -self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        return (self.max_code >> self.mantissa_bits) - self.bias

    @property
    def max_code(self) -> int:
        """Magnitude code of the largest finite number (floating formats)."""
        all_ones = (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        if self.specials is Specials.IEEE:
            return all_ones - (1 << self.mantissa_bits)
        return all_ones - (self.specials is Specials.NAN_ONLY)

    @property
    def max_integer(self) -> int:
        """Largest value of a fixed-point word, before its fraction bits count."""
        return (1 << (self.bits - self.signed)) - 1

    @property
    def min_integer(self) -> int:
        """Smallest value of a fixed-point word, before its fraction bits count."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @cached_property
    def max_value(self) -> float:
        """Largest finite value (MAX_NORM in the PTX ISA)."""
        if not self.is_float:
            return float(self.max_integer / 2**self.fraction_bits)
        significand = self.max_code & ((1 << self.mantissa_bits) - 1) | 1 << self.mantissa_bits
        return float(np.ldexp(float(significand), self.emax - self.mantissa_bits))

    @property
    def min_normal(self) -> float:
        """Smallest positive normal value."""
        return float(np.ldexp(1.0, self.emin))

    @property
    def min_subnormal(self) -> float:
        """Smallest positive value."""
        step = self.emin - self.mantissa_bits if self.subnormals else self.emin
        return float(np.ldexp(1.0, step if self.is_float else -self.fraction_bits))

    @property
    def has_infinity(self) -> bool:
        """Whether some code is infinity."""
        return self.specials is Specials.IEEE

    @property
    def nan_word(self) -> int:
        """The canonical NaN: positive, all mantissa bits set (f64: the quiet bit alone)."""
        if self.specials is Specials.FINITE:
            raise UsageError(
                f"NaN in {self.name}", "the format has no NaN",
                legal=[f.name for f in FORMATS.values() if f.specials is not Specials.FINITE],
                where="mmalab.formats",
            )
        if self.name == "f64":
            return 0x7FF8_0000_0000_0000
        return (1 << self.sign_shift) - 1

    @property
    def inf_word(self) -> int:
        """Positive infinity."""
        if not self.has_infinity:
            raise UsageError(
                f"infinity in {self.name}", "the format has no infinity",
                legal=[f.name for f in FORMATS.values() if f.has_infinity],
                where="mmalab.formats",
            )
        return (self.max_code + 1) << self.low_padding

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The unsigned NumPy type of a raw word (one element each; sub-byte words in a byte)."""
        width = max(8, 1 << (self.bits - 1).bit_length())
        return np.dtype(f"uint{width}")

    @property
    def container_lsb(self) -> int:
        """Lowest bit of the value in its byte under kind::f8f6f4 (2 for e2m1: bits 2 to 5)."""
        return 2 if self.name == "e2m1" else 0


def _fixed(name: str, bits: int, *, signed: bool, fraction_bits: int = 0) -> Format:
    return Format(name, bits, signed=signed, fraction_bits=fraction_bits)


_IEEE, _NAN, _FINITE = Specials.IEEE, Specials.NAN_ONLY, Specials.FINITE

#: Every format by its PTX name.
FORMATS: dict[str, Format] = {
    record.name: record
    for record in (
        #        name    bits  e  m  bias
        Format("f64",     64, 11, 52, 1023, _IEEE),
        Format("f32",     32,  8, 23,  127, _IEEE),
        Format("tf32",    32,  8, 10,  127, _IEEE, low_padding=13),
        Format("f16",     16,  5, 10,   15, _IEEE),
        Format("bf16",    16,  8,  7,  127, _IEEE),
        Format("e4m3",     8,  4,  3,    7, _NAN),
        Format("e5m2",     8,  5,  2,   15, _IEEE),
        Format("e3m2",     6,  3,  2,    3, _FINITE),
        Format("e2m3",     6,  2,  3,    1, _FINITE),
        Format("e2m1",     4,  2,  1,    1, _FINITE),
        Format("ue8m0",    8,  8,  0,  127, _NAN, signed=False, subnormals=False),
        Format("ue4m3",    8,  4,  3,    7, _NAN, signed=False),
        *(_fixed(f"s{bits}", bits, signed=True) for bits in (4, 8, 16, 32, 64)),
        *(_fixed(f"u{bits}", bits, signed=False) for bits in (4, 8, 16, 32, 64)),
        _fixed("b1", 1, signed=False),
        _fixed("s2f6", 8, signed=True, fraction_bits=6),
    )
}

#: Other spellings, lower case: ml_dtypes, NumPy and torch names, CUTLASS types, and the PTX types
#: of untyped bits (read as unsigned integers).
ALIASES: dict[str, str] = {
    alias: name
    for name, aliases in {
        "f64": "fp64 float64 double",
        "f32": "fp32 float32 float single",
        "tf32": "tfloat32 tfloat32_t tensorfloat32",
        "f16": "fp16 float16 half half_t",
        "bf16": "bfloat16 bfloat16_t nv_bfloat16",
        "e4m3": "fp8 fp8_e4m3 float8_e4m3fn float_e4m3_t nv_fp8_e4m3",
        "e5m2": "fp8_e5m2 float8_e5m2 float_e5m2_t nv_fp8_e5m2",
        "e3m2": "fp6_e3m2 float6_e3m2fn float_e3m2_t",
        "e2m3": "fp6_e2m3 float6_e2m3fn float_e2m3_t",
        "e2m1": "fp4 fp4_e2m1 float4_e2m1fn float4_e2m1fn_x2 float_e2m1_t",
        "ue8m0": "e8m0 float8_e8m0fnu float_ue8m0_t nv_fp8_e8m0",
        "ue4m3": "float_ue4m3_t",
        "s4": "int4 int4b_t",
        "s8": "int8 int8_t",
        "s16": "int16 int16_t",
        "s32": "int32 int32_t int",
        "s64": "int64 int64_t",
        "u4": "uint4 uint4b_t",
        "u8": "uint8 uint8_t b8",
        "u16": "uint16 uint16_t b16",
        "u32": "uint32 uint32_t b32",
        "u64": "uint64 uint64_t b64",
        "b1": "u1 bool uint1b_t bin1",
    }.items()
    for alias in aliases.split()
}


def get(name: str | Format) -> Format:
    """The format called `name`: its PTX name or an alias of ml_dtypes, NumPy, torch or CUTLASS.

    Raises UsageError, with the nearest names, for anything else.
    """
    if isinstance(name, Format):
        return name
    if not isinstance(name, str):
        raise UsageError(f"number format {name!r}", "is not a name", legal=list(FORMATS),
                         where="PTX ISA 5.2, types")
    spelled = name.strip().lower().removeprefix("torch.").removeprefix("cutlass::").lstrip(".")
    record = FORMATS.get(ALIASES.get(spelled, spelled))
    if record is None:
        near = difflib.get_close_matches(spelled, [*FORMATS, *ALIASES], n=4, cutoff=0.5)
        raise UsageError(
            f"number format {name!r}", "not a format of the PTX ISA",
            legal=near or list(FORMATS), where="PTX ISA 5.2, types",
        )
    return record
