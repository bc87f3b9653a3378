"""Registers before the kernel is written: accumulators against 255, and setmaxnreg's pool.

    >>> accumulators(128, 256, threads=128).per_thread      # one register too many
    256
    >>> accumulators(64, 256, threads=128).per_thread
    128

``setmaxnreg`` moves registers between warpgroups of a CTA. The pool is what the launch gave:
registers x threads. 168 x 3 warpgroups is 504 a lane; 24 + 232 + 232 = 488 fits into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab.plan.misfit import Misfit

__all__ = ["Accumulators", "Drain", "RegisterSplit", "accumulators", "drain", "setmaxnreg_split"]


@dataclass(frozen=True, slots=True)
class Accumulators:
    """Registers per thread that an M x N accumulator takes, spread over `threads` threads."""

    m: int
    n: int
    threads: int
    count: int
    dtype: str
    per_thread: int
    limit: int
    misfit: Misfit | None

    @property
    def fits(self) -> bool:
        """Whether it leaves the assembler a register at all."""
        return self.misfit is None


@dataclass(frozen=True, slots=True)
class Drain:
    """tcgen05.ld of `columns` columns at once: registers, of a thread and of the register file."""

    columns: int
    data_registers: int
    registers: int
    warpgroup_bytes: int
    share: float


@dataclass(frozen=True)
class RegisterSplit:
    """setmaxnreg values of the warpgroups of a CTA against the pool of its launch."""

    launch: int
    groups: tuple[int, ...]
    pool: int
    wanted: int
    order: tuple[str, ...]
    misfit: Misfit | None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the pool can ever serve every increase."""
        return self.misfit is None


def accumulators(m: int, n: int, *, threads: int = 128, count: int = 1, dtype: str = "f32"
                 ) -> Accumulators:
    """`count` accumulators of M x N over `threads` threads: count x M x N x bits / 32 / threads.

    Raises:
        UsageError: sizes that do not spread evenly.
    """
    raise NotImplementedError


def drain(columns: int) -> Drain:
    """What one tcgen05.ld.32x32b.xN (N = `columns`) holds: N data registers and 6 more, as ptxas
    12.9 and 13.5 allocate for a kernel that stores them all."""
    raise NotImplementedError


def setmaxnreg_split(groups: Sequence[int], *, launch: int, threads: int = 128,
                     target: str = "sm_90a") -> RegisterSplit:
    """Registers of each warpgroup after ``setmaxnreg``, for a launch with `launch` registers.

    Raises:
        UsageError: a value that setmaxnreg does not take (24 to 256 in steps of 8).
    """
    raise NotImplementedError
