"""The walk over threaded code: ``run_warp`` and ``run_cta`` in LLVM.

``run_warp(context, row)`` takes the running lanes with the lowest program counter and goes on with
them until they part, wait, stop or run out of fuel. With all 32 lanes together a program counter is
a local variable; a divergent warp looks again at every place where control can come from elsewhere
(LEADER), so lanes meet behind a branch. A warp that has used up its fuel spends its next turn on
the lanes *above* the site that spun, so lanes that others wait for get as much as these.

``run_cta(context)`` goes round the CTA's warps and completes barrier 0 for whole CTAs. It returns
when no warp can go on without Python (see :class:`Reason`). ``run_ctas`` does that for one CTA
after the other of a list that several threads share.
"""

from __future__ import annotations

from mmalab.emulator.native.abi import (
    RECORD_WORDS,
    Base,
    Code,
    Context,
    Flag,
    Kind,
    Reason,
    Record,
    Said,
)
from mmalab.emulator.native.emit import FunctionWriter, Value, const, vector
from mmalab.emulator.native.primitive import V1, V32
from mmalab.emulator.state import Status

__all__ = ["run_cta", "run_ctas", "run_warp"]

_V8 = vector("i8")
_FAR = 0x7FFFFFFF
_RECORD = 4 * RECORD_WORDS


class _WarpWriter:
    """Builds run_warp."""

    def __init__(self) -> None:
        f = self.f = FunctionWriter("i32", "run_warp", ["ptr", "i32"], "nounwind")
        self.context, self.row = f.arg(0), f.arg(1)
        self.wide_row = f.cast("zext", self.row, "i64")
        self.frame = f.alloca(f"[{8 * Base.WORDS} x i8]")
        self.pc_slot, self.mask_slot, self.floor_slot, self.fuel_slot = (
            f.alloca("i32", 4) for _ in range(4))
        self.code = self.pointer(Context.CODE)
        self.runs = self.pointer(Context.RUNS)
        self.pcs_at = f.offset(self.pointer(Context.PC), self.scaled(128))
        self.status_at = f.offset(self.pointer(Context.STATUS), self.scaled(32))
        self.p_base = self.strided(Context.P, Context.P_STRIDE)

    # --- pieces

    def word(self, which: Context) -> Value:
        return self.f.load("i64", self.f.offset(self.context, 8 * which), 8)

    def pointer(self, which: Context) -> Value:
        return self.f.load("ptr", self.f.offset(self.context, 8 * which), 8)

    def scaled(self, size: int) -> Value:
        return self.f.binary("mul", self.wide_row, const("i64", size))

    def strided(self, base: Context, stride: Context) -> Value:
        f = self.f
        return f.offset(self.pointer(base), f.binary("mul", self.wide_row, self.word(stride)))

    def get(self, place: Value) -> Value:
        return self.f.load("i32", place, 4)

    def put(self, place: Value, value: Value | int) -> None:
        self.f.store(const("i32", value) if isinstance(value, int) else value, place, 4)

    def per_row(self, which: Context) -> Value:
        return self.f.offset(self.pointer(which), self.scaled(4))

    def leave(self, code: Code) -> None:
        self.f.ret(const("i32", int(code)))

    def with_status(self, status: Status) -> Value:
        loaded = self.f.load(_V8, self.status_at, 32)
        return self.f.compare("icmp eq", loaded, const(_V8, int(status)))

    def record(self, pc: Value) -> Value:
        f = self.f
        return f.offset(self.code, f.binary("mul", f.cast("zext", pc, "i64"),
                                            const("i64", _RECORD)))

    def field(self, record: Value, which: Record) -> Value:
        return self.f.load("i32", self.f.offset(record, which), 4)

    def save_pcs(self, lanes: Value, pc: Value) -> None:
        """Lanes (i32 mask) stand at `pc` (scalar or vector)."""
        f = self.f
        new = pc if pc.type == V32 else f.splat(pc)
        old = f.load(V32, self.pcs_at, 64)
        f.store(f.select(f.cast("bitcast", lanes, V1), new, old), self.pcs_at, 64)

    # --- the function

    def write(self) -> FunctionWriter:
        self._fill_frame()
        self._dispatch()
        self._fetch()
        self._primitive()
        self._branch()
        self._table()
        self._ends()
        return self.f

    def _fill_frame(self) -> None:
        f, c = self.f, Context
        bases = {
            Base.R: self.strided(c.R, c.R_STRIDE), Base.Q: self.strided(c.Q, c.Q_STRIDE),
            Base.P: self.p_base, Base.CONSTANTS: self.pointer(c.CONSTANTS),
            Base.SPECIALS: self.pointer(c.SPECIALS), Base.CONTEXT: self.context,
        }
        warp = f.binary("sub", self.wide_row, self.word(c.FIRST_ROW))
        bases[Base.TID] = f.offset(self.pointer(c.TID), f.binary("mul", warp, const("i64", 512)))
        for base, value in bases.items():
            f.store(value, f.offset(self.frame, 8 * base), 8)
        f.store(self.wide_row, f.offset(self.frame, 8 * Base.ROW), 8)
        f.branch("rotate")

    def _dispatch(self) -> None:
        f = self.f
        f.label("rotate")
        avoid_at = self.per_row(Context.AVOID)
        self.put(self.floor_slot, self.get(avoid_at))
        self.put(avoid_at, 0)
        self.put(self.fuel_slot, f.cast("trunc", self.word(Context.SLICE), "i32"))
        f.branch("dispatch")
        f.label("dispatch")
        pcs, running = f.load(V32, self.pcs_at, 64), self.with_status(Status.RUNNING)
        above = f.compare("icmp uge", pcs, f.splat(self.get(self.floor_slot)))
        lowest = self._lowest(pcs, f.binary("and", running, above))
        f.branch_if(f.compare("icmp ne", lowest, const("i32", _FAR)), "take", "from.the.start")
        f.label("from.the.start")
        self.put(self.floor_slot, 0)
        pcs2 = f.load(V32, self.pcs_at, 64)
        lowest2 = self._lowest(pcs2, self.with_status(Status.RUNNING))
        f.branch_if(f.compare("icmp ne", lowest2, const("i32", _FAR)), "take", "none")
        f.label("none")
        self.leave(Code.EXIT)
        f.label("take")
        pc = f.emit("i32", f"phi i32 [ {lowest.ref}, %dispatch ],"
                           f" [ {lowest2.ref}, %from.the.start ]")
        here = f.compare("icmp eq", f.load(V32, self.pcs_at, 64), f.splat(pc))
        mask = f.cast("bitcast", f.binary("and", here, self.with_status(Status.RUNNING)), "i32")
        self.put(self.pc_slot, pc)
        self.put(self.mask_slot, mask)
        f.branch("execute")

    def _lowest(self, pcs: Value, among: Value) -> Value:
        keyed = self.f.select(among, pcs, const(V32, _FAR))
        return self.f.call("i32", "llvm.vector.reduce.umin.v32i32", [keyed])

    def _fetch(self) -> None:
        """The next instruction of the group: `next` looks at leaders first, `execute` does not."""
        f = self.f
        f.label("next")
        pc, mask = self.get(self.pc_slot), self.get(self.mask_slot)
        whole = f.compare("icmp eq", mask, const("i32", -1))
        f.branch_if(whole, "execute", "look")
        f.label("look")
        flags = self.field(self.record(pc), Record.FLAGS)
        leader = f.compare("icmp ne", f.binary("and", flags, const("i32", Flag.LEADER)),
                           const("i32", 0))
        f.branch_if(leader, "look.again", "execute")
        f.label("look.again")
        self.save_pcs(mask, pc)
        f.branch("dispatch")
        f.label("execute")
        self.pc, self.mask = self.get(self.pc_slot), self.get(self.mask_slot)
        self.rec = self.record(self.pc)
        guard = self.field(self.rec, Record.GUARD)
        f.branch_if(f.compare("icmp slt", guard, const("i32", 0)), "unguarded", "guarded")
        f.label("guarded")
        predicate = f.load("i32", f.offset(self.p_base, f.cast("zext", guard, "i64")), 4)
        predicate = f.binary("xor", predicate, self.field(self.rec, Record.GUARD_XOR))
        narrowed = f.binary("and", predicate, self.mask)
        f.branch("decode")
        f.label("unguarded")
        f.branch("decode")
        f.label("decode")
        self.now = f.emit(
            "i32", f"phi i32 [ {narrowed.ref}, %guarded ], [ {self.mask.ref}, %unguarded ]")
        kind = self.field(self.rec, Record.KIND)
        f.switch(kind, "stop", [
            (Kind.PRIMITIVE, "primitive"), (Kind.BRANCH, "branch"), (Kind.EXIT, "exit"),
            (Kind.BARRIER, "barrier"), (Kind.TABLE, "table"),
        ])

    def _count_run(self, by: int = 1) -> None:
        f = self.f
        at = f.offset(self.runs, f.binary("shl", f.cast("zext", self.pc, "i64"), const("i64", 3)))
        f.store(f.binary("add", f.load("i64", at, 8), const("i64", by)), at, 8)

    def _advance(self) -> None:
        self.put(self.pc_slot, self.f.binary("add", self.pc, const("i32", 1)))
        self.f.branch("next")

    def _primitive(self) -> None:
        f = self.f
        f.label("primitive")
        whole_only = f.binary("and", self.field(self.rec, Record.FLAGS), const("i32", Flag.WHOLE))
        needs = f.compare("icmp ne", whole_only, const("i32", 0))
        lacks = f.compare("icmp ne", self.now, const("i32", -1))
        f.branch_if(f.binary("and", needs, lacks), "stop", "call")
        f.label("call")
        self._count_run()
        f.store(f.cast("zext", self.pc, "i64"), f.offset(self.frame, 8 * Base.SITE), 8)
        function = f.load("ptr", f.offset(self.rec, Record.FUNCTION), 8)
        operands = f.load("ptr", f.offset(self.rec, Record.OPERANDS), 8)
        said = f.emit("i32", f"call i32 {function.ref}({self.frame}, {operands}, {self.now})")
        f.switch(said, "trap", [(Said.DONE, "advance"), (Said.DECLINED, "declined"),
                                (Said.WAITS, "waits")])
        f.label("waits")
        behind = f.binary("add", self.pc, const("i32", 1))
        self.save_pcs(self.mask, behind)
        self.put(self.per_row(Context.AVOID), behind)
        self.leave(Code.WAIT)
        f.label("declined")
        self._count_run(-1)
        f.branch("stop")
        f.label("trap")
        self.save_pcs(self.mask, self.pc)
        self.leave(Code.TRAP)
        f.label("advance")
        self._advance()

    def _branch(self) -> None:
        f = self.f
        f.label("branch")
        self._count_run()
        none = f.compare("icmp eq", self.now, const("i32", 0))
        f.branch_if(none, "advance", "some.taken")
        f.label("some.taken")
        target = self.field(self.rec, Record.TARGET)
        all_taken = f.compare("icmp eq", self.now, self.mask)
        f.branch_if(all_taken, "jump", "part")
        f.label("part")
        behind = f.binary("add", self.pc, const("i32", 1))
        self.save_pcs(self.mask, behind)
        self.save_pcs(self.now, target)
        self._fuel("dispatch", target)
        f.label("jump")
        self.put(self.pc_slot, target)
        backward = f.compare("icmp ule", target, self.pc)
        f.branch_if(backward, "jump.back", "next")
        f.label("jump.back")
        left = self._burn()
        f.branch_if(f.compare("icmp sge", left, const("i32", 0)), "next", "jump.out")
        f.label("jump.out")
        self.save_pcs(self.mask, target)
        self._yield()

    def _burn(self) -> Value:
        """Spend fuel for a jump back: the CTA's, and the warp's of this turn, which is returned."""
        f = self.f
        cost = self.field(self.rec, Record.COST)
        fuel_at = f.offset(self.context, 8 * Context.FUEL)
        left = f.binary("sub", f.load("i64", fuel_at, 8), f.cast("zext", cost, "i64"))
        f.store(left, fuel_at, 8)
        turn = f.binary("sub", self.get(self.fuel_slot), cost)
        self.put(self.fuel_slot, turn)
        return turn

    def _fuel(self, label: str, target: Value) -> None:
        """Spend fuel if `target` lies back; go to `label` or yield."""
        f = self.f
        burn, out = f.fresh_label("burn"), f.fresh_label("empty")
        f.branch_if(f.compare("icmp ule", target, self.pc), burn, label)
        f.label(burn)
        left = self._burn()
        f.branch_if(f.compare("icmp sge", left, const("i32", 0)), label, out)
        f.label(out)
        self._yield()

    def _yield(self) -> None:
        """Remember which site spun: next time lanes above it go first."""
        self.put(self.per_row(Context.AVOID), self.f.binary("add", self.pc, const("i32", 1)))
        self.leave(Code.YIELD)

    def _table(self) -> None:
        """brx.idx: TARGET is the number of entries, which follow the operand place as i32.

        With an index beyond them the instruction is a stop: Python reports it.
        """
        f = self.f
        f.label("table")
        operands = f.load("ptr", f.offset(self.rec, Record.OPERANDS), 8)
        offset = f.cast("zext", self.get(operands), "i64")
        r_base = f.load("ptr", f.offset(self.frame, 8 * Base.R), 8)
        index = f.load(V32, f.offset(r_base, offset), 64)
        count = self.field(self.rec, Record.TARGET)
        beyond = f.cast("bitcast", f.compare("icmp uge", index, f.splat(count)), "i32")
        wild = f.compare("icmp ne", f.binary("and", beyond, self.now), const("i32", 0))
        f.branch_if(wild, "stop", "table.known")
        f.label("table.known")
        self._count_run()
        behind = f.binary("add", self.pc, const("i32", 1))
        self.save_pcs(self.mask, behind)
        place = f.alloca(V32)
        f.store(index, place, 64)

        def body(lane: Value) -> None:
            i = f.load("i32", f.element_at(place, lane, 4), 4)
            entry = self.get(f.offset(f.element_at(operands, i, 4), 4))
            self.put(f.element_at(self.pcs_at, lane, 4), entry)

        f.each_lane(self.now, body)
        left = self._burn()
        f.branch_if(f.compare("icmp sge", left, const("i32", 0)), "dispatch", "table.out")
        f.label("table.out")
        self._yield()

    def _ends(self) -> None:
        f = self.f
        f.label("stop")
        self.save_pcs(self.mask, self.pc)
        self.put(self.per_row(Context.STANDING), self.pc)
        self.leave(Code.STOP)
        f.label("exit")
        self._count_run()
        ended = f.select(f.cast("bitcast", self.now, V1), const(_V8, int(Status.EXITED)),
                         f.load(_V8, self.status_at, 32))
        f.store(ended, self.status_at, 32)
        version = f.offset(self.context, 8 * Context.VERSION)
        f.store(f.binary("add", f.load("i64", version, 8), const("i64", 1)), version, 8)
        self.save_pcs(self.mask, f.binary("add", self.pc, const("i32", 1)))
        f.branch("dispatch")
        f.label("barrier")
        whole = f.compare("icmp eq", self.now, const("i32", -1))
        f.branch_if(whole, "wait", "stop")
        f.label("wait")
        self._count_run()
        self.save_pcs(self.mask, f.binary("add", self.pc, const("i32", 1)))
        f.store(const(_V8, int(Status.BARRIER)), self.status_at, 32)
        self.put(self.per_row(Context.STANDING), self.pc)
        self.leave(Code.BARRIER)


def run_warp() -> FunctionWriter:
    """One warp, until it waits, stops or ends."""
    return _WarpWriter().write()


class _CtaWriter:
    """Builds run_cta."""

    def __init__(self, *, watched: bool) -> None:
        self.watched = watched
        name = "run_cta_watched" if watched else "run_cta"
        f = self.f = FunctionWriter("i32", name, ["ptr"], "nounwind")
        self.context = f.arg(0)
        self.first = f.cast("trunc", self.word(Context.FIRST_ROW), "i32")
        self.warps = f.cast("trunc", self.word(Context.WARPS), "i32")
        self.warp, self.waiting, self.stops, self.moved = (f.alloca("i32", 4) for _ in range(4))

    def word(self, which: Context) -> Value:
        return self.f.load("i64", self.f.offset(self.context, 8 * which), 8)

    def pointer(self, which: Context) -> Value:
        return self.f.load("ptr", self.f.offset(self.context, 8 * which), 8)

    def get(self, place: Value) -> Value:
        return self.f.load("i32", place, 4)

    def put(self, place: Value, value: int | Value) -> None:
        self.f.store(const("i32", value) if isinstance(value, int) else value, place, 4)

    def bump(self, place: Value) -> None:
        self.put(place, self.f.binary("add", self.get(place), const("i32", 1)))

    def row(self) -> Value:
        return self.f.binary("add", self.first, self.get(self.warp))

    def status(self, row: Value) -> Value:
        return self.f.element_at(self.pointer(Context.STATUS), row, 32)

    def standing(self, row: Value) -> Value:
        return self.f.element_at(self.pointer(Context.STANDING), row, 4)

    def any_with(self, status: Value, which: Status) -> Value:
        f = self.f
        here = f.compare("icmp eq", f.load(_V8, status, 32), const(_V8, int(which)))
        return f.compare("icmp ne", f.cast("bitcast", here, "i32"), const("i32", 0))

    def write(self) -> FunctionWriter:
        f = self.f
        f.branch("round")
        f.label("round")
        for place in (self.warp, self.waiting, self.stops, self.moved):
            self.put(place, 0)
        f.branch("next")
        f.label("next")
        f.branch_if(f.compare("icmp ult", self.get(self.warp), self.warps), "look", "end.round")
        self._look()
        self._end_of_round()
        self._release()
        return f

    def _look(self) -> None:
        f = self.f
        f.label("look")
        row = self.row()
        status = self.status(row)
        at_stop = f.compare("icmp sge", self.get(self.standing(row)), const("i32", 0))
        waits = self.any_with(status, Status.BARRIER)
        runs = self.any_with(status, Status.RUNNING)
        f.branch_if(runs, "look.stop", "look.waits")
        f.label("look.stop")
        f.branch_if(at_stop, "is.stop", "run")
        f.label("is.stop")
        self.bump(self.stops)
        f.branch("after")
        f.label("look.waits")
        f.branch_if(f.binary("and", waits, at_stop), "is.waiting", "after")
        f.label("is.waiting")  # at barrier 0, counted here and nowhere else
        self.bump(self.waiting)
        f.branch("after")
        f.label("run")
        code = f.call("i32", "run_warp", [self.context, self.row()])
        waits = f.compare("icmp eq", code, const("i32", Code.WAIT))
        f.branch_if(waits, "after", "ran")
        f.label("ran")
        self.bump(self.moved)
        f.branch_if(f.compare("icmp eq", code, const("i32", Code.TRAP)), "trap", "after")
        f.label("trap")
        f.ret(const("i32", Reason.TRAP))
        f.label("after")
        self.bump(self.warp)
        f.branch("next")

    def _end_of_round(self) -> None:
        f = self.f
        f.label("end.round")
        empty = f.compare("icmp slt", self.word(Context.FUEL), const("i64", 0))
        f.branch_if(empty, "no.fuel", "barrier")
        f.label("barrier")
        full = f.compare("icmp eq", self.get(self.waiting), self.warps)
        f.branch_if(full, "release", "progress")
        f.label("progress")
        f.branch_if(f.compare("icmp ne", self.get(self.moved), const("i32", 0)), "round", "stuck")
        f.label("stuck")
        some = f.compare("icmp ne", self.get(self.stops), const("i32", 0))
        f.branch_if(some, "has.stops", "none.run")
        f.label("none.run")
        some = f.compare("icmp ne", self.get(self.waiting), const("i32", 0))
        f.branch_if(some, "has.waiting", "ended")
        for label, reason in (("no.fuel", Reason.FUEL), ("has.stops", Reason.STOPS),
                              ("has.waiting", Reason.WAITING), ("ended", Reason.ENDED)):
            f.label(label)
            f.ret(const("i32", int(reason)))

    def _release(self) -> None:
        """All warps of the CTA wait at barrier 0: they go on."""
        f = self.f
        f.label("release")
        if self.watched:
            f.call("void", "filter_barrier", [self.pointer(Context.FILTER), self.warps])
        for which, amount in ((Context.VERSION, const("i64", 1)),
                              (Context.BARRIER_WAITS, f.cast("zext", self.warps, "i64"))):
            at = f.offset(self.context, 8 * which)
            f.store(f.binary("add", f.load("i64", at, 8), amount), at, 8)
        self.put(self.warp, 0)
        f.branch("release.next")
        f.label("release.next")
        row = self.row()
        f.store(const(_V8, int(Status.RUNNING)), self.status(row), 32)
        self.put(self.standing(row), -1)
        self.bump(self.warp)
        more = f.compare("icmp ult", self.get(self.warp), self.warps)
        f.branch_if(more, "release.next", "round")


def run_cta(*, watched: bool) -> FunctionWriter:
    """All warps of a CTA; `watched`: barriers move the race filter's clocks too."""
    return _CtaWriter(watched=watched).write()


def run_ctas(*, watched: bool) -> FunctionWriter:
    """One thread's share of the CTAs of a list.

    Its arguments are the context blocks, the bytes of one, the list of numbers (i64) and its
    length, then `next`, `runs` and `sites`: `next` is the place in the list from which
    the next thread takes its CTA; `runs` and `sites` are this thread's. It comes back after a TRAP
    too, and then has left CTAs in the list.
    """
    name = "run_ctas_watched" if watched else "run_ctas"
    f = FunctionWriter("void", name, ["ptr", "i64", "ptr", "i64", "ptr", "ptr", "ptr"], "nounwind")
    f.branch("take")
    f.label("take")
    at = f.emit("i64", f"atomicrmw add ptr {f.arg(4).ref}, i64 1 seq_cst")
    f.branch_if(f.compare("icmp ult", at, f.arg(3)), "run", "done")
    f.label("run")
    number = f.load("i64", f.offset(f.arg(2), f.binary("shl", at, const("i64", 3))), 8)
    context = f.offset(f.arg(0), f.binary("mul", number, f.arg(1)))
    f.store(f.arg(5), f.offset(context, 8 * Context.RUNS), 8)
    f.store(f.arg(6), f.offset(context, 8 * Context.SITES), 8)
    why = f.call("i32", "run_cta_watched" if watched else "run_cta", [context])
    f.branch_if(f.compare("icmp eq", why, const("i32", Reason.TRAP)), "done", "take")
    f.label("done")
    f.ret()
    return f
