"""The first rungs: one instruction, the textbook kernel, and FP32 on CUDA cores."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from products import arguments, differing, emulated

import mmalab
from mmalab.kernels.sm80_mma import ffma, gemm, one_mma, one_wmma, textbook


@pytest.mark.parametrize("make", [one_mma, one_wmma])
def test_one_instruction_multiplies_small_integers_exactly(make):
    """Products of small integers equal NumPy's, all of them: the article's own check."""
    kernel = make()
    a, b, c = arguments(kernel)
    # Rounded fresh values: integers from about -16 to 16.
    a, b = (np.rint(x.astype(np.float32) * 4).astype(ml_dtypes.bfloat16) for x in (a, b))
    run = mmalab.emulate(kernel, [a, b, c], target="sm_89")
    assert run.findings == []
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("make", [one_mma, one_wmma])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_one_instruction_has_the_units_bits(make, target):
    """Random bit patterns give what the chip's unit gives."""
    emulated(make(), target, mix="bits")


def test_wmma_and_mma_are_the_same_arithmetic():
    """The left half of the WMMA tile is what mma.sync makes of the left half of B."""
    wide, narrow = one_wmma(), one_mma()
    a, b, c = arguments(wide)
    half = np.full((16, 8), np.nan, np.float32)
    mmalab.emulate(wide, [a, b, c], target="sm_90")
    mmalab.emulate(narrow, [a, np.ascontiguousarray(b[:, :8]), half], target="sm_90")
    assert np.array_equal(half.view(np.uint32), c[:, :8].copy().view(np.uint32))


@pytest.mark.parametrize(("m", "n", "k"), [(48, 16, 32), (64, 64, 48)])
def test_textbook_gives_the_reference(m, n, k):
    """Warps past the edge leave, the others write the reference's bits; nothing is found."""
    assert emulated(textbook(m, n, k), "sm_90").findings == []


def test_textbook_and_gemm_agree():
    """The first and the last rung add in the same order: same bits."""
    kernel = textbook(32, 32, 96)
    args = arguments(kernel)
    other = [*args[:2], args[2].copy()]
    mmalab.emulate(kernel, args, target="sm_89", sanitize=False)
    mmalab.emulate(gemm(32, 32, 96), other, target="sm_89", sanitize=False)
    assert np.array_equal(args[2].view(np.uint32), other[2].view(np.uint32))


@pytest.mark.parametrize(("m", "n", "k"), [(136, 72, 8), (8, 8, 16), (64, 136, 56)])
def test_ffma_gives_a_chain_of_fused_multiply_adds(m, n, k):
    """FP32 products with edges equal the chain in ascending k, and nothing is found."""
    run = emulated(ffma(m, n, k), "sm_90")
    assert run.findings == []


def test_ffma_chain_has_an_order():
    """The reference is a claim about order: summed from the other end, some bit differs."""
    kernel = ffma(64, 64, 64)
    args = arguments(kernel)
    args[2][...] = 0
    for k in reversed(range(64)):
        args[2][...] = np.float32(args[2] + np.outer(args[0][:, k], args[1][:, k]))
    assert differing(kernel, args, "sm_90") > 0


def test_ffma_has_no_bank_conflicts():
    """The padded, transposed tile is written and read in the fewest wavefronts."""
    run = emulated(ffma(128, 128, 16), "sm_80")
    assert run.counters["shared.wavefronts"] == run.counters["shared.wavefronts.ideal"] > 0
