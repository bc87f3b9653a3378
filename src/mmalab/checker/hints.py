"""What to write instead: where an instruction's job is done on another chip.

The table of ports is :mod:`mmalab.isa.ports`; instructions that the chip has, but builds from
others, are answered here.
"""

from __future__ import annotations

from mmalab.isa import Target
from mmalab.isa.ports import instead as ported

__all__ = ["instead"]


def instead(opcode: str, on: Target, *, emulated: bool = False) -> str:
    """What does the job on that chip, "" where nothing is known."""
    return _native(opcode) if emulated else ported(opcode, on)


def _native(opcode: str) -> str:
    if any(word in opcode for word in (".e4m3", ".e5m2")):
        return ("wgmma on sm_90a, tcgen05.mma on sm_100a and its like, which have FP8 units; "
                "or f16 mma.sync, which is what runs")
    if ".s4" in opcode or ".u4" in opcode:
        return "s8 mma.sync"
    return ""
