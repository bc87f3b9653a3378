"""dot and matmul: types in and out, promotion, split-K, and what they refuse."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from adversarial import fresh, operands

from mmalab import numerics
from mmalab.errors import UsageError
from mmalab.numerics import dot, matmul
from mmalab.numerics.reference import multiply

FP8 = ml_dtypes.float8_e4m3fn


def test_results_have_the_accumulator_type():
    """f32, f16, s32 and f64 units give arrays of those types; raw gives words."""
    for unit, kind, result in (("sm_90.mma.bf16.f32", ml_dtypes.bfloat16, np.float32),
                               ("sm_90.mma.f16.f16", np.float16, np.float16),
                               ("sm_90.mma.s8.s32", np.int8, np.int32),
                               ("sm_90.mma.f64.f64", np.float64, np.float64)):
        a = np.ones((2, 8), kind)
        assert dot(a, a, unit=unit).dtype == result
        assert dot(a, a, unit=unit).tolist() == [8, 8]
        assert matmul(a, a.T, unit=unit).dtype == result
    words = np.full((1, 4), 0x3F80, np.uint16)
    assert dot(words, words, unit="sm_90.mma.bf16.f32", raw=True).tolist() == [0x40800000]


def test_dot_is_the_diagonal_of_matmul():
    """Row i of A with column i of B, from the same accumulators."""
    unit, rng = numerics.unit("sm_90.wgmma.e4m3.f32"), fresh()
    a, b, c = operands(unit, 12, 12, 100, "normal", rng)
    whole = matmul(a, b, c, unit=unit, raw=True)
    each = dot(a, b.T, np.diag(c), unit=unit, raw=True)
    assert each.tolist() == np.diag(whole).tolist()


def test_values_that_fit_convert_and_others_are_refused():
    """Small integers are e4m3 numbers, 1.03 is not; nothing is rounded in silence."""
    a = np.array([[1, 2, 3]])
    assert dot(a, a, unit="sm_89.mma.e4m3.f32").tolist() == [14]
    with pytest.raises(UsageError, match="some are no e4m3 numbers"):
        dot(a * 1.03, a, unit="sm_89.mma.e4m3.f32")
    with pytest.raises(UsageError, match="tf32 operands are float32"):
        dot(a, a, unit="sm_90.mma.tf32.f32")


def test_padding_k_changes_no_bit():
    """A tail shorter than an instruction equals the same tail with zeros."""
    unit, rng = numerics.unit("sm_89.mma.e4m3.f32"), fresh()
    a, b, c = operands(unit, 4, 4, 41, "normal", rng)
    wide = [np.pad(a, [(0, 0), (0, 23)]), np.pad(b, [(0, 23), (0, 0)])]
    want = matmul(*wide, c, unit=unit, raw=True)
    assert matmul(a, b, c, unit=unit, raw=True).tolist() == want.tolist()


def test_promotion_adds_partial_chains_in_single_precision():
    """Every 64 k the accumulator restarts; the sums meet in FP32, beginning with c."""
    unit, rng = "sm_90.wgmma.e4m3.f32", fresh()
    a, b = (rng.uniform(-1, 1, s).astype(FP8) for s in ((6, 200), (200, 5)))
    c = rng.normal(size=(6, 5)).astype(np.float32)
    want = c
    for k in range(0, 200, 64):
        want = want + matmul(a[:, k : k + 64], b[k : k + 64], unit=unit)
    np.testing.assert_array_equal(matmul(a, b, c, unit=unit, promote_every=64), want)


def test_split_k_adds_contiguous_runs():
    """Five instructions in two runs: three and two, the first from c, added in FP32."""
    unit, rng = "sm_90.mma.bf16.f32", fresh()
    a, b = (rng.normal(size=s).astype(ml_dtypes.bfloat16) for s in ((3, 80), (80, 4)))
    c = rng.normal(size=(3, 4)).astype(np.float32)
    want = matmul(a[:, :48], b[:48], c, unit=unit) + matmul(a[:, 48:], b[48:], unit=unit)
    np.testing.assert_array_equal(matmul(a, b, c, unit=unit, split_k=2), want)
    np.testing.assert_array_equal(matmul(a, b, c, unit=unit, split_k=1),
                                  matmul(a, b, c, unit=unit))


def test_promotion_inside_split_k():
    """Each run promotes on its own before the runs are added."""
    unit, rng = "sm_90.wgmma.e4m3.f32", fresh()
    a, b = (rng.normal(size=s).astype(FP8) for s in ((3, 256), (256, 4)))
    runs = [matmul(a[:, i : i + 128], b[i : i + 128], unit=unit, promote_every=32)
            for i in (0, 128)]
    np.testing.assert_array_equal(matmul(a, b, unit=unit, promote_every=32, split_k=2),
                                  runs[0] + runs[1])


def test_integers_wrap_or_clamp_per_instruction():
    """Without satfinite sums wrap modulo 2^32; with it every instruction clamps its result."""
    rng = fresh()
    a = rng.integers(-128, 128, (3, 96)).astype(np.int8)
    b = rng.integers(0, 256, (96, 2)).astype(np.uint8)
    c = np.array([[2**31 - 1, -(2**31)]] * 3, np.int32)
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    wrapped = exact.astype(np.int32)
    np.testing.assert_array_equal(matmul(a, b, c, unit="sm_80.mma.s8.u8.s32"), wrapped)
    clamped = c.astype(np.int64)
    for k in range(0, 96, 32):
        clamped = clamped + a[:, k : k + 32].astype(np.int64) @ b[k : k + 32].astype(np.int64)
        clamped = np.clip(clamped, -(2**31), 2**31 - 1)
    got = matmul(a, b, c, unit="sm_80.mma.s8.u8.s32.satfinite")
    np.testing.assert_array_equal(got, clamped)


@pytest.mark.parametrize("operation", ["xor", "and"])
def test_single_bits_are_counted(operation):
    """Population counts of 256 joined bits for each output."""
    rng = fresh()
    a, b = rng.integers(0, 2, (3, 300)).astype(bool), rng.integers(0, 2, (300, 4)).astype(bool)
    joined = np.logical_xor if operation == "xor" else np.logical_and
    want = joined(a[:, :, None], b[None]).sum(axis=1)
    got = matmul(a, b, unit=f"sm_80.mma.b1.{operation}.s32")
    np.testing.assert_array_equal(got, want)


def test_large_products_equal_the_specification():
    """The compiled path, reached by size alone, gives the same as the reference."""
    unit, rng = numerics.unit("sm_80.mma.f16.f32"), fresh()
    a, b, c = operands(unit, 40, 40, 48, "normal", rng)
    got = matmul(a, b, c, unit=unit, raw=True)
    np.testing.assert_array_equal(got, multiply(unit, a, b, c))


@pytest.mark.parametrize(("call", "message"), [
    (lambda a: dot(a, a[:, :2], unit="sm_90.mma.bf16.f32"), r"both are \(batch, K\)"),
    (lambda a: dot(a[:, :0], a[:, :0], unit="sm_90.mma.bf16.f32"), r"K > 0"),
    (lambda a: matmul(a, a, unit="sm_90.mma.bf16.f32"), r"needs \(M, K\) and \(K, N\)"),
    (lambda a: dot(a, a, np.zeros(3), unit="sm_90.mma.bf16.f32"), "accumulator of every output"),
    (lambda a: matmul(a, a.T, unit="sm_90.mma.bf16.f32", promote_every=24), "multiples of 16"),
    (lambda a: matmul(a, a.T, unit="sm_90.mma.bf16.f32", split_k=2), "K holds 1 instructions"),
    (lambda a: matmul(a, a.T, unit="sm_90.mma.f16.f16", promote_every=16), "adds in FP32"),
    (lambda a: dot(a, a, unit="sm_90.mma.bf16.f32", scale_a=a, scale_b=a), "no block scales"),
    (lambda a: dot(a, a, unit="sm_100.tcgen05.mxf4.f32"), "needs scale_a and scale_b"),
    (lambda a: dot(a, a, unit="sm_90.mma.bf16.f32", k=32), "no instruction of this unit"),
    (lambda a: dot(a + 0.5, a, unit="sm_90.mma.bf16.f32", raw=True), "raw bf16 words are integers"),
])
def test_misuse_is_an_error_that_says_what_is_right(call, message):
    """Shapes, chunk sizes and missing scales are refused with the rule and the legal values."""
    with pytest.raises(UsageError, match=message):
        call(np.ones((2, 4)))
