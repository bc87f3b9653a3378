"""Families that exist for integers and floats: which generator takes which type."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, lanes, vector
from mmalab.emulator.native.generate import floats, halves, integers
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.generate.rounding import number
from mmalab.emulator.native.primitive import V1, V16, V32, Generator, PrimitiveWriter
from mmalab.emulator.types import width

__all__: list[str] = []

_BY_FAMILY: dict[str, tuple[Generator | None, Generator | None, Generator | None]] = {
    "add": (integers.add, floats.arithmetic, halves.arithmetic),
    "sub": (integers.add, floats.arithmetic, halves.arithmetic),
    "mul": (integers.multiply, floats.arithmetic, halves.arithmetic),
    "mad": (integers.multiply, floats.fused, None),
    "fma": (None, floats.fused, halves.fused),
    "div": (integers.divide, floats.divide, None),
    "rem": (integers.divide, None, None),
    "neg": (integers.negate, floats.negate, halves.negate),
    "abs": (integers.absolute, floats.absolute, halves.absolute),
    "min": (integers.extreme, floats.extreme, halves.extreme),
    "max": (integers.extreme, floats.extreme, halves.extreme),
    "sqrt": (None, floats.root, None),
}


@generates(*_BY_FAMILY)
def _arithmetic(w: PrimitiveWriter) -> bool:
    integer, real, half = _BY_FAMILY[w.site.form.family]
    type_ = w.modifier("type")
    if w.has("atype", "btype", "ctype", "dtype"):
        return False  # mixed precision
    if integers.is_integer(type_):
        return integer is not None and integer(w)
    if halves.is_half(type_):
        return half is not None and half(w)
    return real is not None and floats.is_float(type_) and real(w)


# --- comparisons ----------------------------------------------------------------------------------


@generates("setp")
def _setp(w: PrimitiveWriter) -> bool:
    """``setp.cmp{.bool} p|q, a, b{, c}``; of pairs p is the low half's answer, q the high's."""
    type_, f = w.modifier("type"), w.f
    compared = _compared(w, type_)
    if compared is None:
        return False
    if lanes(compared.type) == 64:
        answers = [_half(w, compared, i) for i in range(2)]
    else:
        answers = [f.cast("bitcast", compared, "i32")]
        answers.append(f.binary("xor", answers[0], const("i32", -1)))
    boolean = w.modifier("bool")
    if boolean:
        c = w.predicate(3)
        answers = [f.binary(boolean, x, c) for x in answers]
    for index, answer in zip(w.items(0), answers, strict=False):
        w.write(index, answer)
    return True


def _half(w: PrimitiveWriter, pairs: Value, which: int) -> Value:
    """The low or high answers of <64 x i1> as a mask."""
    places = ", ".join(f"i32 {2 * i + which}" for i in range(32))
    picked = w.f.emit(V1, f"shufflevector {pairs}, {pairs.type} poison, <32 x i32> <{places}>")
    return w.f.cast("bitcast", picked, "i32")


def _compared(w: PrimitiveWriter, type_: str) -> Value | None:
    comparison = w.modifier("cmp")
    if integers.is_integer(type_):
        return integers.compare_integers(w, comparison, type_)
    if floats.is_float(type_):
        a, b = floats.read(w, 1, type_), floats.read(w, 2, type_)
    elif halves.is_half(type_):
        a, b = (halves.numbers(w, i, type_) for i in (1, 2))
    else:
        return None
    return floats.compare_floats(w, comparison, a, b)


@generates("set")
def _set(w: PrimitiveWriter) -> bool:
    """All ones or zero, or 1.0 or 0.0, by a comparison."""
    atype, dtype, f = w.modifier("atype") or w.modifier("type"), w.modifier("dtype"), w.f
    compared = _compared(w, atype)
    if compared is None:
        return False
    pairs = lanes(compared.type) == 64
    boolean = w.modifier("bool")
    if boolean and pairs:
        return False
    if boolean:
        compared = f.binary(boolean, compared, w.read(3, "pred"))
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
    word = V16 if pairs or width(dtype) == 16 else V32
    if pairs:
        word = vector("i16", 64)
    value = f.select(compared, const(word, ones.get(dtype, -1)), const(word, 0))
    w.write(0, f.cast("bitcast", value, V32) if pairs else value, signed=dtype[0] == "s")
    return True


@generates("slct")
def _select_by_sign(w: PrimitiveWriter) -> bool:
    """a where c >= 0, else b."""
    type_, f = w.modifier("type") or w.modifier("dtype"), w.f
    if w.modifier("ctype") == "s32":
        chosen = f.compare("icmp sge", w.read(3, "s32"), const(V32, 0))
    else:
        c = floats.read(w, 3, "f32")
        chosen = f.compare("fcmp oge", c, number(c.type, 0.0))
    w.write(0, f.select(chosen, w.read(1, type_), w.read(2, type_)), signed=type_[0] == "s")
    return True


@generates("copysign")
def _copy_sign(w: PrimitiveWriter) -> bool:
    """The sign of a on b."""
    type_, f = w.modifier("type"), w.f
    if not floats.is_float(type_):
        return False
    a, b = w.read(1, type_), w.read(2, type_)
    top = const(a.type, -1 << (width(type_) - 1))
    rest = f.binary("and", b, f.binary("xor", top, const(a.type, -1)))
    w.write(0, f.binary("or", rest, f.binary("and", a, top)))
    return True


@generates("testp")
def _test(w: PrimitiveWriter) -> bool:
    """Zeros count as normal."""
    type_, f = w.modifier("type"), w.f
    raw = w.read(1, type_)
    exponent = 0x7F800000 if type_ == "f32" else 0x7FF << 52
    sign = -1 << (width(type_) - 1)
    size = f.binary("and", raw, const(raw.type, ~sign))
    least = const(raw.type, 1 << (23 if type_ == "f32" else 52))
    infinity = const(raw.type, exponent)
    finite = f.compare("icmp ult", size, infinity)
    small = f.compare("icmp ult", f.binary("sub", size, const(raw.type, 1)),
                      f.binary("sub", least, const(raw.type, 1)))
    nan = f.compare("icmp ugt", size, infinity)
    no = const(nan.type, -1)
    w.write(0, {
        "finite": finite, "infinite": f.compare("icmp eq", size, infinity), "notanumber": nan,
        "number": f.binary("xor", nan, no), "subnormal": small,
        "normal": f.binary("and", finite, f.binary("xor", small, no)),
    }[w.modifier("op")])
    return True
