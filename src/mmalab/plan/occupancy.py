"""How many CTAs fit on an SM, and which resource says so: Tensor Memory beside the classical ones.

    >>> found = occupancy(registers=168, shared=200 * 1024, threads=384, target="sm_100a", tmem=256)
    >>> found.ctas, found.binding, found.limits["tensor memory"]
    (1, ('registers', 'shared memory'), 2)

Each resource admits so many CTAs; the smallest number holds:

    threads         warps of the SM / warps of the CTA
    CTAs            the SM's limit
    registers       registers per thread x 32, rounded up to 256 a warp; warps live on four
                    quarters of the register file, so each quarter counts by itself
    shared memory   bytes + the system's reservation (1 KiB), rounded up to the unit
    tensor memory   what the 512-column pool admits, an allocation aligned to its own size

The last one is acquired by the kernel while it runs, not at launch: it is an upper bound on CTAs
that work at the same time (whether a B200 makes more than one resident is not measured here).

Sources: CUDA C++ Programming Guide, compute capabilities; the occupancy calculator's rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mmalab.plan.misfit import Misfit

__all__ = ["Compiled", "Occupancy", "every_target", "occupancy", "of_compiled"]


class Compiled(Protocol):
    """What a cubin says of one kernel (:class:`mmalab.toolchain.Resources` is one)."""

    @property
    def registers(self) -> int:
        """Per thread."""

    @property
    def shared(self) -> int:
        """Static shared memory in bytes."""

    @property
    def barriers(self) -> int:
        """Named barriers."""


@dataclass(frozen=True)
class Occupancy:
    """CTAs per SM. `limits` has what each resource admits, `used` the share of each that `ctas`
    CTAs take; `binding` are the resources that decide. `misfit` says why not even one fits.
    """

    target: str
    registers: int
    shared: int
    threads: int
    tmem: tuple[int, ...]
    ctas: int
    warps: int
    limits: Mapping[str, int]
    used: Mapping[str, float]
    binding: tuple[str, ...]
    misfit: Misfit | None = None

    @property
    def share(self) -> float:
        """Resident warps / the SM's warps: what "occupancy" used to mean."""
        raise NotImplementedError


def occupancy(*, registers: int, shared: int, threads: int, target: str,
              tmem: int | Sequence[int] = (), barriers: int = 0) -> Occupancy:
    """CTAs that fit on one SM of `target`.

    `registers` per thread, `shared` bytes per CTA (static and dynamic), `threads` per CTA, `tmem`
    the columns of each Tensor Memory allocation that a CTA holds at the same time, `barriers` named
    barriers (16 a CTA).

    Raises:
        UsageError: unknown target, a negative or empty request.
    """
    raise NotImplementedError


def of_compiled(compiled: Compiled, *, threads: int, target: str, dynamic_shared: int = 0,
                tmem: int | Sequence[int] = ()) -> Occupancy:
    """The occupancy of a compiled kernel: registers, static shared memory and barriers are its."""
    return occupancy(registers=compiled.registers, shared=compiled.shared + dynamic_shared,
                     threads=threads, target=target, tmem=tmem, barriers=compiled.barriers)


def every_target(*, registers: int, shared: int, threads: int, tmem: int | Sequence[int] = (),
                 barriers: int = 0) -> tuple[Occupancy, ...]:
    """The same request on one SM of every compute capability, oldest first."""
    raise NotImplementedError
