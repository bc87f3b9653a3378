"""Registers of a thread at the entry of a kernel, where its directives fix them.

``setmaxnreg`` moves registers between warpgroups from a count that the assembler must know. It does
where ``.maxnreg`` says it, or where ``.minnctapersm`` says how many CTAs of ``.maxntid`` (or
``.reqntid``) threads share the register file; without, it leaves every setmaxnreg out (C7508)::

    >>> entry_registers({".maxntid": (384,), ".minnctapersm": (1,)}, "sm_90a")
    168
    >>> entry_registers({".maxntid": (384,)}, "sm_90a")
    0

The option ``-maxrregcount`` says it too, but no text shows it; ``-g`` leaves setmaxnreg out always.
Assembled by ptxas 12.9 and 13.5 for sm_90a and sm_100a: ``mmalab atlas --what registers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from mmalab.isa.targets import Target, limits

__all__ = ["FIXED_BY", "entry_registers"]

#: The directives that make the count known.
FIXED_BY = (".maxnreg", ".maxntid with .minnctapersm", ".reqntid with .minnctapersm")

_LANES = 32
#: Step of the counts that setmaxnreg takes.
_STEP = 8


def entry_registers(
    directives: Mapping[str, Sequence[int]], target: str | Target, raised: int | None = None
) -> int:
    """Registers of a thread when a CTA starts; 0 where the directives do not fix them.

    Args:
        directives: numbers of an entry's performance directives by name.
        target: whose register file.
        raised: the largest count of the entry's increases. An increase names no less than there
            are, so the kernel starts with at most that many.

    Raises:
        UsageError: no such target.
    """
    if ".maxnreg" in directives:
        return prod(directives[".maxnreg"])
    threads = prod(directives.get(".reqntid", directives.get(".maxntid", (0,))))
    ctas = prod(directives.get(".minnctapersm", (0,)))
    if threads < 1 or ctas < 1:
        return 0
    chip = limits(target)
    fit = chip.registers_per_cta // (-(-threads // _LANES) * _LANES * ctas)
    most = chip.registers_per_thread + 1
    return min(fit, most, most if raised is None else raised) // _STEP * _STEP
