"""Functions that primitives call: cp.async's copies, and shared-memory wavefront counts."""

from __future__ import annotations

from mmalab.emulator.native.emit import FunctionWriter, Value, const, vector
from mmalab.emulator.native.primitive import V1, V32, V64

__all__ = ["runtime"]

_ATTRIBUTES = "nounwind noinline"


def _spill(f: FunctionWriter, value: Value) -> Value:
    """Put a vector on the stack, to index it by lane."""
    place = f.alloca(value.type)
    f.store(value, place, 64)
    return place


def _copy(size: int) -> FunctionWriter:
    """``void copyN(to, to_offsets, from, from_offsets, amounts, bits)``: the rest is zero."""
    f = FunctionWriter("void", f"copy{size}", ["ptr", V64, "ptr", V64, V32, "i32"], _ATTRIBUTES)
    to, come, amounts = (_spill(f, f.arg(i)) for i in (1, 3, 4))
    kind = vector("i8", size)
    numbers = Value(kind, "<" + ", ".join(f"i8 {i}" for i in range(size)) + ">")

    def body(lane: Value) -> None:
        target = f.offset(f.arg(0), f.load("i64", f.element_at(to, lane, 8), 8))
        source = f.offset(f.arg(2), f.load("i64", f.element_at(come, lane, 8), 8))
        amount = f.cast("trunc", f.load("i32", f.element_at(amounts, lane, 4), 4), "i8")
        wanted = f.compare("icmp ult", numbers, f.splat(amount, size))
        data = f.call(kind, f"llvm.masked.load.v{size}i8.p0",
                      [source, const("i32", 1), wanted, const(kind, 0)])
        f.store(data, target)

    f.each_lane(f.arg(5), body)
    f.ret()
    return f


# --- shared-memory wavefronts ---------------------------------------------------------------------


def _rotation(by: int, group: int) -> str:
    places = (lane // group * group + (lane + by) % group for lane in range(32))
    return "<32 x i32> <" + ", ".join(f"i32 {p}" for p in places) + ">"


def _wide_rows() -> FunctionWriter:
    """``i32 wide_passes(offsets, bits)``: 16 bytes a lane, 8 lanes a wavefront at best.

    Lanes of a group that read different 16-byte rows in one of the 8 bank groups go one after the
    other; equal rows are broadcast. Comparing with the 7 other lanes of the group, in parallel for
    all four groups, counts them.
    """
    f = FunctionWriter("i32", "wide_passes", [V32, "i32"], _ATTRIBUTES)
    active = f.cast("bitcast", f.arg(1), V1)
    # inactive lanes get rows of their own, in no bank group
    lane = Value(V32, "<" + ", ".join(f"i32 {-(i + 1)}" for i in range(32)) + ">")
    row = f.select(active, f.binary("lshr", f.arg(0), const(V32, 4)), lane)
    bank = f.select(active, f.binary("and", row, const(V32, 7)), lane)
    repeated = const(V1, 0)
    for by in range(1, 8):
        other = f.emit(V32, f"shufflevector {row}, {V32} poison, {_rotation(by, 8)}")
        earlier = ", ".join(f"i1 {'true' if i % 8 + by >= 8 else 'false'}" for i in range(32))
        same = f.binary("and", f.compare("icmp eq", row, other), Value(V1, f"<{earlier}>"))
        repeated = f.binary("or", repeated, same)
    bank = f.select(repeated, lane, bank)
    count = f.cast("zext", f.binary("and", active, f.binary("xor", repeated, const(V1, 1))), V32)
    for by in range(1, 8):
        other = f.emit(V32, f"shufflevector {bank}, {V32} poison, {_rotation(by, 8)}")
        count = f.binary("add", count, f.cast("zext", f.compare("icmp eq", bank, other), V32))
    total = const("i32", 0)
    for group in range(4):
        picked = ", ".join(f"i32 {8 * group + i}" for i in range(8))
        part = f.emit(vector("i32", 8),
                      f"shufflevector {count}, {V32} poison, <8 x i32> <{picked}>")
        total = f.binary("add", total, f.call("i32", "llvm.vector.reduce.umax.v8i32", [part]))
    f.ret(total)
    return f


def _narrow_rows() -> FunctionWriter:
    """``i32 narrow_passes(offsets, bits, words)``: `words` 4-byte words a lane, one wavefront's
    lanes.

    Per bank, the distinct words; the fullest bank decides.
    """
    f = FunctionWriter("i32", "narrow_passes", [V32, "i32", "i32"], _ATTRIBUTES)
    offsets = _spill(f, f.arg(0))
    seen = f.alloca("[32 x [64 x i32]]")
    counts = _spill(f, const(V32, 0))
    most, word_at = f.alloca("i32", 4), f.alloca("i32", 4)
    f.store(const("i32", 0), most, 4)

    def body(lane: Value) -> None:
        first = f.binary("lshr", f.load("i32", f.element_at(offsets, lane, 4), 4), const("i32", 2))
        f.store(const("i32", 0), word_at, 4)
        f.branch("word")
        f.label("word")
        k = f.load("i32", word_at, 4)
        word = f.binary("add", first, k)
        bank = f.binary("and", word, const("i32", 31))
        row = f.element_at(seen, bank, 256)
        count_at = f.element_at(counts, bank, 4)
        count = f.load("i32", count_at, 4)
        before = f.current
        f.branch("search")
        f.label("search")
        i = f.emit("i32", f"phi i32 [ 0, %{before} ], [ %i.next, %search.on ]")
        f.branch_if(f.compare("icmp eq", i, count), "fresh", "compare")
        f.label("compare")
        known = f.load("i32", f.element_at(row, i, 4), 4)
        f.branch_if(f.compare("icmp eq", known, word), "word.done", "search.on")
        f.label("search.on")
        f.do(f"%i.next = add i32 {i.ref}, 1")
        f.branch("search")
        f.label("fresh")
        f.store(word, f.element_at(row, count, 4), 4)
        more = f.binary("add", count, const("i32", 1))
        f.store(more, count_at, 4)
        f.store(f.call("i32", "llvm.umax.i32", [f.load("i32", most, 4), more]), most, 4)
        f.branch("word.done")
        f.label("word.done")
        onward = f.binary("add", k, const("i32", 1))
        f.store(onward, word_at, 4)
        f.branch_if(f.compare("icmp ult", onward, f.arg(2)), "word", "lane.done")
        f.label("lane.done")

    f.each_lane(f.arg(1), body)
    f.ret(f.load("i32", most, 4))
    return f


def _count_wavefronts() -> FunctionWriter:
    """``void count_wavefronts(offsets, bits, size, counters)`` adds passes and their ideal."""
    f = FunctionWriter("void", "count_wavefronts", [V32, "i32", "i32", "ptr"], _ATTRIBUTES)
    offsets, bits, size, counters = (f.arg(i) for i in range(4))
    passes, ideal = f.alloca("i32", 4), f.alloca("i32", 4)
    f.store(const("i32", 0), passes, 4)
    f.store(const("i32", 0), ideal, 4)

    def add(place: Value, amount: Value) -> None:
        f.store(f.binary("add", f.load("i32", place, 4), amount), place, 4)

    def group(mask: int, words: Value) -> None:
        """One wavefront's lanes, by the general count."""
        inside = f.binary("and", bits, const("i32", mask - (1 << 32 if mask >> 31 else 0)))
        some = f.cast("zext", f.compare("icmp ne", inside, const("i32", 0)), "i32")
        add(ideal, some)
        add(passes, f.call("i32", "narrow_passes", [offsets, inside, words]))

    f.switch(size, "warp", [(16, "wide"), (8, "half")])
    f.label("wide")
    add(passes, f.call("i32", "wide_passes", [offsets, bits]))
    for quarter in range(4):
        mask = 0xFF << 8 * quarter
        inside = f.binary("and", bits, const("i32", mask - (1 << 32 if mask >> 31 else 0)))
        add(ideal, f.cast("zext", f.compare("icmp ne", inside, const("i32", 0)), "i32"))
    f.branch("count")
    f.label("half")
    group(0xFFFF, const("i32", 2))
    group(0xFFFF0000, const("i32", 2))
    f.branch("count")
    f.label("warp")
    first = f.splat(f.extract(offsets, 0))
    lane = Value(V32, "<" + ", ".join(f"i32 {4 * i}" for i in range(32)) + ">")
    row = f.compare("icmp eq", f.binary("sub", offsets, first), lane)
    simple = f.binary("and", f.compare("icmp eq", f.cast("bitcast", row, "i32"), const("i32", -1)),
                      f.compare("icmp eq", bits, const("i32", -1)))
    f.branch_if(simple, "consecutive", "search")
    f.label("consecutive")
    add(passes, const("i32", 1))
    add(ideal, const("i32", 1))
    f.branch("count")
    f.label("search")
    group(0xFFFFFFFF, const("i32", 1))
    f.branch("count")
    f.label("count")
    for i, place in enumerate((passes, ideal)):
        at = f.offset(counters, 8 * i)
        wide = f.cast("zext", f.load("i32", place, 4), "i64")
        f.store(f.binary("add", f.load("i64", at, 8), wide), at, 8)
    f.ret()
    return f


def runtime() -> list[FunctionWriter]:
    """All helper functions."""
    return [
        *(_copy(size) for size in (4, 8, 16)),
        _wide_rows(), _narrow_rows(), _count_wavefronts(),
    ]
