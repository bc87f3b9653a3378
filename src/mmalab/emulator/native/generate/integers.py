"""Integer arithmetic, logic, shifts, comparison and selection."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, PrimitiveWriter
from mmalab.emulator.types import width

__all__ = [
    "absolute", "add", "compare_integers", "divide", "extreme", "is_integer", "multiply", "negate",
]


def is_integer(type_: str) -> bool:
    """Whether `type_` is a scalar integer or untyped-bits type of at most 64 bits."""
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
    if w.has("sat", "cc"):
        return False
    product = _product(w, type_, w.modifier("part", "lo"))
    if product is None:
        return False
    if w.site.form.family == "mad":
        bits = width(type_) * (2 if w.modifier("part") == "wide" else 1)
        product = w.f.binary("add", product, w.read(3, f"{type_[0]}{bits}"))
    return _write(w, product)


def _product(w: PrimitiveWriter, type_: str, part: str) -> Value | None:
    f, bits = w.f, width(type_)
    a, b = _pair(w)
    if part == "lo":
        return f.binary("mul", a, b)
    double = vector(f"i{2 * bits}")
    if part == "hi" and bits == 64:
        return None
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
    """``min`` and ``max``."""
    type_ = w.modifier("type")
    if w.has("relu") or len(w.operands) != 3:
        return False
    a, b = _pair(w)
    sign = "s" if type_[0] == "s" else "u"
    name = f"llvm.{sign}{w.site.form.family}.v32i{width(type_)}"
    return _write(w, w.f.call(a.type, name, [a, b]))


def add(w: PrimitiveWriter) -> bool:
    """``add`` and ``sub``; ``.sat`` is for s32 only."""
    type_, family = w.modifier("type"), w.site.form.family
    if w.has("cc"):
        return False
    a, b = _pair(w)
    if w.has("sat"):
        return _write(w, w.f.call(a.type, f"llvm.s{family}.sat.v32i{width(type_)}", [a, b]))
    return _write(w, w.f.binary(family, a, b))


def divide(w: PrimitiveWriter) -> bool:
    """``div`` and ``rem`` of 32 bits, through exact doubles; other widths are the executor's.

    Division by zero gives all ones, the remainder the dividend; INT_MIN / -1 wraps.
    """
    type_, f = w.modifier("type"), w.f
    if width(type_) != 32:
        return False
    signed = type_[0] == "s"
    cast = "sitofp" if signed else "uitofp"
    double, wide = vector("double"), vector("i64")
    a, b = _pair(w)
    zero = f.compare("icmp eq", b, const(b.type, 0))
    safe = f.select(zero, const(b.type, 1), b)
    # a 32-bit quotient is exact after truncation: doubles have 53 bits
    real = f.binary("fdiv", f.cast(cast, a, double), f.cast(cast, safe, double))
    quotient = f.cast("trunc", f.cast("fptosi", real, wide), V32)
    if w.site.form.family == "div":
        return _write(w, f.select(zero, const(a.type, -1), quotient))
    rest = f.binary("sub", a, f.binary("mul", quotient, safe))
    return _write(w, f.select(zero, a, rest))


@generates("popc", "clz", "brev")
def _count_bits(w: PrimitiveWriter) -> bool:
    type_, f = w.modifier("type"), w.f
    a = w.read(1, type_)
    name = {"popc": "llvm.ctpop", "clz": "llvm.ctlz", "brev": "llvm.bitreverse"}
    family = w.site.form.family
    arguments = [a, const("i1", 0)] if family == "clz" else [a]
    value = f.call(a.type, f"{name[family]}.v32i{width(type_)}", arguments)
    w.write(0, value if family == "brev" else f.resize(value, V32))
    return True


@generates("lop3")
def _lop3(w: PrimitiveWriter) -> bool:
    """Any three-input function, as the sum of its true minterms."""
    if len(w.operands) != 5 or w.has("bool"):
        return False
    table = w.literal(4)
    if table is None:
        return False
    f = w.f
    inputs = [w.read(i, "b32") for i in (1, 2, 3)]
    inverted = [f.binary("xor", x, const(V32, -1)) for x in inputs]
    total = const(V32, 0)
    for row in range(8):
        if table >> row & 1:
            picked = [inputs[i] if row >> (2 - i) & 1 else inverted[i] for i in range(3)]
            term = f.binary("and", f.binary("and", picked[0], picked[1]), picked[2])
            total = f.binary("or", total, term)
    w.write(0, total)
    return True


@generates("shf")
def _funnel(w: PrimitiveWriter) -> bool:
    """``shf.{l,r}.wrap`` of the pair b:a."""
    if w.modifier("wrapping") != "wrap":
        return False
    low, high, amount = (w.read(i, "b32") for i in (1, 2, 3))
    name = "llvm.fshl.v32i32" if w.modifier("mode") == "l" else "llvm.fshr.v32i32"
    w.write(0, w.f.call(V32, name, [high, low, amount]))
    return True


@generates("bfe")
def _extract_field(w: PrimitiveWriter) -> bool:
    """u32 only: position and length are bytes of their operands."""
    if w.modifier("type") != "u32":
        return False
    f = w.f
    a, position, length = (w.read(i, "u32") for i in (1, 2, 3))
    position, length = (f.binary("and", x, const(V32, 255)) for x in (position, length))
    inside = f.compare("icmp ult", position, const(V32, 32))
    shifted = f.binary("lshr", a, f.binary("and", position, const(V32, 31)))
    shifted = f.select(inside, shifted, const(V32, 0))
    full = f.compare("icmp uge", length, const(V32, 32))
    one = f.binary("shl", const(V32, 1), f.binary("and", length, const(V32, 31)))
    mask = f.select(full, const(V32, -1), f.binary("sub", one, const(V32, 1)))
    w.write(0, f.binary("and", shifted, mask))
    return True


@generates("bfi")
def _insert_field(w: PrimitiveWriter) -> bool:
    """b32 only: the low bits of a go into b at a position."""
    if w.modifier("type") != "b32":
        return False
    f = w.f
    a, b, position, length = (w.read(i, "b32") for i in (1, 2, 3, 4))
    position, length = (f.binary("and", x, const(V32, 255)) for x in (position, length))
    inside = f.compare("icmp ult", position, const(V32, 32))
    at = f.binary("and", position, const(V32, 31))
    full = f.compare("icmp uge", length, const(V32, 32))
    one = f.binary("shl", const(V32, 1), f.binary("and", length, const(V32, 31)))
    mask = f.select(full, const(V32, -1), f.binary("sub", one, const(V32, 1)))
    mask = f.select(inside, f.binary("shl", mask, at), const(V32, 0))
    kept = f.binary("and", b, f.binary("xor", mask, const(V32, -1)))
    w.write(0, f.binary("or", kept, f.binary("and", f.binary("shl", a, at), mask)))
    return True


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
