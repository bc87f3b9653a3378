"""The article's pipeline: stages of slices, one barrier a slice.

    copy 0, copy 1                               (stages - 1 slices under way)
    for each slice t:  wait for its copies; barrier
                       ldmatrix ...; start copy t + stages - 1; mma ...
"""

from __future__ import annotations

from mmalab import isa
from mmalab.kernels.sm80_mma.accumulator import Accumulators
from mmalab.kernels.sm80_mma.operand import Operand
from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Pipeline"]


class Pipeline:
    """Writes the kernel of one problem."""

    def __init__(self, problem: Problem, name: str) -> None:
        self.problem = problem
        version = max((7, 8), problem.recipe.form.ptx)
        self.b = KernelBuilder(name, target=problem.target, version=version,
                               arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b, problem = self.b, self.problem
        parameters = [b.param(name, "u64") for name in ("a", "b", "c")]
        b.reqntid(problem.tile.threads)
        b.minnctapersm(problem.blocks_per_sm)
        a, b_, self.c = (b.cvta("to.global.u64", b.load_param(p)) for p in parameters)
        shared = b.mov("u32", b.dynamic_shared(align=1024))
        blocks = self._blocks()
        row, column = blocks or (None, None)
        self.operands = (Operand(b, problem, "A", a, shared, row),
                         Operand(b, problem, "B", b_, shared, column))
        self.at = 0
        self._fill()
        self._prepare()
        self._loop()
        for at in range(self.at, problem.slices):
            self._slice(at)
        self.sums.store(self.c, blocks)
        b.emit("ret")
        return b.text()

    def _blocks(self) -> tuple[Register, Register] | None:
        """The numbers of the block's tile along M and N; None: as it lies in the grid."""
        return None

    def _prepare(self) -> None:
        """What the slices need in registers."""
        for operand in self.operands:
            operand.prepare()
        self.sums = Accumulators(self.b, self.problem)

    def _fill(self) -> None:
        """Start all stages but one."""
        self._start(range(min(self.problem.tile.stages - 1, self.problem.slices)))

    def _loop(self) -> None:
        """The slices whose code is the same, round after round."""
        problem = self.problem
        whole = problem.slices - problem.edges[2]
        rounds = max(0, whole - problem.tile.stages + 1) // problem.unroll
        if rounds < 2:
            return
        with self.b.loop(rounds, unroll=False):
            for at in range(problem.unroll):
                self._slice(at)
            for operand in self.operands:
                operand.advance(problem.unroll)
        self.at = rounds * problem.unroll

    def _slice(self, at: int) -> None:
        """Wait for slice `at`, read it, start a copy behind it, multiply."""
        problem, stages = self.problem, self.problem.tile.stages
        ahead = at + stages - 1
        # Copies of later slices may be under way; this one's may not.
        self.b.emit("cp.async.wait_group", min(stages - 2, problem.slices - 1 - at))
        self.b.emit("bar.sync", 0)
        multiply = (self._multiply_promoted if problem.promote_every and not
                    problem.promotes_across else self._multiply)
        multiply(at, range(ahead, min(ahead + 1, problem.slices)))

    def _start(self, copies: range) -> None:
        """Start the copies of some slices, a group for each."""
        for at in copies:
            for operand in self.operands:
                operand.copy(at, at - self.at, at % self.problem.tile.stages)
            self.b.emit("cp.async.commit_group")

    def _multiply(self, at: int, copies: range) -> None:
        """The k-steps of a slice, the next one's fragments read before they are needed."""
        stage, steps = at % self.problem.tile.stages, self.problem.steps_of(at)
        ready = [operand.read_all(stage, 0) for operand in self.operands]
        self._start(copies)
        for step in steps:
            a, b = ready
            if step + 1 in steps:
                ready = [operand.read_all(stage, step + 1) for operand in self.operands]
            self.sums.multiply(at, step, a, b)

    def _multiply_promoted(self, at: int, copies: range) -> None:
        """All k-steps of one output after the other; A is read when its turn comes."""
        stage, steps = at % self.problem.tile.stages, self.problem.steps_of(at)
        left, right = self.operands
        self._start(copies)
        b = {step: right.read_all(stage, step) for step in steps}
        for number in left.reads:
            a = {step: left.read(stage, step, number)[0] for step in steps}
            self.sums.multiply_promoted(at, number, a, b)
