"""The compiled scheduler of one CTA: run every warp as far as it goes, complete barrier 0.

``run_cta(context) -> reason`` goes round the CTA's warps. A full warp runs ``step_full``, one whose
lanes differ ``step_masked``; each comes back when it waits at the barrier, stands at a stop, yields,
or has ended. When all warps of the CTA wait at barrier 0 they are released here. The function
returns when no warp can go on without Python: 0 all ended, 1 stops to execute, 2 a trap, 3 only
waiting warps, 4 out of fuel.
"""

from __future__ import annotations

from enum import IntEnum

from mmalab.emulator.native.abi import Code, Context
from mmalab.emulator.native.emit import FunctionWriter, Value, const, vector
from mmalab.emulator.state import Status

__all__ = ["Reason", "run_cta"]

_V8 = vector("i8")


class Reason(IntEnum):
    """Why run_cta came back."""

    ENDED = 0
    STOPS = 1
    TRAP = 2
    WAITING = 3
    FUEL = 4


class _Writer:
    """Builds run_cta."""

    def __init__(self, *, masked: bool, watched: bool) -> None:
        self.masked, self.watched = masked, watched
        self.f = FunctionWriter("i32", "run_cta", ["ptr"], "nounwind")
        f = self.f
        self.context = f.arg(0)
        self.first = f.cast("trunc", self.word(Context.FIRST_ROW), "i32")
        self.warps = f.cast("trunc", self.word(Context.WARPS), "i32")
        self.warp, self.waiting, self.stops, self.moved, self.yielded = (
            f.alloca("i32", 4) for _ in range(5)
        )

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

    def done(self, reason: Reason) -> None:
        self.f.ret(const("i32", int(reason)))

    def row(self) -> Value:
        return self.f.binary("add", self.first, self.get(self.warp))

    def status(self, row: Value) -> Value:
        f = self.f
        wide = f.binary("mul", f.cast("zext", row, "i64"), const("i64", 32))
        return f.offset(self.pointer(Context.STATUS), wide)

    def standing(self, row: Value) -> Value:
        f = self.f
        wide = f.binary("mul", f.cast("zext", row, "i64"), const("i64", 4))
        return f.offset(self.pointer(Context.STANDING), wide)

    def any_with(self, status: Value, which: Status) -> Value:
        f = self.f
        here = f.compare("icmp eq", f.load(_V8, status, 32), const(_V8, int(which)))
        return f.compare("icmp ne", f.cast("bitcast", here, "i32"), const("i32", 0))

    def write(self) -> FunctionWriter:
        f = self.f
        f.branch("round")
        f.label("round")
        for place in (self.warp, self.waiting, self.stops, self.moved, self.yielded):
            self.put(place, 0)
        f.branch("next")
        f.label("next")
        more = f.compare("icmp ult", self.get(self.warp), self.warps)
        f.branch_if(more, "look", "end.round")
        self._look()
        self._step()
        self._end_of_round()
        return f

    def _look(self) -> None:
        """Skip warps that cannot run."""
        f = self.f
        f.label("look")
        row = self.row()
        status = self.status(row)
        stands = f.load("i32", self.standing(row), 4)
        at_stop = f.compare("icmp sge", stands, const("i32", 0))
        waits = self.any_with(status, Status.BARRIER)
        runs = self.any_with(status, Status.RUNNING)
        f.branch_if(runs, "look.stop", "look.waits")
        f.label("look.stop")
        f.branch_if(at_stop, "is.stop", "run.full")
        f.label("is.stop")
        self.bump(self.stops)
        f.branch("after")
        f.label("look.waits")
        f.branch_if(f.binary("and", waits, at_stop), "is.waiting", "after")
        f.label("is.waiting")  # at barrier 0, counted here and nowhere else
        self.bump(self.waiting)
        f.branch("after")

    def _step(self) -> None:
        f = self.f
        f.label("run.full")
        code = f.call("i32", "step_full", [self.context, self.row()])
        f.branch("came.back")
        f.label("run.masked")
        if self.masked:
            other = f.call("i32", "step_masked", [self.context, self.row()])
        else:
            other = const("i32", int(Code.STOP))
            f.store(const("i32", 1 << 30), self.standing(self.row()), 4)
        f.branch("came.back")
        f.label("came.back")
        result = f.emit("i32", f"phi i32 [ {code.ref}, %run.full ], [ {other.ref}, %run.masked ]")
        f.switch(result, "trap", [
            (Code.YIELD, "yielded"), (Code.STOP, "moved.on"), (Code.EXIT, "moved.on"),
            (Code.DIVERGED, "run.masked"), (Code.UNIFORM, "run.full"), (Code.BARRIER, "moved.on"),
        ])
        f.label("trap")
        self.done(Reason.TRAP)
        f.label("yielded")
        self.bump(self.yielded)
        f.branch("moved.on")
        f.label("moved.on")
        self.bump(self.moved)
        f.branch("after")
        f.label("after")
        self.bump(self.warp)
        f.branch("next")

    def _end_of_round(self) -> None:
        f = self.f
        f.label("end.round")
        fuel = f.compare("icmp slt", self.word(Context.FUEL), const("i64", 0))
        f.branch_if(fuel, "no.fuel", "barrier")
        f.label("no.fuel")
        self.done(Reason.FUEL)
        f.label("barrier")
        full = f.compare("icmp eq", self.get(self.waiting), self.warps)
        f.branch_if(full, "release", "progress")
        f.label("progress")
        moved = f.compare("icmp ne", self.get(self.moved), const("i32", 0))
        f.branch_if(moved, "round", "stuck")
        f.label("stuck")
        stops = f.compare("icmp ne", self.get(self.stops), const("i32", 0))
        f.branch_if(stops, "has.stops", "none.run")
        f.label("has.stops")
        self.done(Reason.STOPS)
        f.label("none.run")
        waits = f.compare("icmp ne", self.get(self.waiting), const("i32", 0))
        f.branch_if(waits, "has.waiting", "ended")
        f.label("has.waiting")
        self.done(Reason.WAITING)
        f.label("ended")
        self.done(Reason.ENDED)
        f.label("release")
        if self.watched:
            f.call("void", "filter_barrier", [self.pointer(Context.FILTER), self.warps])
        self.put(self.warp, 0)
        version = f.offset(self.context, 8 * Context.VERSION)
        f.store(f.binary("add", f.load("i64", version, 8), const("i64", 1)), version, 8)
        f.branch("release.next")
        f.label("release.next")
        row = self.row()
        f.store(const(_V8, int(Status.RUNNING)), self.status(row), 32)
        f.store(const("i32", -1), self.standing(row), 4)
        self.bump(self.warp)
        more = f.compare("icmp ult", self.get(self.warp), self.warps)
        f.branch_if(more, "release.next", "released")
        f.label("released")
        waits_at = f.offset(self.context, 8 * Context.BARRIER_WAITS)
        total = f.binary("add", f.load("i64", waits_at, 8), f.cast("zext", self.warps, "i64"))
        f.store(total, waits_at, 8)
        f.branch("round")


def run_cta(*, masked: bool, watched: bool) -> FunctionWriter:
    """The function; without `masked` a divergent warp comes back as a stop nobody knows.
    `watched`: barriers also move the race filter's clocks.
    """
    return _Writer(masked=masked, watched=watched).write()
