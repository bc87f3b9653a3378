"""Loads, stores and cp.async: bounds and alignment checked for all lanes at once.

The common case is one region for the whole warp: all active lanes in one buffer, inside it,
aligned. It is checked with a few vector operations and served by a loop over the lanes (or one
vector access where the lanes are neighbours). Every other case (lanes in different buffers, out of
bounds, misaligned, local memory through generic addresses) calls the executor of the same
instruction, which decides lane by lane, and reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mmalab.emulator.native.abi import CONSTANT, Base, Context
from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.filter import Filter
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V1, V32, V64, Index, PrimitiveWriter
from mmalab.emulator.program import Addr, Guarded, Op, Reg
from mmalab.emulator.types import width

__all__ = ["Place", "changed", "count_lanes", "guard_slow", "locate", "shared_place", "watch"]

#: Spaces with a fast path; the rest goes to the executor.
_FAST = frozenset({"global", "shared", "shared::cta", "", "const", "local", "param"})
_TAG_SHIFT = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access goes: host pointer, byte offsets per lane, and when that is not valid."""

    base: Value
    offsets: Value
    slow: Value
    #: The buffer's tag, for global memory.
    tag: Value | None = None


def _any(w: PrimitiveWriter, lanes: Value, bits: Value) -> Value:
    """Whether any lane of `bits` is set, as i1."""
    f = w.f
    both = f.binary("and", f.cast("bitcast", lanes, "i32"), bits)
    return f.compare("icmp ne", both, const("i32", 0))


def _outside(w: PrimitiveWriter, offsets: Value, limit: Value, size: int) -> Value:
    """Lanes beyond `limit` (unsigned) or not aligned to `size`."""
    f = w.f
    wrong = f.compare("icmp ugt", offsets, f.splat(limit))
    if size > 1:
        odd = f.binary("and", offsets, const(offsets.type, size - 1))
        wrong = f.binary("or", wrong, f.compare("icmp ne", odd, const(offsets.type, 0)))
    return wrong


def _narrow(w: PrimitiveWriter, index: int, bits: Value) -> tuple[Value, Value]:
    """32-bit addresses per lane, and whether a 64-bit register holds more than that (i1)."""
    f, op = w.f, w.operands[index]
    if not isinstance(op, Addr) or op.base is None or op.base.file != "q":
        return w.address(index, 32), const("i1", 0)
    wide = w.address(index, 64)
    beyond = f.compare("icmp ugt", wide, const(V64, 0xFFFFFFFF))
    return f.resize(wide, V32), _any(w, beyond, bits)


def shared_place(w: PrimitiveWriter, index: int, size: int, bits: Value) -> Place:
    """`size` bytes for each lane of `bits` in the CTA's own shared memory."""
    f = w.f
    offsets, beyond = _narrow(w, index, bits)
    start = f.cast("trunc", w.word(Context.SHARED_START), "i32")
    end = f.cast("trunc", w.word(Context.SHARED_BYTES), "i32")
    room = f.binary("sub", f.binary("sub", end, start), const("i32", size))
    inner = f.binary("sub", offsets, f.splat(start))
    wrong = _any(w, _outside(w, inner, room, size), bits)
    small = f.compare("icmp slt", room, const("i32", 0))
    slow = f.binary("or", f.binary("or", wrong, small), beyond)
    return Place(w.pointer(Context.SHARED), offsets, slow)


def _window(w: PrimitiveWriter, index: int, size: int, base: Context, bytes_: Context) -> Place:
    """A window of one size for all lanes: parameters, or a thread's local memory."""
    f = w.f
    offsets, beyond = _narrow(w, index, w.bits)
    room = f.binary("sub", f.cast("trunc", w.word(bytes_), "i32"), const("i32", size))
    wrong = _any(w, _outside(w, offsets, room, size), w.bits)
    small = f.compare("icmp slt", room, const("i32", 0))
    slow = f.binary("or", f.binary("or", wrong, small), beyond)
    return Place(w.pointer(base), offsets, slow)


def _local(w: PrimitiveWriter, index: int, size: int) -> Place:
    """Each thread's own bytes."""
    f = w.f
    place = _window(w, index, size, Context.LOCAL, Context.LOCAL_BYTES)
    stride = f.cast("trunc", w.word(Context.LOCAL_STRIDE), "i32")
    lane = Value(V32, "<" + ", ".join(f"i32 {i}" for i in range(32)) + ">")
    offsets = f.binary("add", place.offsets, f.binary("mul", lane, f.splat(stride)))
    first = f.binary("mul", w.word(Base.ROW), const("i64", 32))
    start = f.binary("mul", first, w.word(Context.LOCAL_STRIDE))
    return Place(f.offset(place.base, start), offsets, place.slow)


def _buffer(w: PrimitiveWriter, index: int, size: int, bits: Value, *, write: bool,
            space: str = "global") -> Place:
    """`size` bytes per lane of the buffer that the first lane of `bits` points into."""
    f = w.f
    addresses = w.address(index, 64)
    lane = f.binary("and", f.call("i32", "llvm.cttz.i32", [bits, const("i1", 0)]),
                    const("i32", 31))
    tag = f.binary("lshr", f.extract(addresses, lane), const("i64", _TAG_SHIFT))
    known = f.compare("icmp ult", tag, w.word(Context.TAG_COUNT))
    tag = f.select(known, tag, const("i64", 0))
    eight = f.binary("shl", tag, const("i64", 3))
    base = f.load("ptr", f.offset(w.pointer(Context.TAGS), eight), 8)
    bytes_ = f.load("i64", f.offset(w.pointer(Context.TAG_BYTES), eight), 8)
    room = f.binary("sub", bytes_, const("i64", size))
    offsets = f.binary("sub", addresses, f.splat(f.binary("shl", tag, const("i64", _TAG_SHIFT))))
    wrong = _any(w, _outside(w, offsets, room, size), bits)
    bad = f.compare("icmp slt", room, const("i64", 0))
    if write or space:
        kind = f.load("i8", f.offset(w.pointer(Context.TAG_WRITABLE), tag))
        wrong_kind = (f.compare("icmp ne", kind, const("i8", 1)) if write else
                      f.compare("icmp ne" if space == "const" else "icmp eq", kind,
                                const("i8", CONSTANT)))
        bad = f.binary("or", bad, wrong_kind)
    some = f.compare("icmp ne", bits, const("i32", 0))
    return Place(base, offsets, f.binary("or", wrong, f.binary("and", bad, some)), tag)


def locate(w: PrimitiveWriter, index: int, space: str, size: int, *, write: bool) -> Place:
    """The place of an access of `size` bytes per lane through address operand `index`."""
    kind = space.partition("::")[0]
    if kind == "shared":
        return shared_place(w, index, size, w.bits)
    if kind == "param":
        return _window(w, index, size, Context.PARAMS, Context.PARAM_BYTES)
    if kind == "local":
        return _local(w, index, size)
    return _buffer(w, index, size, w.bits, write=write, space=kind)


def guard_slow(w: PrimitiveWriter, slow: Value) -> None:
    """Leave through the executor where the fast path is not valid; go on in it otherwise."""
    f = w.f
    away, fast = f.fresh_label("slow"), f.fresh_label("fast")
    f.branch_if(slow, away, fast)
    f.label(away)
    w.executor()
    f.label(fast)


def count_lanes(w: PrimitiveWriter, place: Place, space: str, size: int, bits: Value) -> None:
    """Active lanes of the site, and its shared-memory wavefronts."""
    f, at = w.f, _counters(w)
    lanes = f.cast("zext", f.call("i32", "llvm.ctpop.i32", [bits]), "i64")
    f.store(f.binary("add", f.load("i64", at, 8), lanes), at, 8)
    if space.startswith("shared"):
        count_wavefronts(w, place, size, bits)


def _counters(w: PrimitiveWriter) -> Value:
    f = w.f
    return f.offset(w.pointer(Context.SITES), f.binary("shl", w.word(Base.SITE), const("i64", 5)))


def count_wavefronts(w: PrimitiveWriter, place: Place, size: int, bits: Value) -> None:
    """Passes through the banks of a shared-memory access, and the fewest possible."""
    w.f.call("void", "count_wavefronts",
             [place.offsets, bits, const("i32", size), w.f.offset(_counters(w), 8)])


def watch(w: PrimitiveWriter, place: Place, space: str, size: int, kind: str, bits: Value,
          same: Value | None = None) -> None:
    """Tell the race filter, where the run has one; `kind` is read, write or copy.

    `same` (i32) is not zero where lanes that write to one place write the same.
    """
    if not _is_watched(w, space):
        return
    f, block = w.f, w.filter_block()
    rest = [bits, const("i32", size), w.warp(), w.site_number()]
    if place.tag is None:
        alike = same if same is not None else const("i32", 0)
        f.call("void", f"filter_{kind}", [block, place.offsets, *rest, alike])
        return
    table = f.load("ptr", f.offset(block, 8 * Filter.GLOBAL), 8)
    cells = f.load("ptr", f.offset(table, f.binary("shl", place.tag, const("i64", 3))), 8)
    f.call("void", f"filter_global_{kind}", [block, cells, place.offsets, *rest])


def _is_watched(w: PrimitiveWriter, space: str) -> bool:
    """All but a thread's own and constant memory; option "owners": global memory alone."""
    kind = space.partition("::")[0]
    return kind not in ("local", "param", "const") and (
        "filter" in w.options or ("owners" in w.options and kind != "shared"))


def _accepts(w: PrimitiveWriter, space: str, bits: int) -> bool:
    known = space in _FAST and bits in (8, 16, 32, 64)
    ordinary = w.modifier("sem", "weak") == "weak"
    return known and (ordinary or "filter" not in w.options)


def _spilled(w: PrimitiveWriter, value: Value) -> Value:
    """A vector on the stack, as an array by lane."""
    place = w.f.alloca(value.type)
    w.f.store(value, place, 64)
    return place


def _neighbours(w: PrimitiveWriter, place: Place, size: int) -> Value:
    """Whether all 32 lanes run and lie next to each other, `size` bytes apart."""
    f = w.f
    kind = place.offsets.type
    inner = "i64" if kind == V64 else "i32"
    steps = Value(kind, "<" + ", ".join(f"{inner} {size * i}" for i in range(32)) + ">")
    first = f.splat(f.extract(place.offsets, 0))
    row = f.compare("icmp eq", f.binary("sub", place.offsets, first), steps)
    row_bits = f.binary("and", f.cast("bitcast", row, "i32"), w.bits)
    return f.compare("icmp eq", row_bits, const("i32", -1))


def _wide_offset(w: PrimitiveWriter, offsets: Value, lane: Value, kind: str) -> Value:
    f = w.f
    if kind == V64:
        return f.load("i64", f.element_at(offsets, lane, 8), 8)
    return f.cast("zext", f.load("i32", f.element_at(offsets, lane, 4), 4), "i64")


@generates("ld", "ldu")
def _load(w: PrimitiveWriter) -> bool:
    type_, space = w.modifier("type"), w.modifier("space")
    bits = width(type_)
    if not _accepts(w, space, bits) or not isinstance(w.operands[1], Addr):
        return False
    targets = w.items(0)
    size = bits // 8 * len(targets)
    place = locate(w, 1, space, size, write=False)
    guard_slow(w, place.slow)
    count_lanes(w, place, space, size, w.bits)
    watch(w, place, space, size, "read", w.bits)
    if len(targets) == 1 and bits in (32, 64) and _register_bits(w, targets[0]) == bits:
        _load_row(w, place, targets[0], bits)
    else:
        _load_lanes(w, place, targets, bits, signed=type_[0] == "s")
    return True


def _register_bits(w: PrimitiveWriter, index: Index) -> int:
    op = w.op(index)
    return op.bits if isinstance(op, Reg) else 0


def _load_row(w: PrimitiveWriter, place: Place, target: Index, bits: int) -> None:
    """One word a lane: a vector load where the lanes are neighbours."""
    f = w.f
    row, scattered, done = (f.fresh_label(x) for x in ("row", "scattered", "loaded"))
    f.branch_if(_neighbours(w, place, bits // 8), row, scattered)
    f.label(row)
    first = f.resize(f.extract(place.offsets, 0), "i64") if place.offsets.type == V64 else f.cast(
        "zext", f.extract(place.offsets, 0), "i64")
    f.store(f.load(vector(f"i{bits}"), f.offset(place.base, first)), w.at(target), 64)
    f.branch(done)
    f.label(scattered)
    _load_lanes(w, place, [target], bits, signed=False)
    f.branch(done)
    f.label(done)


def _load_lanes(w: PrimitiveWriter, place: Place, targets: list[Index], bits: int, *,
                signed: bool) -> None:
    """Lane by lane, straight into the registers: lanes that do not run keep theirs."""
    f = w.f
    offsets = _spilled(w, place.offsets)
    pointers = [w.at(t) if isinstance(w.op(t), Reg) else None for t in targets]

    def body(lane: Value) -> None:
        start = f.offset(place.base, _wide_offset(w, offsets, lane, place.offsets.type))
        for k, (target, pointer) in enumerate(zip(targets, pointers, strict=True)):
            register = w.op(target)
            if pointer is None or not isinstance(register, Reg):
                continue
            value = f.load(f"i{bits}", f.offset(start, k * bits // 8))
            stored = 64 if register.file == "q" else 32
            value = f.resize(value, f"i{register.bits}", signed=signed)
            value = f.resize(value, f"i{stored}")
            f.store(value, f.element_at(pointer, lane, stored // 8), stored // 8)

    f.each_lane(w.bits, body)


@generates("st")
def _store(w: PrimitiveWriter) -> bool:
    type_, space = w.modifier("type"), w.modifier("space")
    bits = width(type_)
    if not _accepts(w, space, bits) or not isinstance(w.operands[0], Addr) or space in (
        "const", "param",
    ):
        return False
    f, sources = w.f, w.items(1)
    size = bits // 8 * len(sources)
    place = locate(w, 0, space, size, write=True)
    guard_slow(w, place.slow)
    count_lanes(w, place, space, size, w.bits)
    offsets = _spilled(w, place.offsets)
    values = [_spilled(w, f.resize(w.read(s, f"b{bits}"), V64 if bits == 64 else V32))
              for s in sources]

    def each(lane: Value, do: Callable[[Value, Value], None]) -> None:
        start = f.offset(place.base, _wide_offset(w, offsets, lane, place.offsets.type))
        for k, value in enumerate(values):
            word = f.load(f"i{bits}", f.element_at(value, lane, 8 if bits == 64 else 4), bits // 8)
            do(word, f.offset(start, k * bits // 8))

    f.each_lane(w.bits, lambda lane: each(lane, f.store))
    if place.tag is not None:
        watch(w, place, space, size, "write", w.bits)
    elif _is_watched(w, space):
        alike = f.alloca("i32", 4)
        f.store(const("i32", -1), alike, 4)

        def compare(word: Value, place: Value) -> None:
            equal = f.cast("sext", f.compare("icmp eq", f.load(word.type, place), word), "i32")
            f.store(f.binary("and", f.load("i32", alike, 4), equal), alike, 4)

        f.each_lane(w.bits, lambda lane: each(lane, compare))
        watch(w, place, space, size, "write", w.bits, f.load("i32", alike, 4))
    if space not in ("local", "param"):
        changed(w)
    return True


def changed(w: PrimitiveWriter) -> None:
    """A store may be what another warp waits for."""
    f = w.f
    context = f.load("ptr", f.offset(w.frame, 8 * Base.CONTEXT), 8)
    at = f.offset(context, 8 * Context.VERSION)
    f.store(f.binary("add", f.load("i64", at, 8), const("i64", 1)), at, 8)


def _is_predicate(op: Op) -> bool:
    return isinstance(op, Guarded) or (isinstance(op, Reg) and op.file == "p")


def _count_bytes(w: PrimitiveWriter, amounts: Value, bits: Value) -> None:
    """Add the lanes' bytes to what the site has read."""
    f, at = w.f, w.f.offset(_counters(w), 24)
    some = f.select(f.cast("bitcast", bits, V1), amounts, const(V32, 0))
    total = f.call("i32", "llvm.vector.reduce.add.v32i32", [some])
    f.store(f.binary("add", f.load("i64", at, 8), f.cast("zext", total, "i64")), at, 8)


@generates("cp.async")
def _copy(w: PrimitiveWriter) -> bool:
    """cp.async completed at issue (the eager schedule); other schedules are the async engine's."""
    if "deferred" in w.options:
        return False
    bytes_ = w.literal(2)
    plain = isinstance(w.operands[0], Addr) and isinstance(w.operands[1], Addr)
    if not plain or bytes_ not in (4, 8, 16) or len(w.operands) > 4:
        return False
    f = w.f
    amounts = const(V32, bytes_)
    if len(w.operands) == 4 and _is_predicate(w.operands[3]):
        amounts = f.select(w.read(3, "pred"), const(V32, 0), amounts)
    elif len(w.operands) == 4:
        amounts = w.read(3, "u32")
    # lanes that read nothing may point anywhere
    reads = f.compare("icmp ne", amounts, const(V32, 0))
    reading = f.binary("and", f.cast("bitcast", reads, "i32"), w.bits)
    to = shared_place(w, 0, bytes_, w.bits)
    come = _buffer(w, 1, bytes_, reading, write=False)
    above = _any(w, f.compare("icmp ugt", amounts, const(V32, bytes_)), w.bits)
    guard_slow(w, f.binary("or", f.binary("or", to.slow, come.slow), above))
    _count_bytes(w, amounts, reading)
    count_wavefronts(w, to, bytes_, w.bits)
    watch(w, to, "shared", bytes_, "copy", w.bits)
    watch(w, come, "global", bytes_, "copy", reading)
    f.call("void", f"copy{bytes_}", [
        to.base, f.resize(to.offsets, V64), come.base, come.offsets, amounts, w.bits])
    changed(w)
    return True


@generates("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
def _groups(w: PrimitiveWriter) -> bool:
    """With copies completed at issue only the race filter wants to know of groups."""
    if "deferred" in w.options:
        return False
    if "filter" not in w.options:
        return True
    w.whole = True  # groups of single lanes are the exact model's
    family = w.site.form.family
    left = const("i32", -1)
    if family == "cp.async.wait_group":
        newest = w.literal(0)
        if newest is None:
            return False
        left = const("i32", newest)
    name = "filter_commit" if family == "cp.async.commit_group" else "filter_wait"
    w.f.call("void", name, [w.filter_block(), w.warp(), left])
    return True


