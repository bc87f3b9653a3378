"""E: block scales: what of the padding counts, and what zeros may mean."""

from __future__ import annotations

import numpy as np
import pytest

import mmalab
from mmalab.plan import block_formats as plans
from mmalab.ptx.builder import KernelBuilder


def test_e03_scales_of_the_padding() -> None:
    """E03: padded rows reach padded outputs only; padded K scales reach valid ones, and 0 x NaN is
    NaN: the bytes of the padding that have to be set are those of valid rows."""
    rows, blocks = 1, 5
    valid = {plans.scale_offset(row, block, 8) for row in range(rows) for block in range(blocks)}
    of_row = {plans.scale_offset(0, block, 8) for block in range(8)}
    assert len(of_row - valid) == 3  # scales of K beyond the data, read with row 0
    assert plans.padded_scales(rows, blocks) == 2 * 512
    assert np.isnan(np.float32(0) * np.float32("nan"))


def test_e03_a_padded_product(ask) -> None:
    """E03: NaN scales in rows 1 to 15 of the first tile, and behind K in all rows of the second:
    row 0 of the first is right, everything else is NaN."""
    said = ask("run", "e03_padded.ptx", "--grid", 2, "--arg", "in:e03_scales.npy", "--arg",
               "out:32,8:f32:d.npy", "--arg", "u32:1")
    assert "rows 1-31 NaN" in said.text
    assert (np.load("d.npy")[0] == 48).all()


@pytest.mark.parametrize(("more", "code", "words"), [
    ((), 0, "rows 32-47 not written; rows 16-31 zero"),
    (("--grid", 3), 0, "d.npy (f32 48,8): rows 16-31 zero"),
    (("--shared", 102400), 2, "more than sm_120a has for a CTA legal: 0 to 101376"),
    (("--target", "sm_100a"), 2, "code for sm_120a: does not run on sm_100a"),
    (("--target", "sm_121a"), 2, "code for sm_120a: does not run on sm_121a"),
])
def test_e09_the_list_in_one_command(ask, more, code, words) -> None:
    """E09: does the image run, does the launch fit, was each row written, is it zero? The second
    tile's scales are zero; the plan of two tiles lacks the third."""
    grid = () if "--grid" in more else ("--grid", 2)
    said = ask("run", "e03_padded.ptx", *grid, *more, "--arg", "in:e09_scales.npy", "--arg",
               "out:48,8:f32:d.npy", "--arg", "u32:16")
    assert said.code == code
    assert words in said.text


def test_e09_not_written_is_not_zero() -> None:
    """E09: rows of zeros: computed, or never written? A poisoned output tells."""
    b = KernelBuilder("half", target="sm_80")
    out = b.load_param(b.param("out", "u64"))
    at = b.add("s64", out, b.mul_wide("u32", b.mov("u32", b.tid.x), 4))
    with b.when(b.setp("lt", "u32", b.mov("u32", b.tid.x), 16)):
        b.st("global.f32", b.at(at), 0.0)
    b.emit("ret")
    poisoned = np.full(32, np.nan, np.float32)
    mmalab.emulate(b.text(), [poisoned], block=32)
    assert (poisoned[:16] == 0).all()
    assert np.isnan(poisoned[16:]).all()
