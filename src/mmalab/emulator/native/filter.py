"""A fast filter in front of the exact race model: which CTAs are clean beyond doubt.

The exact model (:mod:`mmalab.sanitizer`) follows every lane's clock and is too slow for a large
matmul. This filter knows less: epochs per warp that move on at CTA barriers, groups of cp.async per
warp, who wrote a word last and who read it since. What it cannot prove ordered it calls *suspect*;
suspects are run again under the exact model, which alone reports. It may doubt what is clean, it
must not trust what is not.

A shared word's cell says who wrote it last (`actor`: warp w, or the copies of warp w as W + w), in
which epoch or copy group (`count`), which lane, which bytes were ever written; an array beside it
holds the epoch of the last read by each warp. ``clock[w][actor]`` is what warp w knows of an
actor::

    write by warp 0 in epoch 3      cell = (actor 0, count 3)
    bar.sync                        every row of clock takes the maximum; epochs move to 4
    read by warp 5                  clock[5][0] = 3 >= 3: ordered
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from mmalab.emulator.native.emit import FunctionWriter, Value, const, vector
from mmalab.emulator.native.primitive import V32, V64

__all__ = ["CELL_BYTES", "SEVERAL", "Filter", "Kind", "functions"]

CELL_BYTES = 16
#: In READS: the epoch's place, and the lane number that stands for more than one.
_EPOCH, SEVERAL = 6, 63
_ATTRIBUTES = "nounwind noinline"
_V8 = vector("i32", 8)


class Filter(IntEnum):
    """Words (i64) of a CTA's filter block."""

    CELLS = 0        # [words] of CELL_BYTES: u32 count, u32 serial, u8 actor, lane, bytes, init
    READS = 1        # u32 [words][stride]: last read by each warp: epoch * 64 + lane, or + SEVERAL
    CLOCK = 2        # u32 [warps][2 * stride]
    OWN_WAIT = 3     # u32 [stride]: newest copy group that the warp itself waited for
    GROUP = 4        # u32 [stride]: number of the warp's open copy group, from 1
    SERIAL = 5       # u32 [stride]: instructions so far, to know the lanes of one instruction
    STRIDE = 6       # warps rounded up to 8
    SUSPECTS = 7     # accesses that could not be proved ordered
    SITE = 8         # site of the first one, plus one
    FIRST_THREAD = 9  # number of the CTA's thread 0 in the grid, plus one
    GLOBAL = 10      # u64 [tags]: pointers to cells (u32 writer, u32 reader) of each buffer
    WORDS = 12


class Kind(IntEnum):
    """What an access does."""

    READ = 0
    WRITE = 1
    COPY = 2         # a cp.async writes


class _Cells:
    """Addresses in a CTA's filter block, for one access."""

    def __init__(self, f: FunctionWriter, block: Value, warp: Value) -> None:
        self.f, self.block, self.warp = f, block, warp
        self.stride = self.word(Filter.STRIDE)
        self.wide_warp = f.cast("zext", warp, "i64")

    def word(self, which: Filter) -> Value:
        return self.f.load("i64", self.f.offset(self.block, 8 * which), 8)

    def pointer(self, which: Filter) -> Value:
        return self.f.load("ptr", self.f.offset(self.block, 8 * which), 8)

    def of_warp(self, which: Filter) -> Value:
        """Pointer to the warp's u32 in an array over warps."""
        return self.f.offset(
            self.pointer(which), self.f.binary("shl", self.wide_warp, const("i64", 2)))

    def clock_row(self) -> Value:
        """What the warp knows: 2 * stride u32."""
        size = self.f.binary("shl", self.stride, const("i64", 3))
        return self.f.offset(self.pointer(Filter.CLOCK), self.f.binary("mul", self.wide_warp, size))

    def known(self, row: Value, actor: Value) -> Value:
        wide = self.f.cast("zext", actor, "i64")
        return self.f.load("i32", self.f.offset(row, self.f.binary("shl", wide, const("i64", 2))),
                           4)

    def suspect(self, condition: Value, site: Value) -> None:
        """Count and remember the site, without a branch."""
        f = self.f
        at = f.offset(self.block, 8 * Filter.SUSPECTS)
        f.store(f.binary("add", f.load("i64", at, 8), f.cast("zext", condition, "i64")), at, 8)
        first = f.offset(self.block, 8 * Filter.SITE)
        old = f.load("i64", first, 8)
        fresh = f.compare("icmp eq", old, const("i64", 0))
        mine = f.binary("add", f.cast("zext", site, "i64"), const("i64", 1))
        take = f.binary("and", fresh, condition)
        f.store(f.select(take, mine, old), first, 8)


def _field(f: FunctionWriter, cell: Value, byte: int) -> Value:
    return f.cast("zext", f.load("i8", f.offset(cell, byte)), "i32")


def _set_field(f: FunctionWriter, cell: Value, byte: int, value: Value) -> None:
    f.store(f.cast("trunc", value, "i8"), f.offset(cell, byte))


def _ordered(f: FunctionWriter, cells: _Cells, cell: Value, row: Value, lane: Value) -> Value:
    """Whether the last write of the cell is ordered before an access by `lane` of the warp."""
    count = f.load("i32", cell, 4)
    actor = _field(f, cell, 8)
    known = cells.known(row, actor)
    same_lane = f.compare("icmp eq", _field(f, cell, 9), lane)
    own = f.compare("icmp eq", actor, cells.warp)
    # an own write is ordered for the same lane; for others once the epoch has moved on
    by_self = f.binary("or", same_lane, f.compare("icmp ult", count, known))
    copies = f.binary("add", cells.warp, f.cast("trunc", cells.stride, "i32"))
    own_copy = f.compare("icmp eq", actor, copies)
    waited = f.compare("icmp uge", f.load("i32", cells.of_warp(Filter.OWN_WAIT), 4), count)
    by_copy = f.binary("and", f.binary("and", own_copy, same_lane), waited)
    by_clock = f.binary("or", f.compare("icmp uge", known, count), by_copy)
    return f.select(own, by_self, by_clock)


def _bytes_of(f: FunctionWriter, offset: Value, size: Value) -> Value:
    """Which bytes of its word an access covers, as a nibble."""
    narrow = f.compare("icmp ult", size, const("i32", 4))
    low = f.binary("sub", f.binary("shl", const("i32", 1), size), const("i32", 1))
    placed = f.binary("shl", low, f.binary("and", offset, const("i32", 3)))
    return f.select(narrow, placed, const("i32", 15))


def _shared(kind: Kind) -> FunctionWriter:
    """``void filter_KIND(block, offsets, bits, size, warp, site, same)`` for shared memory.

    `same` is not zero where lanes that write one place all write the same there.
    """
    f = FunctionWriter("void", f"filter_{kind.name.lower()}",
                       ["ptr", V32, "i32", "i32", "i32", "i32", "i32"], _ATTRIBUTES)
    block, bits, size, warp, site = f.arg(0), f.arg(2), f.arg(3), f.arg(4), f.arg(5)
    cells = _Cells(f, block, warp)
    offsets = f.alloca(V32)
    f.store(f.arg(1), offsets, 64)
    row = cells.clock_row()
    epoch = cells.known(row, warp)
    serial_at = cells.of_warp(Filter.SERIAL)
    serial = f.binary("add", f.load("i32", serial_at, 4), const("i32", 1))
    f.store(serial, serial_at, 4)
    group = f.load("i32", cells.of_warp(Filter.GROUP), 4)
    base, reads = cells.pointer(Filter.CELLS), cells.pointer(Filter.READS)
    words = _word_count(f, size)

    def lane_body(lane: Value) -> None:
        offset = f.load("i32", f.element_at(offsets, lane, 4), 4)
        touched = _bytes_of(f, offset, size)
        first = f.binary("lshr", offset, const("i32", 2))

        def word_body(k: Value) -> None:
            word = f.cast("zext", f.binary("add", first, k), "i64")
            cell = f.offset(base, f.binary("mul", word, const("i64", CELL_BYTES)))
            stripe = f.binary("mul", word, f.binary("shl", cells.stride, const("i64", 2)))
            readers = f.offset(reads, stripe)
            if kind is Kind.READ:
                _read_word(f, cells, cell, readers, row, lane, touched, epoch, site)
            else:
                _write_word(f, cells, cell, readers, row, lane, touched, site, serial,
                            group if kind is Kind.COPY else epoch, copy=kind is Kind.COPY,
                            same=f.compare("icmp ne", f.arg(6), const("i32", 0)))

        _each_word(f, words, word_body)

    f.each_lane(bits, lane_body)
    f.ret()
    return f


def _word_count(f: FunctionWriter, size: Value) -> Value:
    """4-byte words that an access of `size` bytes touches, at least one."""
    return f.call("i32", "llvm.umax.i32",
                  [f.binary("lshr", size, const("i32", 2)), const("i32", 1)])


def _each_word(f: FunctionWriter, words: Value, body: Callable[[Value], None]) -> None:
    """Run `body` for word numbers 0 to `words` - 1."""
    at = f.alloca("i32", 4)
    loop, done = f.fresh_label("word"), f.fresh_label("words.done")
    f.store(const("i32", 0), at, 4)
    f.branch(loop)
    f.label(loop)
    k = f.load("i32", at, 4)
    body(k)
    onward = f.binary("add", k, const("i32", 1))
    f.store(onward, at, 4)
    f.branch_if(f.compare("icmp ult", onward, words), loop, done)
    f.label(done)


def _read_word(f: FunctionWriter, cells: _Cells, cell: Value, readers: Value, row: Value,
               lane: Value, touched: Value, epoch: Value, site: Value) -> None:
    missing = f.binary("and", touched, f.binary("xor", _field(f, cell, 11), const("i32", -1)))
    unwritten = f.compare("icmp ne", missing, const("i32", 0))
    ordered = _ordered(f, cells, cell, row, lane)
    doubt = f.binary("or", unwritten, f.binary("xor", ordered, const("i1", 1)))
    cells.suspect(doubt, site)
    mine = f.offset(readers, f.binary("shl", cells.wide_warp, const("i64", 2)))
    before = f.load("i32", mine, 4)
    again = f.compare("icmp eq", f.binary("lshr", before, const("i32", _EPOCH)), epoch)
    other = f.compare("icmp ne", f.binary("and", before, const("i32", SEVERAL)), lane)
    code = f.select(f.binary("and", again, other), const("i32", SEVERAL), lane)
    f.store(f.binary("or", f.binary("shl", epoch, const("i32", _EPOCH)), code), mine, 4)


def _write_word(f: FunctionWriter, cells: _Cells, cell: Value, readers: Value, row: Value,
                lane: Value, touched: Value, site: Value, serial: Value, count: Value, *,
                copy: bool, same: Value) -> None:
    warp = cells.warp
    actor = f.binary("add", warp, f.cast("trunc", cells.stride, "i32")) if copy else warp
    written = f.compare("icmp ne", _field(f, cell, 11), const("i32", 0))
    together = f.binary(
        "and", f.compare("icmp eq", f.load("i32", f.offset(cell, 4), 4), serial),
        f.compare("icmp eq", _field(f, cell, 8), actor))
    overlap = f.compare("icmp ne", f.binary("and", _field(f, cell, 10), touched), const("i32", 0))
    overlap = f.binary("and", overlap, f.binary("xor", same, const("i1", 1)))
    ordered = _ordered(f, cells, cell, row, lane)
    before = f.binary("and", written, f.binary("xor", ordered, const("i1", 1)))
    doubt = f.select(f.binary("and", together, written), overlap, before)
    unread = _all_read_before(f, cells, readers, row)
    doubt = f.binary("or", doubt, _read_by_other_lane(f, cells, readers, row, lane))
    cells.suspect(f.binary("or", doubt, f.binary("xor", unread, const("i1", 1))), site)
    kept = f.select(together, _field(f, cell, 10), const("i32", 0))
    several = f.select(together, const("i32", 255), lane)
    f.store(count, cell, 4)
    f.store(serial, f.offset(cell, 4), 4)
    _set_field(f, cell, 8, actor)
    _set_field(f, cell, 9, several)
    _set_field(f, cell, 10, f.binary("or", kept, touched))
    _set_field(f, cell, 11, f.binary("or", _field(f, cell, 11), touched))


def _read_by_other_lane(f: FunctionWriter, cells: _Cells, readers: Value, row: Value,
                        lane: Value) -> Value:
    """Whether another lane of the warp has read the word since the warp last was in step."""
    mine = f.load("i32", f.offset(readers, f.binary("shl", cells.wide_warp, const("i64", 2))), 4)
    epoch = cells.known(row, cells.warp)
    now = f.compare("icmp eq", f.binary("lshr", mine, const("i32", _EPOCH)), epoch)
    other = f.compare("icmp ne", f.binary("and", mine, const("i32", SEVERAL)), lane)
    return f.binary("and", now, other)


def _all_read_before(f: FunctionWriter, cells: _Cells, readers: Value, row: Value) -> Value:
    """Whether the warp knows of every read: eight readers at a time."""
    groups = f.cast("trunc", f.binary("lshr", cells.stride, const("i64", 3)), "i32")
    loop, out = f.fresh_label("readers"), f.fresh_label("readers.done")
    before = f.current
    f.branch(loop)
    f.label(loop)
    name = f.fresh_label("i").replace(".", "_")
    bad = f.fresh_label("bad").replace(".", "_")
    i = f.emit("i32", f"phi i32 [ 0, %{before} ], [ %{name}, %{loop} ]")
    so_far = f.emit("i1", f"phi i1 [ false, %{before} ], [ %{bad}, %{loop} ]")
    at = f.binary("shl", f.cast("zext", i, "i64"), const("i64", 5))
    epochs = f.binary("lshr", f.load(_V8, f.offset(readers, at), 4), const(_V8, _EPOCH))
    late = f.compare("icmp ugt", epochs, f.load(_V8, f.offset(row, at), 4))
    some = f.compare("icmp ne", f.cast("bitcast", late, "i8"), const("i8", 0))
    f.do(f"%{bad} = or i1 {so_far.ref}, {some.ref}")
    f.do(f"%{name} = add i32 {i.ref}, 1")
    f.branch_if(f.compare("icmp ult", Value("i32", f"%{name}"), groups), loop, out)
    f.label(out)
    return f.binary("xor", Value("i1", f"%{bad}"), const("i1", 1))


def _global(kind: Kind) -> FunctionWriter:
    """``void filter_global_KIND(block, cells, offsets, bits, size, warp, site)``.

    No order between threads is known here: an element belongs to the one thread that touches it, or
    is only read. Elements have 1, 2 or 4 bytes; the logarithm is in the low bits of `cells`.
    """
    f = FunctionWriter("void", f"filter_global_{kind.name.lower()}",
                       ["ptr", "ptr", V64, "i32", "i32", "i32", "i32"], _ATTRIBUTES)
    block, bits, size, warp, site = f.arg(0), f.arg(3), f.arg(4), f.arg(5), f.arg(6)
    f.branch_if(f.compare("icmp eq", f.arg(1), Value("ptr", "null")), "done", "tracked")
    f.label("tracked")
    marked = f.emit("i64", f"ptrtoint {f.arg(1)} to i64")
    shift = f.binary("and", marked, const("i64", 3))
    base = f.emit("ptr", f"inttoptr {f.binary('sub', marked, shift)} to ptr")
    cells = _Cells(f, block, warp)
    offsets = f.alloca(V64)
    f.store(f.arg(2), offsets, 64)
    thread0 = f.cast("trunc", cells.word(Filter.FIRST_THREAD), "i32")
    thread0 = f.binary("add", thread0, f.binary("mul", warp, const("i32", 32)))
    several = f.binary("lshr", size, f.cast("trunc", shift, "i32"))
    words = f.call("i32", "llvm.umax.i32", [several, const("i32", 1)])

    def lane_body(lane: Value) -> None:
        me = f.binary("add", thread0, lane)
        offset = f.load("i64", f.element_at(offsets, lane, 8), 8)
        first = f.binary("lshr", offset, shift)

        def word_body(k: Value) -> None:
            word = f.binary("add", first, f.cast("zext", k, "i64"))
            cell = f.offset(base, f.binary("shl", word, const("i64", 3)))
            _own_word(f, cells, cell, me, site, kind)

        _each_word(f, words, word_body)

    f.each_lane(bits, lane_body)
    f.branch("done")
    f.label("done")
    f.ret()
    return f


def _own_word(f: FunctionWriter, cells: _Cells, cell: Value, me: Value, site: Value,
              kind: Kind) -> None:
    """A word of global memory belongs to one thread, or nobody writes it.

    Several host threads may come to one cell: each announces itself with an exchange, which orders
    it before its look at the other field, so of two that meet at least one sees the other.
    """
    writer_at, reader_at = cell, f.offset(cell, 4)

    def foreign(who: Value) -> Value:
        there = f.compare("icmp ne", who, const("i32", 0))
        return f.binary("and", there, f.compare("icmp ne", who, me))

    def exchange(place: Value, value: Value) -> Value:
        return f.emit("i32", f"atomicrmw xchg ptr {place.ref}, {value} seq_cst")

    if kind is Kind.WRITE:
        before = exchange(writer_at, me)
        reader = f.load("i32", reader_at, 4)
        cells.suspect(f.binary("or", foreign(before), foreign(reader)), site)
        return
    reader = f.load("i32", reader_at, 4)
    # a copy is done nobody knows when: not even its own thread may write there
    mark = const("i32", -1) if kind is Kind.COPY else me
    several = f.compare("icmp eq", reader, const("i32", -1))
    known = f.binary("or", several, f.compare("icmp eq", reader, mark))
    announce, seen = f.fresh_label("announce"), f.fresh_label("seen")
    f.branch_if(known, seen, announce)
    f.label(announce)
    fresh = f.compare("icmp eq", reader, const("i32", 0))
    before = exchange(reader_at, f.select(fresh, mark, const("i32", -1)))
    both = f.cast("sext", f.binary("or", foreign(before), f.binary("xor", fresh, const("i1", 1))),
                  "i32")
    f.emit("i32", f"atomicrmw umax ptr {reader_at.ref}, {both} seq_cst")
    f.branch(seen)
    f.label(seen)
    cells.suspect(foreign(f.load("i32", writer_at, 4)), site)


def _barrier() -> FunctionWriter:
    """``void filter_barrier(block, warps)``: everybody knows what anybody knows; new epochs."""
    f = FunctionWriter("void", "filter_barrier", ["ptr", "i32"], _ATTRIBUTES)
    block, warps = f.arg(0), f.arg(1)
    cells = _Cells(f, block, const("i32", 0))
    clock, own = cells.pointer(Filter.CLOCK), cells.pointer(Filter.OWN_WAIT)
    stride = f.cast("trunc", cells.stride, "i32")
    actors = f.binary("shl", stride, const("i32", 1))
    row_bytes = f.binary("shl", cells.stride, const("i64", 3))
    column_at, row_at, most = (f.alloca("i32", 4) for _ in range(3))

    def at(row: Value, column: Value) -> Value:
        start = f.binary("mul", f.cast("zext", row, "i64"), row_bytes)
        step = f.binary("shl", f.cast("zext", column, "i64"), const("i64", 2))
        return f.offset(clock, f.binary("add", start, step))

    f.store(const("i32", 0), column_at, 4)
    f.branch("column")
    f.label("column")
    column = f.load("i32", column_at, 4)
    f.store(const("i32", 0), most, 4)
    f.store(const("i32", 0), row_at, 4)
    _own_wait(f, own, column, stride, most)
    f.branch("gather")
    f.label("gather")
    row = f.load("i32", row_at, 4)
    f.store(f.call("i32", "llvm.umax.i32",
                   [f.load("i32", most, 4), f.load("i32", at(row, column), 4)]), most, 4)
    on = f.binary("add", row, const("i32", 1))
    f.store(on, row_at, 4)
    f.branch_if(f.compare("icmp ult", on, warps), "gather", "spread.start")
    f.label("spread.start")
    f.store(const("i32", 0), row_at, 4)
    f.branch("spread")
    f.label("spread")
    row = f.load("i32", row_at, 4)
    own_epoch = f.cast("zext", f.compare("icmp eq", row, column), "i32")
    f.store(f.binary("add", f.load("i32", most, 4), own_epoch), at(row, column), 4)
    on = f.binary("add", row, const("i32", 1))
    f.store(on, row_at, 4)
    f.branch_if(f.compare("icmp ult", on, warps), "spread", "column.done")
    f.label("column.done")
    onward = f.binary("add", column, const("i32", 1))
    f.store(onward, column_at, 4)
    f.branch_if(f.compare("icmp ult", onward, actors), "column", "done")
    f.label("done")
    f.ret()
    return f


def _own_wait(f: FunctionWriter, own: Value, column: Value, stride: Value, most: Value) -> None:
    """A column of copies starts from what their own warp has waited for."""
    copies = f.compare("icmp uge", column, stride)
    index = f.select(copies, f.binary("sub", column, stride), const("i32", 0))
    at = f.offset(own, f.binary("shl", f.cast("zext", index, "i64"), const("i64", 2)))
    f.store(f.select(copies, f.load("i32", at, 4), const("i32", 0)), most, 4)


def _groups() -> list[FunctionWriter]:
    """``filter_commit(block, warp, _)`` and ``filter_wait(block, warp, newest)``."""
    commit = FunctionWriter("void", "filter_commit", ["ptr", "i32", "i32"], _ATTRIBUTES)
    cells = _Cells(commit, commit.arg(0), commit.arg(1))
    at = cells.of_warp(Filter.GROUP)
    commit.store(commit.binary("add", commit.load("i32", at, 4), const("i32", 1)), at, 4)
    commit.ret()
    wait = FunctionWriter("void", "filter_wait", ["ptr", "i32", "i32"], _ATTRIBUTES)
    cells = _Cells(wait, wait.arg(0), wait.arg(1))
    # group numbers start at 1: with group g open, g - 1 are committed, `newest` may be pending
    done = wait.binary("sub", wait.load("i32", cells.of_warp(Filter.GROUP), 4), const("i32", 1))
    done = wait.binary("sub", done, wait.arg(2))
    done = wait.call("i32", "llvm.smax.i32", [done, const("i32", 0)])
    at = cells.of_warp(Filter.OWN_WAIT)
    known = wait.call("i32", "llvm.umax.i32", [wait.load("i32", at, 4), done])
    wait.store(known, at, 4)
    # wait_all (newest is -1) covers the open group; what comes after it is in another one
    bump = wait.cast("zext", wait.compare("icmp slt", wait.arg(2), const("i32", 0)), "i32")
    group_at = cells.of_warp(Filter.GROUP)
    wait.store(wait.binary("add", wait.load("i32", group_at, 4), bump), group_at, 4)
    wait.ret()
    sync = FunctionWriter("void", "filter_warp_barrier", ["ptr", "i32"], _ATTRIBUTES)
    cells = _Cells(sync, sync.arg(0), sync.arg(1))
    own = sync.offset(cells.clock_row(), sync.binary("shl", cells.wide_warp, const("i64", 2)))
    sync.store(sync.binary("add", sync.load("i32", own, 4), const("i32", 1)), own, 4)
    sync.ret()
    return [commit, wait, sync]


def functions() -> list[FunctionWriter]:
    """All filter functions."""
    return [*(_shared(kind) for kind in Kind), *(_global(kind) for kind in Kind), _barrier(),
            *_groups()]
