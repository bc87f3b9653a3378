"""Loads, stores and cp.async: bounds and alignment checked for all lanes at once.

The common case is one region for the whole warp: all active lanes in one buffer, inside it, aligned.
It is checked with a few vector operations and served by gathers. Every other case (lanes in
different buffers, out of bounds, misaligned, local memory through generic addresses) calls the
executor of the same instruction, which decides, lane by lane, and reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.emulator.native.abi import Context
from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.filter import Filter
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.scope import V1, V32, V64, width
from mmalab.emulator.native.step import SiteWriter
from mmalab.emulator.program import Addr, Imm, Op, Reg, Vec

__all__ = ["Place", "count_lanes", "locate", "shared_place", "split", "watch"]

#: Spaces with a fast path; the rest goes to the executor.
_FAST = frozenset({"global", "shared", "shared::cta", "", "const", "local", "param"})
_TAG_SHIFT = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access goes: a host pointer and byte offsets per lane, and when that is not valid."""

    base: Value
    offsets: Value
    slow: Value
    #: The buffer's tag, for global memory.
    tag: Value | None = None


def _address(w: SiteWriter, op: Addr, type_: str) -> Value:
    """base + offset as <32 x i32> or <32 x i64>."""
    bits = width(type_)
    want = vector(f"i{bits}")
    if op.base is None:
        word = op.offset & ((1 << bits) - 1)
        return const(want, word - (1 << bits) if word >> (bits - 1) else word)
    value = w.scope.read(op.base, f"u{op.base.bits}")
    value = w.f.resize(value, want)
    return w.f.binary("add", value, const(want, op.offset)) if op.offset else value


def _any(w: SiteWriter, lanes: Value) -> Value:
    """Whether any active lane is set, as i1."""
    f = w.f
    if w.active is not None:
        lanes = f.binary("and", lanes, w.active)
    return f.compare("icmp ne", f.cast("bitcast", lanes, "i32"), const("i32", 0))


def _outside(w: SiteWriter, offsets: Value, limit: Value, size: int) -> Value:
    """Lanes beyond `limit` (unsigned) or not aligned to `size`."""
    f = w.f
    wrong = f.compare("icmp ugt", offsets, f.splat(limit))
    if size > 1:
        odd = f.binary("and", offsets, const(offsets.type, size - 1))
        wrong = f.binary("or", wrong, f.compare("icmp ne", odd, const(offsets.type, 0)))
    return wrong


def shared_place(w: SiteWriter, op: Addr, size: int) -> Place:
    """`size` bytes per lane of the CTA's own shared memory."""
    f = w.f
    offsets = _address(w, op, "u32")
    start = f.cast("trunc", w.frame.word(Context.SHARED_START), "i32")
    end = f.cast("trunc", w.frame.word(Context.SHARED_BYTES), "i32")
    room = f.binary("sub", f.binary("sub", end, start), const("i32", size))
    inner = f.binary("sub", offsets, f.splat(start))
    wrong = _any(w, _outside(w, inner, room, size))
    small = f.compare("icmp slt", room, const("i32", 0))
    return Place(w.frame.pointer(Context.SHARED), offsets, f.binary("or", wrong, small))


def _window(w: SiteWriter, op: Addr, size: int, base: Context, bytes_: Context) -> Place:
    """Constant-size window that all lanes share (parameters)."""
    f = w.f
    offsets = _address(w, op, "u32")
    room = f.binary("sub", f.cast("trunc", w.frame.word(bytes_), "i32"), const("i32", size))
    wrong = _any(w, _outside(w, offsets, room, size))
    small = f.compare("icmp slt", room, const("i32", 0))
    return Place(w.frame.pointer(base), offsets, f.binary("or", wrong, small))


def _local(w: SiteWriter, op: Addr, size: int) -> Place:
    """Each thread's own bytes."""
    f = w.f
    place = _window(w, op, size, Context.LOCAL, Context.LOCAL_BYTES)
    stride = f.cast("trunc", w.frame.word(Context.LOCAL_STRIDE), "i32")
    lane = Value(V32, "<" + ", ".join(f"i32 {i}" for i in range(32)) + ">")
    offsets = f.binary("add", place.offsets, f.binary("mul", lane, f.splat(stride)))
    row = f.cast("zext", w.frame.row, "i64")
    start = f.binary("mul", f.binary("mul", row, const("i64", 32)),
                     w.frame.word(Context.LOCAL_STRIDE))
    return Place(f.offset(place.base, start), offsets, place.slow)


def _buffer(w: SiteWriter, op: Addr, size: int, *, write: bool) -> Place:
    """`size` bytes per lane of the buffer that the first active lane points into."""
    f, frame = w.f, w.frame
    addresses = _address(w, op, "u64")
    bits = w.scope.bits(w.active)
    lane = const("i32", 0)
    if w.active is not None:
        found = f.call("i32", "llvm.cttz.i32", [bits, const("i1", 0)])
        lane = f.binary("and", found, const("i32", 31))
    tag = f.binary("lshr", f.extract(addresses, lane), const("i64", _TAG_SHIFT))
    known = f.compare("icmp ult", tag, frame.word(Context.TAG_COUNT))
    tag = f.select(known, tag, const("i64", 0))
    eight = f.binary("shl", tag, const("i64", 3))
    base = f.load("ptr", f.offset(frame.pointer(Context.TAGS), eight), 8)
    bytes_ = f.load("i64", f.offset(frame.pointer(Context.TAG_BYTES), eight), 8)
    room = f.binary("sub", bytes_, const("i64", size))
    start = f.binary("shl", tag, const("i64", _TAG_SHIFT))
    offsets = f.binary("sub", addresses, f.splat(start))
    wrong = _any(w, _outside(w, offsets, room, size))
    bad = f.compare("icmp slt", room, const("i64", 0))
    if write:
        allowed = f.load("i8", f.offset(frame.pointer(Context.TAG_WRITABLE), tag))
        bad = f.binary("or", bad, f.compare("icmp eq", allowed, const("i8", 0)))
    some = f.compare("icmp ne", bits, const("i32", 0))
    return Place(base, offsets, f.binary("or", wrong, f.binary("and", bad, some)), tag)


def watch(w: SiteWriter, place: Place, space: str, size: int, kind: str) -> None:
    """Tell the race filter, where the run has one; `kind` is read, write or copy."""
    if "filter" not in w.step.options or space.partition("::")[0] in ("local", "param", "const"):
        return
    f, frame = w.f, w.frame
    block = frame.pointer(Context.FILTER)
    first = f.cast("trunc", frame.word(Context.FIRST_ROW), "i32")
    warp = f.binary("sub", frame.row, first)
    rest = [w.scope.bits(w.active), const("i32", size), warp, const("i32", w.site.index)]
    if space.startswith("shared"):
        f.call("void", f"filter_{kind}", [block, place.offsets, *rest])
    elif place.tag is not None:
        table = f.load("ptr", f.offset(block, 8 * Filter.GLOBAL), 8)
        cells = f.load("ptr", f.offset(table, f.binary("shl", place.tag, const("i64", 3))), 8)
        f.call("void", f"filter_global_{kind}", [block, cells, place.offsets, *rest])


def locate(w: SiteWriter, op: Addr, space: str, size: int, *, write: bool) -> Place:
    """The place of an access of `size` bytes per lane."""
    kind = space.partition("::")[0]
    if kind == "shared":
        return shared_place(w, op, size)
    if kind == "param":
        return _window(w, op, size, Context.PARAMS, Context.PARAM_BYTES)
    if kind == "local":
        return _local(w, op, size)
    return _buffer(w, op, size, write=write)


def count_lanes(w: SiteWriter, place: Place, space: str, size: int) -> None:
    """Active lanes of the site, and its shared-memory wavefronts."""
    f = w.f
    at = f.offset(w.frame.pointer(Context.SITES), 32 * w.site.index)
    bits = w.scope.bits(w.active)
    lanes = f.cast("zext", f.call("i32", "llvm.ctpop.i32", [bits]), "i64")
    f.store(f.binary("add", f.load("i64", at, 8), lanes), at, 8)
    if space.startswith("shared"):
        f.call("void", "count_wavefronts",
               [place.offsets, bits, const("i32", size), f.offset(at, 8)])


def split(w: SiteWriter, place: Place) -> tuple[str, str]:
    """Branch to the fast path (written next); returns the labels (slow, merge)."""
    f = w.f
    fast, slow, merge = f.fresh_label("fast"), f.fresh_label("slow"), f.fresh_label("merge")
    f.branch_if(place.slow, slow, fast)
    f.label(fast)
    return slow, merge


def _mask(w: SiteWriter) -> Value:
    return w.active if w.active is not None else const(V1, 1)


def _gather(w: SiteWriter, place: Place, step: int, bytes_: int) -> Value:
    f = w.f
    base = f.offset(place.base, step)
    if bytes_ < 4:
        wide = f.resize(place.offsets, V64)
        name = f"gather{bytes_}"
        return f.call(V32, name, [base, wide, w.scope.bits(w.active)])
    pointers = f.offset(base, f.resize(place.offsets, V64))
    kind = V32 if bytes_ == 4 else V64
    return f.call(kind, f"llvm.masked.gather.v32i{8 * bytes_}.v32p0",
                  [pointers, const("i32", 1), _mask(w), const(kind, 0)])


def _items(op: Op) -> tuple[Op, ...]:
    return op.items if isinstance(op, Vec) else (op,)


def _accepts(w: SiteWriter, space: str, bits: int) -> bool:
    known = space in _FAST and bits in (8, 16, 32, 64)
    ordinary = w.modifier("sem", "weak") in ("weak", "relaxed", "volatile", "acquire", "release")
    return known and ordinary and "events" not in w.step.options


@generates("ld", "ldu")
def _load(w: SiteWriter) -> bool:
    type_, space = w.modifier("type"), w.modifier("space")
    bits = width(type_)
    address = w.operands[1]
    targets = _items(w.operands[0])
    if not _accepts(w, space, bits) or not isinstance(address, Addr):
        return False
    f, bytes_ = w.f, bits // 8
    keys = [(t.file, t.slot) for t in targets if isinstance(t, Reg)]
    for key in keys if w.active is not None else ():
        w.scope.get(key)  # loaded here, where both paths see it
    place = locate(w, address, space, bytes_ * len(targets), write=False)
    slow, merge = split(w, place)
    count_lanes(w, place, space, bytes_ * len(targets))
    watch(w, place, space, bytes_ * len(targets), "read")
    signed = type_[0] == "s"
    fast_values = []
    for i, target in enumerate(targets):
        if not isinstance(target, Reg):
            continue
        value = _gather(w, place, i * bytes_, bytes_)
        if bits < 32:
            value = f.resize(value, vector(f"i{bits}"))
        fast_values.append(w.scope.merged(target, value, w.active, signed=signed))
    fast_end = f.current
    f.branch(merge)
    f.label(slow)
    w.executor()
    slow_values = [w.scope.reload(key) for key in keys]
    slow_end = f.current
    f.branch(merge)
    f.label(merge)
    for key, a, b in zip(keys, fast_values, slow_values, strict=True):
        w.scope.set(key, f.phi((a, fast_end), (b, slow_end)))
    return True


@generates("st")
def _store(w: SiteWriter) -> bool:
    type_, space = w.modifier("type"), w.modifier("space")
    bits = width(type_)
    address = w.operands[0]
    sources = _items(w.operands[1])
    if not _accepts(w, space, bits) or not isinstance(address, Addr) or space in ("const", "param"):
        return False
    f, bytes_ = w.f, bits // 8
    values = [w.scope.read(op, f"b{bits}") for op in sources]
    place = locate(w, address, space, bytes_ * len(sources), write=True)
    slow, merge = split(w, place)
    count_lanes(w, place, space, bytes_ * len(sources))
    watch(w, place, space, bytes_ * len(sources), "write")
    wide = f.resize(place.offsets, V64)
    for i, value in enumerate(values):
        if bits < 32:
            value = f.resize(value, V32)
        f.call("void", f"scatter{bytes_}",
               [f.offset(place.base, i * bytes_), wide, w.scope.bits(w.active), value])
    _changed(w, space)
    f.branch(merge)
    f.label(slow)
    w.executor()
    f.branch(merge)
    f.label(merge)
    return True


def _changed(w: SiteWriter, space: str) -> None:
    """A store may be what another warp waits for."""
    if space in ("local", "param"):
        return
    f = w.f
    at = f.offset(w.frame.context, 8 * Context.VERSION)
    f.store(f.binary("add", f.load("i64", at, 8), const("i64", 1)), at, 8)


@generates("cp.async")
def _copy(w: SiteWriter) -> bool:
    """cp.async completed at issue (the eager schedule); others are the async engine's."""
    if "events" in w.step.options or "deferred" in w.step.options:
        return False
    f = w.f
    destination, source, size = w.operands[:3]
    bytes_ = getattr(size, "word", None)
    plain = isinstance(destination, Addr) and isinstance(source, Addr)
    if not plain or bytes_ not in (4, 8, 16) or len(w.operands) > 4:
        return False
    if len(w.operands) == 4 and w.site.form.operands[3].type == "pred":
        return False
    amounts = const(V32, bytes_)
    if len(w.operands) == 4:
        amounts = w.scope.read(w.operands[3], "u32")
    to = shared_place(w, destination, bytes_)  # type: ignore[arg-type]
    come = _buffer(w, source, bytes_, write=False)  # type: ignore[arg-type]
    above = _any(w, f.compare("icmp ugt", amounts, const(V32, bytes_)))
    # lanes that read nothing may point anywhere: the executor knows
    partial = _any(w, f.compare("icmp ne", amounts, const(V32, bytes_)))
    slow_read = f.binary("and", come.slow, const("i1", 1))
    place = Place(to.base, to.offsets,
                  f.binary("or", f.binary("or", to.slow, slow_read), f.binary("and", above, partial)))
    slow, merge = split(w, place)
    count_lanes(w, come, "global", bytes_)
    watch(w, to, "shared", bytes_, "copy")
    watch(w, come, "global", bytes_, "read")
    f.call("void", f"copy{bytes_}", [
        to.base, f.resize(to.offsets, V64), come.base, come.offsets, amounts,
        w.scope.bits(w.active)])
    _changed(w, "shared")
    f.branch(merge)
    f.label(slow)
    w.executor()
    f.branch(merge)
    f.label(merge)
    return True


@generates("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
def _groups(w: SiteWriter) -> bool:
    """With copies completed at issue only the race filter wants to know of groups."""
    if "events" in w.step.options or "deferred" in w.step.options:
        return False
    if "filter" not in w.step.options:
        return True
    if w.active is not None:
        return False  # groups of single lanes: the exact model's
    f, family = w.f, w.site.form.family
    first = f.cast("trunc", w.frame.word(Context.FIRST_ROW), "i32")
    warp = f.binary("sub", w.frame.row, first)
    newest = 0
    if family == "cp.async.wait_group":
        count = w.operands[0]
        if not isinstance(count, Imm):
            return False
        newest = count.word
    name = "filter_commit" if family == "cp.async.commit_group" else "filter_wait"
    left = const("i32", -1 if family == "cp.async.wait_all" else newest)
    f.call("void", name, [w.frame.pointer(Context.FILTER), warp, left])
    return True
