"""Which part of which tile comes when: tile after tile, or so that all SMs end together.

512 tiles on 132 SMs are four waves, the last of which leaves 16 SMs idle: 3 % of the time. With
``waves="even"`` the tiles of the last two waves are one row of slices of K, and every SM takes a
stretch of the same length. What it gets of its first and last tile it takes in this order::

    slices of the last two waves   |  tile 2    |  tile 3    |  tile 4    |
    the SM's stretch                       [.................)
    takes                                    3rd     2nd   1st

The first slices of a tile are somebody's first work, the rest is the next SM's last: by then the
sums of the first lie in C, from where the others go on. So every sum is still added in the order of
k, and nobody waits long. An SM waits for the one before it only, which began earlier: no two need
to run at a time.

    >>> from mmalab.kernels.sm80_mma.gemm import gemm
    >>> gemm(512, 384, 1024, copy="tma", sms=4, waves="even").facts["waves"]   # 6 tiles, 4 SMs
    'even'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["HandOver", "Piece", "emit_pieces"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Slices of one tile. `takes` and `gives` say whether the slices before and behind them are
    somebody else's; None: all slices are here."""

    tile: Register
    first: Register | int
    count: Register | int
    takes: Register | None = None
    gives: Register | None = None


@contextmanager
def emit_pieces(b: KernelBuilder, problem: Problem) -> Iterator[Piece]:
    """A loop over the block's pieces."""
    block = b.mov("u32", b.ctaid.x)
    if not problem.even:
        with b.loop(problem.tiles[0] * problem.tiles[1], block, problem.grid[0], dtype="u32",
                    unroll=False) as tile:
            yield Piece(tile, 0, problem.slices)
        return
    slices, blocks, whole = problem.slices, problem.grid[0], problem.whole_waves
    shared = problem.tiles[0] * problem.tiles[1] * slices - whole * blocks * slices
    behind = whole * blocks * slices
    start, stop = (b.add("u32", b.div("u32", b.mul_lo("u32", number, shared), blocks), behind)
                   for number in (block, b.add("u32", block, 1)))
    up = b.mul_lo("u32", b.div("u32", b.add("u32", start, slices - 1), slices), slices)
    down = b.mul_lo("u32", b.div("u32", stop, slices), slices)
    between = b.min("u32", b.add("u32", up, slices), down)
    with b.loop(whole + 4, dtype="u32", unroll=False) as turn:
        begin = b.mul_lo("u32", b.mad_lo("u32", turn, blocks, block), slices)
        end = b.add("u32", begin, slices)
        for at, (own_begin, own_end) in enumerate(
                ((down, stop), (up, between), (between, down), (start, up)), whole):
            here = b.setp("eq", "u32", turn, at)
            begin = b.selp("b32", own_begin, begin, here)
            end = b.selp("b32", own_end, end, here)
        count = b.sub("u32", end, begin)
        with b.when(b.setp("ne", "u32", count, 0)):
            tile = b.div("u32", begin, slices)
            first = b.sub("u32", begin, b.mul_lo("u32", tile, slices))
            yield Piece(tile, first, count, b.setp("ne", "u32", first, 0),
                        b.setp("ne", "u32", b.add("u32", first, count), slices))


class HandOver:
    """Tells the next block that a warp's sums lie in C: one word for each warp of each block, zero
    between launches."""

    def __init__(self, b: KernelBuilder, problem: Problem, words: Register, lane: Register) -> None:
        self.b, self.lane = b, lane
        self.leads = b.setp("eq", "u32", lane, 0)
        warps = problem.tile.threads // 32
        warp = b.shr("u32", b.mov("u32", b.tid.x), 5)
        number = b.mad_lo("u32", b.mov("u32", b.ctaid.x), warps, warp)
        self.own = b.mad_wide("u32", number, 4, words)
        self._before = 4 * warps

    def give(self) -> None:
        """What the warp has written is the next block's to read."""
        b = self.b
        b.emit("bar.warp.sync", -1)
        with b.guard(self.leads):
            b.emit("st.release.gpu.global.u32", b.at(self.own), 1)

    def take(self) -> None:
        """Wait for the warp of the same number of the block before, and clear its word."""
        b = self.b
        again, seen = b.label("taking"), b.reg("u32")
        word = b.at(b.sub("s64", self.own, self._before))
        b.place(again)
        b.emit("ld.acquire.gpu.global.u32", seen, word)
        b.branch(again, b.setp("eq", "u32", seen, 0))
        b.emit("bar.warp.sync", -1)
        with b.guard(self.leads):
            b.emit("st.relaxed.gpu.global.u32", word, 0)
