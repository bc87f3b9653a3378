"""Exchange between the lanes of a warp: shfl, vote, redux, elect, bar.warp.sync.

The region's dispatcher has already seen to it that all lanes that the mask names stand here. What
remains to be checked is that an executing lane names itself; otherwise the executor reports it.
"""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.scope import V1, V32
from mmalab.emulator.native.step import SiteWriter
from mmalab.emulator.program import Imm, Vec

__all__: list[str] = []



def _whole_mask(w: SiteWriter) -> bool:
    """Whether the mask is the literal -1, which needs no check in an unguarded full warp."""
    mask = w.operands[-1]
    return isinstance(mask, Imm) and mask.word & 0xFFFFFFFF == 0xFFFFFFFF


def _plain(w: SiteWriter) -> bool:
    """All 32 lanes, all named, nobody listening: the case that code is written for."""
    return w.active is None and _whole_mask(w) and "events" not in w.step.options


def _literal(w: SiteWriter, index: int) -> int | None:
    op = w.operands[index]
    return op.word if isinstance(op, Imm) else None


def _source_lanes(mode: str, by: int, clamp: int) -> tuple[list[int], list[bool]]:
    """For each lane the lane it reads, and whether that is in range (PTX ISA, shfl.sync)."""
    bound, segment = clamp & 31, clamp >> 8 & 31
    sources, inside = [], []
    for lane in range(32):
        limit = (lane & segment) | (bound & ~segment)
        low = lane & segment
        if mode == "up":
            j, ok = lane - by, lane - by >= limit
        elif mode == "down":
            j, ok = lane + by, lane + by <= limit
        elif mode == "bfly":
            j, ok = lane ^ by, (lane ^ by) <= limit
        else:
            j = low | (by & ~segment)
            ok = j <= limit
        sources.append(j if ok else lane)
        inside.append(ok)
    return sources, inside


@generates("shfl.sync")
def _shuffle(w: SiteWriter) -> bool:
    by, clamp = _literal(w, 2), _literal(w, 3)
    if not _plain(w) or by is None or clamp is None:
        return False
    f = w.f
    value = w.scope.read(w.operands[1], "b32")
    sources, inside = _source_lanes(w.modifier("mode"), by & 31, clamp)
    order = "<32 x i32> <" + ", ".join(f"i32 {s}" for s in sources) + ">"
    moved = f.emit(V32, f"shufflevector {value}, {V32} poison, {order}")
    target = w.operands[0]
    if isinstance(target, Vec):
        bits = ", ".join(f"i1 {'true' if ok else 'false'}" for ok in inside)
        w.scope.write(target.items[1], Value(V1, f"<{bits}>"), None)
        target = target.items[0]
    w.scope.write(target, moved, None)
    return True


@generates("vote.sync")
def _vote(w: SiteWriter) -> bool:
    if not _plain(w):
        return False
    f, operation = w.f, w.modifier("op")
    bits = f.cast("bitcast", w.scope.read(w.operands[1], "pred"), "i32")
    if operation == "ballot":
        w.scope.write(w.operands[0], f.splat(bits), None)
        return True
    none = f.compare("icmp eq", bits, const("i32", 0))
    every = f.compare("icmp eq", bits, const("i32", -1))
    if operation == "all":
        answer = every
    elif operation == "any":
        answer = f.binary("xor", none, const("i1", 1))
    else:
        answer = f.binary("or", none, every)
    w.scope.write(w.operands[0], f.splat(answer), None)
    return True


@generates("redux.sync")
def _reduce(w: SiteWriter) -> bool:
    type_ = w.modifier("type")
    if not _plain(w) or type_ not in ("s32", "u32", "b32"):
        return False
    operation = w.modifier("op")
    if operation in ("min", "max"):
        operation = ("s" if type_ == "s32" else "u") + operation
    value = w.scope.read(w.operands[1], type_)
    total = w.f.call("i32", f"llvm.vector.reduce.{operation}.v32i32", [value])
    w.scope.write(w.operands[0], w.f.splat(total), None)
    return True


@generates("bar.warp.sync")
def _warp_barrier(w: SiteWriter) -> bool:
    """Lanes of a warp run in step here; memory is in order already."""
    return _plain(w)


