"""The drain curve: registers per thread that bringing the accumulator back costs.

``tcgen05.ld`` of a shape and count gives each thread so many 32-bit values at once; a kernel that
stores them all must hold them all. Article B's curve for 32x32b is N + 6::

    >>> [point.registers for point in drain(["32x32b"], "12.9")]              # doctest: +SKIP
    [8, 8, 10, 14, 22, 38, 70, 134]

The kernel around the load is the article's: the base address is an argument of the kernel, nothing
is allocated, so the curve is the load's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mmalab import isa
from mmalab.atlas.kernel_text import loaded
from mmalab.errors import UsageError
from mmalab.toolchain import Cubin, assemble

__all__ = ["SHAPES", "DrainPoint", "drain", "drain_text"]

#: Shapes of ``tcgen05.ld``, each with its largest count.
SHAPES: Mapping[str, int] = {
    "32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128,
}


@dataclass(frozen=True, slots=True)
class DrainPoint:
    """One load: `loaded` 32-bit values per thread, `registers` what the kernel then takes.

    `opcodes` are the loads that ptxas made of it; `spills` bytes.
    """

    shape: str
    num: int
    loaded: int
    registers: int
    spills: int
    opcodes: Mapping[str, int]
    instructions: int
    target: str
    toolkit: str
    ptx: str = field(repr=False)

    @property
    def overhead(self) -> int:
        """Registers beyond the values."""
        return self.registers - self.loaded

    @property
    def share(self) -> float:
        """Part of the register file that a warpgroup of such threads takes."""
        limits = isa.limits(self.target)
        return 128 * self.registers / limits.registers


def drain(
    shapes: Iterable[str] | None = None,
    toolkit: str | None = None,
    *,
    counts: Iterable[int] | None = None,
    target: str = "sm_100a",
    opt_level: int = 3,
) -> tuple[DrainPoint, ...]:
    """Widen the load, store every register, read ``ptxas -v``.

    Args:
        shapes: of :data:`SHAPES`; None for all.
        toolkit: release; None for the newest.
        counts: the N of xN; None for every one of each shape.
        target: one that has Tensor Memory.
        opt_level: 0 to 3.

    Raises:
        UsageError: no such shape or count.
        AssemblyError: the target has no Tensor Memory.
    """
    asked: list[tuple[str, int]] = []
    wanted = None if counts is None else set(counts)
    for shape in SHAPES if shapes is None else shapes:
        if shape not in SHAPES:
            raise UsageError(f"shape {shape!r}", "is not one of tcgen05.ld", legal=list(SHAPES),
                             where="PTX ISA, tcgen05.ld")
        asked += [(shape, n) for n in _powers(SHAPES[shape]) if wanted is None or n in wanted]
    if not asked:
        raise UsageError(f"counts={sorted(wanted or ())}", "are none of xN",
                         legal=[str(n) for n in _powers(128)], where="PTX ISA, tcgen05.ld")
    # A kernel for each point, in one module: starting the tools takes longer than their work.
    cubin = assemble(_HEAD.format(target=target) + "".join(_kernel(*at) for at in asked), target,
                     toolkit, opt_level=opt_level)
    return tuple(_point(cubin, *at) for at in asked)


def _powers(most: int) -> list[int]:
    """1, 2, 4 ... up to `most`."""
    return [1 << i for i in range(most.bit_length())]


def _point(cubin: Cubin, shape: str, num: int) -> DrainPoint:
    name = _name(shape, num)
    code, need = cubin.sass.function(name), cubin.resources[name]
    instructions = code.instructions if code is not None else ()
    words = Counter(i.mnemonic for i in instructions if i.opcode == "LDTM")
    return DrainPoint(
        shape, num, loaded(f"{shape}.x{num}"), need.registers, need.spill_stores + need.spill_loads,
        dict(words), len(instructions), cubin.target, cubin.toolkit,
        drain_text(shape, num, cubin.target))


def _name(shape: str, num: int) -> str:
    return f"drain_{shape}_x{num}"


_HEAD = ".version 8.8\n.target {target}\n.address_size 64\n"


def drain_text(shape: str, num: int, target: str = "sm_100a") -> str:
    """The module of one point alone."""
    return _HEAD.format(target=target) + _kernel(shape, num)


def _kernel(shape: str, num: int) -> str:
    """Load, wait, store every value."""
    count = loaded(f"{shape}.x{num}")
    values = ", ".join(f"%v{i}" for i in range(count))
    split = ", 0" if shape == "16x32bx2" else ""
    places = ["%rd1", *(f"%rd1+{4 * i}" for i in range(1, count))]
    stores = "\n".join(f"    st.global.u32 [{p}], %v{i};" for i, p in enumerate(places))
    return f"""
.visible .entry {_name(shape, num)}(.param .u64 p_out, .param .u32 p_taddr)
{{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    .reg .b32 %v<{count}>;
    ld.param.u64 %rd1, [p_out];
    ld.param.u32 %r1, [p_taddr];
    tcgen05.ld.sync.aligned.{shape}.x{num}.b32 {{{values}}}, [%r1]{split};
    tcgen05.wait::ld.sync.aligned;
{stores}
    ret;
}}
"""
