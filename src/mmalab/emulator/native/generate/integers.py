"""Integer arithmetic, logic, shifts, comparison and selection."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, element, lanes, vector
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, V64, PrimitiveWriter
from mmalab.emulator.types import width

__all__ = [
    "absolute", "add", "compare_integers", "divide", "extreme", "is_integer", "multiply", "negate",
]


def is_integer(type_: str) -> bool:
    """Whether `type_` is an integer or untyped-bits type of at most 64 bits, or a pair of 16."""
    if type_ in ("s16x2", "u16x2"):
        return True
    return type_[0] in "sub" and type_[1:].isdigit() and int(type_[1:]) <= 64


def _write(w: PrimitiveWriter, value: Value) -> bool:
    w.write(0, value, signed=w.modifier("type")[0] == "s")
    return True


def _pair(w: PrimitiveWriter) -> tuple[Value, Value]:
    type_ = w.modifier("type")
    return w.read(1, type_), w.read(2, type_)


@generates("and", "or", "xor")
def _logic(w: PrimitiveWriter) -> bool:
    family = w.site.form.family
    if w.modifier("type") == "pred":
        w.write(0, w.f.binary(family, w.predicate(1), w.predicate(2)))
        return True
    return _write(w, w.f.binary(family, *_pair(w)))


@generates("not")
def _not(w: PrimitiveWriter) -> bool:
    if w.modifier("type") == "pred":
        w.write(0, w.f.binary("xor", w.predicate(1), const("i32", -1)))
        return True
    a = w.read(1, w.modifier("type"))
    return _write(w, w.f.binary("xor", a, const(a.type, -1)))


@generates("shl", "shr")
def _shift(w: PrimitiveWriter) -> bool:
    """Amounts above the width give zero, or the sign for shr.s."""
    type_, f = w.modifier("type"), w.f
    bits = width(type_)
    a = w.read(1, type_)
    arithmetic = type_[0] == "s" and w.site.form.family == "shr"
    operation = "ashr" if arithmetic else "shl" if w.site.form.family == "shl" else "lshr"
    amount = w.read(2, "u32")
    by = f.resize(f.call(V32, "llvm.umin.v32i32", [amount, const(V32, bits - 1)]), a.type)
    shifted = f.binary(operation, a, by)
    if arithmetic:
        return _write(w, shifted)
    inside = f.compare("icmp ult", amount, const(V32, bits))
    return _write(w, f.select(inside, shifted, const(a.type, 0)))


def multiply(w: PrimitiveWriter) -> bool:
    """``mul`` and ``mad``: low half, high half, or both."""
    type_ = w.modifier("type")
    if w.has("cc"):
        return False
    product = _product(w, type_, w.modifier("part", "lo"))
    if w.site.form.family == "mad":
        bits = width(type_) * (2 if w.modifier("part") == "wide" else 1)
        addend = w.read(3, f"{type_[0]}{bits}")
        if w.has("sat"):
            return _write(w, w.f.call(V32, "llvm.sadd.sat.v32i32", [product, addend]))
        product = w.f.binary("add", product, addend)
    return _write(w, product)


def _product(w: PrimitiveWriter, type_: str, part: str) -> Value:
    f, bits = w.f, width(type_)
    a, b = _pair(w)
    if part == "lo":
        return f.binary("mul", a, b)
    double = vector(f"i{2 * bits}")
    signed = type_[0] == "s"
    wide = f.binary("mul", f.resize(a, double, signed=signed), f.resize(b, double, signed=signed))
    if part == "wide":
        return wide
    return f.resize(f.binary("lshr", wide, const(double, bits)), a.type)


def negate(w: PrimitiveWriter) -> bool:
    """``neg``."""
    a = w.read(1, w.modifier("type"))
    return _write(w, w.f.binary("sub", const(a.type, 0), a))


def absolute(w: PrimitiveWriter) -> bool:
    """``abs``."""
    a = w.read(1, w.modifier("type"))
    name = f"llvm.abs.v32i{width(w.modifier('type'))}"
    return _write(w, w.f.call(a.type, name, [a, const("i1", 0)]))


def extreme(w: PrimitiveWriter) -> bool:
    """``min`` and ``max``, also of pairs of halfwords."""
    type_, f = w.modifier("type"), w.f
    a, b = _pair(w)
    paired = type_.endswith("x2")
    if paired:
        a, b = (f.cast("bitcast", x, vector("i16", 64)) for x in (a, b))
    sign = "s" if type_[0] == "s" else "u"
    shape = f"v{lanes(a.type)}{element(a.type)}"
    value = f.call(a.type, f"llvm.{sign}{w.site.form.family}.{shape}", [a, b])
    if w.has("relu"):
        value = f.call(a.type, f"llvm.smax.{shape}", [value, const(a.type, 0)])
    return _write(w, f.cast("bitcast", value, V32) if paired else value)


def add(w: PrimitiveWriter) -> bool:
    """``add`` and ``sub``; ``.sat`` is for s32 only."""
    type_, family = w.modifier("type"), w.site.form.family
    if w.has("cc"):
        return False
    a, b = _pair(w)
    if type_.endswith("x2"):
        halves = [w.f.cast("bitcast", x, vector("i16", 64)) for x in (a, b)]
        return _write(w, w.f.cast("bitcast", w.f.binary(family, *halves), V32))
    if w.has("sat"):
        return _write(w, w.f.call(a.type, f"llvm.s{family}.sat.v32i{width(type_)}", [a, b]))
    return _write(w, w.f.binary(family, a, b))


def divide(w: PrimitiveWriter) -> bool:
    """``div`` and ``rem``: 32 bits and less through exact doubles, 64 bits lane by lane.

    Division by zero gives all ones, the remainder the dividend; INT_MIN / -1 wraps.
    """
    type_, f = w.modifier("type"), w.f
    signed, bits = type_[0] == "s", width(type_)
    a, b = _pair(w)
    zero = f.compare("icmp eq", b, const(b.type, 0))
    safe = f.select(zero, const(b.type, 1), b)
    if bits == 64:
        quotient = _divide_wide(w, a, safe, signed=signed)
    else:
        cast, double = "sitofp" if signed else "uitofp", vector("double")
        # a 32-bit quotient is exact after truncation: doubles have 53 bits
        real = f.binary("fdiv", f.cast(cast, a, double), f.cast(cast, safe, double))
        quotient = f.cast("trunc", f.cast("fptosi", real, V64), a.type)
    if w.site.form.family == "div":
        return _write(w, f.select(zero, const(a.type, -1), quotient))
    rest = f.binary("sub", a, f.binary("mul", quotient, safe))
    return _write(w, f.select(zero, a, rest))


def _divide_wide(w: PrimitiveWriter, a: Value, b: Value, *, signed: bool) -> Value:
    """64-bit quotients, one lane after the other; `b` is not zero."""
    f = w.f
    negative = None
    if signed:
        negative = f.compare("icmp slt", f.binary("xor", a, b), const(V64, 0))
        a, b = (f.call(V64, "llvm.abs.v32i64", [x, const("i1", 0)]) for x in (a, b))
    above, below, out = (f.alloca(V64) for _ in range(3))
    f.store(a, above, 64)
    f.store(b, below, 64)

    def body(lane: Value) -> None:
        x, y, to = (f.element_at(place, lane, 8) for place in (above, below, out))
        f.store(f.binary("udiv", f.load("i64", x, 8), f.load("i64", y, 8)), to, 8)

    f.each_lane(w.bits, body)
    quotient = f.load(V64, out, 64)
    if negative is None:
        return quotient
    return f.select(negative, f.binary("sub", const(V64, 0), quotient), quotient)


def compare_integers(w: PrimitiveWriter, comparison: str, type_: str) -> Value:
    """``setp``'s comparison of integers as <32 x i1>."""
    signs = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge", "eq": "eq", "ne": "ne"}
    prefix = "s" if type_[0] == "s" else "u"
    predicate = signs.get(comparison, prefix + comparison)
    return w.f.compare(f"icmp {predicate}", w.read(1, type_), w.read(2, type_))


@generates("selp")
def _select(w: PrimitiveWriter) -> bool:
    type_ = w.modifier("type")
    if width(type_) > 64:
        return False
    w.write(0, w.f.select(w.read(3, "pred"), w.read(1, type_), w.read(2, type_)))
    return True
