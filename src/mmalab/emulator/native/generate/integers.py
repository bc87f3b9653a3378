"""Integer arithmetic, logic, shifts, comparison and selection."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.scope import V1, V32, width
from mmalab.emulator.native.step import SiteWriter

__all__ = [
    "absolute", "add", "compare_integers", "divide", "extreme", "is_integer", "multiply", "negate",
]


def is_integer(type_: str) -> bool:
    """Whether `type_` is a scalar integer or untyped-bits type of at most 64 bits."""
    return type_[0] in "sub" and type_[1:].isdigit() and int(type_[1:]) <= 64


def _signed(w: SiteWriter) -> bool:
    return w.modifier("type")[0] == "s"


def _write(w: SiteWriter, value: Value) -> bool:
    w.scope.write(w.operands[0], value, w.active, signed=_signed(w))
    return True


@generates("and", "or", "xor")
def _logic(w: SiteWriter) -> bool:
    type_ = w.modifier("type")
    a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
    return _write(w, w.f.binary(w.site.form.family, a, b))


@generates("not")
def _not(w: SiteWriter) -> bool:
    a = w.scope.read(w.operands[1], w.modifier("type"))
    return _write(w, w.f.binary("xor", a, const(a.type, -1 if a.type != V1 else 1)))


@generates("shl", "shr")
def _shift(w: SiteWriter) -> bool:
    """Amounts above the width give zero, or the sign for shr.s."""
    type_, f = w.modifier("type"), w.f
    bits = width(type_)
    a = w.scope.read(w.operands[1], type_)
    amount = w.scope.read(w.operands[2], "u32")
    limited = f.call(V32, "llvm.umin.v32i32", [amount, const(V32, bits - 1)])
    by = f.resize(limited, a.type)
    if type_[0] == "s" and w.site.form.family == "shr":
        return _write(w, f.binary("ashr", a, by))
    operation = "shl" if w.site.form.family == "shl" else "lshr"
    shifted = f.binary(operation, a, by)
    inside = f.compare("icmp ult", amount, const(V32, bits))
    return _write(w, f.select(inside, shifted, const(a.type, 0)))


def multiply(w: SiteWriter) -> bool:
    """``mul`` and ``mad``: low half, high half, or both."""
    type_ = w.modifier("type")
    if w.modifier("sat") or w.modifier("cc"):
        return False
    product = _product(w, type_, w.modifier("part", "lo"))
    if product is None:
        return False
    if w.site.form.family == "mad":
        bits = width(type_) * (2 if w.modifier("part") == "wide" else 1)
        addend = w.scope.read(w.operands[3], f"{type_[0]}{bits}")
        product = w.f.binary("add", product, addend)
    return _write(w, product)


def _product(w: SiteWriter, type_: str, part: str) -> Value | None:
    f, bits = w.f, width(type_)
    a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
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


def negate(w: SiteWriter) -> bool:
    """``neg``."""
    a = w.scope.read(w.operands[1], w.modifier("type"))
    return _write(w, w.f.binary("sub", const(a.type, 0), a))


def absolute(w: SiteWriter) -> bool:
    """``abs``."""
    a = w.scope.read(w.operands[1], w.modifier("type"))
    name = f"llvm.abs.v32i{width(w.modifier('type'))}"
    return _write(w, w.f.call(a.type, name, [a, const("i1", 0)]))


def extreme(w: SiteWriter) -> bool:
    """``min`` and ``max``."""
    type_ = w.modifier("type")
    if w.modifier("relu") or not is_integer(type_):
        return False
    a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
    sign = "s" if type_[0] == "s" else "u"
    return _write(
        w, w.f.call(a.type, f"llvm.{sign}{w.site.form.family}.v32i{width(type_)}", [a, b])
    )


def add(w: SiteWriter) -> bool:
    """``add`` and ``sub``; ``.sat`` is for s32 only."""
    type_ = w.modifier("type")
    if w.modifier("cc"):
        return False
    a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
    if w.modifier("sat"):
        name = f"llvm.s{w.site.form.family}.sat.v32i{width(type_)}"
        return _write(w, w.f.call(a.type, name, [a, b]))
    return _write(w, w.f.binary(w.site.form.family, a, b))


def divide(w: SiteWriter) -> bool:
    """Division by zero must not trap the host: such lanes divide by one and give all ones."""
    type_, f = w.modifier("type"), w.f
    a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
    zero = f.compare("icmp eq", b, const(b.type, 0))
    if w.active is not None:
        zero = f.binary("or", zero, w.scope.invert(w.active))
    if type_[0] == "s":
        return False  # INT_MIN / -1 would trap; the executor knows what the chip gives
    safe = f.select(zero, const(b.type, 1), b)
    if w.site.form.family == "div":
        return _write(w, f.select(zero, const(b.type, -1), f.binary("udiv", a, safe)))
    return _write(w, f.select(zero, a, f.binary("urem", a, safe)))


@generates("popc", "clz", "brev")
def _count_bits(w: SiteWriter) -> bool:
    type_, f = w.modifier("type"), w.f
    a = w.scope.read(w.operands[1], type_)
    name = {"popc": "llvm.ctpop", "clz": "llvm.ctlz", "brev": "llvm.bitreverse"}
    family = w.site.form.family
    arguments = [a, const("i1", 0)] if family == "clz" else [a]
    value = f.call(a.type, f"{name[family]}.v32i{width(type_)}", arguments)
    if family != "brev":
        value = f.resize(value, V32)
    w.scope.write(w.operands[0], value, w.active)
    return True


@generates("lop3")
def _lop3(w: SiteWriter) -> bool:
    """Any three-input function, as the sum of its true minterms."""
    if len(w.operands) != 5 or w.modifier("bool"):
        return False
    f = w.f
    inputs = [w.scope.read(op, "b32") for op in w.operands[1:4]]
    table = getattr(w.operands[4], "word", None)
    if table is None:
        return False
    inverted = [f.binary("xor", x, const(V32, -1)) for x in inputs]
    total = const(V32, 0)
    for row in range(8):
        if table >> row & 1:
            picked = [inputs[i] if row >> (2 - i) & 1 else inverted[i] for i in range(3)]
            term = f.binary("and", f.binary("and", picked[0], picked[1]), picked[2])
            total = f.binary("or", total, term)
    w.scope.write(w.operands[0], total, w.active)
    return True


@generates("shf")
def _funnel(w: SiteWriter) -> bool:
    if len(w.operands) != 4:
        return False
    f = w.f
    low, high, amount = (w.scope.read(op, "b32") for op in w.operands[1:4])
    if w.modifier("wrapping") != "wrap":
        return False
    name = "llvm.fshl.v32i32" if w.modifier("mode") == "l" else "llvm.fshr.v32i32"
    w.scope.write(w.operands[0], f.call(V32, name, [high, low, amount]), w.active)
    return True


@generates("bfe")
def _extract_field(w: SiteWriter) -> bool:
    """Unsigned only: position and length are bytes of their operands."""
    type_ = w.modifier("type")
    if type_ != "u32":
        return False
    f = w.f
    a, position, length = (w.scope.read(op, "u32") for op in w.operands[1:4])
    position, length = (f.binary("and", x, const(V32, 255)) for x in (position, length))
    inside = f.compare("icmp ult", position, const(V32, 32))
    shifted = f.binary("lshr", a, f.binary("and", position, const(V32, 31)))
    shifted = f.select(inside, shifted, const(V32, 0))
    full = f.compare("icmp uge", length, const(V32, 32))
    one = f.binary("shl", const(V32, 1), f.binary("and", length, const(V32, 31)))
    mask = f.select(full, const(V32, -1), f.binary("sub", one, const(V32, 1)))
    w.scope.write(w.operands[0], f.binary("and", shifted, mask), w.active)
    return True


def compare_integers(w: SiteWriter, comparison: str, type_: str, a: Value, b: Value) -> Value:
    """``setp``'s comparison of integers as <32 x i1>."""
    signs = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge", "eq": "eq", "ne": "ne"}
    prefix = "s" if type_[0] == "s" else "u"
    predicate = signs.get(comparison, prefix + comparison)
    return w.f.compare(f"icmp {predicate}", a, b)


@generates("selp")
def _select(w: SiteWriter) -> bool:
    type_ = w.modifier("type")
    if width(type_) > 64:
        return False
    a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
    p = w.scope.read(w.operands[3], "pred")
    w.scope.write(w.operands[0], w.f.select(p, a, b), w.active)
    return True
