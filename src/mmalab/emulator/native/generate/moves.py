"""Moving values: mov with packing and unpacking, cvta, activemask."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V64, PrimitiveWriter
from mmalab.emulator.program import Vec
from mmalab.emulator.types import width

__all__: list[str] = []

#: Tag of the generic window of a state space (address >> 40).
_WINDOWS = {"shared": 1, "local": 2, "param": 3}


@generates("mov")
def _mov(w: PrimitiveWriter) -> bool:
    type_ = w.modifier("type")
    if width(type_) > 64:
        return False
    if type_ == "pred":
        w.write(0, w.predicate(1))
        return True
    if isinstance(w.operands[0], Vec):
        return _unpack(w, w.read(1, type_))
    if isinstance(w.operands[1], Vec):
        return _pack(w, type_)
    w.write(0, w.read(1, type_))
    return True


def _unpack(w: PrimitiveWriter, value: Value) -> bool:
    f, bits = w.f, width(w.modifier("type"))
    targets = w.items(0)
    part = bits // len(targets)
    for i, target in enumerate(targets):
        shifted = f.binary("lshr", value, const(value.type, i * part)) if i else value
        w.write(target, f.resize(shifted, vector(f"i{part}")))
    return True


def _pack(w: PrimitiveWriter, type_: str) -> bool:
    f, bits = w.f, width(type_)
    sources = w.items(1)
    part = bits // len(sources)
    total = const(vector(f"i{bits}"), 0)
    for i, source in enumerate(sources):
        piece = f.resize(w.read(source, f"b{part}"), total.type)
        if i:
            piece = f.binary("shl", piece, const(piece.type, i * part))
        total = f.binary("or", total, piece)
    w.write(0, total)
    return True


@generates("cvta")
def _cvta(w: PrimitiveWriter) -> bool:
    """Between a state space's addresses and the generic window over it."""
    space = w.modifier("space").partition("::")[0]
    f = w.f
    type_ = w.modifier("type")
    if width(type_) != 64:
        return False
    value = w.read(1, type_)
    if space in _WINDOWS:
        # to the space: the low 40 bits; from the space: the window's tag on top
        if w.has("to"):
            value = f.binary("and", value, const(V64, (1 << 40) - 1))
        else:
            value = f.binary("or", value, const(V64, _WINDOWS[space] << 40))
    w.write(0, value)
    return True


@generates("activemask")
def _activemask(w: PrimitiveWriter) -> bool:
    w.write(0, w.f.splat(w.bits))
    return True


@generates("nanosleep", "prefetch", "prefetchu")
def _nothing(w: PrimitiveWriter) -> bool:
    """Hints; that a tensor map is one, the machine checks."""
    return "tensormap" not in w.site.form.modifiers


@generates("fence", "membar")
def _fence(w: PrimitiveWriter) -> bool:
    """Memory is always up to date here; only the sanitizers want to know."""
    return "filter" not in w.options
