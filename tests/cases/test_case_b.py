"""B: who holds which element, where tiles lie, and what goes wrong when two sides disagree."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from cases.pipelines import TWINS

import mmalab
from mmalab import descriptors, isa
from mmalab.plan import swizzle_table
from mmalab.plan.misread import atoms, misread

_MMA = "mma.sync.aligned.m16n8k{}.row.col.f32.{}.{}.f32"
_BF16 = np.dtype(ml_dtypes.bfloat16)


def test_b01_fragments_of_counting_values() -> None:
    """B01: fragments filled with counting values give numbers that look scrambled: whose mistake?

    Registers packed by the rule of the answer, row lane/4 and so on, written out here once more."""
    rng = np.random.default_rng()
    a, b = (rng.integers(-8, 8, shape).astype(_BF16) for shape in ((16, 8), (8, 8)))
    left, right = np.zeros((32, 2, 2), _BF16), np.zeros((32, 1, 2), _BF16)
    for lane, low in itertools.product(range(32), range(2)):
        left[lane, 0, low] = a[lane // 4, 2 * (lane % 4) + low]
        left[lane, 1, low] = a[lane // 4 + 8, 2 * (lane % 4) + low]
        right[lane, 0, low] = b[2 * (lane % 4) + low, lane // 4]
    out = np.full((32, 4), np.nan, np.float32)
    run = mmalab.emulate(TWINS["b01_fragments"](), [
        left.reshape(32, 4).view(np.uint16), right.reshape(32, 2).view(np.uint16), out])
    assert run.findings == []
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    for lane, slot in itertools.product(range(32), range(4)):
        row, column = lane // 4 + 8 * (slot // 2), 2 * (lane % 4) + slot % 2
        assert out[lane, slot] == wanted[row, column]
    places = {isa.layout(_MMA.format(8, "bf16", "bf16"), "A", lane=lane, slot=slot).at
              for lane in range(32) for slot in range(4)}
    assert len(places) == 16 * 8


def test_b04_one_side_swizzles() -> None:
    """B04: the map does not swizzle, the descriptor does. Chunk c of row r comes from c ^ r % 8."""
    found = misread(64, 64, "f16", written="none", read="128B")
    row, chunk = np.indices(found.got.shape)
    np.testing.assert_array_equal(found.got, 8 * row + (chunk ^ row % 8))
    assert (found.share, found.rows_right) == ("1/8", list(range(0, 64, 8)))


@pytest.mark.parametrize(("mode", "cols", "period"), [
    ("128B", 64, 1024), ("64B", 32, 512), ("32B", 16, 256)])
def test_b05_where_a_pattern_may_begin(ask, mode: str, cols: int, period: int) -> None:
    """B05: a buffer in front of the tile, and results are wrong. Which bases are right?"""
    for base in range(0, 2048 + 1, 128):
        words = ["swizzle", "--tile", f"64,{cols}", "--dtype", "bf16", "--written", mode, "--read",
                 mode, "--relative", "--base", base]
        said = ask(*words)
        assert said.code == (base % period != 0)
        assert (f"multiples of {period} bytes" in said.text) == bool(base % period)
        assert ask(*(word for word in words if word != "--relative")).code == 0


@pytest.mark.parametrize(("cols", "mode"), [(16, "32B"), (32, "64B"), (64, "128B")])
def test_b07_the_mode_follows_from_the_row(cols: int, mode: str) -> None:
    """B07: the reader always undoes the 128-byte pattern, the map chose by the row's bytes."""
    right = misread(64, cols, "bf16", written=mode, read="128B")
    assert (right.right == right.chunks) == (mode == "128B")
    assert f"rows of {2 * cols} bytes are the span of mode {mode}" in misread(
        64, cols, "bf16", written="none", read="64B" if mode != "64B" else "32B").text()


def test_b10_layouts_know_widths_only() -> None:
    """B10: right for fp16 and wrong for bf16: can the layout be the reason? No."""
    for rows, cols in ((64, 64), (128, 32), (64, 16)):
        one, other = (swizzle_table(rows, cols, name) for name in ("f16", "bf16"))
        assert one == other
    for operand, depth in itertools.product("ABD", (8, 16)):
        f16, bf16 = (isa.places(_MMA.format(depth, name, name), operand)
                     for name in ("f16", "bf16"))
        assert [(p.at, p.lane, p.slot) for p in f16] == [(p.at, p.lane, p.slot) for p in bf16]


def test_b11_the_smallest_n(ask) -> None:
    """B11: N = 8 is legal, also for TF32 (a thread denies it); MN-major it fills no atom."""
    for types in ("f16.f16", "tf32.tf32"):
        depth = 16 if types == "f16.f16" else 8
        assert isa.legal(f"wgmma.mma_async.sync.aligned.m64n8k{depth}.f32.{types}", "sm_90a")
    assert descriptors.fitting_swizzles(8, 16, "MN") == ["none"]
    assert "128B" in descriptors.fitting_swizzles(8, 16, "K")
    said = ask("descriptor", "smem", "--encode", "swizzle=none", "--tile", "8,16", "--major", "MN")
    assert "8 is no multiple" not in said.text


@pytest.mark.parametrize("rows", [8, 12, 16, 64])
@pytest.mark.parametrize("cols", [8, 16, 32, 40, 64, 128])
def test_b13_parts_that_cut_atoms(rows: int, cols: int) -> None:
    """B13: the epilogue's warps share atoms. Whole: 8 rows, and spans that fill the row."""
    for found in atoms(rows, cols, "bf16"):
        span = int(found.mode.removesuffix("B"))
        pieces = {(row // 8, byte // span) for row in range(rows) for byte in range(2 * cols)}
        whole = len(pieces) * 8 * span == rows * 2 * cols
        assert found.whole == whole
        assert ("cut" in found.text()) != whole


def test_b14_swizzle_of_the_sum() -> None:
    """B14: right with one step of K for each thread, wrong with two: the DSL, or the kernel?

    A step that is added behind the swizzle is right only where it leaves the XOR's bits alone."""
    assert misread(64, 64, "bf16", written="128B", read="128B", step=128).share == "1"
    found = misread(64, 64, "bf16", written="128B", read="128B", step=32)
    at = np.arange(0, 64 * 128, 16)
    true = at ^ (at >> 3 & 0x70)
    late = at % 128 // 32 * 32
    base = at - late
    claimed = (base ^ (base >> 3 & 0x70)) + late
    assert found.right == int((true == claimed).sum())


@pytest.mark.parametrize("words", [
    ["--written", "128B"], ["--written", "48B", "--read", "none"],
    ["--written", "none", "--read", "128B", "--base", "8"], ["--part", "8"],
    ["--written", "none", "--read", "128B", "--step", "8"], ["--part", "8,3"]])
def test_wrong_use(ask, words: list[str]) -> None:
    said = ask("swizzle", "--tile", "64,64", "--dtype", "bf16", *words)
    assert said.code == 2
    assert "legal" in said.text
