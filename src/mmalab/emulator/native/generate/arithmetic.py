"""Families that exist for integers and floats: which generator takes which type."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.generate import floats, halves, integers
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import Generator, PrimitiveWriter

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


@generates("setp")
def _setp(w: PrimitiveWriter) -> bool:
    """``setp.cmp{.bool} p|q, a, b{, c}``."""
    type_, f = w.modifier("type"), w.f
    compared = _compared(w, type_)
    if compared is None:
        return False
    answers = [f.cast("bitcast", compared, "i32")]
    answers.append(f.binary("xor", answers[0], const("i32", -1)))
    boolean = w.modifier("bool")
    if boolean:
        c = w.predicate(3)
        answers = [f.binary(boolean, x, c) for x in answers]
    for index, answer in zip(w.items(0), answers, strict=False):
        w.write(index, answer)
    return True


def _compared(w: PrimitiveWriter, type_: str) -> Value | None:
    comparison = w.modifier("cmp")
    if integers.is_integer(type_):
        return integers.compare_integers(w, comparison, type_)
    if floats.is_float(type_):
        return floats.compare_floats(w, comparison, type_)
    return None
