"""Registers: the ceiling, accumulators against it, and the budget that setmaxnreg divides.

A warpgroup that holds an M x N accumulator of 32-bit values has M N / 128 of them in each thread.
Blackwell's m128n256 would need 256, and a thread has 255::

    >>> {row.tile: row.registers for row in accumulators()}["tcgen05 m128n256"]
    256

Registers are given to warps in units of 8 per thread, from 65,536 per SM. `setmaxnreg` moves them
between warpgroups; what a split needs is arithmetic (:func:`budget`), whether ptxas keeps it is a
question to ptxas (:func:`setmaxnreg`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mmalab import isa
from mmalab.atlas.kernel_text import probe
from mmalab.atlas.releases import release
from mmalab.errors import UsageError
from mmalab.toolchain import assemble
from mmalab.toolchain.invoke import invoke, workspace

__all__ = ["BOUNDS", "Accumulator", "Budget", "Ceiling", "SetMaxNReg", "accumulators", "budget",
           "ceiling", "setmaxnreg", "setmaxnreg_text"]

_WARPGROUP = 128


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What ptxas says to a ``-maxrregcount``; `message` is "" where it accepts in silence."""

    asked: int
    message: str
    toolkit: str
    ptx: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A tile's accumulator if a warpgroup's registers held it: `registers` of each thread, against
    the `ceiling`. `lives_in` is where the chip has it."""

    tile: str
    m: int
    n: int
    bits: int
    threads: int
    registers: int
    ceiling: int
    lives_in: Literal["registers", "Tensor Memory"]

    @property
    def fits(self) -> bool:
        """Whether threads could hold it and nothing else."""
        return self.registers <= self.ceiling


@dataclass(frozen=True, slots=True)
class Budget:
    """Registers of a CTA's warpgroups after setmaxnreg, against the SM's file.

    `asked` is what they hold together, `at_launch` what the CTA was given, `pool` what the
    decreases release, `rise` what the increases ask for. `possible` is False where no order of
    events can ever grant it; `reason` says by which number.
    """

    per_thread: tuple[int, ...]
    launch: int
    asked: int
    at_launch: int
    limit: int
    pool: int
    rise: int
    possible: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SetMaxNReg:
    """Whether ptxas keeps setmaxnreg, its words where not, and the SASS that it became."""

    in_force: bool
    message: str
    opcodes: tuple[str, ...]
    registers: int
    toolkit: str
    ptx: str = field(repr=False)


def ceiling(asked: Sequence[int] = (255, 256), toolkit: str | None = None) -> tuple[Ceiling, ...]:
    """Ask for these ``-maxrregcount`` values, legal or not, and keep ptxas's words.

    Raises:
        ToolError: the release is not installed.
    """
    ptxas = release(toolkit)
    found = []
    for count in asked:
        with workspace() as folder:
            (folder / "probe.ptx").write_text(probe(), encoding="utf-8")
            outcome = invoke([str(ptxas.path), "-arch=sm_100a", f"-maxrregcount={count}",
                              "probe.ptx", "-o", "probe.cubin"], folder=folder)
        found.append(Ceiling(count, " ".join(outcome.output.split()), ptxas.toolkit,
                             probe()))
    return tuple(found)


#: (instruction, M, N, bits of an accumulator, where it lives).
_TILES: tuple[tuple[str, int, int, Literal["registers", "Tensor Memory"]], ...] = (
    *(("wgmma", 64, n, "registers") for n in (64, 128, 192, 256)),
    *(("tcgen05", m, n, "Tensor Memory") for m in (64, 128) for n in (64, 128, 192, 256)),
)


def accumulators(target: str = "sm_90a") -> tuple[Accumulator, ...]:
    """Tiles of one wgmma and one tcgen05.mma, FP32 accumulators, as a warpgroup would hold them."""
    most = isa.limits(target).registers_per_thread
    return tuple(
        Accumulator(f"{name} m{m}n{n}", m, n, 32, _WARPGROUP, m * n // _WARPGROUP, most, where)
        for name, m, n, where in _TILES)


def budget(
    per_thread: Sequence[int], *, launch: int | None = None, threads: int = _WARPGROUP,
    target: str = "sm_90a",
) -> Budget:
    """Whether warpgroups can have these counts of registers per thread, one number each.

    Args:
        per_thread: what each warpgroup holds after its setmaxnreg.
        launch: registers per thread at launch; None: as many as fit, in units of 8.
        threads: of a warpgroup.
        target: whose register file.

    Raises:
        UsageError: a count that setmaxnreg does not take.
    """
    for count in per_thread:
        if count % 8 or not 24 <= count <= 256:
            raise UsageError(f"setmaxnreg {count}", "is not a multiple of 8 from 24 to 256",
                             legal=[str(min(256, max(24, count // 8 * 8 + step)))
                                    for step in (0, 8)],
                             where="PTX ISA, setmaxnreg")
    chip = isa.limits(target)
    groups = len(per_thread)
    if launch is None:
        launch = min(chip.registers_per_thread // 8 * 8,
                     chip.registers // (threads * groups) // 8 * 8)
    asked, at_launch = threads * sum(per_thread), threads * groups * launch
    pool = threads * sum(max(0, launch - count) for count in per_thread)
    rise = threads * sum(max(0, count - launch) for count in per_thread)
    possible, reason = _judged(asked, at_launch, chip.registers, pool, rise)
    return Budget(tuple(per_thread), launch, asked, at_launch, chip.registers, pool, rise,
                  possible, reason)


def _judged(asked: int, at_launch: int, limit: int, pool: int, rise: int) -> tuple[bool, str]:
    if at_launch > limit:
        return False, f"the launch itself needs {at_launch:,} of {limit:,} registers"
    if asked > limit:
        return False, (f"{asked:,} registers are asked for and the SM has {limit:,}: the increase "
                       "waits for ever")
    if rise > pool:
        return False, (f"the increases ask for {rise:,} and the decreases release {pool:,}: the "
                       "increase waits for ever")
    return True, (f"the decreases release {pool:,}, the increases ask for {rise:,}; each increase "
                  "waits until every warp of the giving warpgroups has run its decrease")


#: Launch bounds that make the registers at entry known, and some that do not.
BOUNDS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    ".maxntid": (".maxntid 256, 1, 1",),
    ".reqntid": (".reqntid 256, 1, 1",),
    ".reqntid and .minnctapersm": (".reqntid 256, 1, 1", ".minnctapersm 1"),
    ".maxntid and .minnctapersm": (".maxntid 256, 1, 1", ".minnctapersm 1"),
    ".maxnreg": (".maxnreg 128",),
}


def setmaxnreg_text(bounds: Sequence[str] = (), target: str = "sm_90a") -> str:
    """A kernel of two warpgroups, one with a decrease and one with an increase."""
    directives = "".join(f"{line}\n" for line in bounds)
    return f""".version 8.8
.target {target}
.address_size 64

.visible .entry split(.param .u64 p_out)
{directives}{{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .reg .pred %p;
    ld.param.u64 %rd1, [p_out];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p, %r1, 128;
    @%p bra consumer;
    setmaxnreg.dec.sync.aligned.u32 40;
    st.global.u32 [%rd1], %r1;
    bra done;
consumer:
    setmaxnreg.inc.sync.aligned.u32 232;
    st.global.u32 [%rd1+4], %r1;
done:
    ret;
}}
"""


def setmaxnreg(
    source: str | None = None,
    *,
    bounds: Sequence[str] = BOUNDS[".maxntid and .minnctapersm"],
    target: str = "sm_90a",
    toolkit: str | None = None,
    debug: bool = False,
) -> SetMaxNReg:
    """Assemble a kernel with setmaxnreg and see whether ptxas keeps it.

    It is kept where the registers at entry are known: from ``.maxnreg``, ``-maxrregcount``, or
    ``.maxntid`` or ``.reqntid`` together with ``.minnctapersm``; never under ``-g``.

    Args:
        source: PTX; None is :func:`setmaxnreg_text` with `bounds`.
        bounds: directives of the kernel.
        target: one that has the instruction.
        toolkit: release; None for the newest.
        debug: assemble with ``-g -O0``.
    """
    text = source or setmaxnreg_text(bounds, target)
    cubin = assemble(text, target, toolkit, opt_level=0 if debug else 3,
                     options=("-g",) * debug, line_info=not debug)
    kept = tuple(i.mnemonic for i in cubin.sass if i.opcode == "USETMAXREG")
    words = [d.message for d in cubin.diagnostics if "setmaxnreg" in d.message]
    return SetMaxNReg(bool(kept), "; ".join(dict.fromkeys(words)), kept,
                      max(row.registers for row in cubin.resources.values()),
                      cubin.toolkit, cubin.ptx or text)
