"""The pipeline for blocks that fill an SM: fragments are carried from one slice into the next.

The article's pipeline reads a slice's first fragments behind its barrier, and until they arrive
nobody multiplies; a second block on the SM hides that. A block of 256 x 128 has the SM to itself::

    fill stages - 1 slices;  wait for slice 0;  barrier;  ldmatrix of its first k-step
    for each slice t:
        for each k-step:   ldmatrix of the k-step behind it  |  the products of this one
                           cp.async of slice t + stages - 1  |
        in the last one:   wait for slice t + 1;  barrier;  the k-step behind it is t + 1's first

What a k-step needs was read under the products of the one before, across the barrier too. Two sets
of fragments take turns; a slice has an even number of k-steps, so that every turn of the loop finds
them as the first did.

What such a block asks of the SM, by arithmetic, for 256 x 128 of C, 64 x 64 a warp, bf16 on an
H200 (2730 operations a clock): 384 clocks for 16 values of K, in which 12 KB come from L2 (32 bytes
a clock; 128 x 128 needs 43) and 64 ldmatrix.x4 take 256 clocks of shared memory.

Blocks are numbered in bands of rows (see `mmalab.kernels.bands`). B's lines are dealt out on their
way, so that a thread stores 16 bytes of C at once (see `Problem.deal`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mmalab.kernels.bands import emit_in_bands
from mmalab.kernels.sm80_mma.accumulator import Accumulators
from mmalab.kernels.sm80_mma.operand import Fragments
from mmalab.kernels.sm80_mma.pipeline import Pipeline
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Carried", "FragmentSets"]

Write = Callable[[], None]


class FragmentSets:
    """Two sets of fragments of both operands: one is multiplied while the other is read."""

    def __init__(self, b: KernelBuilder, operands: Sequence[Fragments],
                 sums: Accumulators) -> None:
        self.b, self.operands, self.sums = b, operands, sums
        self._sets = [[[b.regs("b32", 4) for _ in operand.reads] for operand in operands]
                      for _ in range(2)]
        self._turn = 0

    def reads(self, stage: int | Register, step: int) -> list[Write]:
        """The ldmatrix instructions that fill the set whose turn is next."""
        ahead = self._sets[1 - self._turn]
        return [lambda operand=operand, number=number, four=fours[number]: (  # type: ignore[misc]
                    operand.read_into(four, stage, step, number))
                for operand, fours in reversed([*zip(self.operands, ahead, strict=True)])
                for number in operand.reads]

    def begin(self, stage: int | Register, step: int = 0) -> None:
        """Read the first k-step, under nothing."""
        for read in self.reads(stage, step):
            read()
        self._turn = 1 - self._turn

    def current(self) -> tuple[list[list[Register]], ...]:
        """The fragments of A and of B in the set whose turn it is."""
        return tuple(operand.fragments(fours) for operand, fours in zip(
            self.operands, self._sets[self._turn], strict=True))

    def multiply(self, others: Sequence[Write]) -> None:
        """The products of the set whose turn it is, `others` spread among them; then the other
        set's turn comes."""
        a, b = self.current()
        places = self.sums.places_in_turns()
        for number, (i, j) in enumerate(places):
            for at in range(len(others) * number // len(places),
                            len(others) * (number + 1) // len(places)):
                others[at]()
            self.sums.multiply_one(i, j, a[i], b[j])
        self._turn = 1 - self._turn


class Carried(Pipeline):
    """Writes the kernel of one problem."""

    def _blocks(self) -> tuple[Register, Register] | None:
        problem = self.problem
        return emit_in_bands(self.b, self.b.mov("u32", self.b.ctaid.x), *problem.tiles,
                             problem.band_rows)

    def _prepare(self) -> None:
        super()._prepare()
        if self.problem.promote_every:
            return
        self.sets = FragmentSets(self.b, self.operands, self.sums)
        self._arrived(0)
        self.sets.begin(0)

    def _arrived(self, at: int) -> None:
        """Slice `at` is there, for everybody; of what was started, later slices may be missing."""
        problem = self.problem
        self.b.emit("cp.async.wait_group",
                    min(problem.tile.stages - 2, problem.slices - 1 - at))
        self.b.emit("bar.sync", 0)

    def _slice(self, at: int) -> None:
        """Multiply slice `at`, start a copy behind it, read the first k-step of the next."""
        problem, stages = self.problem, self.problem.tile.stages
        if problem.promote_every:  # partial sums take the registers of the second set
            super()._slice(at)
            return
        steps, ahead = problem.steps_of(at), at + stages - 1
        copies = self._starts(ahead) if ahead < problem.slices else []
        early = max(1, len(steps) - 1)
        for number, step in enumerate(steps):
            others: list[Write] = []
            if step != steps[-1]:
                others += self.sets.reads(at % stages, step + 1)
            elif at + 1 < problem.slices:
                self._arrived(at + 1)
                others += self.sets.reads((at + 1) % stages, 0)
            if number < early:
                others += copies[len(copies) * number // early :
                                 len(copies) * (number + 1) // early]
            self.sets.multiply(others)
            if number == early - 1 and copies:
                self.b.emit("cp.async.commit_group")

    def _starts(self, at: int) -> list[Write]:
        return [start for operand in self.operands
                for start in operand.starts(at, at - self.at, at % self.problem.tile.stages)]
