"""Conversions between integers, floats, halves, tf32 and the 8-bit floats, rounded once.

A source is read as the narrowest host type that holds it exactly, the destination rounds it.
"""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, element, vector
from mmalab.emulator.native.generate import floats, halves
from mmalab.emulator.native.generate.integers import is_integer
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.generate.rounding import (
    half,
    number,
    odd_single,
    single,
    single_of_half,
)
from mmalab.emulator.native.primitive import V16, V32, V64, VF32, VF64, PrimitiveWriter
from mmalab.emulator.types import width

__all__: list[str] = []

_INTEGRAL = {"rzi": "trunc", "rni": "roundeven", "rmi": "floor", "rpi": "ceil"}
_KNOWN = {"dtype", "atype", "rounding", "ftz", "sat", "relu", "satfinite"}
#: (mantissa bits, exponent bias, largest finite code, NaN) of the 8-bit floats.
_BYTES = {"e4m3": (3, 7, 0x7E, 0x7F), "e5m2": (2, 15, 0x7B, 0x7F)}


@generates("cvt")
def _convert(w: PrimitiveWriter) -> bool:
    to, come = w.modifier("dtype"), w.modifier("atype")
    if set(w.site.form.modifiers) - _KNOWN:
        return False
    if "x" in to or "x" in come:
        return _packed(w, to, come)
    if is_integer(to) and is_integer(come):
        return not w.has("sat") and _resize(w, to, come)
    if is_integer(come):
        return not w.has("sat", "relu") and _from_integer(w, to, come)
    if is_integer(to):
        return _to_integer(w, to, come)
    if to == "tf32":
        return _to_tf32(w)
    return _between_floats(w, to, come)


def _resize(w: PrimitiveWriter, to: str, come: str) -> bool:
    value = w.read(1, come)
    value = w.f.resize(value, vector(f"i{width(to)}"), signed=come[0] == "s")
    w.write(0, value, signed=to[0] == "s")
    return True


# --- numbers --------------------------------------------------------------------------------------


def _number(w: PrimitiveWriter, come: str) -> Value | None:
    """The source as floats or doubles, exactly."""
    if floats.is_float(come):
        return floats.read(w, 1, come)
    if come in ("f16", "bf16"):
        return single_of_half(w, w.read(1, "b16"), come)
    return None


def _rounded(w: PrimitiveWriter, value: Value) -> Value:
    """Integral under an integral rounding."""
    name = _INTEGRAL.get(w.modifier("rounding"))
    if name is None:
        return value
    kind = "f32" if value.type == VF32 else "f64"
    return w.f.call(value.type, f"llvm.{name}.v32{kind}", [value])


def _to_integer(w: PrimitiveWriter, to: str, come: str) -> bool:
    """Out of range saturates; NaN gives 0, or only the top bit where f64 or 64 bits take part."""
    value = _number(w, come)
    if value is None or w.modifier("rounding") not in _INTEGRAL or w.has("relu"):
        return False
    f, bits = w.f, width(to)
    value = _rounded(w, value)
    word = vector(f"i{bits}")
    name = "fptosi" if to[0] == "s" else "fptoui"
    kind = "f32" if value.type == VF32 else "f64"
    whole = f.call(word, f"llvm.{name}.sat.v32i{bits}.v32{kind}", [value])
    if come == "f64" or bits == 64:
        nan = f.compare("fcmp uno", value, value)
        whole = f.select(nan, const(word, -1 << (bits - 1)), whole)
    w.write(0, whole, signed=to[0] == "s")
    return True


def _from_integer(w: PrimitiveWriter, to: str, come: str) -> bool:
    rounding, f = w.modifier("rounding", "rn"), w.f
    value = w.read(1, come)
    cast = "sitofp" if come[0] == "s" else "uitofp"
    if to == "f64" or (to == "f32" and rounding == "rn"):
        exact = width(come) < 53
        w.write(0, f.cast(cast, value, VF32 if to == "f32" else VF64))
        return rounding == "rn" or exact
    if width(come) == 64:
        return False
    wide = f.cast(cast, value, VF64)
    if to == "f32":
        w.write(0, single(w, wide, rounding))
        return True
    if to not in ("f16", "bf16"):
        return False
    w.write(0, half(w, odd_single(w, wide), to, rounding))
    return True


def _between_floats(w: PrimitiveWriter, to: str, come: str) -> bool:
    value = _number(w, come)
    rounding = w.modifier("rounding", "rn")
    if value is None:
        return False
    value = _rounded(w, value)
    rounding = "rn" if rounding in _INTEGRAL else rounding
    if rounding not in ("rn", "rz", "rm", "rp") or (w.has("satfinite") and to != "f16"):
        return False
    if to in ("f16", "bf16"):
        if value.type == VF64:
            value = odd_single(w, value)
        return _write_half(w, value, to, rounding)
    if w.has("relu", "satfinite"):
        return False
    if to == "f64":
        return _write_double(w, value, come)
    return to == "f32" and floats.write(
        w, single(w, value, rounding) if value.type == VF64 else value, "f32")


def _write_double(w: PrimitiveWriter, value: Value, come: str) -> bool:
    f = w.f
    if come == "f64":
        return floats.write(w, value, "f64")
    wide = f.cast("fpext", value, VF64)
    if w.has("sat"):
        return floats.write(w, wide, "f64")
    nan = f.compare("fcmp uno", value, value)
    raw = f.cast("bitcast", wide, V64)
    w.write(0, f.select(nan, const(V64, 0x7FF8 << 48), raw))
    return True


def _write_half(w: PrimitiveWriter, value: Value, to: str, rounding: str) -> bool:
    word = half(w, value, to, rounding)
    w.write(0, _clamped(w, word, to))
    return True


def _clamped(w: PrimitiveWriter, word: Value, kind: str) -> Value:
    """.satfinite, .relu and .sat of f16 or bf16 words."""
    f, type_ = w.f, word.type
    value = single_of_half(w, word, kind)
    zero = const(type_, 0)
    if w.has("satfinite"):
        inf, top = (0x7C00, 0x7BFF) if kind == "f16" else (0x7F80, 0x7F7F)
        size = f.binary("and", word, const(type_, 0x7FFF))
        sign = f.binary("and", word, const(type_, -0x8000))
        infinite = f.compare("icmp eq", size, const(type_, inf))
        word = f.select(infinite, f.binary("or", sign, const(type_, top)), word)
    if w.has("relu"):
        word = f.select(f.compare("fcmp ole", value, number(value.type, 0.0)), zero, word)
    if w.has("sat"):
        one = const(type_, 0x3C00 if kind == "f16" else 0x3F80)
        word = f.select(f.compare("fcmp ogt", value, number(value.type, 1.0)), one, word)
        word = f.select(f.compare("fcmp ogt", value, number(value.type, 0.0)), word, zero)
    return word


def _to_tf32(w: PrimitiveWriter) -> bool:
    """f32 with the low 13 bits rounded away."""
    rounding, f = w.modifier("rounding"), w.f
    if rounding not in ("rna", "rn", "rz") or w.has("relu", "satfinite"):
        return False
    raw = w.read(1, "b32")
    size = f.binary("and", raw, const(V32, 0x7FFFFFFF))
    odd = f.binary("and", f.binary("lshr", raw, const(V32, 13)), const(V32, 1))
    more = {"rna": const(V32, 0x1000), "rz": const(V32, 0),
            "rn": f.binary("add", odd, const(V32, 0xFFF))}[rounding]
    rounded = f.binary("and", f.binary("add", raw, more), const(V32, -0x2000))
    finite = f.compare("icmp ult", size, const(V32, 0x7F800000))
    nan = f.compare("icmp ugt", size, const(V32, 0x7F800000))
    rounded = f.select(finite, rounded, raw)
    w.write(0, f.select(nan, const(V32, 0x7FFFFFFF), rounded))
    return True


# --- pairs ----------------------------------------------------------------------------------------


def _packed(w: PrimitiveWriter, to: str, come: str) -> bool:
    base, source = to.removesuffix("x2"), come.removesuffix("x2")
    rounding = w.modifier("rounding", "rn")
    if rounding not in ("rn", "rz") or w.has("ftz", "sat"):
        return False
    if come == "f32" and to in ("f16x2", "bf16x2") and len(w.operands) == 3:
        return _joined(w, [_clamped(w, half(w, w.read_float(i, "f32"), base, rounding), base)
                           for i in (2, 1)])
    if base in _BYTES and to == base + "x2" and rounding == "rn":
        return _to_bytes(w, base, come)
    if source in _BYTES and come == source + "x2" and to == "f16x2" and not w.has("satfinite"):
        return _from_bytes(w, source)
    return False


def _joined(w: PrimitiveWriter, parts: list[Value]) -> bool:
    """Two words in one of twice the width, the first one low."""
    f = w.f
    bits = int(element(parts[0].type)[1:])
    wide = vector(f"i{2 * bits}")
    low, high = (f.resize(p, wide) for p in parts)
    w.write(0, f.binary("or", f.binary("shl", high, const(wide, bits)), low))
    return True


def _to_bytes(w: PrimitiveWriter, base: str, come: str) -> bool:
    if come == "f32" and len(w.operands) == 3:
        values = [w.read_float(i, "f32") for i in (2, 1)]
    elif come == "f16x2":
        pair = w.read(1, "b32")
        values = [single_of_half(w, w.f.cast("trunc", p, V16), "f16")
                  for p in (pair, w.f.binary("lshr", pair, const(V32, 16)))]
    else:
        return False
    return _joined(w, [_byte(w, v, base) for v in values])


def _byte(w: PrimitiveWriter, value: Value, base: str) -> Value:
    """One float as an 8-bit float, to nearest even, saturating."""
    f = w.f
    mantissa, bias, most, nan = _BYTES[base]
    raw = f.cast("bitcast", value, V32)
    size = f.binary("and", raw, const(V32, 0x7FFFFFFF))
    # subnormal: adding a number whose last place is the format's least one rounds
    magic = 2.0 ** (23 + 1 - bias - mantissa)
    shifted = f.binary("fadd", f.cast("bitcast", size, VF32), number(VF32, magic))
    small = f.binary("sub", f.cast("bitcast", shifted, V32),
                     f.cast("bitcast", number(VF32, magic), V32))
    drop = 23 - mantissa
    odd = f.binary("and", f.binary("lshr", size, const(V32, drop)), const(V32, 1))
    up = f.binary("add", odd, const(V32, (1 << (drop - 1)) - 1 - ((127 - bias) << 23)))
    normal = f.binary("lshr", f.binary("add", size, up), const(V32, drop))
    least = const(V32, (127 + 1 - bias) << 23)
    code = f.select(f.compare("icmp ult", size, least), small, normal)
    big = f.compare("icmp uge", size, const(V32, (127 + 17) << 23))
    code = f.select(big, const(V32, most), code)
    code = f.call(V32, "llvm.umin.v32i32", [code, const(V32, most)])
    sign = f.binary("and", f.binary("lshr", raw, const(V32, 24)), const(V32, 0x80))
    code = f.binary("or", code, sign)
    if w.has("relu"):
        code = f.select(f.compare("icmp ne", sign, const(V32, 0)), const(V32, 0), code)
    code = f.select(f.compare("fcmp uno", value, value), const(V32, nan), code)
    return f.cast("trunc", code, vector("i8"))


def _from_bytes(w: PrimitiveWriter, source: str) -> bool:
    """Exact: e5m2 is the upper byte of f16; e4m3 is that with another bias."""
    f = w.f
    word = f.cast("bitcast", w.read(1, "b16"), vector("i8", 64))
    wide = f.cast("zext", word, vector("i16", 64))
    type_ = wide.type
    if source == "e5m2":
        words = f.binary("shl", wide, const(type_, 8))
        size = f.binary("and", words, const(type_, 0x7FFF))
        nan = f.compare("icmp ugt", size, const(type_, 0x7C00))
    else:
        size = f.binary("and", wide, const(type_, 0x7F))
        nan = f.compare("icmp eq", size, const(type_, 0x7F))
        sign = f.binary("shl", f.binary("and", wide, const(type_, 0x80)), const(type_, 8))
        value = single_of_half(w, f.binary("shl", size, const(type_, 7)), "f16")
        value = f.binary("fmul", value, number(value.type, 256.0))
        words = f.binary("or", half(w, value, "f16", "rn"), sign)
    words = f.select(nan, const(type_, 0x7FFF), words)
    if w.has("relu"):
        negative = f.compare("icmp slt", words, const(type_, 0))
        words = f.select(negative, const(type_, 0), words)
    w.write(0, halves.pack(w, words))
    return True
