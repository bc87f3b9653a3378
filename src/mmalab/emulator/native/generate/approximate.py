"""The approximate functions: the correctly rounded value, as the executors give it.

Each is computed in double precision to a few units of the last place and rounded by
:func:`~mmalab.emulator.native.generate.rounding.close_call`, so the word is the executor's however
its own double came about.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mmalab.emulator.native.emit import Value, const, lanes, vector
from mmalab.emulator.native.generate import floats, halves
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.generate.rounding import close_call, horner, number, single
from mmalab.emulator.native.primitive import V64, VF32, VF64, PrimitiveWriter

__all__ = ["exp2", "log2", "tanh"]

Function = Callable[[PrimitiveWriter, Value], Value]
#: Adding it leaves the nearest integer in the low bits of a double.
_SHIFTER = 1.5 * 2.0**52
_EXP2 = [math.log(2.0)**k / math.factorial(k) for k in range(14)]
#: log2((1 + s) / (1 - s)) / s in powers of s * s.
_LOG2 = [2.0 / math.log(2.0) / (2 * k + 1) for k in range(12)]
#: tanh(x) / x in powers of x * x.
_TANH = [1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075,
         -929569 / 638512875, 6404582 / 10854718875, -443861162 / 1856156927625,
         18888466084 / 194896477400625, -113927491862 / 2900518163668125]


def _ints(type_: str) -> str:
    return vector("i64", lanes(type_))


def exp2(w: PrimitiveWriter, x: Value) -> Value:
    """Two to the power x, doubles, for results down to 2**-300."""
    f = w.f
    top, bottom = number(x.type, 200.0), number(x.type, -300.0)
    x = f.select(f.compare("fcmp ogt", x, top), top, x)
    x = f.select(f.compare("fcmp olt", x, bottom), bottom, x)
    shifted = f.binary("fadd", x, number(x.type, _SHIFTER))
    whole = f.binary("fsub", shifted, number(x.type, _SHIFTER))
    power = horner(w, f.binary("fsub", x, whole), _EXP2)
    kind = _ints(x.type)
    exponent = f.binary("shl", f.cast("bitcast", shifted, kind), const(kind, 52))
    scale = f.binary("add", exponent, const(kind, 0x3FF0000000000000))
    return f.binary("fmul", power, f.cast("bitcast", scale, x.type))


def log2(w: PrimitiveWriter, x: Value) -> Value:
    """Base-2 logarithm of doubles that are no subnormals."""
    f, kind = w.f, _ints(x.type)
    raw = f.cast("bitcast", x, kind)
    mantissa = f.binary("or", f.binary("and", raw, const(kind, (1 << 52) - 1)),
                        const(kind, 0x3FF0000000000000))
    exponent = f.binary("sub", f.binary("lshr", raw, const(kind, 52)), const(kind, 1023))
    m = f.cast("bitcast", mantissa, x.type)
    high = f.compare("fcmp ogt", m, number(x.type, math.sqrt(2.0)))
    m = f.select(high, f.binary("fmul", m, number(x.type, 0.5)), m)
    exponent = f.binary("add", exponent, f.cast("zext", high, kind))
    one = number(x.type, 1.0)
    s = f.binary("fdiv", f.binary("fsub", m, one), f.binary("fadd", m, one))
    series = f.binary("fmul", s, horner(w, f.binary("fmul", s, s), _LOG2))
    total = f.binary("fadd", f.cast("sitofp", exponent, x.type), series)
    zero, inf = number(x.type, 0.0), number(x.type, math.inf)
    total = f.select(f.compare("fcmp oeq", x, zero), number(x.type, -math.inf), total)
    total = f.select(f.compare("fcmp oeq", x, inf), inf, total)
    # a NaN is its own logarithm here; so is the answer to a negative number
    nan = f.select(f.compare("fcmp olt", x, zero), number(x.type, math.nan), total)
    return f.select(f.compare("fcmp uno", x, x), x, nan)


def tanh(w: PrimitiveWriter, x: Value) -> Value:
    """Hyperbolic tangent of doubles."""
    f = w.f
    size = f.call(x.type, f"llvm.fabs.v{lanes(x.type)}f64", [x])
    small = f.compare("fcmp olt", size, number(x.type, 0.25))
    series = f.binary("fmul", x, horner(w, f.binary("fmul", x, x), _TANH))
    grown = exp2(w, f.binary("fmul", size, number(x.type, 2.0 / math.log(2.0))))
    one = number(x.type, 1.0)
    gap = f.binary("fdiv", number(x.type, -2.0), f.binary("fadd", grown, one))
    large = f.call(x.type, f"llvm.copysign.v{lanes(x.type)}f64", [f.binary("fadd", gap, one), x])
    return f.select(small, series, large)


def _single(w: PrimitiveWriter, function: Function) -> bool:
    wide = w.f.cast("fpext", floats.read(w, 1, "f32"), VF64)
    value = close_call(w, function(w, wide), lambda v: w.f.cast("fptrunc", v, VF32))
    return floats.write(w, value, "f32")


@generates("ex2", "lg2", "tanh")
def _approximate(w: PrimitiveWriter) -> bool:
    function = {"ex2": exp2, "lg2": log2, "tanh": tanh}[w.site.form.family]
    type_ = w.modifier("type")
    if type_ == "f32":
        return _single(w, function)
    return halves.is_half(type_) and w.site.form.family != "lg2" and halves.apply(w, function)


@generates("rcp", "rsqrt")
def _reciprocal(w: PrimitiveWriter) -> bool:
    """1 / x, and 1 / sqrt(x) with the root and the quotient in double precision."""
    type_, f, root = w.modifier("type"), w.f, w.site.form.family == "rsqrt"
    rounding = w.modifier("rounding", "rn")
    if rounding != "rn" and type_ != "f32":
        return False
    if type_ == "f64" and (w.modifier("ftz") or w.modifier("approx")):
        return bool(w.modifier("ftz")) and _upper_words(w, root=root)
    value = floats.read(w, 1, type_)
    if root:
        wide = f.cast("fpext", value, VF64) if type_ == "f32" else value
        return floats.write(w, f.cast("fptrunc", _one_over_root(w, wide), VF32), "f32")
    if rounding != "rn":
        wide = f.binary("fdiv", number(VF64, 1.0), f.cast("fpext", value, VF64))
        return floats.write(w, single(w, wide, rounding), type_)
    return floats.write(w, f.binary("fdiv", number(value.type, 1.0), value), type_)


def _one_over_root(w: PrimitiveWriter, x: Value) -> Value:
    root = w.f.call(VF64, "llvm.sqrt.v32f64", [x])
    return w.f.binary("fdiv", number(VF64, 1.0), root)


def _flushed(w: PrimitiveWriter, value: Value) -> Value:
    """Subnormal doubles as zeros of the same sign."""
    f = w.f
    raw = f.cast("bitcast", value, V64)
    tiny = f.compare("icmp eq", f.binary("and", raw, const(V64, 0x7FF << 52)), const(V64, 0))
    kept = f.select(tiny, f.binary("and", raw, const(V64, -1 << 63)), raw)
    return f.cast("bitcast", kept, VF64)


def _upper_words(w: PrimitiveWriter, *, root: bool) -> bool:
    """``.approx.ftz.f64``: only the upper words of operand and result count."""
    f = w.f
    high = const(V64, -1 << 32)
    x = _flushed(w, f.cast("bitcast", f.binary("and", w.read(1, "f64"), high), VF64))
    value = _one_over_root(w, x) if root else f.binary("fdiv", number(VF64, 1.0), x)
    value = _flushed(w, value)
    raw = f.cast("bitcast", value, V64)
    exponent = f.binary("and", raw, const(V64, 0x7FF << 52))
    finite = f.compare("icmp ne", exponent, const(V64, 0x7FF << 52))
    rounded = f.select(finite, f.binary("add", raw, const(V64, 1 << 31)), raw)
    w.write(0, f.binary("and", rounded, high))
    return True


