"""What to write instead: where an instruction's job is done on another chip.

``wgmma`` exists on sm_90a alone. On the Blackwell data-centre chips its job is tcgen05's, on
sm_120 ``mma.sync``'s; rows say so by opcode prefix and chip, the first that fits is the answer.
"""

from __future__ import annotations

from mmalab.errors import UnknownForm
from mmalab.isa import Target, find, parse_targets
from mmalab.isa.targets import TARGETS

__all__ = ["instead", "later_floor"]

_DATACENTER = "sm_100f sm_110f"

#: Where whole families of instructions live, as long as the table does not hold their forms.
_FLOORS: tuple[tuple[str, str], ...] = (
    ("wgmma", "sm_90a"),
    ("tcgen05", _DATACENTER),
    ("cp.async.bulk", "sm_90+"),
    ("cp.reduce.async.bulk", "sm_90+"),
    ("tensormap.replace", "sm_90a sm_100f sm_110f sm_120f"),
    ("tensormap", "sm_90+"),
    ("multimem", "sm_90+"),
)

#: (opcode prefix, chips as numbers first to last, what to write there).
_PORTS: tuple[tuple[str, int, int, str], ...] = (
    ("wgmma", 75, 89, "mma.sync"),
    ("wgmma", 90, 90, ".target sm_90a"),
    ("wgmma", 100, 119, "tcgen05.mma, with its accumulators in Tensor Memory (.target {chip}a)"),
    ("wgmma", 120, 129, "mma.sync, with .block_scale on {chip}a; there is no warpgroup MMA"),
    ("tcgen05", 75, 89, "mma.sync"),
    ("tcgen05", 90, 90, "wgmma.mma_async (.target sm_90a)"),
    ("tcgen05", 120, 129, "mma.sync, with .block_scale on {chip}a; there is no Tensor Memory"),
    ("mma.sync.aligned.kind", 100, 119, "tcgen05.mma .kind::mxf8f6f4, mxf4 or mxf4nvf4"),
    ("mma.sp::ordered_metadata.sync.aligned.kind", 100, 119, "tcgen05.mma.sp"),
    ("mma.sync.aligned.kind", 75, 90, "cvt to f16 or bf16 and scale by hand, then mma.sync"),
    ("cp.async.bulk", 80, 89, "cp.async, with mbarriers or groups"),
    ("cp.async.bulk", 75, 79, "ld.global, st.shared and bar.sync"),
    ("cp.async", 75, 79, "ld.global, st.shared and bar.sync"),
    ("mbarrier", 75, 79, "bar.sync and bar.arrive"),
    ("mbarrier.try_wait", 80, 89, "mbarrier.test_wait in a loop"),
    ("stmatrix", 75, 89, "st.shared of the fragments"),
    ("redux.sync", 75, 129, "a butterfly of shfl.sync"),
    ("barrier.cluster", 75, 89, "separate launches: there are no clusters"),
    ("elect.sync", 75, 89, "compare %laneid with a fixed lane"),
    ("setmaxnreg", 75, 89, ".maxnreg for the whole kernel"),
)


def later_floor(opcode: str) -> str | None:
    """The targets of a family that the table does not hold yet, None if that is not known."""
    return next((floor for prefix, floor in _FLOORS if opcode.startswith(prefix)), None)


def instead(opcode: str, on: Target, *, emulated: bool = False) -> str:
    """What does the job on that chip, "" where nothing is known."""
    if emulated:
        return _native(opcode)
    for prefix, first, last, what in _PORTS:
        if opcode.startswith(prefix) and first <= on.number <= last and not _suffix(opcode, on):
            return what.format(chip=f"sm_{on.number}")
    return _suffix(opcode, on)


def _suffix(opcode: str, on: Target) -> str:
    """The chip itself has it, but this target's suffix does not tell."""
    try:
        allowed = parse_targets(find(opcode).targets)
    except UnknownForm:
        allowed = parse_targets(later_floor(opcode) or "sm_75+")
    same = [name for name, row in TARGETS.items() if row.number == on.number and name in allowed]
    return f".target {' or '.join(same)} (the same chip)" if same else ""


def _native(opcode: str) -> str:
    if any(word in opcode for word in (".e4m3", ".e5m2")):
        return ("wgmma on sm_90a, tcgen05.mma on sm_100a and its like, which have FP8 units; "
                "or f16 mma.sync, which is what runs")
    if ".s4" in opcode or ".u4" in opcode:
        return "s8 mma.sync"
    return ""
