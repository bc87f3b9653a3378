"""How a program is cut for compilation, and at which sites compiled code stops.

A *region* is a run of sites that control enters only at the top: cut at branches and their targets,
around every stop (a site that the NumPy executors do: no code generator, barriers, traps), and, for
divergent warps, around every collective, because there lanes may have to wait for each other. Full
warps run the coarse cut, divergent ones the fine one. A program counter is a site number, so both
cuts, and the interpreter, understand it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mmalab.emulator.program import Program, Site

__all__ = ["COLLECTIVES", "Region", "cut", "is_branch", "is_collective", "is_exit"]

_BRANCHES = frozenset({"bra", "brx.idx"})
COLLECTIVES = frozenset({
    "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync", "bar.warp.sync",
    "mma.sync", "mma.sp", "wmma.load", "wmma.store", "wmma.mma", "ldmatrix", "stmatrix",
    "movmatrix",
})


def is_collective(site: Site) -> bool:
    """Whether lanes execute the site together and may have to wait for each other."""
    return site.form.family in COLLECTIVES


def is_branch(site: Site) -> bool:
    """Whether control may go elsewhere than to the next site."""
    return site.form.family in _BRANCHES


def is_exit(site: Site) -> bool:
    """Whether lanes end here."""
    return site.form.family in ("exit", "ret")


@dataclass(frozen=True, slots=True)
class Region:
    """Sites [start, stop); `number` counts regions of one cut."""

    number: int
    start: int
    stop: int


def cut(program: Program, stops: AbstractSet[int], *, fine: bool) -> tuple[Region, ...]:
    """Cut `program`; `stops` are sites that compiled code leaves to Python."""
    starts = {0} | {block.start for block in program.blocks}
    for site in program.sites:
        around = site.index in stops or (fine and is_collective(site))
        if around:
            starts.add(site.index)
        if around or is_branch(site) or is_exit(site):
            starts.add(site.index + 1)
    ordered = sorted(s for s in starts if s < len(program.sites))
    ends = [*ordered[1:], len(program.sites)]
    return tuple(
        Region(i, start, stop) for i, (start, stop) in enumerate(zip(ordered, ends, strict=True))
    )
