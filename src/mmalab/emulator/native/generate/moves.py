"""Moving values: mov with packing and unpacking, cvta, prmt, activemask."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.generate.special import KNOWN
from mmalab.emulator.native.scope import V32, V64, width
from mmalab.emulator.native.step import SiteWriter
from mmalab.emulator.program import Imm, Special, Unused, Vec

__all__: list[str] = []

#: Tag of the generic window of a state space (address >> 40).
WINDOWS = {"shared": 1, "local": 2, "param": 3}


@generates("mov")
def _mov(w: SiteWriter) -> bool:
    target, source = w.operands[0], w.operands[1]
    type_ = w.modifier("type")
    if isinstance(source, Special) and source.name not in KNOWN:
        return False
    if width(type_) > 64:
        return False
    if isinstance(target, Vec):
        return _unpack(w, target, w.scope.read(source, type_))
    if isinstance(source, Vec):
        return _pack(w, source, type_)
    w.scope.write(target, w.scope.read(source, type_), w.active)
    return True


def _unpack(w: SiteWriter, target: Vec, value: Value) -> bool:
    f, bits = w.f, int(value.type.split("i")[-1][:-1])
    part = bits // len(target.items)
    for i, item in enumerate(target.items):
        if isinstance(item, Unused):
            continue
        shifted = f.binary("lshr", value, const(value.type, i * part)) if i else value
        w.scope.write(item, f.resize(shifted, vector(f"i{part}")), w.active)
    return True


def _pack(w: SiteWriter, source: Vec, type_: str) -> bool:
    f, bits = w.f, width(type_)
    part = bits // len(source.items)
    total = None
    for i, item in enumerate(source.items):
        piece = f.resize(w.scope.read(item, f"b{part}"), vector(f"i{bits}"))
        if i:
            piece = f.binary("shl", piece, const(piece.type, i * part))
        total = piece if total is None else f.binary("or", total, piece)
    assert total is not None  # noqa: S101 - a vector operand has items
    w.scope.write(w.operands[0], total, w.active)
    return True


@generates("cvta")
def _cvta(w: SiteWriter) -> bool:
    """Between a state space's addresses and the generic window over it."""
    space = w.modifier("space").split("::")[0]
    f = w.f
    value = w.scope.read(w.operands[1], "u64")
    if space in WINDOWS:
        # to the space: the low 40 bits; from the space: the window's tag on top
        if w.modifier("to"):
            value = f.binary("and", value, const(V64, (1 << 40) - 1))
        else:
            value = f.binary("or", value, const(V64, WINDOWS[space] << 40))
    w.scope.write(w.operands[0], value, w.active)
    return True


@generates("prmt")
def _permute(w: SiteWriter) -> bool:
    """Byte permutation with a literal selector, without sign replication."""
    selector = w.operands[3]
    if w.modifier("mode") or not isinstance(selector, Imm) or selector.word & 0x8888:
        return False
    f = w.f
    sources = [w.scope.read(op, "b32") for op in w.operands[1:3]]
    total = const(V32, 0)
    for i in range(4):
        pick = selector.word >> (4 * i) & 7
        byte = f.binary("lshr", sources[pick // 4], const(V32, 8 * (pick % 4)))
        byte = f.binary("and", byte, const(V32, 255))
        total = f.binary("or", total, f.binary("shl", byte, const(V32, 8 * i)))
    w.scope.write(w.operands[0], total, w.active)
    return True


@generates("activemask")
def _activemask(w: SiteWriter) -> bool:
    w.scope.write(w.operands[0], w.f.splat(w.scope.bits(w.active)), w.active)
    return True


@generates("membar", "fence", "nanosleep", "prefetch", "prefetchu", "griddepcontrol")
def _nothing(w: SiteWriter) -> bool:
    """Orders memory or hints; the emulator's memory is sequentially consistent already."""
    return "events" not in w.step.options
