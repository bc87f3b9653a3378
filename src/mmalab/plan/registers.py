"""Registers before the kernel is written: accumulators against 255, drains, setmaxnreg's pool.

    >>> accumulators(128, 256, threads=128).per_thread      # one register too many
    256
    >>> print(accumulators(64, 256, count=2).misfit)
    256 registers of accumulators per thread: a thread has 255
      fits: 2 warpgroups (128 registers each); N = 248 (248); 1 accumulator of N = 256 (128)
      see:  PTX ISA, .maxnreg; ptxas refuses -maxrregcount=256

``setmaxnreg`` moves registers between the warpgroups of a CTA. The pool is what the launch gave,
registers x threads, and an increase waits until it can be served; it exists where a kernel's
directives fix the registers at entry (:mod:`mmalab.isa.entry_registers`)::

    >>> setmaxnreg_split([40, 232, 232], launch=168).fits
    True
    >>> print(setmaxnreg_split([24, 24, 240, 240], launch=128).misfit)
    24 + 24 + 240 + 240 registers x 128 threads = 67584: the pool is 65536 (128 x 512)
      fits: 24, 24, 232, 232
      see:  PTX ISA, setmaxnreg
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmalab import formats, isa
from mmalab.errors import UsageError
from mmalab.isa.entry_registers import FIXED_BY
from mmalab.plan.aligned import aligned
from mmalab.plan.asked import asked
from mmalab.plan.misfit import Misfit

__all__ = ["FORMULA", "SOURCE", "Accumulators", "Drain", "RegisterSplit", "accumulators", "drain",
           "setmaxnreg_split"]

#: Registers of a thread, and of an SM: the same on every chip since Volta.
_PER_THREAD, _PER_SM = 255, 65536
_WARPGROUP = 128
#: What the question rests on, in one line each.
FORMULA = ("accumulators: count x M x N x bits / 32 / threads <= 255; drain: N + 6; setmaxnreg: "
           "sum of the groups <= registers at the launch x groups <= 65536 / threads; it counts "
           f"with {', '.join(FIXED_BY)}, or -maxrregcount")
SOURCE = "PTX ISA, .maxnreg, tcgen05.ld, setmaxnreg; ptxas 12.9 and 13.5"
#: What ptxas needs beside the data of a drain: addresses, the barrier's phase.
_DRAIN_OVERHEAD = 6
#: The fewest registers that a kernel is given.
_LEAST = 8
_SETMAXNREG = "PTX ISA, setmaxnreg"
_HANGS = ("24 + 232 + 232 of 3 x 168 is reported to hang (NVIDIA/cutlass#2007); its maintainers "
          "advise sums that match: 40 + 2 x 232")


@dataclass(frozen=True, slots=True)
class Accumulators:
    """Registers per thread that `count` M x N accumulators take, spread over `threads` threads."""

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
        """Whether the accumulators alone are below the limit."""
        return self.misfit is None

    @property
    def share(self) -> float:
        """Of the registers that a thread can have."""
        return self.per_thread / self.limit

    def __str__(self) -> str:
        head = (f"{self.count} x {self.m} x {self.n} {self.dtype} over {self.threads} threads: "
                f"{self.per_thread} of {self.limit} registers ({100 * self.share:.0f} %)")
        return f"{head}\n{self.misfit}" if self.misfit else head


@asked
def accumulators(m: int, n: int, *, threads: int = _WARPGROUP, count: int = 1, dtype: str = "f32"
                 ) -> Accumulators:
    """`count` accumulators of M x N over `threads` threads: count x M x N x bits / 32 / threads.

    ptxas warns C7511 and spills when wgmma's accumulators pass 255; a tcgen05 accumulator needs
    none of them until it is drained.

    Raises:
        UsageError: sizes that are not positive or do not spread evenly.
    """
    if min(m, n, count) < 1 or threads < 32 or threads % 32:
        raise UsageError(f"{count} x {m} x {n} over {threads} threads", "is no accumulator",
                         legal="positive sizes, whole warps", where="mmalab.plan.registers")
    bits = count * m * n * formats.get(dtype).bits
    per_thread, rest = divmod(bits, 32 * threads)
    if rest:
        raise UsageError(f"{m} x {n} {dtype} over {threads} threads",
                         "does not fill whole registers",
                         legal=f"N a multiple of {32 * threads // m or 1}",
                         where="mmalab.plan.registers")
    misfit = None
    if per_thread > _PER_THREAD:
        misfit = Misfit(f"{per_thread} registers of accumulators per thread",
                        f"a thread has {_PER_THREAD}",
                        tuple(_smaller(m, n, threads, count, formats.get(dtype).bits)),
                        "PTX ISA, .maxnreg; ptxas refuses -maxrregcount=256")
    return Accumulators(m, n, threads, count, formats.get(dtype).name, per_thread, _PER_THREAD,
                        misfit)


def _smaller(m: int, n: int, threads: int, count: int, bits: int) -> list[str]:
    per_column = count * m * bits / 32 / threads
    groups = -(-int(per_column * n) // _PER_THREAD) * threads
    each = int(per_column * n * threads / groups)
    found = ([f"{groups // _WARPGROUP} warpgroups ({each} registers each)"]
             if groups % _WARPGROUP == 0 else [])
    narrow = int(_PER_THREAD / per_column) // 8 * 8
    if narrow:
        found.append(f"N = {narrow} ({int(per_column * narrow)})")
    if count > 1:
        fewer = max(1, int(_PER_THREAD / (per_column * n / count)))
        taken = int(per_column * n / count * fewer)
        found.append(f"{fewer} accumulator{'s' * (fewer > 1)} of N = {n} ({taken})")
    return found


@dataclass(frozen=True, slots=True)
class Drain:
    """tcgen05.ld of `columns` columns at once: registers of a thread, bytes of the register file
    that a warpgroup holds meanwhile, and their share of its 256 KiB."""

    columns: int
    data_registers: int
    registers: int
    warpgroup_bytes: int
    share: float


def drain(columns: int) -> Drain:
    """What one ``tcgen05.ld.32x32b.xN`` (N = `columns`) holds: N registers of data and 6 more.

    The 6 are what ptxas 12.9 and 13.5 allocate beside the data in a kernel that drains and stores
    them all (a kernel has 8 at least): 134 for x128, 67 KiB of a warpgroup, 26 % of the register
    file.

    Raises:
        UsageError: no ``tcgen05.ld`` has this repetition.
    """
    legal = [1 << power for power in range(8)]
    if columns not in legal:
        raise UsageError(f"tcgen05.ld.32x32b.x{columns}", "does not exist",
                         legal=[f"x{n}" for n in legal], where="PTX ISA, tcgen05.ld")
    registers = max(_LEAST, columns + _DRAIN_OVERHEAD)
    held = registers * _WARPGROUP * 4
    return Drain(columns, columns, registers, held, held / (4 * _PER_SM))


@dataclass(frozen=True)
class RegisterSplit:
    """setmaxnreg values of the warpgroups of a CTA against the pool of its launch.

    `order` says which groups must run their decrease before which increases can be served.
    """

    launch: int
    groups: tuple[int, ...]
    threads: int
    pool: int
    wanted: int
    order: tuple[str, ...]
    misfit: Misfit | None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the pool can ever serve every increase."""
        return self.misfit is None

    def table(self) -> str:
        """Group by group, then the sums."""
        rows = [(f"warpgroup {at}", self.launch, registers,
                 "dec" if registers < self.launch else "inc" if registers > self.launch else "-")
                for at, registers in enumerate(self.groups)]
        sums = f"pool {self.pool} registers, wanted {self.wanted}, {self.pool - self.wanted} left"
        lines = [aligned(rows, ("group", "launch", "then", "setmaxnreg")), sums, *self.order]
        lines += [str(self.misfit)] if self.misfit else []
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __str__(self) -> str:
        return self.table()


@asked
def setmaxnreg_split(groups: Sequence[int], *, launch: int, threads: int = _WARPGROUP,
                     target: str = "sm_90a") -> RegisterSplit:
    """Registers of each warpgroup after ``setmaxnreg``, for a launch with `launch` registers.

    pool = launch x threads x groups, wanted = sum of the groups x threads; wanted <= pool <= 65536.
    `threads` are those of each group.

    Raises:
        UsageError: a value that setmaxnreg does not take (24 to 256 in steps of 8), no group, or a
            target without it.
    """
    has = isa.parse_targets(isa.find("setmaxnreg.inc.sync.aligned.u32").targets)
    if isa.target(target).name not in has:
        raise UsageError(f"setmaxnreg on {target}", "is not in this target", legal=str(has),
                         where=_SETMAXNREG)
    for value in groups:
        if value % 8 or not 24 <= value <= 256:
            near = min(max(24, value // 8 * 8), 256)
            raise UsageError(f"setmaxnreg {value}", "is not 24 to 256 in steps of 8",
                             legal=sorted({str(near), str(min(256, near + 8))}),
                             where=_SETMAXNREG)
    if not groups or launch < 1:
        raise UsageError(f"{len(groups)} warpgroups, {launch} registers", "is no launch",
                         legal="one group and one register at least", where=_SETMAXNREG)
    return _split(tuple(groups), launch, threads)


def _split(groups: tuple[int, ...], launch: int, threads: int) -> RegisterSplit:
    pool, wanted = launch * threads * len(groups), sum(groups) * threads
    misfit = None
    listed = " + ".join(map(str, groups))
    if pool > _PER_SM:
        most = _PER_SM // (threads * len(groups)) // 8 * 8
        misfit = Misfit(f"{launch} registers x {threads * len(groups)} threads = {pool}",
                        f"an SM has {_PER_SM}: the launch fails", (f"launch with {most}",),
                        _SETMAXNREG)
    elif wanted > pool:
        misfit = Misfit(f"{listed} registers x {threads} threads = {wanted}",
                        f"the pool is {pool} ({launch} x {threads * len(groups)})",
                        (", ".join(map(str, _shrunk(groups, pool // threads))),), _SETMAXNREG)
    down = [at for at, value in enumerate(groups) if value < launch]
    up = [at for at, value in enumerate(groups) if value > launch]
    order: tuple[str, ...] = ()
    if up:
        first = f"every warp of group {_names(down)} runs its decrease"
        order = (f"{first} before group {_names(up)} can increase",)
    notes: tuple[str, ...] = ()
    if not misfit and wanted != pool and up:
        notes = (f"{pool - wanted} registers stay unused", _HANGS)
    return RegisterSplit(launch, groups, threads, pool, wanted, order, misfit, notes)


def _names(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers)) if numbers else "(none)"


def _shrunk(groups: tuple[int, ...], budget: int) -> list[int]:
    """The groups with the largest values lowered in steps of 8 until they fit."""
    shrunk = list(groups)
    while sum(shrunk) > budget and max(shrunk) > 24:
        top = max(shrunk)
        shrunk = [value - 8 if value == top else value for value in shrunk]
    return shrunk
