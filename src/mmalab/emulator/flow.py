"""Basic blocks, and registers that some path reads before it writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmalab.emulator.liveness import reads_of, writes_of
from mmalab.emulator.program import BasicBlock, Site, Target

__all__ = ["basic_blocks", "undefined_registers"]

_ENDS = frozenset({"bra", "brx.idx", "exit", "ret", "trap", "call.jump", "call.return"})


def _targets(site: Site) -> tuple[int, ...]:
    return tuple(t for op in site.operands if isinstance(op, Target) for t in op.sites)


def basic_blocks(sites: Sequence[Site]) -> tuple[BasicBlock, ...]:
    """Split before branch targets and behind control flow."""
    leaders = {0, *(t for site in sites for t in _targets(site))}
    leaders |= {site.index + 1 for site in sites if site.form.family in _ENDS}
    starts = sorted(x for x in leaders if x < len(sites))
    number = {start: index for index, start in enumerate(starts)}
    # A procedure may return behind any jump to a procedure.
    returns = [number[s.index + 1] for s in sites if s.form.family == "call.jump"]
    blocks = []
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else len(sites)
        last = sites[stop - 1]
        following = [number[t] for t in _targets(last) if t in number]
        if last.form.family == "call.return":
            following.extend(returns)
        if (last.form.family not in _ENDS or last.guard is not None) and stop in number:
            following.append(number[stop])
        blocks.append(BasicBlock(index, start, stop, tuple(dict.fromkeys(following))))
    return tuple(blocks)


def undefined_registers(sites: Sequence[Site], blocks: Sequence[BasicBlock],
                        names: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    """Slots that a path from the entry reads before it writes them, with their names.

    A guarded write counts as none: the lanes whose guard is false keep the old value.
    """
    numbers = {key: index for index, key in enumerate(names)}
    everything = (1 << len(numbers)) - 1
    written = [_written(sites, block, numbers) for block in blocks]
    entering = [everything] * len(blocks)
    if blocks:
        entering[0] = 0
    pending = list(range(len(blocks)))
    while pending:
        block = blocks[pending.pop(0)]
        leaving = entering[block.index] | written[block.index]
        for following in block.successors:
            if entering[following] & leaving != entering[following]:
                entering[following] &= leaving
                pending.append(following)
    suspects: set[tuple[str, int]] = set()
    for block in blocks:
        defined = entering[block.index]
        for site in sites[block.start : block.stop]:
            suspects |= {key for key in reads_of(site) if not defined >> numbers[key] & 1}
            if site.guard is None:
                for key in writes_of(site):
                    defined |= 1 << numbers[key]
    return {key: names[key] for key in sorted(suspects)}


def _written(sites: Sequence[Site], block: BasicBlock,
             numbers: Mapping[tuple[str, int], int]) -> int:
    bits = 0
    for site in sites[block.start : block.stop]:
        if site.guard is None:
            for key in writes_of(site):
                bits |= 1 << numbers[key]
    return bits
