"""The fused sum against rational arithmetic, and the predictions that an H200 confirmed."""

from __future__ import annotations

import exact_model
import numpy as np
import pytest
from adversarial import MIXES, fresh, words
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab import formats, numerics
from mmalab.numerics.accumulate import tfs
from mmalab.numerics.operands import split

ROWS = ["sm_70.mma.f16.f32", "sm_70.mma.f16.f16", "sm_80.mma.bf16.f32", "sm_80.mma.f16.f16",
        "sm_80.mma.tf32.f32", "sm_89.mma.e4m3.f32", "sm_89.mma.e5m2.f16", "sm_90.mma.bf16.f32",
        "sm_90.mma.f16.f16", "sm_90.mma.tf32.f32", "sm_90.wgmma.e4m3.e5m2.f32",
        "sm_90.wgmma.e5m2.f16", "sm_100.tcgen05.e2m3.e3m2.f32", "sm_100.tcgen05.e2m1.f16"]


def _model(unit, a, b, c):
    return exact_model.fused_sum(unit.a, a, unit.b, b, unit.acc, c, unit.fraction, unit.rounding,
                                 unit.floor)


def _fused(unit, a, b, c):
    return tfs(split(unit.a, a), split(unit.b, b), c, fraction=unit.fraction,
               rounding=unit.rounding, floor=unit.floor)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", ROWS)
def test_one_block_equals_rational_arithmetic(name, mix):
    """Every mix of inputs gives the word that exact fractions give."""
    unit = numerics.unit(name)
    rng = fresh()
    size = unit.block(unit.k)
    a, b = words(unit.a, (40, size), mix, rng), words(unit.b, (40, size), mix, rng)
    c = words(unit.acc, (40,), "normal" if mix == "bits" else mix, rng)
    c[::4] = 0
    got = _fused(unit, a, b, c)
    want = [_model(unit, *row) for row in zip(a, b, c, strict=True)]
    assert got.tolist() == want


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_words_of_any_row(data):
    """Hypothesis finds no words for which the block differs from exact fractions."""
    unit = numerics.unit(data.draw(st.sampled_from(ROWS)))
    size = unit.block(unit.k)

    def raw(kind, count):
        fmt = formats.get(kind)
        word = st.integers(0, (1 << fmt.bits) - 1)
        return np.array(data.draw(st.lists(word, min_size=count, max_size=count)), fmt.dtype)

    a, b, c = raw(unit.a, size), raw(unit.b, size), raw(unit.acc, 1)[0]
    assert int(_fused(unit, a, b, c[None][0])) == _model(unit, a, b, c)


def _dot(unit, products, c=0.0, k=None, at=0):
    """One output of an instruction with the given (a, b) pairs in slots from `at` on."""
    row = numerics.unit(unit)
    size = k or row.k
    pairs = np.zeros((2, 1, size))
    for i, (x, y) in (products.items() if isinstance(products, dict)
                      else enumerate(products, at)):
        pairs[:, 0, i] = x, y
    kinds = [formats.encode(pairs[i], kind) for i, kind in ((0, row.a), (1, row.b))]
    start = np.array([c], np.uint32) if isinstance(c, int) else formats.encode([c], row.acc)
    return int(numerics.dot(*kinds, start.astype(formats.get(row.acc).dtype), unit=row, raw=True,
                            k=size)[0])


def _f32(word):
    return float(np.uint32(word).view(np.float32))


E4M3, BF16 = "sm_90.wgmma.e4m3.f32", "sm_90.wgmma.bf16.f32"


def test_p1_fp8_wgmma_fuses_all_32_products():
    """A 1 in the last slot is cut by 2^16 in the first, though that cancels."""
    assert _dot(E4M3, {0: (256, 256), 1: (-256, 256), 31: (1, 1)}) == 0


def test_p2_c_takes_part_in_the_alignment():
    """c = 2^14 cuts a product of 1, c = 2^13 does not."""
    assert _f32(_dot(E4M3, [(1, 1)], 2.0**14)) == 16384
    assert _f32(_dot(E4M3, [(1, 1)], 2.0**13)) == 8193


def test_p2b_c_is_cut_without_products():
    """An FP8 instruction with zero operands still drops c's low ten bits."""
    assert _dot(E4M3, [], 0x3F800008) == 0x3F800000
    assert _dot(E4M3, [], 0x3F800400) == 0x3F800400


def test_p3_output_has_14_bits():
    """The result is cut to 14 bits even where the alignment kept more."""
    products = [(1.875, 1.875)] * 31 + [(2.0**-6, 2.0**-7)]
    assert _f32(_dot(E4M3, products)) == 108.984375


def test_p4_cut_is_toward_zero():
    """Small negative products vanish as positive ones do."""
    assert _dot(E4M3, [(1, 1), (-(2.0**-9), 2.0**-6)]) == 0x3F800000
    assert _dot(E4M3, [(1, 1), (-3 * 2.0**-9, 2.0**-6)]) == 0x3F800000


@pytest.mark.parametrize("unit", [BF16, "sm_90.mma.bf16.f32"])
def test_p5_exponent_floor_of_fp32_results(unit):
    """With c = 0 the grid goes no lower than 2^-158, so 2^-160 is lost and 2^-158 is not."""
    assert _dot(unit, [(2.0**-75, 2.0**-74), (-(2.0**-80), 2.0**-80)]) == 0x00000001
    assert _dot(unit, [(2.0**-75, 2.0**-74), (-(2.0**-79), 2.0**-79)]) == 0x00000000


def test_p5b_exponent_floor_of_fp16_results():
    """The FP16 floor is -21: 2^-46 breaks the tie at half the smallest subnormal, 2^-47 not."""
    f16 = "sm_90.wgmma.f16.f16"
    small = [_dot(f16, [(2.0**-12, 2.0**-13), (2.0**-23, 2.0 ** (-23 - i))]) for i in range(3)]
    # 2^-48 = 2^-24 * 2^-24 is the smallest product there is; 2^-46 is 2^-23 * 2^-23.
    assert small[:2] == [0x0001, 0x0000]
    assert _dot(f16, [(2.0**-12, 2.0**-13), (2.0**-24, 2.0**-24)]) == 0


@pytest.mark.parametrize(("unit", "k"), [(BF16, 16), ("sm_90.wgmma.f16.f32", 16),
                                         ("sm_90.mma.bf16.f32", 16), ("sm_90.mma.tf32.f32", 8)])
def test_p6_whole_instructions_are_fused(unit, k):
    """A 1 in the last slot is lost beside a cancelling 2^30 in the first two."""
    assert _dot(unit, {0: (2.0**15, 2.0**15), 1: (-(2.0**15), 2.0**15), k - 1: (1, 1)}) == 0


def test_p7_guard_bits():
    """Two bits beyond FP32's are kept: eight quarters of 2^-24 below them are lost."""
    unit = "sm_90.mma.bf16.f32"
    assert _dot(unit, [(2.0**-12, 2.0**-12)] * 2, 1.0) == 0x3F800001
    assert _dot(unit, [(2.0**-12, 2.0**-13)] * 4, 1.0) == 0x3F800001
    assert _dot(unit, [(2.0**-13, 2.0**-13)] * 8, 1.0) == 0x3F800000


def test_p8_order_of_rewritten_fp8():
    """mma.sync takes k mod 4 in {0, 1} first, so the 1 at k = 2 survives."""
    products = {0: (2.0**15, 2.0**15), 16: (-(2.0**15), 2.0**15), 2: (1, 1)}
    assert _f32(_dot("sm_90.mma.e5m2.f32", products)) == 1.0


def test_p11_fp64_is_an_ascending_chain():
    """2^53, then ones that it swallows, then its negation; and the reverse order keeps them."""
    unit = "sm_90.mma.f64.f64"
    first = {0: (2.0**53, 1.0), 3: (-(2.0**53), 1.0), **dict.fromkeys((1, 2, 4, 5), (1.0, 1.0))}
    word = _dot(unit, first)
    assert np.uint64(word).view(np.float64) == 2.0
    square = (1 + 2.0**-30) ** 2  # exact in 61 bits: a product rounded first loses 2^-60
    rest = _dot(unit, [(1 + 2.0**-30, 1 + 2.0**-30)], -square)
    assert np.uint64(rest).view(np.float64) == 2.0**-60


def test_p12_overflow_of_truncation():
    """From 2^128 on the result is Inf, below it the largest finite number."""
    unit = "sm_90.mma.bf16.f32"
    assert _dot(unit, [(2.0**52, 2.0**52)], 0x7F7FFFFF) == 0x7F800000
    assert _dot(unit, [(2.0**52, 2.0**51)], 0x7F7FFFFF) == 0x7F7FFFFF


def test_p13_zero_is_positive():
    """Negative zeros, cancellation and negative sums cut to nothing all give +0."""
    unit = "sm_90.mma.f16.f32"
    assert _dot(unit, [(-0.0, 1.0)] * 4, 0x80000000) == 0
    assert _dot(unit, [(1.0, 1.0), (-1.0, 1.0)]) == 0
    assert _dot("sm_90.mma.f16.f16", [(-(2.0**-24), 2.0**-24)]) == 0


def test_p14_nan_is_canonical():
    """Whatever NaN comes in, 7FFFFFFF or 7FFF comes out."""
    for word in (0x7F800001, 0xFFC00000, 0x7FC12345, 0xFF800001):
        assert _dot(BF16, [(1.0, 1.0)], word) == 0x7FFFFFFF
    nan = np.array([[0x7F] + [0] * 31], np.uint8)
    one = np.full((1, 32), 0x38, np.uint8)
    assert numerics.dot(nan, one, unit=E4M3, raw=True).tolist() == [0x7FFFFFFF]
    assert numerics.dot(nan, one, unit="sm_90.wgmma.e4m3.f16", raw=True).tolist() == [0x7FFF]
    for code in (0x7C, 0x7D, 0x7F, 0xFD):
        x = np.array([[code] + [0] * 31], np.uint8)
        got = numerics.dot(x, one, unit="sm_90.wgmma.e5m2.e4m3.f32", raw=True).tolist()
        assert got == [0x7F800000 if code == 0x7C else 0x7FFFFFFF]


def test_p15_tf32_ignores_low_bits():
    """3F801FFF reads as 1."""
    a = np.zeros((1, 8), np.uint32)
    a[0, 0] = 0x3F801FFF
    b = np.full((1, 8), 0x3F800000, np.uint32)
    assert numerics.dot(a, b, unit="sm_90.mma.tf32.f32", raw=True).tolist() == [0x3F800000]


def test_p16_satfinite_clamps_once_at_the_end():
    """Going above the range and back within one instruction is no overflow."""
    a = np.array([[1] * 16 + [-1] * 16], np.int8)
    b = np.ones((1, 32), np.int8)
    top = np.array([2**31 - 1], np.int32)
    unit = "sm_90.wgmma.s8.s32.satfinite"
    assert numerics.dot(a, b, top, unit=unit).tolist() == [2**31 - 1]
    a[0, 16:] = 0
    assert numerics.dot(a, b, top, unit=unit).tolist() == [2**31 - 1]
    assert numerics.dot(a, b, top, unit="sm_90.wgmma.s8.s32").tolist() == [-(2**31) + 15]


def test_p18_largest_carries():
    """All 32 products and c at their largest, either sign: no carry is lost."""
    for sign in (1, -1):
        got = _dot(E4M3, [(448.0, sign * 448.0)] * 32, sign * 2.0**17 * (2 - 2.0**-13))
        exact = 32 * 448 * 448 + 2**17 * (2 - 2.0**-13)
        assert _f32(got) == sign * (exact - exact % 2.0 ** (22 - 13))
