"""Exchange between the lanes of a full warp: shfl, vote, redux, bar.warp.sync.

Compiled for 32 lanes that all name each other; anything else is a stop, where the machine gathers
the lanes and reports what is wrong.
"""

from __future__ import annotations

from mmalab.emulator.native.emit import const
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, PrimitiveWriter

__all__: list[str] = []


def _everybody(w: PrimitiveWriter) -> bool:
    """Whether the mask operand is the literal -1; the code is then for full warps only."""
    w.whole = True
    mask = w.literal(len(w.operands) - 1)
    return mask is not None and mask & 0xFFFFFFFF == 0xFFFFFFFF


def _source_lanes(mode: str, by: int, clamp: int) -> tuple[list[int], list[bool]]:
    """For each lane the lane it reads, and whether that is in range (PTX ISA, shfl.sync)."""
    bound, segment = clamp & 31, clamp >> 8 & 31
    sources, inside = [], []
    for lane in range(32):
        low = lane & segment
        limit = low | (bound & ~segment)
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
def _shuffle(w: PrimitiveWriter) -> bool:
    if not _everybody(w):
        return False
    by, clamp = w.literal(2), w.literal(3)
    if by is None or clamp is None:
        return False
    value = w.read(1, "b32")
    sources, inside = _source_lanes(w.modifier("mode"), by & 31, clamp)
    order = "<32 x i32> <" + ", ".join(f"i32 {s}" for s in sources) + ">"
    targets = w.items(0)
    w.write(targets[0], w.f.emit(V32, f"shufflevector {value}, {V32} poison, {order}"))
    if len(targets) == 2:
        bits = sum(1 << lane for lane, ok in enumerate(inside) if ok)
        w.write(targets[1], const("i32", bits - (1 << 32) if bits >> 31 else bits))
    return True


@generates("vote.sync")
def _vote(w: PrimitiveWriter) -> bool:
    if not _everybody(w):
        return False
    f, operation = w.f, w.modifier("op")
    bits = w.predicate(1)
    if operation == "ballot":
        w.write(0, f.splat(bits))
        return True
    none = f.compare("icmp eq", bits, const("i32", 0))
    every = f.compare("icmp eq", bits, const("i32", -1))
    if operation == "all":
        answer = every
    elif operation == "any":
        answer = f.binary("xor", none, const("i1", 1))
    else:
        answer = f.binary("or", none, every)
    w.write(0, f.cast("sext", answer, "i32"))
    return True


@generates("redux.sync")
def _reduce(w: PrimitiveWriter) -> bool:
    type_, operation = w.modifier("type"), w.modifier("op")
    if not _everybody(w) or type_ not in ("s32", "u32", "b32"):
        return False
    if operation in ("min", "max"):
        operation = ("s" if type_ == "s32" else "u") + operation
    name = f"llvm.vector.reduce.{operation}.v32i32"
    w.write(0, w.f.splat(w.f.call("i32", name, [w.read(1, type_)])))
    return True


@generates("bar.warp.sync")
def _warp_barrier(w: PrimitiveWriter) -> bool:
    """Lanes of a warp run in step here; memory is in order already."""
    if not _everybody(w):
        return False
    if "filter" in w.options:
        w.f.call("void", "filter_warp_barrier", [w.filter_block(), w.warp()])
    return True
