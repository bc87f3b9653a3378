"""Writing the step functions: a program's regions as LLVM, for full warps and for divergent ones.

``step_full(context, row)`` runs a warp whose 32 lanes stand at one site. Regions jump to each other
directly; a branch that splits the lanes stores their program counters and returns ``DIVERGED``.
``step_masked`` dispatches: it takes the running lanes with the lowest program counter, runs their
region under their mask, and looks again. Lowest first is what makes lanes meet behind a branch; when
a region has used up the warp's fuel while lanes stand elsewhere, the next dispatch takes the lowest
site *above* it, so a lane that others spin for gets its turn.

A site that compiled code does not know, a collective of a divergent warp among them, is a *stop*: the program counters say so, the code returns,
and Python executes the site for all warps that stand at it as one NumPy operation. An access that
compiled code cannot vouch for (lanes in different buffers, out of bounds) calls back for one warp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set as AbstractSet
from dataclasses import dataclass

from mmalab.emulator.liveness import reads_of, writes_of
from mmalab.emulator.native.abi import Code, Context
from mmalab.emulator.native.emit import FunctionWriter, Value, const, vector
from mmalab.emulator.native.regions import Key, Region, is_branch, is_cta_barrier, is_exit
from mmalab.emulator.native.scope import V1, V32, Frame, Scope
from mmalab.emulator.program import Op, Program, Site, Target
from mmalab.emulator.state import Status

__all__ = ["Generator", "SiteWriter", "StepWriter"]

#: Writes the code of one site in the given lanes; False declines (the site is then a stop).
Generator = Callable[["SiteWriter"], bool]
_FAR = 0x7FFFFFFF
_V8 = vector("i8")


@dataclass(slots=True)
class SiteWriter:
    """What a generator gets: the site, its region's scope, and the lanes that execute."""

    step: StepWriter
    scope: Scope
    site: Site
    active: Value | None

    @property
    def f(self) -> FunctionWriter:
        """The function being written."""
        return self.scope.f

    @property
    def frame(self) -> Frame:
        """Pointers of the running step."""
        return self.scope.frame

    @property
    def operands(self) -> tuple[Op, ...]:
        """The site's operands."""
        return self.site.operands

    def modifier(self, name: str, default: str = "") -> str:
        """One of the form's modifiers."""
        return self.site.form.modifiers.get(name, default)

    def executor(self) -> None:
        """Execute the site by its NumPy executor, here and now, on the state in memory."""
        self.step.callback(self.scope, self.site, self.active)


class StepWriter:
    """Writes one of the two step functions of a program."""

    def __init__(
        self,
        program: Program,
        regions: tuple[Region, ...],
        stops: AbstractSet[int],
        live_out: Mapping[int, AbstractSet[Key]],
        generators: Mapping[str, Generator],
        special: Callable[[Scope, str], Value],
        *,
        masked: bool,
        options: AbstractSet[str] = frozenset(),
        first_counter: int = 0,
    ) -> None:
        self.program = program
        self.first_counter = first_counter
        self.regions = regions
        self.stops = stops
        self.live_out = live_out
        self.generators = generators
        self.special = special
        self.masked = masked
        self.options = options
        #: Names and texts of functions that generated code calls (one per mma form).
        self.helpers: dict[str, str] = {}
        self._scratch: dict[str, tuple[Value, int]] = {}
        name = "step_masked" if masked else "step_full"
        self.f = FunctionWriter("i32", name, ["ptr", "i32"], "nounwind")
        self.frame = self._frame()
        self.mask_slot = self.f.alloca("i32", 4)

    def text(self) -> str:
        """The function's LLVM text."""
        if self.masked:
            self._dispatch_masked()
        else:
            self._dispatch_full()
        for region in self.regions:
            self._region(region)
        return self.f.text()

    def _frame(self) -> Frame:
        f, context, row = self.f, self.f.arg(0), self.f.arg(1)
        wide = f.cast("zext", row, "i64")

        def base(which: Context, stride: int) -> Value:
            pointer = f.load("ptr", f.offset(context, 8 * which), 8)
            return f.offset(pointer, f.binary("mul", wide, const("i64", stride)))

        slots = self.program.slots
        return Frame(
            f=f, context=context, row=row,
            r=base(Context.R, 128 * slots.get("r", 0)),
            q=base(Context.Q, 256 * slots.get("q", 0)),
            p=base(Context.P, 4 * slots.get("p", 0)),
            pc=base(Context.PC, 128), status=base(Context.STATUS, 32),
        )

    def scratch(self, name: str, count: int, size: int) -> Value:
        """Stack space for `count` registers of `size` bytes, shared by all users of `name`."""
        known = self._scratch.get(name)
        if known is None or known[1] < count * size:
            known = (self.f.alloca(f"[{count * size} x i8]"), count * size)
            self._scratch[name] = known
        return known[0]

    # --- the warp's program counters and status

    def pcs(self) -> Value:
        """Program counters of the 32 lanes."""
        return self.f.load(V32, self.frame.pc, 64)

    def set_pcs(self, value: Value) -> None:
        """Write the program counters."""
        self.f.store(value, self.frame.pc, 64)

    def move(self, mask: Value | None, pcs: Value) -> None:
        """Set the program counters of the region's lanes."""
        self.set_pcs(pcs if mask is None else self.f.select(mask, pcs, self.pcs()))

    def mask(self) -> Value | None:
        """The lanes that run the region: None in full code."""
        if not self.masked:
            return None
        return self.f.cast("bitcast", self.f.load("i32", self.mask_slot, 4), V1)

    def per_row(self, which: Context) -> Value:
        """Pointer to this row's word of an i32 array."""
        f = self.f
        return f.offset(
            self.frame.pointer(which),
            f.binary("mul", f.cast("zext", self.frame.row, "i64"), const("i64", 4)),
        )

    def leave(self, code: Code) -> None:
        """Return `code`."""
        self.f.ret(const("i32", int(code)))

    def _stand(self, site: int) -> None:
        self.f.store(const("i32", site), self.per_row(Context.STANDING), 4)
        self.leave(Code.STOP)

    # --- dispatch

    def _with_status(self, status: Status) -> Value:
        loaded = self.f.load(_V8, self.frame.status, 32)
        return self.f.compare("icmp eq", loaded, const(_V8, int(status)))

    def _dispatch_full(self) -> None:
        f = self.f
        pcs = self.pcs()
        first = f.extract(pcs, 0)
        same = f.binary(
            "and", f.compare("icmp eq", pcs, f.splat(first)), self._with_status(Status.RUNNING)
        )
        whole = f.compare("icmp eq", f.cast("bitcast", same, "i32"), const("i32", -1))
        f.branch_if(whole, "go", "diverged")
        f.label("diverged")
        self.leave(Code.DIVERGED)
        f.label("go")
        f.switch(first, "diverged", [(r.start, f"at{r.start}") for r in self.regions])

    def _dispatch_masked(self) -> None:
        f = self.f
        f.branch("rotate")
        f.label("rotate")
        avoid_at = self.per_row(Context.AVOID)
        avoid = f.load("i32", avoid_at, 4)
        f.store(const("i32", 0), avoid_at, 4)
        pcs, running = self.pcs(), self._with_status(Status.RUNNING)
        above = f.compare("icmp uge", pcs, f.splat(avoid))
        lowest = self._lowest(pcs, f.binary("and", running, above))
        f.branch_if(f.compare("icmp ne", lowest, const("i32", _FAR)), "take", "dispatch")
        f.label("dispatch")
        pcs2 = self.pcs()
        lowest2 = self._lowest(pcs2, self._with_status(Status.RUNNING))
        f.branch_if(f.compare("icmp ne", lowest2, const("i32", _FAR)), "take", "none")
        f.label("none")
        self.leave(Code.EXIT)
        f.label("take")
        pc = f.emit("i32", f"phi i32 [ {lowest.ref}, %rotate ], [ {lowest2.ref}, %dispatch ]")
        self._select_lanes(pc)

    def _lowest(self, pcs: Value, among: Value) -> Value:
        keyed = self.f.select(among, pcs, const(V32, _FAR))
        return self.f.call("i32", "llvm.vector.reduce.umin.v32i32", [keyed])

    def _select_lanes(self, pc: Value) -> None:
        f = self.f
        here = f.compare("icmp eq", self.pcs(), f.splat(pc))
        running = f.binary("and", here, self._with_status(Status.RUNNING))
        bits = f.cast("bitcast", running, "i32")
        f.store(bits, self.mask_slot, 4)
        f.branch_if(f.compare("icmp eq", bits, const("i32", -1)), "whole", "go")
        f.label("whole")  # only at a site where full code can start
        coarse = f.load("i8", f.offset(Value("ptr", "@coarse"), f.cast("zext", pc, "i64")))
        f.branch_if(f.compare("icmp ne", coarse, const("i8", 0)), "uniform", "go")
        f.label("uniform")
        self.leave(Code.UNIFORM)
        f.label("go")
        f.switch(pc, "none", [(r.start, f"at{r.start}") for r in self.regions])

    # --- regions

    def _region(self, region: Region) -> None:
        f = self.f
        f.label(f"at{region.start}")
        if region.start in self.stops:
            self._stop(region)
            return
        scope = Scope(self.frame, self.mask(), self.special)
        self._count(region)
        for index in range(region.start, region.stop):
            site = self.program.sites[index]
            f.comment(f"{site.line}: {site.text}")
            if is_branch(site) or is_exit(site) or is_cta_barrier(site):
                self._end(region, scope, site)
                return
            writer = SiteWriter(self, scope, site, scope.active(site.guard))
            if not self.generators[site.form.family](writer):
                raise AssertionError(f"{site.form.key}: the generator changed its mind")
        scope.flush(self.live_out[region.stop - 1])
        self._goto(region, region.stop)

    def _stop(self, region: Region) -> None:
        """Full code comes here with the counters of an earlier region still in memory."""
        self.move(self.mask(), const(V32, region.start))
        self._stand(region.start)

    def _count(self, region: Region) -> None:
        f = self.f
        at = f.offset(self.frame.pointer(Context.BLOCKS), 8 * (self.first_counter + region.number))
        f.store(f.binary("add", f.load("i64", at, 8), const("i64", 1)), at, 8)

    def callback(self, scope: Scope, site: Site, active: Value | None) -> None:
        """Execute `site` in Python for this warp; leave where it says so."""
        f = self.f
        scope.flush(reads_of(site) | writes_of(site))
        target, user = self.frame.pointer(Context.CALLBACK), self.frame.word(Context.USER)
        bits = scope.bits(active)
        code = f.emit(
            "i32",
            f"call i32 {target.ref}({user}, i32 {site.index}, {self.frame.row}, {bits})",
        )
        go, stop = f.fresh_label("went"), f.fresh_label("trap")
        f.branch_if(f.compare("icmp eq", code, const("i32", 0)), go, stop)
        f.label(stop)
        self.leave(Code.TRAP)
        f.label(go)

    # --- leaving a region

    def _goto(self, region: Region, site: int) -> None:
        """All lanes of the region go on at `site`."""
        f = self.f
        if self.masked or site >= len(self.program.sites):
            self.move(self.mask(), const(V32, site))
            if self.masked:
                self._after_jump(region, site)
            else:
                self._stand(site)
        elif site <= region.start:
            self._burn(region, f"at{site}", lambda: self.set_pcs(const(V32, site)))
        else:
            f.branch(f"at{site}")

    def _after_jump(self, region: Region, target: int) -> None:
        if target > region.start:
            self.f.branch("dispatch")
            return
        self._burn(
            region, "dispatch",
            lambda: self.f.store(
                const("i32", region.start + 1), self.per_row(Context.AVOID), 4
            ),
        )

    def _burn(self, region: Region, label: str, before: Callable[[], None]) -> None:
        """Spend fuel on a back edge; out of fuel, save the place and yield."""
        f = self.f
        fuel_at = f.offset(self.frame.context, 8 * Context.FUEL)
        spent = const("i64", region.stop - region.start)
        fuel = f.binary("sub", f.load("i64", fuel_at, 8), spent)
        f.store(fuel, fuel_at, 8)
        out = f.fresh_label("fuel")
        f.branch_if(f.compare("icmp sge", fuel, const("i64", 0)), label, out)
        f.label(out)
        before()
        self.leave(Code.YIELD)

    def _end(self, region: Region, scope: Scope, site: Site) -> None:
        active = scope.active(site.guard)
        if site.form.family == "brx.idx":
            chosen = self._table(scope, site)
            scope.flush(self.live_out[site.index])
            self._spread(region, active, chosen, site.index + 1, backward=True)
            return
        scope.flush(self.live_out[site.index])
        if is_exit(site):
            self._exit(active)
        elif is_cta_barrier(site):
            self._barrier(site)
        elif site.guard is None:
            self._goto(region, _target(site))
        else:
            self._branch(region, site, active)

    def _spread(self, region: Region, active: Value | None, chosen: Value, behind: int, *,
                backward: bool) -> None:
        """Lanes go to `chosen`, the inactive ones of the region to `behind`."""
        f = self.f
        if active is not None and not (self.masked and behind < 0):
            chosen = f.select(active, chosen, const(V32, behind))
        self.move(self.mask(), chosen)
        if not self.masked:
            self.leave(Code.DIVERGED)
        else:
            self._after_jump(region, region.start if backward else region.stop)

    def _branch(self, region: Region, site: Site, active: Value | None) -> None:
        f, target, behind = self.f, _target(site), site.index + 1
        if active is None:
            raise AssertionError("a guarded branch has a lane mask")
        if self.masked:
            self._spread(region, active, const(V32, target), behind,
                         backward=target <= region.start)
            return
        go, stay, mixed = f.fresh_label("taken"), f.fresh_label("behind"), f.fresh_label("mixed")
        f.switch(f.cast("bitcast", active, "i32"), mixed, [(-1, go), (0, stay)])
        f.label(mixed)
        self._spread(region, active, const(V32, target), behind, backward=False)
        f.label(go)
        self._goto(region, target)
        f.label(stay)
        self._goto(region, behind)

    def _table(self, scope: Scope, site: Site) -> Value:
        f = self.f
        targets = next(op for op in site.operands if isinstance(op, Target)).sites
        index = scope.read(site.operands[0], "u32")
        chosen = const(V32, site.index + 1)
        for i, target in enumerate(targets):
            here = f.compare("icmp eq", index, const(V32, i))
            chosen = f.select(here, const(V32, target), chosen)
        return chosen

    def _barrier(self, site: Site) -> None:
        """The whole warp waits at barrier 0; the scheduler counts."""
        f = self.f
        self.set_pcs(const(V32, site.index + 1))
        f.store(const(_V8, int(Status.BARRIER)), self.frame.status, 32)
        f.store(const("i32", site.index), self.per_row(Context.STANDING), 4)
        self.leave(Code.BARRIER)

    def _exit(self, active: Value | None) -> None:
        """An unguarded exit (guarded ones are stops): the region's lanes end."""
        f = self.f
        ended = const(_V8, int(Status.EXITED))
        mask = self.mask() if active is None else active
        if mask is not None:
            ended = f.select(mask, ended, f.load(_V8, self.frame.status, 32))
        f.store(ended, self.frame.status, 32)
        if self.masked:
            f.branch("dispatch")
        else:
            self.leave(Code.EXIT)


def _target(site: Site) -> int:
    return next(op for op in site.operands if isinstance(op, Target)).sites[0]
