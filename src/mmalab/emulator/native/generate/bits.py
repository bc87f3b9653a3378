"""Bits inside a word: counting, fields, funnel shifts, byte permutations, short dot products."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, element, vector
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, V64, PrimitiveWriter
from mmalab.emulator.types import width

__all__: list[str] = []


def _shift(w: PrimitiveWriter, operation: str, a: Value, amount: Value) -> Value:
    """``shl`` or ``lshr`` by any unsigned amount (<32 x i32>): zero from the width on."""
    f, bits = w.f, int(element(a.type)[1:])
    inside = f.compare("icmp ult", amount, const(V32, bits))
    by = f.resize(f.binary("and", amount, const(V32, bits - 1)), a.type)
    return f.select(inside, f.binary(operation, a, by), const(a.type, 0))


def _byte_operand(w: PrimitiveWriter, index: int) -> Value:
    return w.f.binary("and", w.read(index, "u32"), const(V32, 255))


def _low_ones(w: PrimitiveWriter, kind: str, count: Value) -> Value:
    """`count` ones at the low end."""
    f = w.f
    return f.binary("xor", _shift(w, "shl", const(kind, -1), count), const(kind, -1))


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


@generates("bfind")
def _find_bit(w: PrimitiveWriter) -> bool:
    """Position of the highest one (of the highest bit unlike the sign), or the shift to it."""
    type_, f = w.modifier("type"), w.f
    bits = width(type_)
    a = w.read(1, type_)
    if type_[0] == "s":
        sign = f.binary("ashr", a, const(a.type, bits - 1))
        a = f.binary("xor", a, sign)
    zeros = f.resize(f.call(a.type, f"llvm.ctlz.v32i{bits}", [a, const("i1", 0)]), V32)
    found = zeros if w.has("shiftamt") else f.binary("sub", const(V32, bits - 1), zeros)
    none = f.compare("icmp eq", a, const(a.type, 0))
    w.write(0, f.select(none, const(V32, -1), found))
    return True


@generates("cnot")
def _c_not(w: PrimitiveWriter) -> bool:
    a = w.read(1, w.modifier("type"))
    w.write(0, w.f.cast("zext", w.f.compare("icmp eq", a, const(a.type, 0)), a.type))
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
    """``shf.{l,r}`` of the pair b:a; .clamp stops at 32."""
    f, left = w.f, w.modifier("mode") == "l"
    low, high, amount = (w.read(i, "b32") for i in (1, 2, 3))
    name = "llvm.fshl.v32i32" if left else "llvm.fshr.v32i32"
    value = f.call(V32, name, [high, low, amount])
    if w.modifier("wrapping") == "clamp":
        whole = f.compare("icmp uge", amount, const(V32, 32))
        value = f.select(whole, low if left else high, value)
    w.write(0, value)
    return True


@generates("bfe")
def _extract_field(w: PrimitiveWriter) -> bool:
    """Position and length are bytes of their operands; beyond the word stands its sign."""
    type_, f = w.modifier("type"), w.f
    bits = width(type_)
    a, start, length = w.read(1, type_), _byte_operand(w, 2), _byte_operand(w, 3)
    if type_[0] == "u":
        field = _shift(w, "lshr", a, start)
        w.write(0, f.binary("and", field, _low_ones(w, a.type, length)))
        return True
    small = f.call(V32, "llvm.umin.v32i32", [start, const(V32, bits - 1)])
    moved = f.binary("ashr", a, f.resize(small, a.type))  # all signs from the width on
    drop = f.call(V32, "llvm.usub.sat.v32i32", [const(V32, bits), length])
    by = f.resize(f.binary("and", drop, const(V32, bits - 1)), a.type)
    field = f.binary("ashr", f.binary("shl", moved, by), by)
    w.write(0, f.select(f.compare("icmp eq", length, const(V32, 0)), const(a.type, 0), field),
            signed=True)
    return True


@generates("bfi")
def _insert_field(w: PrimitiveWriter) -> bool:
    """The low bits of a go into b at a position."""
    type_, f = w.modifier("type"), w.f
    a, b = w.read(1, type_), w.read(2, type_)
    start, length = _byte_operand(w, 3), _byte_operand(w, 4)
    mask = _shift(w, "shl", _low_ones(w, a.type, length), start)
    kept = f.binary("and", b, f.binary("xor", mask, const(a.type, -1)))
    w.write(0, f.binary("or", kept, f.binary("and", _shift(w, "shl", a, start), mask)))
    return True


@generates("bmsk")
def _mask(w: PrimitiveWriter) -> bool:
    f = w.f
    start, length = w.read(1, "u32"), w.read(2, "u32")
    if w.modifier("wrapping") == "wrap":
        start, length = (f.binary("and", x, const(V32, 31)) for x in (start, length))
    w.write(0, _shift(w, "shl", _low_ones(w, V32, length), start))
    return True


@generates("szext")
def _extend(w: PrimitiveWriter) -> bool:
    f = w.f
    a, count = w.read(1, "u32"), w.read(2, "u32")
    if w.modifier("wrapping") == "wrap":
        count = f.binary("and", count, const(V32, 31))
    count = f.call(V32, "llvm.umin.v32i32", [count, const(V32, 32)])
    none = f.compare("icmp eq", count, const(V32, 0))
    by = f.binary("and", f.binary("sub", const(V32, 32), count), const(V32, 31))
    back = "ashr" if w.modifier("type")[0] == "s" else "lshr"
    moved = f.binary(back, f.binary("shl", a, by), by)
    w.write(0, f.select(none, const(V32, 0), moved))
    return True


# --- bytes ----------------------------------------------------------------------------------------


@generates("prmt")
def _permute(w: PrimitiveWriter) -> bool:
    """Four bytes of b:a, each chosen by a nibble: its low bits name it, bit 3 spreads its sign."""
    if w.has("mode"):
        return False
    f = w.f
    both = f.binary("or", f.cast("zext", w.read(1, "b32"), V64),
                    f.binary("shl", f.cast("zext", w.read(2, "b32"), V64), const(V64, 32)))
    selector, literal = w.read(3, "b32"), w.literal(3)
    total = const(V32, 0)
    for i in range(4):
        nibble = f.binary("lshr", selector, const(V32, 4 * i))
        by = f.binary("shl", f.binary("and", nibble, const(V32, 7)), const(V32, 3))
        byte = f.cast("trunc", f.binary("lshr", both, f.cast("zext", by, V64)), vector("i8"))
        if literal is None or literal >> (4 * i) & 8:
            sign = f.binary("ashr", byte, const(byte.type, 7))
            spread = f.binary("and", nibble, const(V32, 8))
            byte = f.select(f.compare("icmp ne", spread, const(V32, 0)), sign, byte)
        total = f.binary("or", total,
                         f.binary("shl", f.cast("zext", byte, V32), const(V32, 8 * i)))
    w.write(0, total)
    return True


def _pieces(w: PrimitiveWriter, index: int, type_: str, bits: int) -> list[Value]:
    """A word's pieces of `bits` bits, lowest first, as <32 x i32>."""
    f, word = w.f, w.read(index, "b32")
    operation = "ashr" if type_[0] == "s" else "lshr"
    found = []
    for i in range(32 // bits):
        top = f.binary("shl", word, const(V32, 32 - bits * (i + 1)))
        found.append(f.binary(operation, top, const(V32, 32 - bits)))
    return found


@generates("dp4a", "dp2a")
def _dot(w: PrimitiveWriter) -> bool:
    """Four products of bytes, or two of halfwords and bytes, added to c."""
    f = w.f
    bytes_ = _pieces(w, 2, w.modifier("btype"), 8)
    if w.site.form.family == "dp4a":
        others = _pieces(w, 1, w.modifier("atype"), 8)
    else:
        others = _pieces(w, 1, w.modifier("atype"), 16)
        bytes_ = bytes_[2:] if w.modifier("part") == "hi" else bytes_[:2]
    total = w.read(3, "b32")
    for a, b in zip(others, bytes_, strict=True):
        total = f.binary("add", total, f.binary("mul", a, b))
    w.write(0, total)
    return True


# --- 24 bits --------------------------------------------------------------------------------------


@generates("mul24", "mad24")
def _multiply_24(w: PrimitiveWriter) -> bool:
    """The low 32 bits of a product of 24-bit numbers, or the upper 32 of its 48."""
    f = w.f
    signed = w.modifier("type")[0] == "s"
    factors = []
    for index in (1, 2):
        top = f.binary("shl", w.read(index, "b32"), const(V32, 8))
        low = f.binary("ashr" if signed else "lshr", top, const(V32, 8))
        factors.append(f.resize(low, V64, signed=signed))
    product = f.binary("mul", *factors)
    if w.modifier("part") == "hi":
        product = f.binary("ashr", product, const(V64, 16))
    value = f.cast("trunc", product, V32)
    if w.site.form.family == "mad24":
        c = w.read(3, "b32")
        value = (f.call(V32, "llvm.sadd.sat.v32i32", [value, c]) if w.has("sat")
                 else f.binary("add", value, c))
    w.write(0, value)
    return True


@generates("sad")
def _absolute_difference(w: PrimitiveWriter) -> bool:
    type_, f = w.modifier("type"), w.f
    a, b, c = (w.read(i, type_) for i in (1, 2, 3))
    less = f.compare("icmp slt" if type_[0] == "s" else "icmp ult", a, b)
    gap = f.select(less, f.binary("sub", b, a), f.binary("sub", a, b))
    w.write(0, f.binary("add", c, gap), signed=type_[0] == "s")
    return True
