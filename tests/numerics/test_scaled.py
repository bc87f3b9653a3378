"""Block-scaled units against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import exact_model
import numpy as np
import pytest
from adversarial import fresh, words

from mmalab import formats, numerics
from mmalab.numerics.reference import multiply


def _scaled_sum(unit, a, b, c, sa, sb):
    """One mxf8f6f4 instruction: the scales join every product's exponent before alignment."""
    shift = int(sa) + int(sb) - 254
    left, right = ([exact_model.read(kind, w) for w in x] for kind, x in ((unit.a, a), (unit.b, b)))
    terms = [(x[0] * y[0] * Fraction(2) ** shift, x[1] + y[1] + shift)
             for x, y in zip(left, right, strict=True)]
    start, exponent = exact_model.read("f32", c)
    top = max([e for v, e in terms if v] + [exponent if start else unit.floor])
    cut = [exact_model.cut(v, top - unit.fraction) for v in [*(v for v, _ in terms), start]]
    return exact_model.to_single(sum(cut))


def _scale(kind, word):
    """(significand, exponent) of a scale; UE4M3 subnormals keep the exponent -6."""
    word = int(word)
    if kind == "ue8m0":
        return Fraction(1), word - 127
    value, exponent = exact_model.read("ue4m3", word & 0x7F)
    return value / Fraction(2) ** exponent, exponent


def _group_sum(unit, a, b, c, sa, sb):
    """One FP4 instruction: four exact groups of 16, aligned by their scale exponents alone."""
    terms = []
    for group in range(4):
        block = group * 16 // unit.scale_block
        (ma, ea), (mb, eb) = _scale(unit.scale, sa[block]), _scale(unit.scale, sb[block])
        part = slice(16 * group, 16 * group + 16)
        products = [exact_model.read("e2m1", x)[0] * exact_model.read("e2m1", y)[0]
                    for x, y in zip(a[part], b[part], strict=True)]
        live = any(products) and ma * mb
        terms.append((sum(products) * ma * mb * Fraction(2) ** (ea + eb),
                      ea + eb if live else unit.floor))
    start, exponent = exact_model.read("f32", c)
    top = max([e for _, e in terms] + [exponent if start else unit.floor])
    cut = [exact_model.cut(v, top - unit.fraction) for v in [*(v for v, _ in terms), start]]
    return exact_model.to_single(sum(cut))


@pytest.mark.parametrize("name", ["sm_100.tcgen05.mxf8f6f4.e3m2.e2m1.f32",
                                  "sm_120.mma.mxf8f6f4.e2m3.f32"])
def test_mxf8f6f4_adds_its_scales_to_the_exponents(name):
    """Random operands and scales near 1 and far from it."""
    unit, rng = numerics.unit(name), fresh()
    a, b = words(unit.a, (60, 32), "bits", rng), words(unit.b, (60, 32), "bits", rng)
    c = words("f32", (60,), "normal", rng)
    c[::4] = 0
    sa, sb = (rng.integers(90, 160, (60, 1)).astype(np.uint8) for _ in range(2))
    got = numerics.dot(a, b, c, unit=unit, raw=True, scale_a=sa, scale_b=sb)
    want = [_scaled_sum(unit, *row, x[0], y[0])
            for *row, x, y in zip(a, b, c, sa, sb, strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize("name", ["sm_100.tcgen05.mxf4.f32", "sm_100.tcgen05.mxf4nvf4.f32",
                                  "sm_120.mma.mxf4nvf4.ue8m0.f32"])
def test_fp4_sums_groups_exactly(name):
    """UE8M0 and UE4M3 scales, subnormal and zero ones too, with c large, small and zero."""
    unit, rng = numerics.unit(name), fresh()
    a, b = (rng.integers(0, 16, (80, 64)).astype(np.uint8) for _ in range(2))
    a[::5, :16] = 0
    c = formats.encode(rng.normal(size=80) * 2.0 ** rng.integers(-30, 30, 80), "f32")
    c[::4] = 0
    count = 64 // unit.scale_block
    low, high = (110, 145) if unit.scale == "ue8m0" else (0, 127)
    sa, sb = (rng.integers(low, high, (80, count)).astype(np.uint8) for _ in range(2))
    got = numerics.dot(a, b, c, unit=unit, raw=True, scale_a=sa, scale_b=sb)
    want = [_group_sum(unit, *row) for row in zip(a, b, c, sa, sb, strict=True)]
    assert got.tolist() == want


def test_large_group_sums_do_not_move_the_grid():
    """16 x 6 x 6 = 576 aligns as 2^0: a c of 2^-35 is kept in the sum, though not in FP32."""
    unit = "sm_100.tcgen05.mxf4nvf4.f32"
    a = np.zeros((1, 64), np.uint8)
    a[0, :16] = 7  # 6.0
    one = np.full((1, 4), 0x38, np.uint8)
    tiny = np.array([2.0**-10], np.float32).view(np.uint32)
    got = numerics.dot(a, a, tiny, unit=unit, raw=True, scale_a=one, scale_b=one)
    assert got.view(np.float32).tolist() == [576 + 2.0**-10]


@pytest.mark.parametrize("name", ["sm_100.tcgen05.mxf4.f32", "sm_100.tcgen05.mxf8f6f4.e4m3.f32"])
def test_nan_scales_poison_their_output_only(name):
    """0xFF gives the canonical NaN in its row and column, and nowhere else."""
    unit, rng = numerics.unit(name), fresh()
    k = unit.k
    a, b = words(unit.a, (3, k), "normal", rng), words(unit.b, (k, 4), "normal", rng)
    sa = np.full((3, k // 32), 127, np.uint8)
    sb = np.full((k // 32, 4), 127, np.uint8)
    sa[1, 0] = 0xFF
    got = numerics.matmul(a, b, unit=unit, raw=True, scale_a=sa, scale_b=sb)
    assert (got[1] == 0x7FFFFFFF).all()
    assert not np.isnan(got[[0, 2]].view(np.float32)).any()


def test_scales_follow_their_blocks_along_k():
    """Two instructions with scales of their own: 2^3 on the first 32 products, 2^-2 on the next."""
    ones = formats.encode(np.ones((1, 64)), "e4m3")
    sa = np.array([[130, 125]], np.uint8)
    sb = np.full((1, 2), 127, np.uint8)
    got = numerics.dot(ones, ones, unit="sm_100.tcgen05.mxf8f6f4.e4m3.f32", raw=True, scale_a=sa,
                       scale_b=sb)
    assert got.view(np.float32).tolist() == [32 * 8 + 32 / 4]


@pytest.mark.parametrize("mix", ["normal", "bits", "subnormal", "specials", "carry"])
@pytest.mark.parametrize("reach", [8, 40, 126])
def test_scaled_matrices_equal_the_specification(mix, reach):
    """The compiled route gives every bit for scales near 1, far from it and at the very ends."""
    unit, rng = numerics.unit("sm_100.tcgen05.mxf8f6f4.e4m3.e5m2.f32"), fresh()
    a, b = words("e4m3", (24, 80), mix, rng), words("e5m2", (80, 20), mix, rng)
    c = formats.encode(rng.normal(size=(24, 20)) * 2.0 ** rng.integers(-reach, reach, (24, 20)),
                       "f32")
    c[::5] = 0
    sa, sb = (rng.integers(127 - reach, 128 + reach, s).astype(np.uint8)
              for s in ((24, 3), (3, 20)))
    sa[3, 1] = 0xFF
    got = numerics.matmul(a, b, c, unit=unit, raw=True, scale_a=sa, scale_b=sb)
    want = multiply(unit, a, b, c, scale_a=sa, scale_b=sb)
    np.testing.assert_array_equal(got, want)
