"""Operands whose descriptor steps otherwise than the box that their bytes came in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mutants.hopper_snippets import START, descriptor, expect, init, load, product, run, wait

import mmalab

END = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
FENCE = "wgmma.fence.sync.aligned;\n"
#: A tile of 64 rows of 128 bytes, B of 8, and what lies behind the tile.
A_AT, BEHIND, B_AT = 1024, 1024 + 8192, 24576


def tensor(*shape: int) -> Any:
    """Normal numbers."""
    return np.random.default_rng().standard_normal(shape).astype(ml_dtypes.bfloat16)


def findings(stride: int, maps: list[Any], loads: list[tuple[int, int, str]],
             ) -> list[mmalab.Finding]:
    """One product of an A at `A_AT`, after (map, to, coordinates) were loaded, and B."""
    size = sum(maps[number].box_bytes for number, _, _ in loads) + 8 * 128
    copies = "".join(f"add.u32 %r9, %s, {to};\n" + load(number, to="%r9", at=at)
                     for number, to, at in [*loads, (len(maps), B_AT, "0, 0")])
    b = mmalab.TensorMap.tiled(tensor(8, 64), box=(64, 8), swizzle="128B")
    body = (init(1) + START + expect(0, size) + copies + wait(0, 0)
            + descriptor("%rd0", A_AT, stride=stride)
            + descriptor("%rd1", B_AT) + FENCE + product() + END)
    return run(body, [*maps, b]).findings


def tiled(box: tuple[int, ...], *shape: int) -> Any:
    """A map with the 128-byte swizzle."""
    return mmalab.TensorMap.tiled(tensor(*shape), box=box, swizzle="128B")


def test_an_operand_that_leaves_its_box() -> None:
    """Every second group of rows of the tile, then of the tile behind it."""
    one = tiled((64, 64), 128, 64)
    [finding] = findings(2048, [one], [(0, A_AT, "0, 0"), (0, BEHIND, "0, 64")])
    assert (finding.code, finding.severity) == ("descriptor-mismatch", "warning")
    assert "steps 2048 bytes from 8 rows to the next (SBO)" in finding.message
    assert "it leaves that box although it has more rows. Repair: SBO 1024 (64 in the field)" in (
        finding.message)


def test_rows_that_are_dealt_out_inside_a_box() -> None:
    """Every second group of 8 rows of 128: perhaps the other warpgroup has the rest."""
    one = tiled((64, 128), 128, 64)
    [finding] = findings(2048, [one], [(0, A_AT, "0, 0")])
    assert (finding.code, finding.severity) == ("descriptor-mismatch", "note")
    assert "it skips rows of it" in finding.message


@pytest.mark.parametrize(("stride", "box", "shape", "loads"), [
    (1024, (64, 64), (64, 64), [(A_AT, "0, 0")]),
    (1024, (64, 128), (128, 64), [(A_AT, "0, 0")]),
    (1024, (64, 32), (64, 64), [(A_AT, "0, 0"), (A_AT + 4096, "0, 32")]),
    (1024, (64, 8), (64, 64), [(A_AT + 1024 * at, f"0, {8 * at}") for at in range(8)]),
    (2048, (64, 8), (64, 64), [(A_AT + 2048 * at, f"0, {8 * at}") for at in range(8)]),
], ids=["one box", "half a box", "two boxes", "eight boxes", "boxes with gaps"])
def test_right_steps(stride: int, box: tuple[int, ...], shape: tuple[int, ...],
                     loads: list[tuple[int, str]]) -> None:
    """Boxes that follow each other, in whole or in part, and boxes apart."""
    one = tiled(box, *shape)
    assert findings(stride, [one], [(0, to, at) for to, at in loads]) == []


def test_two_slices_of_k_dealt_out_by_a_map_of_four_dimensions() -> None:
    """Groups of 8 rows of both slices take turns: SBO is the step of a dimension of the box."""
    a = tensor(64, 128)
    one = mmalab.TensorMap.tiled(
        a, box=(64, 8, 2, 8), swizzle="128B", dims=(64, 8, 2, 8), strides=(256, 128, 2048))
    copy = load(0, to="%r9", at="0, 0, 0, 0",
                form="4d.shared::cluster.global.mbarrier::complete_tx::bytes")
    b = mmalab.TensorMap.tiled(tensor(8, 64), box=(64, 8), swizzle="128B")
    body = (init(1) + START + expect(0, one.box_bytes + 1024) + f"add.u32 %r9, %s, {A_AT};\n"
            + copy + f"add.u32 %r9, %s, {B_AT};\n" + load(1, to="%r9") + wait(0, 0)
            + descriptor("%rd0", A_AT, stride=2048) + descriptor("%rd1", B_AT)
            + FENCE + product() + END)
    assert run(body, [one, b]).findings == []
