"""Families that exist for integers and floats: which generator takes which type."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value
from mmalab.emulator.native.generate import floats, integers
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.step import Generator, SiteWriter
from mmalab.emulator.program import Vec

__all__: list[str] = []

_BY_FAMILY: dict[str, tuple[Generator | None, Generator | None]] = {
    "add": (integers.add, floats.arithmetic),
    "sub": (integers.add, floats.arithmetic),
    "mul": (integers.multiply, floats.arithmetic),
    "mad": (integers.multiply, floats.fused),
    "fma": (None, floats.fused),
    "div": (integers.divide, floats.divide),
    "rem": (integers.divide, None),
    "neg": (integers.negate, floats.negate),
    "abs": (integers.absolute, floats.absolute),
    "min": (integers.extreme, floats.extreme),
    "max": (integers.extreme, floats.extreme),
    "sqrt": (None, floats.root),
}


@generates(*_BY_FAMILY)
def _arithmetic(w: SiteWriter) -> bool:
    integer, real = _BY_FAMILY[w.site.form.family]
    type_ = w.modifier("type")
    if any(name in w.site.form.modifiers for name in ("atype", "btype", "ctype", "dtype")):
        return False  # mixed precision
    if integers.is_integer(type_):
        return integer is not None and integer(w)
    return real is not None and floats.is_float(type_) and real(w)


@generates("setp")
def _setp(w: SiteWriter) -> bool:
    """``setp.cmp{.bool} p|q, a, b{, c}``."""
    type_, f = w.modifier("type"), w.f
    compared = _compared(w, type_)
    if compared is None:
        return False
    negated = w.scope.invert(compared)
    boolean = w.modifier("bool")
    if boolean:
        c = w.scope.read(w.operands[3], "pred")
        compared, negated = (f.binary(boolean, x, c) for x in (compared, negated))
    target = w.operands[0]
    if isinstance(target, Vec):
        w.scope.write(target.items[0], compared, w.active)
        w.scope.write(target.items[1], negated, w.active)
    else:
        w.scope.write(target, compared, w.active)
    return True


def _compared(w: SiteWriter, type_: str) -> Value | None:
    comparison = w.modifier("cmp")
    if integers.is_integer(type_):
        a, b = (w.scope.read(op, type_) for op in w.operands[1:3])
        return integers.compare_integers(w, comparison, type_, a, b)
    if floats.is_float(type_):
        a, b = floats.read(w, 1, type_), floats.read(w, 2, type_)
        return floats.compare_floats(w, comparison, a, b)
    return None
