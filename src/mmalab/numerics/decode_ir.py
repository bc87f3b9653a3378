"""Decoding operand words in registers: to floats, and to packed exponents.

The fast adder works on the values as floats (exact for every operand type) and on their encoding
exponents, packed as many to a 32-bit lane as the elements themselves: four bytes for 8-bit types,
two halves for 16-bit types, one word for tf32. Exponents of zero are so low that no sum with them
can be the largest, those of Inf and NaN so high that every sum with them sounds the alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab import formats
from mmalab.formats import Format, Specials
from mmalab.numerics.ir import Emitter, bare, constant, double_hex, float_hex, vector

__all__ = ["Exponents", "exponent_kind", "exponents", "values"]


@dataclass(frozen=True, slots=True)
class Exponents:
    """How exponents are packed: `per` to a 32-bit lane; sums below `none` hold no product, sums
    above `alarm` an Inf or NaN."""

    element: str
    per: int
    zero: int
    special: int
    none: int
    alarm: int

    @property
    def bytes(self) -> int:
        """Bytes of one exponent."""
        return 4 // self.per


#: Saturating addition keeps special + special high; the sums of finite exponents stay clear.
_KINDS = {
    8: Exponents("i8", 4, zero=-64, special=96, none=-40, alarm=30),
    16: Exponents("i16", 2, zero=-8000, special=20000, none=-4000, alarm=1000),
    32: Exponents("i32", 1, zero=-100_000, special=200_000, none=-4000, alarm=1000),
}


def exponent_kind(type_name: str) -> Exponents:
    """The packing for an operand type."""
    return _KINDS[max(8, formats.get(type_name).bits)]


def values(out: Emitter, type_name: str, words: str, width: int) -> str:
    """<width x float> of words zero-extended to <width x i32>."""
    fmt = formats.get(type_name)
    kind, result = vector(width, "i32"), vector(width, "float")
    if type_name == "bf16":
        return out.cast("bitcast", kind, out.binary("shl", kind, words, bare(width, "i32", 16)),
                        result)
    if type_name == "tf32":
        kept = out.binary("and", kind, words, bare(width, "i32", -(1 << fmt.low_padding)))
        return out.cast("bitcast", kind, kept, result)
    half = words if type_name == "f16" else _as_half(out, fmt, words, width)
    short = out.cast("trunc", kind, half, vector(width, "i16"))
    real = out.cast("bitcast", vector(width, "i16"), short, vector(width, "half"))
    wide = out.cast("fpext", vector(width, "half"), real, result)
    if type_name in ("f16", "e5m2"):
        return wide
    scale = bare(width, "float", double_hex(2.0 ** (15 - fmt.bias)))
    scaled = out.binary("fmul", result, wide, scale)
    if fmt.specials is Specials.FINITE:
        return scaled
    code = out.binary("and", kind, words, bare(width, "i32", fmt.max_code + 1))
    nan = out.value(f"icmp eq {kind} {code}, {bare(width, 'i32', fmt.max_code + 1)}")
    return out.value(f"select {vector(width, 'i1')} {nan}, "
                     f"{constant(width, 'float', float_hex(0x7FFFFFFF))}, {result} {scaled}")


def _as_half(out: Emitter, fmt: Format, words: str, width: int) -> str:
    """The bits moved to FP16's places; what is left is a factor 2^(15 - bias)."""
    kind = vector(width, "i32")
    magnitude = (1 << fmt.sign_shift) - 1
    low = out.binary("and", kind, words, bare(width, "i32", magnitude))
    low = out.binary("shl", kind, low, bare(width, "i32", 10 - fmt.mantissa_bits))
    sign = out.binary("and", kind, words, bare(width, "i32", 1 << fmt.sign_shift))
    sign = out.binary("shl", kind, sign, bare(width, "i32", 15 - fmt.sign_shift))
    return out.binary("or", kind, low, sign)


def exponents(out: Emitter, type_name: str, words: str, width: int, element: str, *, lsb: int = 0,
              normalised: bool = False) -> str:
    """Encoding exponents of <width x element> words, in the same lanes.

    `lsb` is where the code starts in its word; `normalised` counts subnormals from their leading
    bit, as FP16 sees e4m3 numbers.
    """
    fmt, packing = formats.get(type_name), exponent_kind(type_name)
    kind = vector(width, element)

    def number(value: int) -> str:
        return bare(width, element, value)

    down = lsb + fmt.low_padding
    code = words if not down else out.binary("lshr", kind, words, number(down))
    code = out.binary("and", kind, code, number((1 << (fmt.exponent_bits + fmt.mantissa_bits)) - 1))
    field = out.binary("lshr", kind, code, number(fmt.mantissa_bits))
    suffix = f"v{width}{element}"
    found = out.call(kind, f"llvm.umax.{suffix}", f"{kind} {field}", constant(width, element, 1))
    found = out.binary("sub", kind, found, number(fmt.bias))
    if normalised and fmt.mantissa_bits > 2:
        for limit in (8, 4, 2):
            below = out.value(f"icmp ult {kind} {code}, {number(limit)}")
            found = out.binary("add", kind, found,
                               out.cast("sext", vector(width, "i1"), below, kind))
    found = _chosen(out, f"icmp eq {kind} {code}, {number(0)}", packing.zero, found, width, element)
    if fmt.specials is Specials.FINITE:
        return found
    return _chosen(out, f"icmp ugt {kind} {code}, {number(fmt.max_code)}", packing.special, found,
                   width, element)


def _chosen(out: Emitter, test: str, value: int, other: str, width: int, element: str) -> str:
    condition = out.value(test)
    return out.value(f"select {vector(width, 'i1')} {condition}, "
                     f"{constant(width, element, value)}, {vector(width, element)} {other}")
