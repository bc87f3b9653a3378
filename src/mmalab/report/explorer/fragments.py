"""Fragments for the page: the index of every (thread, slot), and a slot's place in the registers.

Nothing is derived from names: indices are the row's layout, registers and bits come from
:func:`mmalab.isa.places`. An accumulator in Tensor Memory is the same thing with a lane for a
thread and a column for a slot, from its data path::

    >>> row = fragment("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "D")
    >>> unpack(row["index"])[6 * len(row["slots"]) + 3], 9 + 16 * 5      # D[9][5]: lane 6, slot 3
    (89, 89)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmalab import isa
from mmalab.isa.tensor_memory import data_path, warp_lanes

__all__ = ["FORMS", "TILES", "catalogue", "fragment", "pack", "tensor_memory_tile", "thread_names",
           "unpack"]

_MMA = "mma.sync.aligned.m16n8k"
_WGMMA = "wgmma.mma_async.sync.aligned.m64n"
#: The instructions offered, by family, in the order of the menu.
FORMS: dict[str, tuple[str, ...]] = {
    "mma.sync": (
        f"{_MMA}16.row.col.f32.bf16.bf16.f32", f"{_MMA}16.row.col.f16.f16.f16.f16",
        f"{_MMA}8.row.col.f32.f16.f16.f32", f"{_MMA}8.row.col.f32.tf32.tf32.f32",
        f"{_MMA}32.row.col.f32.e4m3.e4m3.f32", f"{_MMA}32.row.col.s32.s8.s8.s32",
        f"{_MMA}64.row.col.s32.s4.s4.s32", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32",
    ),
    "wgmma": (
        f"{_WGMMA}64k16.f32.bf16.bf16", f"{_WGMMA}8k16.f32.bf16.bf16",
        f"{_WGMMA}128k16.f16.f16.f16", f"{_WGMMA}64k32.f32.e4m3.e4m3",
        f"{_WGMMA}64k8.f32.tf32.tf32",
    ),
    "ldmatrix": (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    ),
    "wmma": (
        "wmma.load.a.sync.aligned.row.m16n16k16.bf16",
        "wmma.load.b.sync.aligned.col.m16n16k16.bf16",
        "wmma.store.d.sync.aligned.row.m16n16k16.f32",
    ),
}
#: Accumulators of tcgen05.mma in Tensor Memory: M, N, cta_group, ws.
TILES: tuple[tuple[int, int, int, bool], ...] = (
    (128, 64, 1, False), (64, 64, 1, False), (256, 64, 2, False), (128, 64, 2, False),
    (64, 64, 1, True), (32, 64, 1, True),
)
_NAMES = {"A": "A, M x K", "B": "B, K x N", "C": "C, M x N", "D": "D, M x N"}


def pack(values: Sequence[int] | np.ndarray[Any, Any]) -> str:
    """16-bit numbers as base64, low byte first."""
    return base64.b64encode(np.asarray(values, "<u2").tobytes()).decode()


def unpack(text: str) -> list[int]:
    """The numbers of :func:`pack`."""
    return [int(value) for value in np.frombuffer(base64.b64decode(text), "<u2")]


def fragment(form: str, operand: str) -> dict[str, Any]:
    """One operand: `index` holds row + rows x (column + columns x matrix) by thread, then slot;
    `slots` (register, high bit, low bit, byte of the fragment) by slot."""
    found = isa.find(form)
    row = found.fragments[operand]
    places = isa.places(form, operand, lane=0)
    return {
        "operand": operand, "words": _NAMES[operand] if found.shape else operand,
        "rows": row.rows, "cols": row.cols, "matrices": row.batch, "threads": row.lanes,
        "type": row.type, "bits": row.bits, "registers": row.registers, "copies": row.copies,
        "slots": [[p.register, *p.bits, slot * row.bits // 8] for slot, p in enumerate(places)],
        "index": pack(row.indices().reshape(-1)),
        "command": f"mmalab layout {form} -{operand}",
    }


def tensor_memory_tile(m: int, n: int, cta_group: int, ws: bool) -> dict[str, Any]:
    """An accumulator in Tensor Memory: `index` by (CTA, lane) and column; 65535 where nothing
    lies. `reach` names the warp that each lane belongs to."""
    path = data_path(m, n, cta_group=cta_group, ws=ws)
    columns = path.columns(n)
    index = np.full((cta_group * 128, columns), 0xFFFF)
    for row in range(m):
        for col in range(n):
            cta, lane, column = path.place(row, col, m=m, n=n)
            index[cta * 128 + lane, column] = row + m * col
    reach = [next(warp for warp in range(4) if lane in warp_lanes(warp)) for lane in range(128)]
    return {
        "operand": "D", "words": f"D, layout {path.name}", "rows": m, "cols": n, "matrices": 1,
        "threads": cta_group * 128, "type": "f32", "bits": 32, "registers": columns, "copies": 1,
        "slots": [[column, 31, 0, 4 * column] for column in range(columns)],
        "index": pack(index.reshape(-1)), "memory": True, "reach": reach,
        "command": f"mmalab plan tmem --mma {m}x{n} --dtype f16 --stages 1"
                   + (f" --cta-group {cta_group}" if cta_group > 1 else ""),
    }


def thread_names() -> list[str]:
    """The threads of a warpgroup by warp and lane."""
    found = isa.places(FORMS["wgmma"][0], "D", slot=0)
    return [f"warp {place.warp}, lane {place.lane}" for place in found]


def catalogue() -> list[dict[str, Any]]:
    """Every instruction offered with its operands."""
    found = []
    for family, forms in FORMS.items():
        for form in forms:
            row = isa.find(form)
            found.append({"family": family, "form": form, "targets": row.targets,
                          "operands": [fragment(form, name) for name in sorted(row.fragments)
                                       if not _same(row, name)]})
    for m, n, group, ws in TILES:
        name = f"tcgen05.mma{'.ws' * ws}.cta_group::{group}.kind::f16, M = {m}, N = {n}"
        found.append({"family": "tcgen05", "form": name,
                      "targets": isa.find(f"tcgen05.mma{'.ws' * ws}.cta_group::{group}.kind::f16"
                                          ).targets,
                      "operands": [tensor_memory_tile(m, n, group, ws)]})
    return found


def _same(row: isa.Form, name: str) -> bool:
    """C where it lies as D does: it is shown once."""
    return name == "C" and row.fragments.get("D") == row.fragments["C"]
