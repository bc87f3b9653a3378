"""Which tile comes when: bands of rows, so that tiles computed at a time share operands in L2.

Within a band the row runs fastest, then the column; a band of 2,048 rows by as many columns as the
SMs reach is about square.

    >>> rows_of(64, 16)            # cluster tiles along M, of them in a band
    [16, 16, 16, 16]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Place", "band_rows", "emit_tile", "emit_tiles", "rows_of"]


def rows_of(tiles: int, band: int) -> list[int]:
    """Rows of cluster tiles in each band, the last perhaps with fewer."""
    return [min(band, tiles - at) for at in range(0, tiles, band)]


def band_rows(problem: Problem) -> int:
    """Cluster tiles in a band."""
    height = problem.plan.tile[0] * problem.plan.cluster[0]
    return max(1, min(problem.plan.band // height, problem.cluster_tiles[0]))


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
    band = band_rows(problem)
    number = b.div("u32", at, band * across)
    rest = b.sub("u32", at, b.mul_lo("u32", number, band * across))
    first = b.mul_lo("u32", number, band)
    if down % band:
        rows: Register | int = b.min("u32", b.sub("u32", b.mov("u32", down), first), band)
    else:
        rows = band
    column = b.div("u32", rest, rows)
    row = b.add("u32", first, b.sub("u32", rest, b.mul_lo("u32", column, rows)))
    m = b.mul_lo("u32", row, plan.tile[0] * plan.cluster[0])
    n = b.mul_lo("u32", column, plan.tile[1] * plan.cluster[1])
    if rank is not None and plan.cluster[0] > 1:
        m = b.mad_lo("u32", rank, plan.tile[0], m)
    if rank is not None and plan.cluster[1] > 1:
        n = b.mad_lo("u32", rank, plan.tile[1], n)
    return Place(m, n, which)


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
