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


# --- the other major, and steps through K ---------------------------------------------------------

#: LBO, SBO and the bytes from one product of K to the next, of tiles of 64 rows of 128 bytes.
K_MAJOR, MN_MAJOR = (16, 1024, 32), (8192, 1024, 2048)
#: The same tile without swizzle: 8 steps of 64 rows of 16 bytes.
PLAIN = (1024, 128, 2048)
FIELDS = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
SQUARE, PAIR = [(tiled((64, 64), 64, 64), "0, 0", 0)], [
    (tiled((64, 64), 64, 128), "0, 0", 0), (tiled((64, 64), 64, 128), "64, 0", 8192)]
#: 64 of K in 128 of N, in one box of three dimensions.
DEALT = [(mmalab.TensorMap.tiled(tensor(64, 128), box=(64, 64, 2), swizzle="128B", dims=(64, 64, 2),
                                 strides=(256, 128)), "0, 0, 0", 0)]
CHUNKS = [(mmalab.TensorMap.tiled(tensor(64, 64), box=(8, 64, 8), swizzle="none", dims=(8, 64, 8),
                                  strides=(128, 16)), "0, 0, 0", 0)]
HALF = [(mmalab.TensorMap.tiled(tensor(64, 32), box=(32, 64), swizzle="64B"), "0, 0", 0)]
TALL = [(tiled((64, 128), 128, 64), "0, 0", 0)]


def _named(name: str, offset: int, strides: tuple[int, int, int], swizzle: str, step: int) -> str:
    leading, stride, along = strides
    return descriptor(name, offset + step * along, leading=leading, stride=stride,
                      swizzle=FIELDS[swizzle])


def sums(*, a: tuple[int, int, int] = K_MAJOR, b: tuple[int, int, int] = K_MAJOR, n: int = 64,
         majors: str = "0, 0", first: str = "", steps: int = 4, swizzle: str = "128B",
         tile_a: Any = SQUARE, tile_b: Any = SQUARE, between: str = "", moved: str = "",
         last: str = "") -> list[mmalab.Finding]:
    """64 x `n` sums of `steps` products of 16 of K; everything behind the tiles is written too.

    `last` makes the B of one more.
    """
    loads = [(map_, at, 1024 + offset) for map_, at, offset in tile_a]
    loads += [(map_, at, 40960 + offset) for map_, at, offset in tile_b]
    body = ("mov.b32 %r10, 0; shl.b32 %r11, %t, 4; add.u32 %r11, %r11, %s;\n"
            "FILL: st.shared.v4.b32 [%r11], {%r10, %r10, %r10, %r10}; add.u32 %r11, %r11, 2048;\n"
            "add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 40; @%p3 bra FILL;\n"
            "fence.proxy.async.shared::cta; " + init(1) + START
            + expect(0, sum(map_.box_bytes for map_, _, _ in loads)))
    for number, (_, at, to) in enumerate(loads):
        rank = at.count(",") + 1
        body += f"add.u32 %r9, %s, {to};\n" + load(
            number, to="%r9", at=at,
            form=f"{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes")
    body += wait(0, 0) + moved + FENCE
    d = "{" + ", ".join(f"%f{at}" for at in range(n // 2)) + "}"
    for step in range(steps + bool(last)):
        body += (_named("%rd0", 1024, a, swizzle, step)
                 + (last if step == steps else _named("%rd1", 40960, b, swizzle, step))
                 + f"setp.ne.u32 %p30, {step}, 0;\nwgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16"
                 f".bf16 {d}, %rd0, %rd1, %p30, 1, 1, {first if first and not step else majors};\n"
                 + between)
    # the module's own 32 KiB are too few
    return run(body + END, [map_ for map_, _, _ in loads], shared=81920).findings


RIGHT: dict[str, dict[str, Any]] = {
    "K-major": {},
    "N-major": {"b": MN_MAJOR, "majors": "0, 1"},
    "both MN-major": {"a": MN_MAJOR, "b": MN_MAJOR, "majors": "1, 1"},
    "N-major in two boxes": {"b": MN_MAJOR, "majors": "0, 1", "n": 128, "tile_b": PAIR},
    "N-major in a box of three dimensions": {
        "b": MN_MAJOR, "majors": "0, 1", "n": 128, "tile_b": DEALT},
    "rows of a taller box": {"tile_a": TALL},
    "64-byte swizzle": {"a": (16, 512, 32), "b": (16, 512, 32), "steps": 2, "swizzle": "64B",
                        "tile_a": HALF, "tile_b": HALF},
    "no swizzle": {"a": PLAIN, "b": PLAIN, "swizzle": "none", "tile_a": CHUNKS, "tile_b": CHUNKS},
}
#: What is wrong, what is said, and the right twin.
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "+32 for +2": ({"b": (16, 1024, 512)}, "from (row 0, byte 0) to (row 4, byte 0)", "K-major"),
    "+32 for +2 in both": ({"a": (16, 1024, 512), "b": (16, 1024, 512)},
                           "from (row 0, byte 0) to (row 4, byte 0)", "K-major"),
    "+32 for +2 in a taller box": ({"a": (16, 1024, 512), "tile_a": TALL},
                                   "other rows for the same sums", "rows of a taller box"),
    "+4 for +2": ({"b": (16, 1024, 64), "steps": 2}, "goes on by 2 of what", "K-major"),
    "+3 for +2": ({"b": (16, 1024, 48), "steps": 2}, "goes on by 3/2 of", "K-major"),
    "+1 for +2": ({"a": (16, 1024, 16), "b": (16, 1024, 16)}, "goes on by 1/2 of", "K-major"),
    "N-major read as K-major": ({"b": MN_MAJOR}, "to (row 16, byte 0)", "N-major"),
    "M-major read as K-major": ({"a": MN_MAJOR}, "to (row 16, byte 0)", "both MN-major"),
    "K-major read as N-major": ({"majors": "0, 1"}, "goes along the dimension 1", "K-major"),
    "N-major, but the first": (
        {"b": MN_MAJOR, "majors": "0, 1", "first": "0, 0"}, "took them for the other", "N-major"),
    "K-major, but the first": ({"first": "1, 0"}, "took them for the other", "K-major"),
    "N-major with the step of K-major": (
        {"b": (8192, 1024, 32), "majors": "0, 1"}, "goes along the dimension 1", "N-major"),
    "N-major, half a step": ({"b": (8192, 1024, 1024), "majors": "0, 1"}, "goes on by 1/2 of",
                             "N-major"),
    "N-major, LBO and SBO exchanged": (
        {"b": (1024, 8192, 2048), "majors": "0, 1", "n": 128, "tile_b": PAIR},
        "goes along the dimension 1", "N-major in two boxes"),
    "N-major, LBO of another tile": (
        {"b": (2048, 1024, 2048), "majors": "0, 1", "n": 128, "tile_b": DEALT},
        "goes along the dimension 1", "N-major in a box of three dimensions"),
    "N-major, SBO of another tile": (
        {"b": (8192, 4096, 2048), "majors": "0, 1", "steps": 1, "n": 128, "tile_b": PAIR},
        "leaves out parts of K", "N-major in two boxes"),
    "past the end of K": (
        {"a": (16, 512, 32), "b": (16, 512, 32), "steps": 3, "swizzle": "64B", "tile_a": HALF,
         "tile_b": HALF}, "from (row 0, byte 32) to (row 1, byte 0)", "64-byte swizzle"),
    "no swizzle, half a step": (
        {"a": PLAIN, "b": (1024, 128, 1024), "swizzle": "none", "tile_a": CHUNKS,
         "tile_b": CHUNKS}, "goes on by 1/2 of", "no swizzle"),
    "no swizzle, LBO and SBO exchanged": (
        {"a": PLAIN, "b": (128, 1024, 2048), "swizzle": "none", "tile_a": CHUNKS,
         "tile_b": CHUNKS}, "goes along the dimension 1", "no swizzle"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_operands_that_lie_as_they_are_read(name: str) -> None:
    """Both majors, boxes of two and three dimensions, with and without a swizzle."""
    assert sums(**RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_lie_otherwise(name: str) -> None:
    """A major, a stride or a step of K that the box denies, although every byte is written."""
    wrong, said, twin = WRONG[name]
    found = [f for f in sums(**wrong) if f.code == "descriptor-mismatch"]
    assert {f.severity for f in found} == {"warning"}
    assert any(said in f.message and "Repair: " in f.message for f in found), found
    assert twin in RIGHT
    assert wrong != RIGHT[twin]


def test_a_last_step_that_goes_back_by_half() -> None:
    """The fourth product begins in the middle of the second: + 3 in the field where + 6 belongs."""
    again = _named("%rd1", 40960 + 48, K_MAJOR, "128B", 0)
    found = sums(steps=3, between="", last=again)
    assert [(f.code, f.severity) for f in found] == [("descriptor-mismatch", "warning")]
    assert "goes on by -1/2 of what a product takes of K" in found[0].message


def test_one_tile_against_several_parts_of_the_other() -> None:
    """Perhaps high and low halves of numbers; perhaps a step that is missing: a note."""
    found = sums(b=(16, 1024, 0))
    assert {(f.code, f.severity) for f in found} == {("descriptor-mismatch", "note")}
    assert "goes on by 1 of what a product takes of K, the other operand by 0" in found[0].message


def test_the_repair_is_the_step() -> None:
    """In bytes and in the units of the start field, for either major."""
    [finding] = [f for f in sums(b=(16, 1024, 512)) if f.code == "descriptor-mismatch"]
    assert "32 bytes (2 in the start field) from one product of K to the next" in finding.message
    assert finding.witness is not None
    assert finding.witness["box"] == [128, 64]
    [finding] = sums(b=(8192, 1024, 1024), majors="0, 1")
    assert "2048 bytes (128 in the start field)" in finding.message


def test_a_fence_ends_a_sum() -> None:
    """Behind a fence other rows may be meant: the registers may have been stored and cleared."""
    assert [f.code for f in sums(tile_a=TALL, a=(16, 1024, 8192), steps=2)] == [
        "descriptor-mismatch"]
    assert sums(tile_a=TALL, a=(16, 1024, 8192), steps=2,
                between=END + "".join(f"mov.f32 %f{at}, 0f00000000;\n" for at in range(32))
                + FENCE) == []


def test_a_tile_that_was_laid_out_anew() -> None:
    """What ordinary stores have written over the box is theirs to lay out."""
    over = ("bar.sync 0; shl.b32 %r11, %t, 4; add.u32 %r11, %r11, %s; mov.b32 %r10, 0;\n"
            "OVER: st.shared.v4.b32 [%r11+40960], {%r10, %r10, %r10, %r10};\n"
            "add.u32 %r11, %r11, 2048; add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 12;"
            " @%p3 bra OVER;\nfence.proxy.async.shared::cta; bar.sync 0;\n")
    assert sums(b=(16, 1024, 512), moved=over) == [
        f for f in sums(b=(16, 1024, 512), moved=over) if f.code == "illegal-value"]
