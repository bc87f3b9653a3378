"""Single and double precision: IEEE operations that the host's vector unit does exactly.

f32 results that are NaN become the chip's one NaN, f64 NaNs keep their payload. f32 roundings other
than to nearest go through doubles; of f64 they escape to the executors.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmalab.emulator.native.emit import Value, const, element, lanes, vector
from mmalab.emulator.native.generate.rounding import number, odd_sum, single
from mmalab.emulator.native.primitive import V32, V64, VF32, VF64, PrimitiveWriter

__all__ = ["absolute", "arithmetic", "chosen_extreme", "compare_floats", "divide", "extreme",
           "flush", "fused", "is_float", "negate", "read", "root", "write"]

_QUIET = 0x7FFFFFFF
_OPERATION = {"add": "fadd", "sub": "fadd", "mul": "fmul"}


def is_float(type_: str) -> bool:
    """f32 or f64."""
    return type_ in ("f32", "f64")


def _raw(type_: str) -> str:
    return V32 if type_ == "f32" else V64


def _float(type_: str) -> str:
    return VF32 if type_ == "f32" else VF64


def flush(w: PrimitiveWriter, value: Value) -> Value:
    """Subnormals of a <32 x float> become zeros of the same sign."""
    f = w.f
    raw = f.cast("bitcast", value, V32)
    tiny = f.compare(
        "icmp ult", f.binary("and", raw, const(V32, 0x7FFFFFFF)), const(V32, 0x00800000)
    )
    signed_zero = f.binary("and", raw, const(V32, -0x80000000))
    return f.cast("bitcast", f.select(tiny, signed_zero, raw), VF32)


def read(w: PrimitiveWriter, index: int, type_: str) -> Value:
    """Operand `index` as a float vector, flushed under .ftz."""
    value = w.read_float(index, type_)
    return flush(w, value) if w.modifier("ftz") and type_ == "f32" else value


def write(w: PrimitiveWriter, value: Value, type_: str, inputs: Sequence[Value] = ()) -> bool:
    """Write a result: flushed under .ftz, clamped under .sat, NaN in the chip's spelling.

    That is one word for f32; an f64 NaN keeps its payload, of `inputs` the first that is one.
    """
    f = w.f
    if w.modifier("ftz") and type_ == "f32":
        value = flush(w, value)
    raw = f.cast("bitcast", value, _raw(type_))
    if w.modifier("sat"):
        zero = const(_raw(type_), 0)
        one = const(_raw(type_), 0x3F800000 if type_ == "f32" else 0x3FF0000000000000)
        zero_f, one_f = (f.cast("bitcast", x, value.type) for x in (zero, one))
        raw = f.select(f.compare("fcmp ogt", value, one_f), one, raw)
        # not greater than zero takes -0, negatives and NaN to +0
        raw = f.select(f.compare("fcmp ogt", value, zero_f), raw, zero)
    else:
        raw = _spelled(w, value, raw, type_, inputs)
    w.write(0, raw)
    return True


def _spelled(w: PrimitiveWriter, value: Value, raw: Value, type_: str,
             inputs: Sequence[Value]) -> Value:
    """`raw` with the word that a NaN gets."""
    f = w.f
    if type_ == "f32":
        return f.select(f.compare("fcmp uno", value, value), const(V32, _QUIET), raw)
    for source in reversed(inputs):
        quiet = f.binary("or", f.cast("bitcast", source, V64), const(V64, 1 << 51))
        raw = f.select(f.compare("fcmp uno", source, source), quiet, raw)
    return raw


def arithmetic(w: PrimitiveWriter) -> bool:
    """add, sub, mul; of f64 to nearest only."""
    type_, rounding = w.modifier("type"), w.modifier("rounding", "rn")
    a, b = read(w, 1, type_), read(w, 2, type_)
    if w.site.form.family == "sub":  # as the executor: a + -b, also where b is a NaN
        b = w.f.emit(b.type, f"fneg {b}")
    if rounding == "rn":
        return write(w, w.f.binary(_OPERATION[w.site.form.family], a, b), type_, (a, b))
    if type_ != "f32":
        return False
    a, b = _wide(w, a), _wide(w, b)
    if w.site.form.family == "mul":
        return write(w, single(w, w.f.binary("fmul", a, b), rounding), type_)
    return write(w, _sum(w, a, b, rounding), type_)


def _wide(w: PrimitiveWriter, value: Value) -> Value:
    return w.f.cast("fpext", value, VF64)


def _sum(w: PrimitiveWriter, a: Value, b: Value, rounding: str) -> Value:
    """a + b of doubles as a float; what cancels exactly is -0 under rm."""
    f = w.f
    total = odd_sum(w, a, b)
    if rounding == "rm":
        signs = f.binary("xor", *(f.cast("bitcast", x, V64) for x in (a, b)))
        opposite = f.compare("icmp slt", signs, const(V64, 0))
        zero = f.compare("fcmp oeq", total, number(VF64, 0.0))
        total = f.select(f.binary("and", zero, opposite), number(VF64, -0.0), total)
    return single(w, total, rounding)


def fused(w: PrimitiveWriter) -> bool:
    """fma (and mad on floats, which is the same)."""
    type_, rounding = w.modifier("type"), w.modifier("rounding", "rn")
    if not is_float(type_) or w.has("relu"):
        return False
    inputs = [read(w, i, type_) for i in (1, 2, 3)]
    if rounding != "rn":
        if type_ != "f32":
            return False
        a, b, c = (_wide(w, x) for x in inputs)
        return write(w, _sum(w, w.f.binary("fmul", a, b), c, rounding), type_)
    name = "llvm.fma.v32f32" if type_ == "f32" else "llvm.fma.v32f64"
    return write(w, w.f.call(inputs[0].type, name, inputs), type_, inputs)


def divide(w: PrimitiveWriter) -> bool:
    """div; approximate divisions are given the correctly rounded quotient."""
    type_, rounding = w.modifier("type"), w.modifier("rounding", "rn")
    a, b = read(w, 1, type_), read(w, 2, type_)
    if rounding == "rn":
        return write(w, w.f.binary("fdiv", a, b), type_, (a, b))
    # no quotient of 24-bit numbers lies closer to a float than a double resolves
    return type_ == "f32" and write(
        w, single(w, w.f.binary("fdiv", _wide(w, a), _wide(w, b)), rounding), type_)


def root(w: PrimitiveWriter) -> bool:
    """sqrt, and sqrt.approx, which is given the correctly rounded root."""
    type_, rounding = w.modifier("type"), w.modifier("rounding", "rn")
    if not is_float(type_):
        return False
    value = read(w, 1, type_)
    if rounding != "rn":
        wide = _wide(w, value) if type_ == "f32" else value
        return type_ == "f32" and write(
            w, single(w, w.f.call(VF64, "llvm.sqrt.v32f64", [wide]), rounding), type_)
    name = "llvm.sqrt.v32f32" if type_ == "f32" else "llvm.sqrt.v32f64"
    return write(w, w.f.call(value.type, name, [value]), type_)


def _sign_bit(w: PrimitiveWriter, operation: str, mask: int) -> bool:
    """The payload of a NaN stays."""
    type_ = w.modifier("type")
    value = read(w, 1, type_)
    raw = w.f.cast("bitcast", value, _raw(type_))
    w.write(0, w.f.binary(operation, raw, const(_raw(type_), mask)))
    return True


def negate(w: PrimitiveWriter) -> bool:
    """neg."""
    bits = 31 if w.modifier("type") == "f32" else 63
    return _sign_bit(w, "xor", -(1 << bits))


def absolute(w: PrimitiveWriter) -> bool:
    """abs."""
    bits = 31 if w.modifier("type") == "f32" else 63
    return _sign_bit(w, "and", (1 << bits) - 1)


def extreme(w: PrimitiveWriter) -> bool:
    """min, max of two or three operands."""
    type_ = w.modifier("type")
    a, *rest = (read(w, i, type_) for i in range(1, len(w.operands)))
    for b in rest:
        a = chosen_extreme(w, a, b)
    return write(w, a, type_)


def chosen_extreme(w: PrimitiveWriter, a: Value, b: Value) -> Value:
    """min or max: a NaN operand loses (without .NaN); -0 is less than +0; .xorsign.abs."""
    f, least = w.f, w.site.form.family == "min"
    word = vector("i32" if element(a.type) == "float" else "i64", lanes(a.type))
    top = const(word, -1 << (31 if element(a.type) == "float" else 63))
    ra, rb = f.cast("bitcast", a, word), f.cast("bitcast", b, word)
    sign = f.binary("and", f.binary("xor", ra, rb), top) if w.has("xorsign") else None
    if w.has("abs"):
        keep = f.binary("xor", top, const(word, -1))
        ra, rb = f.binary("and", ra, keep), f.binary("and", rb, keep)
        a, b = f.cast("bitcast", ra, a.type), f.cast("bitcast", rb, b.type)
    # equal operands differ at most in the sign of zero: min takes the or, max the and of the words
    tie = f.binary("or" if least else "and", ra, rb)
    chosen = f.select(f.compare("fcmp olt" if least else "fcmp ogt", a, b), ra, rb)
    chosen = f.select(f.compare("fcmp oeq", a, b), tie, chosen)
    chosen = f.select(f.compare("fcmp uno", b, b), ra, chosen)
    if w.has("NaN"):
        chosen = f.select(f.compare("fcmp uno", a, a), ra, chosen)
        chosen = f.select(f.compare("fcmp uno", b, b), rb, chosen)
    if sign is not None:
        keep = f.binary("xor", top, const(word, -1))
        chosen = f.binary("or", f.binary("and", chosen, keep), sign)
    return f.cast("bitcast", chosen, a.type)


def compare_floats(w: PrimitiveWriter, comparison: str, a: Value, b: Value) -> Value:
    """``setp``'s comparison of floats as <N x i1>."""
    ordered = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
               "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
               "num": "ord", "nan": "uno"}
    return w.f.compare(f"fcmp {ordered[comparison]}", a, b)
