"""Which tile a cluster computes when: in bands (see `mmalab.kernels.bands`), matrix by matrix.

Where both operands come through windows every other band goes from the last column to the first,
for the columns where a band ends are still in B's window, and need not be copied again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mmalab.kernels.bands import emit_in_bands
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Place", "emit_tile", "emit_tiles", "turned"]


@dataclass(frozen=True, slots=True)
class Place:
    """A tile: its first row and column of C, and of a batch which C (None: there is one)."""

    m: Register
    n: Register
    which: Register | None = None

    def line(self, b: KernelBuilder, first: Register, each: int) -> Register:
        """A row of the `which`-th matrix of `each` rows, counted over all of them."""
        return first if self.which is None else b.mad_lo("u32", self.which, each, first)


def emit_tile(b: KernelBuilder, problem: Problem, at: Register, rank: Register | None) -> Place:
    """Where tile number `at` lies, for the CTA of this rank in its cluster.

    `rank` None means that there are no clusters.
    """
    plan = problem.plan
    down, across = problem.cluster_tiles
    which = None
    if problem.batch > 1:
        which = b.div("u32", at, down * across)
        at = b.sub("u32", at, b.mul_lo("u32", which, down * across))
    row, column = emit_in_bands(b, at, down, across, problem.band_rows)
    if problem.windowed:
        column = turned(b, b.div("u32", row, problem.band_rows), column, across)
    m = b.mul_lo("u32", row, plan.tile[0] * plan.cluster[0])
    n = b.mul_lo("u32", column, plan.tile[1] * plan.cluster[1])
    if rank is not None and plan.cluster[0] > 1:
        m = b.mad_lo("u32", rank, plan.tile[0], m)
    if rank is not None and plan.cluster[1] > 1:
        n = b.mad_lo("u32", rank, plan.tile[1], n)
    return Place(m, n, which)


def turned(b: KernelBuilder, band: Register, column: Register, across: int) -> Register:
    """The column that comes `column`-th in a band which turns round, or when that column comes."""
    odd = b.setp("ne", "u32", b.and_("b32", band, 1), 0)
    return b.selp("b32", b.sub("u32", b.mov("u32", across - 1), column), column, odd)


@contextmanager
def emit_tiles(b: KernelBuilder, problem: Problem, cluster: Register, rank: Register | None,
               first: Register | None = None, every: int = 1) -> Iterator[Place]:
    """A loop over the tiles of `cluster`; in turns, from the `first`-th each `every`-th."""
    if not problem.plan.persistent and every == 1:
        yield emit_tile(b, problem, cluster, rank)
        return
    start = cluster if first is None else b.mad_lo("u32", first, problem.clusters, cluster)
    with b.loop(problem.work, start, problem.clusters * every, dtype="u32", unroll=False) as tile:
        yield emit_tile(b, problem, tile, rank)
