"""Partial sums that are added up in IEEE FP32: the cure for FP8's 14-bit accumulators.

A slice is cut into units: so many k-steps of one m64 block and some of its columns. Each unit
starts from zero in registers of its own and is added to the sums when it is complete; with a
second set of registers the next one is in flight meanwhile::

    unit u:   fence;  products into part[u % 2];  commit;  wait for unit u - 1;  add part[1 - u % 2]

What one group does not hide is hidden by the other's products.

With block scales (one for 1 x 128 values of A, one for 128 x 128 of B) the addition is a fused
multiply-add by the product of both scales.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.mainloop import Mainloop
from mmalab.kernels.sm90_wgmma.order import Place
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.ring import Barriers
from mmalab.kernels.sm90_wgmma.scales import BlockScales
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Promoted"]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Products that share partial sums."""

    block: int
    column: int
    steps: range


class Promoted(Mainloop):
    """One group's products, added up every `problem.promote_every` values of K."""

    def __init__(self, b: KernelBuilder, problem: Problem, barriers: Barriers, shared: Register,
                 group: Register, scales: BlockScales | None = None) -> None:
        super().__init__(b, problem, barriers, shared, group)
        self.width = problem.plan.part_columns
        self.key, self.tail = problem.recipe.key(self.width), problem.recipe.tail(self.width)
        self.parts = [b.regs("f32", self.width // 2) for _ in range(problem.plan.parts)]
        self.scales = scales

    @property
    def _units(self) -> list[_Unit]:
        problem, plan = self.problem, self.problem.plan
        every = (problem.promote_every or problem.values) // problem.recipe.k
        return [_Unit(block, column, range(first, first + every))
                for first in range(0, problem.steps, every)
                for block in range(plan.blocks)
                for column in range(0, plan.tile[1], self.width)]

    def tile(self, place: Place) -> None:
        """All slices of a tile; the sums are complete afterwards."""
        b, problem = self.b, self.problem
        if self.scales is not None:
            self.scales.begin(place.m, place.n)
        for block in self.sums:
            for register in block:
                b.mov("f32", 0.0, out=register)
        if self.turns is not None:
            self.turns.take()
        with b.loop(problem.slices, dtype="u32", unroll=False):
            self._slice_units()
        if self.turns is not None:
            self.turns.give()
        self.pass_over()

    def _slice_units(self) -> None:
        """The units of one slice. None is in flight at the loop's edge: ptxas would serialise."""
        b, units = self.b, self._units
        self.arrived()
        if self.scales is not None:
            self.scales.next()
        a, right = self.operand("a"), self.operand("b")
        flight = len(self.parts)
        for number, unit in enumerate(units):
            self._start(unit, self.parts[number % flight], a, right)
            done = number - flight + 1
            if done >= 0 and number < len(units) - 1:
                b.emit("wgmma.wait_group.sync.aligned", flight - 1)
                self._add(units[done], self.parts[done % flight])
        for done in range(max(0, len(units) - flight), len(units)):
            b.emit("wgmma.wait_group.sync.aligned", len(units) - 1 - done)
            if done == len(units) - 1:
                self.release(self.cursor.stage)
            self._add(units[done], self.parts[done % flight])
        self.cursor.advance()

    def _start(self, unit: _Unit, part: list[Register], a: Register, right: Register) -> None:
        b = self.b
        b.emit("wgmma.fence.sync.aligned")
        for step in unit.steps:
            self.multiply(part, a, right, step, unit.block, column=unit.column,
                          begins=step == unit.steps[0])
        b.emit("wgmma.commit_group.sync.aligned")

    def _add(self, unit: _Unit, part: list[Register]) -> None:
        b = self.b
        at = unit.column // 2
        sums = self.sums[unit.block][at : at + len(part)]
        for i, (total, addend) in enumerate(zip(sums, part, strict=True)):
            if self.scales is None:
                b.add("rn.f32", total, addend, out=total)
            else:
                scale = self.scales.of(unit.block, i // 2 % 2, unit.column + i // 4 * 8)
                b.fma("rn.f32", addend, scale, total, out=total)
