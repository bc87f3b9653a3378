"""The warpgroups that multiply: wgmma over the slices of a tile, one group of them in flight.

    slice 0:   wait full;  4 k-steps, the first with scale-d = 0;           commit
    slice i:   wait full;  4 k-steps;  commit;  wait for slice i - 1;  release its stage
    last:      wait for it;  release

Between two groups of products the registers of the sums are never touched, so that ptxas leaves
the products asynchronous.
"""

from __future__ import annotations

from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.plan import SLICE
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor, Turns
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Mainloop", "swizzled_descriptor"]

Sums = list[list[Register]]
#: Bytes of a line that one instruction takes.
_STEP = 32


def swizzled_descriptor() -> int:
    """A K-major tile of 128-byte lines, 128B swizzle, but for its address: groups of 8 lines are
    1024 bytes apart."""
    leading, stride, swizzle = 1, 1024 >> 4, 1
    return leading << 16 | stride << 32 | swizzle << 62


class Mainloop:
    """One group's products; `group` is its number in the CTA."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers, shared: Register,
                 group: Register) -> None:
        self.b, self.problem, self.barriers = b, problem, barriers
        plan, row = problem.plan, problem.recipe
        self.cursor = Cursor(b, barriers)
        halves = row.accumulator == "f16"
        each = plan.tile[1] // (4 if halves else 2)
        self.sums: Sums = [b.regs(row.register, each) for _ in range(plan.blocks)]
        self.key, self.tail = row.key(plan.tile[1]), row.tail(plan.tile[1])
        self._descriptors(shared, group)
        self._releases()
        self.turns = Turns(b, barriers, group) if plan.schedule == "pingpong" else None

    def _descriptors(self, shared: Register, group: Register) -> None:
        """Of what wgmma takes from shared memory, in the first stage."""
        b, plan = self.b, self.problem.plan
        places = {}
        if not self.problem.loaded:
            places["a"] = shared
            if plan.schedule == "cooperative" and plan.groups > 1:
                places["a"] = b.mad_lo("u32", group, plan.group_rows * SLICE, shared)
        places["b"] = b.add("u32", shared, plan.a_bytes)
        self.descriptors = {
            name: b.or_("b64", b.cvt("u64.u32", b.shr("u32", place, 4)), swizzled_descriptor())
            for name, place in places.items()}

    def _releases(self) -> None:
        """Which thread arrives where: thread i of a group (of each warp, where warps read for
        themselves) at the barriers of CTA i."""
        b, plan = self.b, self.problem.plan
        thread = b.and_("b32", b.mov("u32", b.tid.x), 31 if self.problem.loaded else 127)
        self.releases = b.setp("lt", "u32", thread, plan.ctas)
        self.released = b.add("u32", self.barriers.base, self.barriers.empty_at)
        if plan.ctas > 1:
            which = b.min("u32", thread, plan.ctas - 1)
            own, self.released = self.released, b.reg("u32")
            b.emit("mapa.shared::cluster.u32", self.released, own, which)

    def release(self, stage: Register) -> None:
        """The stage may be filled again, as far as this group is concerned."""
        b = self.b
        place = b.mad_lo("u32", stage, 8, self.released)
        space = "cluster" if self.problem.plan.ctas > 1 else "cta"
        if self.problem.loaded:
            b.emit("bar.warp.sync", -1)
        with b.guard(self.releases):
            b.emit(f"mbarrier.arrive.shared::{space}.b64", b.sink, b.at(place))

    def tile(self, place: Place) -> None:
        """All slices of a tile; the sums are complete afterwards."""
        del place
        b, rounds = self.b, self.problem.slices - 1
        before = b.reg("u32")
        if self.turns is not None:
            self.turns.take()
        self._slice(before, first=True)
        if rounds:
            with b.loop(rounds, dtype="u32", unroll=False):
                self._next(before)
        if self.turns is not None:
            self.turns.give()
        self._finish(before)
        self.pass_over()

    def _next(self, before: Register) -> None:
        """A slice behind another, whose stage is released."""
        b, flight = self.b, self.problem.plan.flight
        if flight == 0:
            self._finish(before)
        held = b.mov("u32", before)
        self._slice(before, first=False)
        if flight == 1:
            b.emit("wgmma.wait_group.sync.aligned", 1)
            self.release(held)

    def arrived(self) -> None:
        """Wait until the cursor's stage may be multiplied."""
        if self.problem.shifted:
            self.cursor.wait_ready()
        else:
            self.cursor.wait_full()

    def pass_over(self) -> None:
        """A stage behind the last slice that only others have looked into."""
        if self.problem.copied_slices > self.problem.slices:
            self.arrived()
            self.release(self.cursor.stage)
            self.cursor.advance()

    def _finish(self, stage: Register) -> None:
        """All products are done."""
        self.b.emit("wgmma.wait_group.sync.aligned", 0)
        self.release(stage)

    def _slice(self, before: Register, *, first: bool) -> None:
        b, cursor = self.b, self.cursor
        self.arrived()
        b.emit("wgmma.fence.sync.aligned")
        a, right = self.operand("a"), self.operand("b")
        for step in range(self.problem.steps):
            for block, registers in enumerate(self.sums):
                self.multiply(registers, a, right, step, block, begins=first and step == 0)
        b.emit("wgmma.commit_group.sync.aligned")
        b.mov("u32", cursor.stage, out=before)
        cursor.advance()

    def operand(self, name: str) -> Register:
        """The descriptor of A or B in the cursor's stage."""
        stage = self.problem.plan.stage_bytes >> 4
        return self.b.mad_wide("u32", self.cursor.stage, stage, self.descriptors[name])

    def multiply(self, registers: list[Register], a: Register, right: Register, step: int,
                 block: int, *, column: int = 0, begins: bool = False) -> None:
        """One instruction: a k-step of an m64 block, from a column of the tile on."""
        b = self.b
        ahead = step * _STEP >> 4
        left = ahead + (block * 64 * SLICE >> 4)
        below = ahead + (column * SLICE >> 4)
        of_a = b.add("u64", a, left) if left else a
        of_b = b.add("u64", right, below) if below else right
        b.emit(self.key, registers, of_a, of_b, self._flag(again=not begins), *self.tail)

    def _flag(self, *, again: bool) -> Register:
        """scale-d: a predicate that is known when the kernel is written."""
        return self.b.setp("ne", "u32", self.b.mov("u32", int(again)), 0)
