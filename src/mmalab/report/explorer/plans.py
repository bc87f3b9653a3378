"""The ledger of Tensor Memory and a pipeline's shared memory for each choice that the page offers.

A choice that cannot be is kept with its reason: the page shows what the planner says.
"""

from __future__ import annotations

from typing import Any

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.plan.smem import StagePlan, stage_plan
from mmalab.plan.tmem import Ledger, ledger

__all__ = ["DEPTHS", "FORMATS", "SIZES", "STAGES", "TARGETS", "catalogue", "shared",
           "tensor_memory"]

#: Formats by the words of the menu: (type, block format).
FORMATS: dict[str, tuple[str, str | None]] = {
    "f16": ("f16", None), "tf32": ("tf32", None), "fp8": ("e4m3", None),
    "mxfp8": ("e4m3", "mxfp8"), "mxfp4": ("e2m1", "mxfp4"), "nvfp4": ("e2m1", "nvfp4"),
}
#: (M, N, cta_group).
SIZES = tuple((m, n, group) for m, group in ((64, 1), (128, 1), (256, 2))
              for n in (64, 96, 128, 160, 192, 224, 256))
STAGES = (1, 2, 3, 4)
TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
#: Bytes of K in a stage.
DEPTHS = (64, 128, 256)
#: Bytes of a member that is large enough to see.
_SEEN = 64


def tensor_memory(m: int, n: int, group: int, name: str, stages: int) -> dict[str, Any]:
    """One ledger: its parts with their places, or why there is none."""
    try:
        found = ledger(m, n, stages=stages, cta_group=group, scales=FORMATS[name][1],
                       dtype=None if FORMATS[name][1] else FORMATS[name][0])
    except UsageError as refused:
        return {"refused": str(refused)}
    return {"columns": found.columns, "held": list(found.allocations), "ctas": found.ctas,
            "parts": _parts(found), "path": found.path, "misfit": str(found.misfit or "")}


def _parts(found: Ledger) -> list[list[Any]]:
    """(name, first column, columns, 0 all lanes / 1 upper half / 2 lower half, is it scales)."""
    if found.packing is None:
        starts = 0
        rows = []
        for part in found.parts:
            rows.append([part.name, starts, part.columns, 0, part.role == "scales"])
            starts += part.columns
        return rows
    return [[p.part.name, p.column, p.part.columns,
             (2 if p.lane >= 16 else 1) if p.part.half else 0, p.part.role == "scales"]
            for p in found.packing.placements]


def shared(m: int, n: int, group: int, name: str, depth: int, target: str) -> dict[str, Any]:
    """One pipeline in shared memory with as many stages as fit, or why there is none."""
    dtype, scales = FORMATS[name]
    if group > 1 and not isa.limits(target).tmem_columns:
        return {"refused": f"cta_group::{group} on {target}: no Tensor Memory, no pairs"}
    k = depth * 8 // _bits(name, target)
    try:
        found = stage_plan(m, n, k, dtype, target=target, scales=scales, cta_group=group)
    except UsageError as refused:
        return {"refused": str(refused)}
    return {"k": k, "stages": found.max_stages, "stage": found.stage_bytes,
            "limit": found.layout.limit, "bytes": found.layout.bytes, "swizzle": found.swizzle,
            "ctas": found.ctas, "members": _members(found), "misfit": str(found.misfit or "")}


def _bits(name: str, target: str) -> int:
    """Bits of an element in shared memory, by what one A of 128 x 256 takes there."""
    found = stage_plan(128, 128, 256, FORMATS[name][0], scales=FORMATS[name][1], target=target)
    return found.layout.members[0].bytes * 8 // (128 * 256)


def _members(found: StagePlan) -> list[list[Any]]:
    """(name, first offset, bytes of each, how many behind each other), barriers left out."""
    grouped: dict[str, list[Any]] = {}
    for member in found.layout.members:
        name = member.name.partition("[")[0]
        row = grouped.setdefault(name, [name, member.offset, member.bytes, 0])
        row[3] += 1
    return [row for row in grouped.values() if row[2] >= _SEEN]


def catalogue() -> dict[str, Any]:
    """All choices: the menus, and the answers by their key."""
    return {
        "formats": list(FORMATS), "sizes": [list(size) for size in SIZES],
        "stages": list(STAGES), "targets": list(TARGETS), "depths": list(DEPTHS),
        "ledgers": {f"{m}x{n}x{g} {name} {stages}": tensor_memory(m, n, g, name, stages)
                    for m, n, g in SIZES for name in FORMATS for stages in STAGES},
        "shared": {f"{m}x{n}x{g} {name} {depth} {target}": shared(m, n, g, name, depth, target)
                   for m, n, g in SIZES for name in FORMATS for depth in DEPTHS
                   for target in TARGETS},
    }
