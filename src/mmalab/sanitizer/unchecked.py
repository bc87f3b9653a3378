"""The static rule of mbarrier waits: the result of test_wait or try_wait must be looked at.

``mbarrier.try_wait`` may return false at any time, so a kernel that never branches, selects or
guards on its predicate has not waited, even when a run happens to be lucky. The rule follows the
predicate from the wait until it is overwritten; any guard or operand that reads it will do.
"""

from __future__ import annotations

from mmalab.emulator.program import Guarded, Op, Program, Reg, Site, Vec
from mmalab.sanitizer.world import World

__all__ = ["unchecked_waits"]

_WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")


def unchecked_waits(world: World) -> None:
    """Report every wait whose predicate nothing reads."""
    for site in world.program.sites:
        if site.form.family in _WAITS and not _checked(world.program, site):
            world.report(
                "mbarrier-wait-unchecked", "error",
                f"{world.named(site.index)}: nothing looks at its result, which may be false. "
                "Repair: branch back to the wait while it is false",
                cta=0, warp=0, site=site.index)


def _checked(program: Program, wait: Site) -> bool:
    if not wait.operands:
        return True
    result = wait.operands[0]
    if isinstance(result, Vec):
        result = result.items[0]
    if not isinstance(result, Reg):
        return False
    follow = _followers(program)
    open_sites, done = list(follow[wait.index]), set[int]()
    while open_sites:
        index = open_sites.pop()
        if index in done:
            continue
        done.add(index)
        site = program.sites[index]
        if _reads(site, result):
            return True
        if not _overwrites(site, result):
            open_sites.extend(follow[index])
    return False


def _followers(program: Program) -> list[list[int]]:
    """For each site, the sites that may come next."""
    follow: list[list[int]] = [[] for _ in program.sites]
    for block in program.blocks:
        for index in range(block.start, block.stop - 1):
            follow[index].append(index + 1)
        if block.stop > block.start:
            follow[block.stop - 1] += [program.blocks[k].start for k in block.successors]
    return follow


def _reads(site: Site, register: Reg) -> bool:
    if site.guard is not None and site.guard[0] == register.slot:
        return True
    first = 1 if _writes_first(site) else 0
    return any(_names(operand, register) for operand in site.operands[first:])


def _overwrites(site: Site, register: Reg) -> bool:
    return (_writes_first(site) and site.guard is None
            and any(_names(operand, register) for operand in site.operands[:1]))


def _writes_first(site: Site) -> bool:
    return bool(site.form.operands) and site.form.operands[0].role == "write"


def _names(operand: Op, register: Reg) -> bool:
    if isinstance(operand, Vec):
        return any(_names(item, register) for item in operand.items)
    if isinstance(operand, Guarded):
        operand = operand.reg
    return (isinstance(operand, Reg)
            and (operand.file, operand.slot) == (register.file, register.slot))
