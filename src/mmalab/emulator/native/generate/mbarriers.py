"""mbarrier arrivals and waits on the CTA's own objects, in shared memory as the machine keeps them.

The usual case is compiled: all lanes of the mask name one object, which is alive, and nothing is
wrong with the counts. Everything else is left to the machine before anything has changed. What was
done goes into the CTA's log (:mod:`mmalab.emulator.native.arrivals`), from which the machine learns
of it. A failed wait ends the warp's turn; it is left to the machine, which parks the lanes, when
the scheduler sees nothing move (PATIENT is zero).

wgmma.fence changes nothing that this emulator computes.
"""

from __future__ import annotations

from mmalab.bits import Field
from mmalab.emulator.mbarriers import EXPECTED, LIVE, MAX_COUNT, PARITY, PENDING, TX
from mmalab.emulator.native.abi import LOG_RECORDS, Base, Context, LogKind, Said
from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.generate.memory import Place, changed, shared_place
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V32, V64, PrimitiveWriter
from mmalab.emulator.program import Addr, Reg, Unused

__all__: list[str] = []

#: Generic addresses have a tag that offsets in the window of shared memory have not.
_SPACES = ("shared", "shared::cta", "shared::cluster")


def _decline_if(w: PrimitiveWriter, condition: Value) -> None:
    """Leave the site to Python; before any effect."""
    f = w.f
    away, on = f.fresh_label("decline"), f.fresh_label("on")
    f.branch_if(condition, away, on)
    f.label(away)
    f.ret(const("i32", int(Said.DECLINED)))
    f.label(on)


class _Object:
    """The object that all running lanes name: its word, taken apart."""

    def __init__(self, w: PrimitiveWriter, index: int) -> None:
        f = self.f = w.f
        self.w = w
        place = shared_place(w, index, 8, w.bits)
        _decline_if(w, f.compare("icmp eq", w.bits, const("i32", 0)))
        _decline_if(w, place.slow)
        offset = self._offset(place)
        self.at = f.offset(place.base, offset)
        self.address = offset
        self.word = f.load("i64", self.at, 8)
        live = f.binary("and", self.word, const("i64", LIVE))
        _decline_if(w, f.compare("icmp ne", live, const("i64", LIVE)))

    def _offset(self, place: Place) -> Value:
        """The one offset; different ones are declined."""
        f, w = self.f, self.w
        first = f.call("i32", "llvm.cttz.i32", [w.bits, const("i1", 0)])
        one = f.extract(place.offsets, first)
        other = f.cast("bitcast", f.compare("icmp ne", place.offsets, f.splat(one)), "i32")
        several = f.compare("icmp ne", f.binary("and", other, w.bits), const("i32", 0))
        _decline_if(w, several)
        return f.cast("zext", one, "i64")

    def get(self, field: Field) -> Value:
        """A field of the word as i64."""
        low = self.f.binary("lshr", self.word, const("i64", field.lo))
        return self.f.binary("and", low, const("i64", (1 << field.width) - 1))

    def log(self, kind: LogKind, count: Value, announced: Value,
            completed: Value) -> None:
        """One record behind the others; room was made by :meth:`room`."""
        f, w = self.f, self.w
        log = w.pointer(Context.LOG)
        used = f.load("i64", log, 8)
        record = f.offset(log, f.binary("add", f.binary("shl", used, const("i64", 5)),
                                        const("i64", 32)))
        head = f.binary("or", f.binary("shl", completed, const("i64", 4)),
                        const("i64", int(kind)))
        site = f.binary("shl", w.word(Base.SITE), const("i64", 8))
        row = f.binary("shl", w.word(Base.ROW), const("i64", 40))
        f.store(f.binary("or", f.binary("or", head, site), row), record, 8)
        f.store(self.address, f.offset(record, 8), 8)
        f.store(count, f.offset(record, 16), 8)
        f.store(announced, f.offset(record, 24), 8)
        f.store(f.binary("add", used, const("i64", 1)), log, 8)

    def room(self) -> None:
        """Decline where the log could not take a record for every lane."""
        f, w = self.f, self.w
        log = w.word(Context.LOG)
        _decline_if(w, f.compare("icmp eq", log, const("i64", 0)))
        used = f.load("i64", w.pointer(Context.LOG), 8)
        _decline_if(w, f.compare("icmp ugt", used, const("i64", LOG_RECORDS - 32)))


class _Counts:
    """Pending arrivals, bytes and parity while the lanes take turns, on the stack.

    `arrived` and `announced` are what the log has not been told of.
    """

    def __init__(self, one: _Object) -> None:
        f = self.f = one.f
        self.arrived, self.announced = f.alloca("i64", 8), f.alloca("i64", 8)
        f.store(const("i64", 0), self.arrived, 8)
        f.store(const("i64", 0), self.announced, 8)
        self.expected = one.get(EXPECTED)
        self.pending, self.tx, self.parity, self.wrong = (f.alloca("i64", 8) for _ in range(4))
        f.store(one.get(PENDING), self.pending, 8)
        f.store(one.get(PARITY), self.parity, 8)
        up = f.binary("shl", one.word, const("i64", 63 - TX.hi))
        f.store(f.binary("ashr", up, const("i64", 64 - TX.width)), self.tx, 8)
        f.store(const("i64", 0), self.wrong, 8)

    def load(self, place: Value) -> Value:
        """A count."""
        return self.f.load("i64", place, 8)

    def word(self) -> Value:
        """The object's word."""
        f = self.f
        tx = f.binary("and", self.load(self.tx), const("i64", (1 << TX.width) - 1))
        total = f.binary("or", f.binary("shl", self.expected, const("i64", EXPECTED.lo)),
                         const("i64", LIVE))
        for value, field in ((tx, TX), (self.load(self.pending), PENDING),
                             (self.load(self.parity), PARITY)):
            total = f.binary("or", total, f.binary("shl", value, const("i64", field.lo)))
        return total

    def announce(self, amount: Value) -> None:
        """More bytes to come; beyond what the object can count something is wrong."""
        f = self.f
        now = f.binary("add", self.load(self.tx), amount)
        f.store(now, self.tx, 8)
        f.store(f.binary("add", self.load(self.announced), amount), self.announced, 8)
        above = f.compare("icmp sgt", now, const("i64", MAX_COUNT))
        below = f.compare("icmp slt", now, const("i64", -MAX_COUNT))
        self._flag(f.binary("or", above, below))

    def arrive(self, count: Value) -> None:
        """Arrivals; more than are pending, or none, is wrong."""
        f, pending = self.f, self.load(self.pending)
        none = f.compare("icmp eq", count, const("i64", 0))
        self._flag(f.binary("or", f.compare("icmp ugt", count, pending), none))
        f.store(f.binary("sub", pending, count), self.pending, 8)
        f.store(f.binary("add", self.load(self.arrived), count), self.arrived, 8)

    def settle(self) -> Value:
        """Complete the phase if nothing is outstanding; 1 (i64) where it is."""
        f = self.f
        left = f.binary("or", self.load(self.pending), self.load(self.tx))
        done = f.compare("icmp eq", left, const("i64", 0))
        one = f.cast("zext", done, "i64")
        f.store(f.binary("xor", self.load(self.parity), one), self.parity, 8)
        f.store(f.select(done, self.expected, self.load(self.pending)), self.pending, 8)
        return one

    def tell(self, one: _Object, kind: LogKind, completed: Value) -> None:
        """A record of what came since the last one."""
        one.log(kind, self.load(self.arrived), self.load(self.announced), completed)
        self.f.store(const("i64", 0), self.arrived, 8)
        self.f.store(const("i64", 0), self.announced, 8)

    def _flag(self, wrong: Value) -> None:
        f = self.f
        f.store(f.binary("or", self.load(self.wrong), f.cast("zext", wrong, "i64")), self.wrong, 8)


def _known(w: PrimitiveWriter, index: int) -> bool:
    return ("filter" not in w.options and w.modifier("space") in _SPACES
            and isinstance(w.operands[index], Addr))


@generates("mbarrier.arrive", "mbarrier.expect_tx")
def _arrive(w: PrimitiveWriter) -> bool:
    arrives = w.site.form.family == "mbarrier.arrive"
    index = 1 if arrives else 0
    if not _known(w, index) or w.has("noComplete") or (
            arrives and not isinstance(w.operands[0], (Reg, Unused))):
        return False
    f = w.f
    one = _Object(w, index)
    one.room()
    counts, log_at = _Counts(one), w.pointer(Context.LOG)
    before = f.load("i64", log_at, 8)
    tokens = f.alloca(V64)
    f.store(const(V64, 0), tokens, 64)
    amounts = _spilled(w, index + 1)
    expects = not arrives or "expect_tx" in w.site.form.key.split(".")
    kind = LogKind.ARRIVE if arrives else LogKind.EXPECT

    def body(lane: Value) -> None:
        f.store(counts.word(), f.element_at(tokens, lane, 8), 8)
        amount = const("i64", 1)
        if amounts is not None:
            amount = f.cast("zext", f.load("i32", f.element_at(amounts, lane, 4), 4), "i64")
        announced = amount if expects else const("i64", 0)
        arrivals = const("i64", 1) if expects else amount
        if expects:
            counts.announce(announced)
        if arrives:
            counts.arrive(arrivals)
        completed, over, on = counts.settle(), f.fresh_label("over"), f.fresh_label("open")
        f.branch_if(f.compare("icmp ne", completed, const("i64", 0)), over, on)
        f.label(over)
        counts.tell(one, kind, completed)
        f.branch(on)
        f.label(on)

    f.each_lane(w.bits, body)
    rest = f.binary("or", counts.load(counts.arrived), counts.load(counts.announced))
    some, told = f.fresh_label("rest"), f.fresh_label("told")
    f.branch_if(f.compare("icmp ne", rest, const("i64", 0)), some, told)
    f.label(some)
    counts.tell(one, kind, const("i64", 0))
    f.branch(told)
    f.label(told)
    away, on = f.fresh_label("undo"), f.fresh_label("done")
    f.branch_if(f.compare("icmp ne", counts.load(counts.wrong), const("i64", 0)), away, on)
    f.label(away)
    f.store(before, log_at, 8)
    f.ret(const("i32", int(Said.DECLINED)))
    f.label(on)
    f.store(counts.word(), one.at, 8)
    if arrives:
        w.write(0, f.load(V64, tokens, 64))
    changed(w)
    return True


def _spilled(w: PrimitiveWriter, index: int) -> Value | None:
    """A count operand by lane; None where there is none."""
    if len(w.operands) <= index or isinstance(w.operands[index], Unused):
        return None
    place = w.f.alloca(V32)
    w.f.store(w.read(index, "u32"), place, 64)
    return place


@generates("mbarrier.test_wait", "mbarrier.try_wait")
def _wait(w: PrimitiveWriter) -> bool:
    if not _known(w, 1):
        return False
    f = w.f
    one = _Object(w, 1)
    one.room()
    own = f.splat(f.cast("trunc", one.get(PARITY), "i32"))
    if w.has("parity"):
        asked = f.binary("and", w.read(2, "u32"), const(V32, 1))
    else:
        asked = f.resize(f.binary("lshr", w.read(2, "b64"), const(V64, 63)), V32)
    passed = f.cast("bitcast", f.compare("icmp ne", own, asked), "i32")
    failed = f.binary("and", f.binary("xor", passed, const("i32", -1)), w.bits)
    fails = f.compare("icmp ne", failed, const("i32", 0))
    impatient = f.compare("icmp eq", w.word(Context.PATIENT), const("i64", 0))
    _decline_if(w, f.binary("and", fails, impatient))
    some, none = f.fresh_label("passed"), f.fresh_label("told")
    f.branch_if(f.compare("icmp ne", f.binary("and", passed, w.bits), const("i32", 0)), some, none)
    f.label(some)
    one.log(LogKind.PASSED, *[const("i64", 0)] * 3)
    f.branch(none)
    f.label(none)
    w.write(0, passed)
    w.store_results()
    waits, on = f.fresh_label("waits"), f.fresh_label("goes.on")
    f.branch_if(fails, waits, on)
    f.label(waits)
    f.ret(const("i32", int(Said.WAITS)))
    f.label(on)
    return True


@generates("wgmma.fence")
def _register_fence(w: PrimitiveWriter) -> bool:
    """Whole warps only: the machine gathers the lanes otherwise."""
    w.whole = True
    return "filter" not in w.options
