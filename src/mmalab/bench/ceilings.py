"""What a rate is a share of: the chip's tensor peak per clock, and what a class of instructions
reaches of it.

On Hopper ``mma.sync`` cannot reach the peak that ``wgmma`` does; a kernel that uses it is measured
against both::

    >>> problem = Problem(4096, 4096, 4096)
    >>> per_clock(problem, "sm_90"), class_per_clock(problem, "sm_90", "mma.bf16.f32")
    (4096, 2730)

A product of few rows is a read of B: its share is of what the chip's memory was seen to deliver.
"""

from __future__ import annotations

from mmalab.bench.problem import Problem
from mmalab.errors import MmalabError
from mmalab.plan.chips import chip_of

__all__ = ["READ_TB_S", "class_per_clock", "per_clock"]

#: TB/s that a device's memory delivers to kernels that only read, by its name: measured on an H200
#: (2026-11-29), 4.50 to 4.57 over buffers of several GB.
READ_TB_S = {"NVIDIA H200": 4.5}

#: Operations per SM and clock of ``mma.sync`` where it stays below the chip's peak: measured on an
#: H200 (2026-11-29), nothing but the instruction, 8 warps or more. FP8 is emulated by F16.
_MMA_SYNC = {
    ("sm_90", "bf16"): 2730, ("sm_90", "f16"): 2730, ("sm_90", "tf32"): 1365,
    ("sm_90", "s8"): 5461, ("sm_90", "e4m3"): 1864,
}


def per_clock(problem: Problem, chip: str) -> int | None:
    """Operations per SM and clock of the chip's fastest tensor instruction for the operands."""
    try:
        return chip_of(chip).rate(problem.dtype).per_clock
    except MmalabError:
        return None


def class_per_clock(problem: Problem, chip: str, unit: str) -> int | None:
    """The most that instructions of a unit (``mma.bf16.f32``) reach; None where it is the peak."""
    return _MMA_SYNC.get((chip, problem.dtype)) if unit.startswith("mma.") else None
