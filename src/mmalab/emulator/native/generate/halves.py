"""f16, bf16 and their pairs: every operation rounded once, to nearest even.

A pair is two of 64 lanes: <32 x i32> read as <64 x i16>. Sums and products of halves are rounded
through single precision, which has more than twice their bits, so the second rounding cannot
differ; fma goes through a double rounded to odd.
"""

from __future__ import annotations

from collections.abc import Callable

from mmalab.emulator.native.emit import Value, const, lanes, vector
from mmalab.emulator.native.generate import floats
from mmalab.emulator.native.generate.rounding import (
    close_call,
    half_words,
    number,
    odd_single,
    odd_sum,
    single_of_half,
)
from mmalab.emulator.native.primitive import V32, PrimitiveWriter

__all__ = ["absolute", "apply", "arithmetic", "extreme", "fused", "is_half", "negate", "numbers",
           "pack"]

_OPERATION = {"add": "fadd", "sub": "fsub", "mul": "fmul"}


def is_half(type_: str) -> bool:
    """f16, bf16 or a pair of them."""
    return type_ in ("f16", "f16x2", "bf16", "bf16x2")


def _kind(w: PrimitiveWriter) -> str:
    return w.modifier("type").removesuffix("x2")


def words(w: PrimitiveWriter, index: int, type_: str) -> Value:
    """<32 x i16>, or <64 x i16> of a pair."""
    if type_.endswith("x2"):
        return w.f.cast("bitcast", w.read(index, "b32"), vector("i16", 64))
    return w.read(index, "b16")


def pack(w: PrimitiveWriter, value: Value) -> Value:
    """The register words of <32 x i16> or <64 x i16>."""
    return w.f.cast("bitcast", value, V32) if lanes(value.type) == 64 else value


def _flushed(w: PrimitiveWriter, value: Value, kind: str) -> Value:
    f = w.f
    exponent = 0x7C00 if kind == "f16" else 0x7F80
    tiny = f.compare("icmp eq", f.binary("and", value, const(value.type, exponent)),
                     const(value.type, 0))
    return f.select(tiny, f.binary("and", value, const(value.type, -0x8000)), value)


def _input(w: PrimitiveWriter, index: int, type_: str) -> Value:
    value = words(w, index, type_)
    return _flushed(w, value, type_.removesuffix("x2")) if w.modifier("ftz") else value


def numbers(w: PrimitiveWriter, index: int, type_: str) -> Value:
    """Operand `index` as floats, flushed under .ftz."""
    return single_of_half(w, _input(w, index, type_), type_.removesuffix("x2"))


def _finish(w: PrimitiveWriter, word: Value) -> bool:
    """.ftz, .sat and .relu of result words, and out."""
    f, kind, type_ = w.f, _kind(w), word.type
    if w.modifier("ftz"):
        word = _flushed(w, word, kind)
    if w.has("sat", "relu"):
        value = single_of_half(w, word, kind)
        zero = number(value.type, 0.0)
        if w.has("sat"):
            one = number(value.type, 1.0)
            top = const(type_, 0x3C00 if kind == "f16" else 0x3F80)
            word = f.select(f.compare("fcmp ogt", value, one), top, word)
            word = f.select(f.compare("fcmp ogt", value, zero), word, const(type_, 0))
        else:
            word = f.select(f.compare("fcmp ole", value, zero), const(type_, 0), word)
    w.write(0, pack(w, word))
    return True


def _round(w: PrimitiveWriter, value: Value) -> bool:
    return _finish(w, half_words(w, value, _kind(w)))


def arithmetic(w: PrimitiveWriter) -> bool:
    """add, sub, mul."""
    if w.modifier("rounding", "rn") != "rn":
        return False
    a, b = (numbers(w, i, w.modifier("type")) for i in (1, 2))
    return _round(w, w.f.binary(_OPERATION[w.site.form.family], a, b))


def fused(w: PrimitiveWriter) -> bool:
    """fma."""
    if w.modifier("rounding", "rn") != "rn" or w.has("oob"):
        return False
    wide = [w.f.cast("fpext", v, vector("double", lanes(v.type)))
            for v in (numbers(w, i, w.modifier("type")) for i in (1, 2, 3))]
    total = odd_sum(w, w.f.binary("fmul", wide[0], wide[1]), wide[2])
    return _round(w, odd_single(w, total))


def apply(w: PrimitiveWriter, function: Callable[[PrimitiveWriter, Value], Value]) -> bool:
    """A function of doubles that is known to 2**-49."""
    value = numbers(w, 1, w.modifier("type"))
    wide = w.f.cast("fpext", value, vector("double", lanes(value.type)))
    kind = _kind(w)
    return _finish(w, close_call(w, function(w, wide),
                                 lambda v: half_words(w, odd_single(w, v), kind)))


def _sign_bit(w: PrimitiveWriter, operation: str, mask: int) -> bool:
    """The payload of a NaN stays."""
    word = _input(w, 1, w.modifier("type"))
    w.write(0, pack(w, w.f.binary(operation, word, const(word.type, mask))))
    return True


def negate(w: PrimitiveWriter) -> bool:
    """neg."""
    return _sign_bit(w, "xor", -0x8000)


def absolute(w: PrimitiveWriter) -> bool:
    """abs."""
    return _sign_bit(w, "and", 0x7FFF)


def extreme(w: PrimitiveWriter) -> bool:
    """min, max."""
    if len(w.operands) != 3:
        return False
    a, b = (numbers(w, i, w.modifier("type")) for i in (1, 2))
    return _round(w, floats.chosen_extreme(w, a, b))
