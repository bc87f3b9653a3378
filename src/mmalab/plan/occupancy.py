"""How many CTAs fit on an SM, and which resource says so: Tensor Memory beside the classical ones.

    >>> found = occupancy(registers=168, shared=200 * 1024, threads=384, target="sm_100a", tmem=256)
    >>> found.ctas, found.binding, found.limits["tensor memory"]
    (1, ('registers', 'shared memory'), 2)

Each resource admits so many CTAs; the smallest number holds:

    CTAs            the SM's limit
    warps           warps of the SM / warps of the CTA
    registers       registers per thread x 32, rounded up to 256, for each warp; warps live on the
                    four quarters of the register file, and a warp takes all of its from one
    shared memory   bytes + the system's reservation (1 KiB), rounded up to the unit
    tensor memory   what the 512-column pool admits, an allocation aligned to its own size

The last one is acquired by the kernel while it runs, not at launch: it is an upper bound on CTAs
that work at the same time (whether a B200 makes more than one resident is not measured here).
Named barriers are 16 for each CTA and never shared, so they limit a CTA and not their number.

Sources: CUDA C++ Programming Guide, compute capabilities (:mod:`mmalab.isa.targets`); the rules of
CUDA's occupancy calculator, which answers the same for the driver of an H200 (tests/plan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.targets import TARGETS, Limits
from mmalab.plan.aligned import aligned, bar
from mmalab.plan.asked import asked
from mmalab.plan.misfit import Misfit
from mmalab.plan.tmem import admitted

if TYPE_CHECKING:
    from mmalab.ptx.kernel import Kernel

__all__ = ["FORMULA", "SOURCE", "Compiled", "Occupancy", "every_target", "occupancy",
           "of_compiled", "of_kernel"]

#: Quarters of the register file; each serves every fourth warp.
_QUARTERS = 4
_GUIDE = "CUDA C++ Programming Guide, compute capabilities"

#: What the question rests on, in one line each.
FORMULA = ("min of: CTAs of an SM, its warps / warps, 4 x floor(registers / 4 / up(32 R, 256)) / "
           "warps, shared memory / up(bytes + 1024, 128), aligned allocations in 512 columns")
SOURCE = f"{_GUIDE}; recorded answers of an H200's CUDA driver; PTX ISA, tcgen05.alloc"


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

    `registers` per thread, `shared` bytes and `threads` of a CTA, `tmem` its allocations; `warps`
    are the resident ones, of `warp_slots`.
    """

    target: str
    registers: int
    shared: int
    threads: int
    tmem: tuple[int, ...]
    ctas: int
    warps: int
    warp_slots: int
    limits: Mapping[str, int]
    used: Mapping[str, float]
    binding: tuple[str, ...]
    misfit: Misfit | None = None
    #: What each resource may be at most for one CTA more; empty when the chip has no room for it.
    one_more: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Resident warps / the SM's warps: what "occupancy" used to mean."""
        return self.warps / self.warp_slots

    def table(self) -> str:
        """Resource by resource: CTAs admitted, share in use, a bar."""
        rows = [(name, count, f"{100 * self.used[name]:.0f} %", bar(self.used[name]),
                 "binds" if name in self.binding else "")
                for name, count in self.limits.items()]
        head = (f"{self.target}: {self.ctas} CTA{'s' * (self.ctas != 1)} of {self.threads} "
                f"threads, {self.warps} of {self.warp_slots} warps ({100 * self.share:.0f} %)")
        lines = [head, aligned(rows, ("resource", "CTAs", "used", "", ""))]
        if self.one_more:
            most = ", ".join(f"{name} {value}" for name, value in self.one_more.items())
            lines.append(f"for {self.ctas + 1} CTAs, at most: {most}")
        return "\n".join([*lines, *([str(self.misfit)] if self.misfit else [])])

    def __str__(self) -> str:
        return self.table()


@asked
def occupancy(*, registers: int, shared: int, threads: int, target: str,
              tmem: int | Sequence[int] = (), barriers: int = 0) -> Occupancy:
    """CTAs that fit on one SM of `target`.

    `registers` per thread, `shared` bytes per CTA (static and dynamic), `threads` per CTA, `tmem`
    the columns of each Tensor Memory allocation that a CTA holds at the same time, `barriers` named
    barriers.

    Raises:
        UsageError: unknown target, a negative or empty request, Tensor Memory on a chip without.
    """
    chip = isa.limits(target)
    columns = (tmem,) * bool(tmem) if isinstance(tmem, int) else tuple(tmem)
    _check(registers, shared, threads, barriers, columns, chip, target)
    warps = -(-threads // 32)
    limits, used = _admitted(chip, registers, shared, warps, columns)
    misfit = _misfit(chip, registers, shared, threads, barriers, limits)
    ctas = 0 if misfit else min(limits.values())
    return Occupancy(
        target=isa.target(target).name, registers=registers, shared=shared, threads=threads,
        tmem=columns, ctas=ctas, warps=ctas * warps, warp_slots=chip.warps, limits=limits,
        used={name: ctas * share for name, share in used.items()},
        binding=tuple(name for name, count in limits.items() if count == min(limits.values())),
        misfit=misfit, one_more={} if misfit else _one_more(chip, warps, columns, ctas + 1),
    )


def of_compiled(compiled: Compiled, *, threads: int, target: str, dynamic_shared: int = 0,
                tmem: int | Sequence[int] = ()) -> Occupancy:
    """The occupancy of a compiled kernel: registers, static shared memory and barriers are its.

    Raises:
        UsageError: as :func:`occupancy`.
    """
    return occupancy(registers=compiled.registers, shared=compiled.shared + dynamic_shared,
                     threads=threads, target=target, tmem=tmem, barriers=compiled.barriers)


def of_kernel(kernel: Kernel, compiled: Compiled, *, tmem: int | Sequence[int] = (),
              target: str | None = None) -> Occupancy:
    """The occupancy of a kernel value and what its assembly says: the block and dynamic shared
    memory are the kernel's.

    Raises:
        UsageError: as :func:`occupancy`.
    """
    x, y, z = kernel.block
    return of_compiled(compiled, threads=x * y * z, target=target or kernel.target, tmem=tmem,
                       dynamic_shared=kernel.dynamic_shared)


def every_target(*, registers: int, shared: int, threads: int, tmem: int | Sequence[int] = (),
                 barriers: int = 0) -> tuple[Occupancy, ...]:
    """The same request on one SM of every compute capability, oldest first; Tensor Memory counts
    where there is any.

    Raises:
        UsageError: as :func:`occupancy`.
    """
    names = {row.number: name for name, row in TARGETS.items()}.values()
    return tuple(
        occupancy(registers=registers, shared=shared, threads=threads, target=name,
                  tmem=tmem if isa.limits(name).tmem_columns else (), barriers=barriers)
        for name in names)


def _check(registers: int, shared: int, threads: int, barriers: int, columns: tuple[int, ...],
           chip: Limits, target: str) -> None:
    if registers < 1 or shared < 0 or threads < 1 or barriers < 0:
        raise UsageError(
            f"{registers} registers, {shared} bytes, {threads} threads, {barriers} barriers",
            "is no kernel", legal="registers and threads from 1, nothing negative",
            where="mmalab.plan.occupancy")
    if columns and not chip.tmem_columns:
        raise UsageError(f"{sum(columns)} columns of Tensor Memory on {target}",
                         "the chip has none",
                         legal=[name for name, row in TARGETS.items()
                                if row.suffix == "a" and isa.limits(row).tmem_columns],
                         where=_GUIDE)


def _admitted(chip: Limits, registers: int, shared: int, warps: int, columns: tuple[int, ...]
              ) -> tuple[dict[str, int], dict[str, float]]:
    """CTAs that each resource admits, and the share of it that one CTA takes."""
    per_warp = -(-registers * 32 // chip.register_unit) * chip.register_unit
    fitting_warps = chip.registers // _QUARTERS // per_warp * _QUARTERS
    bytes_each = shared + chip.shared_reserved
    bytes_each = -(-bytes_each // chip.shared_unit) * chip.shared_unit
    limits = {"CTAs": chip.ctas, "warps": chip.warps // warps,
              "registers": fitting_warps // warps,
              "shared memory": chip.shared_per_sm // bytes_each if bytes_each else chip.ctas}
    used = {"CTAs": 1 / chip.ctas, "warps": warps / chip.warps,
            "registers": per_warp * warps / chip.registers,
            "shared memory": bytes_each / chip.shared_per_sm}
    if columns:
        # .exclusive alone reaches beyond 512 (sm_107): plain allocations share 512.
        limits["tensor memory"] = admitted(columns)
        used["tensor memory"] = sum(columns) / 512
    return limits, used


def _one_more(chip: Limits, warps: int, columns: tuple[int, ...], ctas: int) -> dict[str, int]:
    """The most registers per thread, shared bytes and columns with which `ctas` CTAs fit."""
    if ctas > chip.ctas or ctas * warps > chip.warps:
        return {}
    each = chip.shared_per_sm // ctas // chip.shared_unit * chip.shared_unit - chip.shared_reserved
    found = {"registers": _most_registers(chip, ctas * warps),
             "shared memory": min(each, chip.shared_per_cta)}
    if columns:
        sizes = [size for size in (512, 256, 128, 64, 32) if 512 // size >= ctas]
        if not sizes:
            return {}
        found["tensor memory"] = sizes[0]
    return found


def _misfit(chip: Limits, registers: int, shared: int, threads: int, barriers: int,
            limits: Mapping[str, int]) -> Misfit | None:
    """Why not even one CTA fits."""
    if threads > chip.threads_per_cta:
        return Misfit(f"{threads} threads", f"a CTA has {chip.threads_per_cta} at most",
                      (f"{chip.threads_per_cta} threads",), _GUIDE)
    if shared > chip.shared_per_cta:
        over = shared - chip.shared_per_cta
        return Misfit(
            f"{shared} bytes of shared memory",
            f"a CTA may have {chip.shared_per_cta} ({chip.shared_per_cta // 1024} KiB): "
            f"{over} too many", (f"{chip.shared_per_cta} bytes",), _GUIDE)
    if registers > chip.registers_per_thread:
        return Misfit(f"{registers} registers", f"a thread has {chip.registers_per_thread} at most",
                      (f"{chip.registers_per_thread} registers",), _GUIDE)
    if barriers > chip.barriers:
        return Misfit(f"{barriers} barriers", f"a CTA has {chip.barriers}",
                      (f"{chip.barriers} barriers",), "PTX ISA, barrier")
    if limits["registers"] < 1:
        most = _most_registers(chip, -(-threads // 32))
        return Misfit(f"{registers} registers x {threads} threads",
                      f"a CTA has {chip.registers_per_cta} registers, a quarter for every fourth "
                      "warp", (f"{most} registers per thread",), _GUIDE)
    if limits.get("tensor memory", 1) < 1:
        return Misfit("the allocations of one CTA", "Tensor Memory has 512 columns",
                      ("allocations of 512 columns together",), "PTX ISA, tcgen05.alloc")
    return None


def _most_registers(chip: Limits, warps: int) -> int:
    """Registers per thread with which a CTA of `warps` warps still fits."""
    per_quarter = -(-warps // _QUARTERS)
    per_warp = chip.registers // _QUARTERS // per_quarter
    return min(chip.registers_per_thread,
               per_warp // chip.register_unit * chip.register_unit // 32)
