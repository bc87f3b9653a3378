"""Skinny products: right bits for few rows, any split of K, any width."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hopper import multiplied

from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import gemm, skinny
from mmalab.kernels.sm90_wgmma.choose import split_for


@pytest.mark.parametrize(("m", "n", "k", "dtype", "out", "given"), [
    (1, 100, 200, "bf16", "bf16", {}),
    (17, 130, 520, "bf16", "f32", {"split": 2}),
    (5, 67, 528, "s8", "s32", {"split": 4}),
    (33, 64, 528, "s8", "s32", {}),
    (16, 130, 1040, "e4m3", "bf16", {"split": 2, "depth": 2}),
    (64, 65, 260, "tf32", "f32", {"split": 2, "stages": 3}),
    (130, 70, 264, "bf16", "bf16", {"split": 4}),
])
def test_result_is_the_reference_bit_for_bit(m, n, k, dtype, out, given):
    """Every split, type and edge writes the reference's bits and is clean."""
    run = multiplied(skinny(m, n, k, dtype, out, **given))
    assert run.findings == []
    assert set(run.fidelity.values()) == {"exact"}


def test_no_schedule_changes_the_result():
    """Late copies change nothing, and nobody reads sums that a CTA has not laid down."""
    assert multiplied(skinny(9, 70, 392, split=2), schedule="lazy").findings == []


@pytest.mark.parametrize("overlap", ["none", "weights"])
@pytest.mark.parametrize(("k", "given"), [(2000, {"split": 2, "stages": 4}), (200, {})])
def test_kernels_that_overlap_write_the_same(overlap, k, given):
    """Copies of B ahead of A's, more or fewer than the ring holds; clean under late copies."""
    kernel = skinny(17, 130, k, overlap=overlap, **given)
    assert kernel.programmatic == (overlap != "none")
    assert multiplied(kernel, schedule="lazy").findings == []


@pytest.mark.parametrize(("m", "n", "k", "given"), [
    (64, 130, 2000, {"share": 2}), (32, 260, 1040, {"share": 4, "stages": 4, "depth": 2}),
    (16, 64, 528, {"share": 2, "dtype": "s8"}),
    (64, 300, 2320, {"share": 2, "dtype": "e4m3", "out": "bf16", "overlap": "weights"}),
])
def test_lines_of_a_that_ctas_share(m, n, k, given):
    """Each copies its part to all of a cluster; a cluster's last CTA may have no tile."""
    kernel = skinny(m, n, k, **given)
    assert kernel.cluster == (given["share"], 1, 1)
    assert kernel.grid[0] % given["share"] == 0
    for schedule in ("eager", "lazy"):
        assert multiplied(kernel, schedule=schedule).findings == []


def test_nothing_is_written_before_the_kernel_ahead_has_ended():
    """Who stores C waits, and so does who copies A; B is copied before only where that is asked."""
    assert "griddepcontrol" not in skinny(4, 64, 4096, overlap="none").ptx
    for overlap, early in (("launch", set()), ("weights", {"b"})):
        text = skinny(4, 64, 4096, overlap=overlap).ptx
        before, _, after = text.partition("griddepcontrol.wait")
        maps = re.findall(r"cvta.param.u64 (%rd\d+)", before)
        held = dict(zip(maps, "ab", strict=True))
        found = [{held[map_] for map_ in re.findall(r"bulk.tensor.*\], \[(%rd\d+), \{", text)}
                 for text in (before, after)]
        assert found == [early, {"a", "b"}]
        assert "launch_dependents" in after
        assert "st.global" not in before
        assert "st.global" in after.partition("griddepcontrol.wait")[2]


def test_split_adds_in_order_of_k():
    """Four parts of K are not one chain: the reference adds them as the kernel does."""
    whole, cut = (skinny(8, 64, 2048, out="f32", split=split) for split in (1, 4))
    rng = np.random.default_rng(3)
    args = [rng.standard_normal((8, 2048), np.float32), rng.standard_normal((64, 2048),
                                                                           np.float32)]
    words = [a.view(np.uint32) >> 16 for a in args]
    given = [w.astype(np.uint16) for w in words] + [np.zeros((8, 64), np.float32)]
    assert whole.reference is not None
    assert cut.reference is not None
    one, four = whole.reference(given, "sm_90")[0], cut.reference(given, "sm_90")[0]
    assert (one != four).any()
    assert np.allclose(one, four, rtol=1e-3, atol=1e-3)


def test_gemm_takes_it_for_few_rows():
    """Up to 64 rows of whole 16 bytes the choice is a skinny kernel."""
    assert gemm(16, 8192, 8192).name.startswith("skinny")
    assert gemm(65, 8192, 8192).name.startswith("wgmma")
    assert gemm(128, 576, 7168).name.startswith("skinny")
    assert gemm(257, 576, 7168).name.startswith("wgmma")
    assert gemm(16, 8192, 8190).name.startswith("wgmma")


@pytest.mark.parametrize(("n", "expected"), [
    (8192, (1, 2, 1)), (2112, (4, 2, 1)), (576, (8, 2, 1)), (28672, (1, 2, 1)),
])
def test_the_chip_is_filled(n, expected):
    """Tiles are split as far as the SMs reach."""
    assert split_for(n, 128) == expected
    split, tiles = expected[0], -(-n // 64)
    assert tiles * split <= 132 < tiles * split * 2 or split in (1, 8)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: skinny(257, 64, 64), "m=257: rows are few here"),
    (lambda: skinny(1, 64, 63), "k=63: rows of a tensor map"),
    (lambda: skinny(1, 64, 64, split=2), "split=2: of 1 slices"),
    (lambda: skinny(1, 64, 64, out="s32"), "out='s32': is not what these sums"),
    (lambda: skinny(1, 64, 8192, stages=99), "stages=99: of 9216 bytes"),
    (lambda: skinny(8, 64, 64, share=2), "share=2: of 8 lines of A"),
    (lambda: skinny(64, 64, 256, split=2, share=2), "share=2: of 64 lines of A, split 2"),
    (lambda: skinny(1, 64, 64, overlap="all"), "overlap='all': is no way"),
    (lambda: skinny(256, 64, 8192, resident=4, depth=2), "stages=None: of 81920 bytes"),
])
def test_refusals(call, words):
    """What cannot be made is refused, with what can."""
    with pytest.raises(UsageError, match=words.replace("(", r"\(")) as refused:
        call()
    assert "legal" in str(refused.value)
