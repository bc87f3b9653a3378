"""C = A B with mma.sync, cp.async and ldmatrix: the article's fast kernel, and its two cousins.

A block owns 128 x 128 of C, its warps 64 x 32 (or 64 x 64) each. K goes by in slices of 64 bytes.
While one slice is multiplied, cp.async fills the stages behind it::

    copy 0, copy 1                               (stages - 1 slices under way)
    for each slice t:  wait for its copies; barrier
                       ldmatrix ...; start copy t + stages - 1; mma ...

One barrier a slice is enough: the stage that slice t's copy overwrites was read in slice t - 1,
before the barrier. The loop body holds as many slices as there are stages, so that a stage is an
immediate offset; M, N and K are constants of the code, so that edges cost nothing where the tiles
divide. What is left per slice beside the 48 matrix and copy instructions is one barrier, one wait,
one commit and a share of the loop's counter and pointers.

    >>> kernel = gemm(256, 128, 64)
    >>> kernel.grid, kernel.block, kernel.dynamic_shared
    ((1, 2, 1), (256, 1, 1), 49152)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mmalab import isa
from mmalab.kernels.arguments import check_arrays
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm80_mma.accumulator import Accumulators
from mmalab.kernels.sm80_mma.operand import Operand
from mmalab.kernels.sm80_mma.problem import Problem, matrix_params
from mmalab.kernels.sm80_mma.recipe import recipe
from mmalab.kernels.sm80_mma.tile import LINES, tile
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel

__all__ = ["gemm"]


def gemm(m: int, n: int, k: int, dtype: str = "bf16", layout: str = "swizzled", stages: int = 3,
         warp_tile: tuple[int, int] = (64, 32), accumulate: str | None = None,
         promote_every: int | None = None) -> Kernel:
    """C = A x B^T: A is M x K, B is stored N x K, C is M x N, all row-major.

    Args:
        m, n, k: sizes, multiples of 8.
        dtype: bf16, f16, tf32, e4m3 (sm_89 and later) or s8.
        layout: of the shared tiles: swizzled, padded or plain.
        stages: slices of K in shared memory, 2 or more.
        warp_tile: rows and columns of C that a warp owns, (64, 32) or (64, 64).
        accumulate: f32 or f16, s32 for s8; None is f32 (s32). C has this type.
        promote_every: add partial sums of so many values of K in IEEE FP32, None for one chain.

    Raises:
        UsageError: sizes, types or choices that no such kernel has, with the nearest that have.
    """
    problem = Problem(m, n, k, recipe(dtype, accumulate), tile(layout, stages, warp_tile),
                      promote_every)
    name = _name(problem)
    params = matrix_params(m, n, k, problem.recipe)
    return Kernel(
        name=name,
        ptx=_Writer(problem, name).text(),
        entry=name,
        grid=problem.grid,
        block=(problem.tile.threads, 1, 1),
        params=params,
        target=problem.recipe.target,
        dynamic_shared=problem.tile.shared_bytes,
        reference=partial(matrix_product, family=problem.recipe.unit, k=problem.recipe.k,
                          promote_every=promote_every),
        validate=partial(check_arrays, name, params),
        facts=_facts(problem),
    )


def _name(problem: Problem) -> str:
    row, made = problem.recipe, problem.tile
    parts = ["gemm", row.dtype, row.accumulator, made.layout, f"{made.stages}stages",
             f"{made.warp_tile[0]}x{made.warp_tile[1]}"]
    if problem.promote_every:
        parts.append(f"promoted{problem.promote_every}")
    return "_".join((*parts, f"{problem.m}x{problem.n}x{problem.k}"))


def _facts(problem: Problem) -> Mapping[str, Any]:
    made, row = problem.tile, problem.recipe
    return {
        "tile": (LINES, LINES, problem.values),
        "warp_tile": made.warp_tile,
        "stages": made.stages,
        "layout": made.layout,
        "swizzle": str(made.swizzle) if made.swizzle else None,
        "shared_layout": str(made.shared),
        "shared_bytes": made.shared_bytes,
        "instruction": row.key,
        "unit": row.unit,
        "instruction_k": row.k,
        "promote_every": problem.promote_every,
        "slices": problem.slices,
        "slices_per_iteration": problem.unroll,
        "flops": 2 * problem.m * problem.n * problem.k,
    }


class _Writer:
    """Writes the kernel of one problem."""

    def __init__(self, problem: Problem, name: str) -> None:
        self.problem = problem
        version = max((7, 8), problem.recipe.form.ptx)
        self.b = KernelBuilder(name, target=problem.recipe.target, version=version,
                               arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b, problem = self.b, self.problem
        parameters = [b.param(name, "u64") for name in ("a", "b", "c")]
        b.reqntid(problem.tile.threads)
        b.minnctapersm(problem.blocks_per_sm)
        a, b_, self.c = (b.cvta("to.global.u64", b.load_param(p)) for p in parameters)
        shared = b.mov("u32", b.dynamic_shared(align=1024))
        self.operands = (Operand(b, problem, "A", a, shared), Operand(b, problem, "B", b_, shared))
        self.at = 0
        self._fill()
        for operand in self.operands:
            operand.prepare()
        self.sums = Accumulators(b, problem)
        self._loop()
        for at in range(self.at, problem.slices):
            self._slice(at)
        self.sums.store(self.c)
        b.emit("ret")
        return b.text()

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
