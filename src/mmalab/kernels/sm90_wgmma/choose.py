"""Which plan for which sizes: a small rule, from measurements.

On one H200 (132 SMs, 700 W) the throughput of these kernels followed two numbers: how large a share
of the last wave of tiles lies inside C, and how good a tile is when all of it does. Large products
run at the power cap, where SMs that idle let the others clock higher: half of a loss comes back, so
the share counts by its square root. Products of less than about 0.15 ms do not reach the cap.

    score = weight(tile) x share ** (1/2 above 1e11 operations, else 1)

The weights are throughputs relative to the best algorithm of cublasLt at a share of one, fitted to
49 measurements of BF16 products (records/h200/gemm_search.json). Below K = 2048 (16-bit values)
each group has its own tile, because there the store of a tile takes as long as its products' tail;
up to 64 rows the product is a read of B (see `skinny`).

    >>> plan_for(8192, 8192, 8192, recipe("bf16"), "bf16").tile
    (256, 208)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma.plan import SLICE, Plan
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.recipe import Recipe

__all__ = ["plan_for", "split_for"]

#: Operations above which the power cap decides.
_CAPPED = 1e11
#: Slices of K below which groups take turns.
_SHORT = 32
_PINGPONG = (Plan((128, 192), 5, (2, 1), schedule="pingpong", band=4096),)
_COOPERATIVE = (
    (Plan((256, 208), 3, (1, 2)), 1.01),
    (Plan((256, 192), 4, (1, 2)), 1.00),
    (Plan((256, 160), 4, (1, 2)), 0.995),
    (Plan((128, 256), 4, (2, 1)), 0.993),
    (Plan((256, 176), 4, (1, 2)), 0.98),
    (Plan((256, 128), 4, (1, 2)), 0.98),
    (Plan((128, 192), 5, (2, 1)), 0.90),
    (Plan((128, 128), 6, (2, 1)), 0.80),
    (Plan((128, 128), 6), 0.78),
    (Plan((128, 64), 8), 0.55),
)
#: Partial sums take registers: tiles that have room for them, by what was measured.
_PROMOTED = (
    (Plan((128, 256), 4, (2, 1), part=128), 1.0),
    (Plan((256, 128), 4, (1, 2)), 0.98),
    (Plan((128, 128), 6, (2, 1)), 0.80),
    (Plan((128, 128), 6), 0.78),
    (Plan((128, 64), 8), 0.55),
)
#: Rows that threads gather, for a CTA of its own.
_GATHERED = (
    (Plan((256, 128), 4), 1.0),
    (Plan((128, 256), 4), 0.99),
    (Plan((128, 128), 6), 0.80),
    (Plan((128, 64), 8), 0.55),
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a plan is wanted for."""

    m: int
    n: int
    k: int
    recipe: Recipe
    out: str
    promote_every: int | None
    scaled: bool

    @property
    def gathered(self) -> bool:
        return self.k * self.recipe.bytes % 16 != 0

    def problem(self, plan: Plan) -> Problem:
        """The problem with a plan, and the best way out that it has."""
        return Problem(self.m, self.n, self.k, self.recipe, self.out,
                       replace(plan, store=self._store(plan)), self.promote_every, self.scaled)

    def _store(self, plan: Plan) -> str:
        size = isa.type_bits(self.out) // 8
        if not self.gathered and gcd(self.n, plan.tile[1] // plan.cluster[0]) % 16 == 0:
            return "permuted"
        if size == 2 and self.n % 8 == 0 and plan.tile[1] % 16 == 0 and plan.stages > 2:
            return "staged"
        return "direct"


def plan_for(m: int, n: int, k: int, recipe: Recipe, out: str, promote_every: int | None = None,
             *, scaled: bool = False) -> Plan:
    """The plan with the highest score.

    Raises:
        UsageError: no plan computes this product; the message is that of the last one tried.
    """
    wanted = _Wanted(m, n, k, recipe, out, promote_every, scaled)
    slices = -(-k * recipe.bytes // SLICE)
    rows: tuple[tuple[Plan, float], ...] = _COOPERATIVE
    if wanted.gathered:
        rows = _GATHERED
    elif promote_every is not None:
        rows = _PROMOTED
    elif slices < _SHORT and m * n >= 132 * 128 * 192:
        rows = tuple((plan, 1.0) for plan in _PINGPONG)
    best: tuple[float, Plan] | None = None
    refused: UsageError | None = None
    for plan, weight in rows:
        made = _made(wanted, plan)
        if isinstance(made, UsageError):
            refused = made
            continue
        score = weight * _share(made) ** (0.5 if 2 * m * n * k >= _CAPPED else 1.0)
        if best is None or score > best[0]:
            best = score, made.plan
    if best is None:
        raise refused or UsageError(f"{m} x {n} x {k}", "no plan computes it")
    return best[1]


def _made(wanted: _Wanted, plan: Plan) -> Problem | UsageError:
    """The problem; where C's staging leaves no room for the stages, with one or two less."""
    refused: UsageError | None = None
    for stages in range(plan.stages, max(plan.stages - 3, 1), -1):
        try:
            return wanted.problem(replace(plan, stages=stages))
        except UsageError as found:
            refused = refused or found
    return refused or UsageError(f"{plan}", "has no stages")


def _share(problem: Problem) -> float:
    """The share of all waves' tiles that lies inside C."""
    plan = problem.plan
    clusters = plan.sms // plan.ctas
    waves = -(-problem.work // clusters)
    return problem.m * problem.n / (waves * plan.sms * plan.tile[0] * plan.tile[1])


def split_for(n: int, slices: int, sms: int = 132) -> tuple[int, int, int]:
    """(split, depth, resident) of a skinny product: one CTA an SM, or all of them at a time."""
    tiles = -(-n // 64)
    if tiles > sms:
        return 1, 1, min(4, -(-tiles // sms))
    split = next((s for s in (8, 4, 2) if s <= slices and tiles * s <= sms), 1)
    return split, 2 if slices // split >= 16 else 1, 1
