"""How a program is cut for compilation, and at which sites compiled code stops.

A *region* is a run of sites that control enters only at the top: cut at branches and their targets
and around every stop (a site that the NumPy executors do: no code generator, a trap, a collective of
a divergent warp). Full and divergent warps have different stops, hence a cut each. A program counter
is a site number, so both cuts, and the interpreter, understand it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mmalab.emulator.liveness import live_slots
from mmalab.emulator.program import BasicBlock, Imm, Program, Site, Target

__all__ = ["Key", "Region", "cut", "is_branch", "is_cta_barrier", "is_exit", "live_after"]

#: A slot: (file, number).
Key = tuple[str, int]

_BRANCHES = frozenset({"bra", "brx.idx"})


def is_branch(site: Site) -> bool:
    """Whether control may go elsewhere than to the next site."""
    return site.form.family in _BRANCHES


def is_exit(site: Site) -> bool:
    """Whether lanes end here."""
    return site.form.family in ("exit", "ret")


def is_cta_barrier(site: Site) -> bool:
    """``bar.sync 0;`` by the whole CTA, which the compiled scheduler completes by itself."""
    ops = site.operands
    return (
        site.form.family == "bar.sync" and site.guard is None and len(ops) == 1
        and isinstance(ops[0], Imm) and ops[0].word == 0
    )


@dataclass(frozen=True, slots=True)
class Region:
    """Sites [start, stop); `number` counts regions of one cut."""

    number: int
    start: int
    stop: int


def cut(program: Program, stops: AbstractSet[int]) -> tuple[Region, ...]:
    """Cut `program`; `stops` are sites that compiled code leaves to Python."""
    starts = {0} | {block.start for block in program.blocks}
    for site in program.sites:
        if site.index in stops:
            starts.add(site.index)
        ends = is_branch(site) or is_exit(site) or is_cta_barrier(site)
        if ends or site.index in stops:
            starts.add(site.index + 1)
    ordered = sorted(s for s in starts if s < len(program.sites))
    ends_at = [*ordered[1:], len(program.sites)]
    return tuple(
        Region(i, start, stop)
        for i, (start, stop) in enumerate(zip(ordered, ends_at, strict=True))
    )


def live_after(program: Program, regions: tuple[Region, ...]) -> dict[int, frozenset[Key]]:
    """Live slots behind the last site of every region, keyed by that site's index."""
    at = {region.start: region.number for region in regions}
    blocks = []
    for region in regions:
        last = program.sites[region.stop - 1]
        following = [t for op in last.operands if isinstance(op, Target) for t in op.sites]
        ends = is_branch(last) or is_exit(last)
        if not ends or last.guard is not None or last.form.family == "brx.idx":
            following.append(region.stop)
        successors = tuple(at[site] for site in following if site in at)
        blocks.append(BasicBlock(region.number, region.start, region.stop, successors))
    live = live_slots(program.sites, blocks)
    return {r.stop - 1: live.out_of[r.number] for r in regions}
