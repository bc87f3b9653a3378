"""Which plan for which sizes: the one that a small model of the chip's clocks finds shortest.

A CTA computes its tiles one after the other. A tile takes its products, 1/32 clock for each element
of C and slice of K, stretched where the tile asks for more than the SMs' share of L2, and the end
that no products of another tile hide. The last wave of tiles is mostly not full. Small products
wait for it; large ones run at the power cap, where SMs that idle let the others clock higher, so
that a quarter of what is lost comes back, up to 9 %::

    clocks = (slices x rows x columns / 32 / efficiency + end) x whole / (whole / waves) ** 1/4

The constants are fitted to measurements on one H200 (records/h200/plans, gemm_search.json):

================  ==================================================================================
57 B/clk          what TMA brings to each of 132 SMs from L2, where SMs read the same lines at about
                  the same time: 128 x 144 tiles without clusters ask for 60 and lose 1 %; threads
                  that gather bring 22, fewer SMs up to 98 each
0.993, 0.99       128 rows in clusters, which wait for each other; 256 rows in none
1.03, 1.02        256 rows by 208 columns, by 192: fewer waits for each product
0.985             128 columns of 256 rows: 96 B/clk of shared memory for each group
0.964 to 1        128 rows by up to 144, to 256 columns: the same, of large products whose sums are
                  not promoted
0.937 to 0.977    groups that take turns, with 128 to 192 columns
1200, 2000, 3200  clocks at the end of a tile: 128 rows, 256 rows, 256 rows with three stages
400               the same when groups take turns
================  ==================================================================================

Of 110 recorded plans, none in clusters of four, 99 are within 3 % of it up to their product's
clock, the worst is 8 % off; a test holds it to nine in ten of those that are recorded.
Where lines are shifted (see `shift`) shared memory is the limit, and the model its traffic: what
wgmma reads, TMA writes and threads read and write, 128 bytes a clock.
Up to 64 rows the product is a read of B instead (see `skinny`), and up to 256 where K is long and
that takes fewer clocks, because K can be split.

    >>> from mmalab.kernels.sm90_wgmma.recipe import recipe
    >>> plan_for(Wanted(8192, 8192, 8192, recipe("bf16"), "bf16")).tile
    (256, 208)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma.plan import MOST_SHARED, SLICE, Plan
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.recipe import Recipe
from mmalab.kernels.sm90_wgmma.skinny_shape import LINES, MOST_ROWS

__all__ = ["Wanted", "clocks", "is_skinny", "plan_for", "skinny_clocks", "split_for"]

#: Operations from which the power cap decides, and how much faster SMs may run while others idle.
_CAPPED, _FASTER = 2e10, 1.09
#: Bytes of a clock that L2 gives each SM when all ask, the same when they ask for lines of each
#: other's, by threads, and one SM alone.
_L2, _L2_TOGETHER, _L2_GATHERED, _L2_ALONE = 48.0, 57.0, 22.0, 98.0
#: Bytes of a clock that DRAM gives each SM, when all ask.
_DRAM = 19.5
#: Clocks that a word of C takes longer at a tile's end than half a one.
_WORDS = 0.08
#: Clocks until the first products, and those of sums that change hands within a cluster.
_START, _REDUCTION = 2500, 1500
#: Rows of A up to which B's bytes are all that counts.
_ALWAYS = 64
#: Bytes of a row from which splitting K is considered.
_LONG = 4096
#: Most stages: more do not help; and how many copies by threads need.
_STAGES, _FEW = 8, 4
_TURNS = "pingpong"
#: Efficiency of tiles of 256 rows by columns, 1 for others.
_HIGH = {128: 0.985, 192: 1.02, 208: 1.03}


def _candidates() -> Iterator[Plan]:
    for columns in (208, 192, 176, 160, 128):
        yield Plan((256, columns), _STAGES, (1, 2))
        yield Plan((256, columns), _STAGES)
    for columns in (256, 224, 208, 192, 176, 160, 144, 128, 96, 64):
        yield Plan((128, columns), _STAGES)
        yield Plan((128, columns), _STAGES, (2, 1))
    for columns in (192, 176, 160, 128):
        yield Plan((128, columns), _STAGES, (2, 1), schedule=_TURNS, band=4096)
    yield Plan((128, 144), _STAGES, (1, 2), schedule=_TURNS)


#: Partial sums take registers: tiles that have room for them.
_PROMOTED = (Plan((256, 128), _STAGES, (1, 2)), Plan((128, 256), _STAGES, (2, 1), part=128),
             Plan((128, 192), _STAGES, (2, 1), part=96, parts=2),
             Plan((128, 128), _STAGES, (2, 1)), Plan((128, 128), _STAGES), Plan((128, 64), _STAGES))
#: Lines that are shifted, A's loaded where that is possible: shared memory has the more to do the
#: smaller the tile.
_SHIFTED = tuple(Plan((rows, columns), _STAGES, cluster, flight=0, copy="shifted", left=left)
                 for rows, columns in ((256, 192), (256, 160), (256, 128), (128, 192), (128, 128),
                                       (128, 64))
                 for cluster in ((1, 2), (1, 1)) for left in ("registers", "shared"))
#: Threads gather for their own CTA, and leave fewer registers.
_GATHERED = tuple(Plan((rows, columns), _STAGES, flight=0)
                  for rows, columns in ((256, 192), (256, 160), (256, 128), (128, 256), (128, 192),
                                        (128, 128), (128, 64)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a plan is wanted for: a Problem without one."""

    m: int
    n: int
    k: int
    recipe: Recipe
    out: str
    promote_every: int | None = None
    scaled: bool = False
    batch: int = 1
    experts: int = 0

    @property
    def unaligned(self) -> bool:
        """Whether rows of A and B are no multiples of 16 bytes."""
        return self.k * self.recipe.bytes % 16 != 0

    def fitted(self, plan: Plan) -> Problem:
        """The problem with the plan's best way out, and as many stages as fit (`plan` has most)."""
        size = isa.type_bits(self.out) // 8
        made = replace(plan, **self._store(plan))
        room = MOST_SHARED - made.shared_bytes(size) + made.stages * made.stage_bytes
        stages = min(plan.stages, room // made.stage_bytes)
        return Problem(self.m, self.n, self.k, self.recipe, self.out,
                       replace(made, stages=max(stages, 1)), self.promote_every, self.scaled,
                       self.batch, self.experts)

    def _store(self, plan: Plan) -> dict[str, Any]:
        size, columns = isa.type_bits(self.out) // 8, plan.tile[1]
        staged = size == 2 and self.n % 8 == 0 and columns % 16 == 0
        if plan.schedule == _TURNS and staged and columns % (SLICE // size) == 0:
            return {"store": "staged", "panels": 1}  # whole lines, and nobody waits for them
        copied = not self.unaligned or plan.copy == "shifted"
        if copied and gcd(self.n, columns) % 16 == 0:
            return {"store": "permuted"}
        if not staged:
            return {"store": "direct"}
        shared = replace(plan, store="staged").shared_bytes(size)
        left = (MOST_SHARED - shared) // plan.stage_bytes + plan.stages
        # Threads that gather need the stages more than C needs to be staged.
        return {"store": "direct" if self.unaligned and left < _FEW else "staged"}


def plan_for(wanted: Wanted) -> Plan:
    """The plan with the fewest clocks.

    Raises:
        UsageError: no plan computes this product; the message is that of the first one tried.
    """
    plans = ((*_GATHERED, *_SHIFTED) if wanted.unaligned else
             _PROMOTED if wanted.promote_every is not None else tuple(_candidates()))
    found: list[Problem] = []
    refused: list[UsageError] = []
    for plan in plans:
        try:
            found.append(wanted.fitted(plan))
        except UsageError as words:
            refused.append(words)
    if not found:
        raise refused[0]
    return min(found, key=clocks).plan


def clocks(problem: Problem) -> float:
    """The model's clocks of a product."""
    plan = problem.plan
    rows, columns = plan.tile
    tile = problem.slices * rows * columns / 32 / _efficiency(problem) + _end(problem)
    waves = problem.work * plan.ctas / plan.sms
    whole = -(-problem.work // (plan.sms // plan.ctas))
    return tile * whole / (min((whole / waves) ** 0.25, _FASTER) if _capped(problem) else 1.0)


def _capped(problem: Problem) -> bool:
    return 2 * problem.m * problem.n * problem.k * problem.batch >= _CAPPED


def _efficiency(problem: Problem) -> float:
    """Of the tensor cores' clocks, within a tile."""
    plan = problem.plan
    rows, columns = plan.tile
    filled = (rows / plan.cluster[1] + columns / plan.cluster[0]) * SLICE
    share = _L2_GATHERED if problem.gathered else _L2 if problem.shifted else _L2_TOGETHER
    share = min(_L2_ALONE, share * plan.sms / min(plan.sms, problem.work * plan.ctas))
    found = min(1.0, share * rows * columns / 32 / filled)
    if problem.shifted:
        found = min(found, rows * columns / 32 / problem.shared_clocks)
    if plan.schedule == _TURNS:
        return found * (0.937 + 0.04 * (columns - 128) / 64)
    if rows == 256:
        found *= _HIGH.get(columns, 1.0)
        return found * (0.99 if plan.ctas == 1 else 1.0)
    if _capped(problem) and problem.promote_every is None and problem.copy == "tma":
        found *= 0.964 + 0.036 * max(columns - 144, 0) / 112
    return found * (0.993 if plan.ctas > 1 else 1.0)


def _end(problem: Problem) -> float:
    """Clocks at the end of a tile; words of C take longer to store than halves (4,829 clocks of a
    tile of 128 x 256, not 2,276: records/h200/mma_sync_causes.json)."""
    plan = problem.plan
    words = _WORDS * plan.tile[0] * plan.tile[1] if problem.out_bytes == 4 else 0
    if plan.schedule == _TURNS:
        return words + 400
    return words + (1200 if plan.tile[0] == 128 else 2000 if plan.stages > 3 else 3200)


def split_for(n: int, slices: int, sms: int = 132) -> tuple[int, int, int]:
    """(split, depth, resident) of a skinny product: one CTA an SM, at a time or after each other.

    With 448 tiles, four CTAs an SM at a time took 120 us, one after the other 107 (measured).
    """
    tiles = -(-n // LINES)
    split = next((s for s in (8, 4, 2) if s <= slices and tiles * s <= sms), 1)
    return split, 2 if slices // split >= 16 else 1, 1


def is_skinny(wanted: Wanted) -> bool:
    """Whether a skinny kernel computes it, and sooner: always up to 64 rows, up to 256 where the
    model says so (few tiles, long K)."""
    if (wanted.m > MOST_ROWS or wanted.unaligned or wanted.recipe.accumulator == "f16"
            or wanted.promote_every is not None or wanted.batch > 1 or wanted.experts):
        return False
    if wanted.m <= _ALWAYS:
        return True
    if wanted.k * wanted.recipe.bytes < _LONG:
        return False
    plan = plan_for(wanted)
    return skinny_clocks(wanted) < _START + clocks(wanted.fitted(plan))


def skinny_clocks(wanted: Wanted) -> float:
    """The model's clocks of a skinny product: the slowest of tensor cores, L2 and DRAM."""
    columns = -(-wanted.m // 8) * 8
    slices = -(-wanted.k * wanted.recipe.bytes // SLICE)
    split, _, _ = split_for(wanted.n, slices)
    sms = Plan().sms
    ctas = -(-wanted.n // LINES) * split
    active = min(ctas, sms)
    each = max(2 * columns,
               (LINES + columns) * SLICE / min(_L2_ALONE, _L2 * sms / active),
               LINES * SLICE / min(_L2_ALONE, _DRAM * sms / active))
    waves = max(1.0, ctas / sms)
    return _START + (_REDUCTION if split > 1 else 0) + waves * -(-slices // split) * each
