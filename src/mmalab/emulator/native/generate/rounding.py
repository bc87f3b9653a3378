"""One exact rounding where the host would round twice: doubles rounded to odd, halves, Ziv's test.

A double that is *rounded to odd* (its last bit set where it is not exact) can be rounded to any
narrower format as if it were exact; so can a float rounded to odd, to f16 and bf16. Functions that
are only known to a few units of the last place are rounded from both ends of their interval: where
the ends differ, the primitive declines and the executor decides.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from mmalab.emulator.native.emit import Value, const, element, lanes, vector
from mmalab.emulator.native.primitive import PrimitiveWriter

__all__ = ["close_call", "directed", "fused", "half", "half_words", "horner", "number",
           "odd_single", "odd_sum", "single", "single_of_half"]

_DOUBT = 2.0**-48


def number(type_: str, value: float) -> Value:
    """A constant of a float or double type, scalar or vector."""
    inner = element(type_)
    if inner == "float":
        value = struct.unpack("f", struct.pack("f", value))[0]
    text = f"{inner} 0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"
    return Value(type_, f"splat ({text})" if type_[0] == "<" else text.partition(" ")[2])


def _word(type_: str) -> str:
    """The integer vector of the same shape."""
    bits = {"float": 32, "double": 64, "half": 16}[element(type_)]
    return vector(f"i{bits}", lanes(type_))


def fused(w: PrimitiveWriter, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, rounded once."""
    kind = {"float": "f32", "double": "f64"}[element(a.type)]
    return w.f.call(a.type, f"llvm.fma.v{lanes(a.type)}{kind}", [a, b, c])


def horner(w: PrimitiveWriter, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, lowest first."""
    total = number(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fused(w, total, x, number(x.type, coefficient))
    return total


def _is_finite(w: PrimitiveWriter, value: Value) -> Value:
    size = w.f.call(value.type, f"llvm.fabs.v{lanes(value.type)}f64", [value])
    return w.f.compare("fcmp olt", size, number(value.type, float("inf")))


def odd_sum(w: PrimitiveWriter, a: Value, b: Value) -> Value:
    """a + b of doubles, rounded to odd."""
    f = w.f
    total = f.binary("fadd", a, b)
    part = f.binary("fsub", total, a)
    rest = f.binary("fadd", f.binary("fsub", a, f.binary("fsub", total, part)),
                    f.binary("fsub", b, part))
    kind = _word(a.type)
    raw = f.cast("bitcast", total, kind)
    inexact = f.binary("and", f.compare("fcmp one", rest, number(a.type, 0.0)),
                       _is_finite(w, total))
    below = f.binary("xor", f.cast("bitcast", rest, kind), raw)
    opposite = f.compare("icmp slt", below, const(kind, 0))
    # toward zero, then the last bit on; an odd word already is one of the neighbours
    cut = f.select(opposite, f.binary("sub", raw, const(kind, 1)), raw)
    odd = f.binary("or", cut, const(kind, 1))
    keep = f.compare("icmp eq", f.binary("and", raw, const(kind, 1)), const(kind, 1))
    return f.cast("bitcast", f.select(f.binary("and", inexact, _not(w, keep)), odd, raw), a.type)


def _not(w: PrimitiveWriter, condition: Value) -> Value:
    return w.f.binary("xor", condition, const(condition.type, -1))


def odd_single(w: PrimitiveWriter, value: Value) -> Value:
    """A double (exact, or rounded to odd) as a float rounded to odd."""
    f = w.f
    narrow = vector("float", lanes(value.type))
    near = f.cast("fptrunc", value, narrow)
    back = f.cast("fpext", near, value.type)
    kind = _word(narrow)
    raw = f.cast("bitcast", near, kind)
    size = f"llvm.fabs.v{lanes(value.type)}f64"
    beyond = f.compare("fcmp ogt", f.call(value.type, size, [back]),
                       f.call(value.type, size, [value]))
    cut = f.select(beyond, f.binary("sub", raw, const(kind, 1)), raw)
    odd = f.binary("or", cut, const(kind, 1))
    inexact = f.compare("fcmp one", back, value)
    return f.cast("bitcast", f.select(inexact, odd, raw), narrow)


def single_of_half(w: PrimitiveWriter, words: Value, kind: str) -> Value:
    """f16 or bf16 words as floats, exactly."""
    f, count = w.f, lanes(words.type)
    if kind == "f16":
        return f.cast("fpext", f.cast("bitcast", words, vector("half", count)),
                      vector("float", count))
    wide = f.resize(words, vector("i32", count))
    return f.cast("bitcast", f.binary("shl", wide, const(wide.type, 16)), vector("float", count))


def half_words(w: PrimitiveWriter, value: Value, kind: str) -> Value:
    """Floats as f16 or bf16 words, to nearest even; a NaN is 0x7FFF."""
    f, count = w.f, lanes(value.type)
    words = vector("i16", count)
    nan = f.compare("fcmp uno", value, value)
    if kind == "f16":
        narrow = f.cast("bitcast", f.cast("fptrunc", value, vector("half", count)), words)
        return f.select(nan, const(words, 0x7FFF), narrow)
    raw = f.cast("bitcast", value, vector("i32", count))
    odd = f.binary("and", f.binary("lshr", raw, const(raw.type, 16)), const(raw.type, 1))
    rounded = f.binary("add", raw, f.binary("add", odd, const(raw.type, 0x7FFF)))
    high = f.cast("trunc", f.binary("lshr", rounded, const(raw.type, 16)), words)
    return f.select(nan, const(words, 0x7FFF), high)


def directed(w: PrimitiveWriter, exact: Value, near: Value, rounding: str,
             widen: Callable[[Value], Value]) -> Value:
    """`near` (integer words of `exact` rounded to nearest) moved to where `rounding` puts them."""
    f = w.f
    if rounding == "rn":
        return near
    back = widen(near)
    if rounding == "rz":
        size = f"llvm.fabs.v{lanes(exact.type)}{'f64' if 'double' in exact.type else 'f32'}"
        wrong = f.compare("fcmp ogt", *(f.call(exact.type, size, [v]) for v in (back, exact)))
        return f.select(wrong, f.binary("sub", near, const(near.type, 1)), near)
    wrong = f.compare("fcmp ogt" if rounding == "rm" else "fcmp olt", back, exact)
    # a neighbour away from zero is one word up, whatever the sign
    negative = f.compare("icmp slt", near, const(near.type, 0))
    away = negative if rounding == "rm" else _not(w, negative)
    step = f.select(away, const(near.type, 1), const(near.type, -1))
    return f.select(wrong, f.binary("add", near, step), near)


def single(w: PrimitiveWriter, exact: Value, rounding: str) -> Value:
    """A double (exact, or rounded to odd) as a float."""
    f, narrow = w.f, vector("float", lanes(exact.type))
    near = f.cast("bitcast", f.cast("fptrunc", exact, narrow), _word(narrow))
    word = directed(w, exact, near, rounding,
                    lambda v: f.cast("fpext", f.cast("bitcast", v, narrow), exact.type))
    return f.cast("bitcast", word, narrow)


def half(w: PrimitiveWriter, exact: Value, kind: str, rounding: str) -> Value:
    """Floats as f16 or bf16 words; a NaN is 0x7FFF."""
    near = half_words(w, exact, kind)
    return directed(w, exact, near, rounding, lambda v: single_of_half(w, v, kind))


def close_call(w: PrimitiveWriter, value: Value, narrow: Callable[[Value], Value]) -> Value:
    """`value` (a double known to 2**-49) through `narrow`; declines where that is not certain."""
    f = w.f
    ends = [narrow(f.binary("fmul", value, number(value.type, 1.0 + d)))
            for d in (-_DOUBT, _DOUBT)]
    operation = "fcmp one" if element(ends[0].type) in ("float", "double") else "icmp ne"
    differ = f.compare(operation, *ends)
    count = lanes(value.type)
    if count > 32:  # two halves a lane
        pairs = f.cast("bitcast", f.cast("sext", differ, vector("i16", count)), vector("i32"))
        differ = f.compare("icmp ne", pairs, const(pairs.type, 0))
    w.decline_where(differ)
    return ends[0]
