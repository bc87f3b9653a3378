"""Exchange between the lanes of a full warp: shfl, vote, match, redux, elect, bar.warp.sync.

Compiled for 32 lanes that all name each other: where the mask is a register that is looked up, and
anything else is left to the machine, which gathers the lanes and reports what is wrong.
"""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, PrimitiveWriter
from mmalab.emulator.program import Imm, Vec

__all__: list[str] = []

_LANES = Value(V32, "<" + ", ".join(f"i32 {i}" for i in range(32)) + ">")


def _everybody(w: PrimitiveWriter) -> bool:
    """Whether the mask operand may name all lanes; the code is then for full warps only."""
    w.whole = True
    place = len(w.operands) - 1
    if isinstance(w.op(place), Imm):
        mask = w.literal(place)
        return mask is not None and mask & 0xFFFFFFFF == 0xFFFFFFFF
    w.decline_where(w.f.compare("icmp ne", w.read(place, "b32"), const(V32, -1)))
    return True


@generates("shfl.sync")
def _shuffle(w: PrimitiveWriter) -> bool:
    """PTX ISA, shfl.sync; a lane whose source is out of range keeps its own value."""
    if not _everybody(w):
        return False
    f, mode = w.f, w.modifier("mode")
    value, by, clamp = w.read(1, "b32"), w.read(2, "b32"), w.read(3, "b32")
    move = f.binary("and", by, const(V32, 31))
    segment = f.binary("and", f.binary("lshr", clamp, const(V32, 8)), const(V32, 31))
    outside = f.binary("xor", segment, const(V32, 31))
    low = f.binary("and", segment, _LANES)
    bound = f.binary("or", low, f.binary("and", clamp, outside))
    if mode == "up":
        source = f.binary("sub", _LANES, move)
    elif mode == "down":
        source = f.binary("add", _LANES, move)
    elif mode == "bfly":
        source = f.binary("xor", _LANES, move)
    else:
        source = f.binary("or", low, f.binary("and", move, outside))
    inside = f.compare("icmp sge" if mode == "up" else "icmp sle", source, bound)
    source = f.binary("and", f.select(inside, source, _LANES), const(V32, 31))
    targets = w.items(0)
    w.write(targets[0], _gathered(w, value, source))
    if len(targets) == 2:
        w.write(targets[1], inside)
    return True


def _gathered(w: PrimitiveWriter, value: Value, source: Value) -> Value:
    """value[source[lane]] in each lane."""
    f = w.f
    table, places, out = (f.alloca(V32) for _ in range(3))
    f.store(value, table, 64)
    f.store(source, places, 64)
    for lane in range(32):
        place = f.load("i32", f.offset(places, 4 * lane), 4)
        f.store(f.load("i32", f.element_at(table, place, 4), 4), f.offset(out, 4 * lane), 4)
    return f.load(V32, out, 64)


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


@generates("match.sync")
def _match(w: PrimitiveWriter) -> bool:
    """Which lanes have the same value, or whether all have it."""
    if not _everybody(w):
        return False
    f = w.f
    value = w.read(1, w.modifier("type"))
    if w.modifier("op") == "all":
        same = f.compare("icmp eq", value, f.splat(f.extract(value, 0)))
        every = f.compare("icmp eq", f.cast("bitcast", same, "i32"), const("i32", -1))
        mask = f.cast("sext", every, "i32")
        targets = w.items(0)
        w.write(targets[0], f.splat(mask))
        if len(targets) == 2:
            w.write(targets[1], mask)
        return True
    result = const(V32, 0)
    for lane in range(32):
        same = f.compare("icmp eq", value, f.splat(f.extract(value, lane)))
        result = f.select(same, f.splat(f.cast("bitcast", same, "i32")), result)
    w.write(0, result)
    return True


@generates("redux.sync")
def _reduce(w: PrimitiveWriter) -> bool:
    type_, operation = w.modifier("type"), w.modifier("op")
    if type_ not in ("s32", "u32", "b32") or not _everybody(w):
        return False
    if operation in ("min", "max"):
        operation = ("s" if type_ == "s32" else "u") + operation
    name = f"llvm.vector.reduce.{operation}.v32i32"
    w.write(0, w.f.splat(w.f.call("i32", name, [w.read(1, type_)])))
    return True


@generates("elect.sync")
def _elect(w: PrimitiveWriter) -> bool:
    """Lane 0, of a full warp."""
    if not _everybody(w) or not isinstance(w.operands[0], Vec):
        return False
    w.write((0, 0), const(V32, 0))
    w.write((0, 1), w.f.compare("icmp eq", _LANES, const(V32, 0)))
    return True


@generates("bar.warp.sync")
def _warp_barrier(w: PrimitiveWriter) -> bool:
    """Lanes of a warp run in step here; memory is in order already."""
    if not _everybody(w):
        return False
    if "filter" in w.options:
        w.f.call("void", "filter_warp_barrier", [w.filter_block(), w.warp()])
    return True
