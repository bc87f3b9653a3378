"""Fused multiply-adds and additions against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from adversarial import fresh, words
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab.numerics import ieee


def _exact(a, b, c, rounding):
    """a * b + c by fractions, for finite operands, as a word."""
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return None
    near = total.numerator / total.denominator  # Python rounds this to nearest even
    if Fraction(near) == total or rounding == "rn":
        return near
    low, high = (near, float(np.nextafter(near, np.inf))) if Fraction(near) < total else (
        float(np.nextafter(near, -np.inf)), near)
    down = {"rm": True, "rp": False, "rz": total > 0}[rounding]
    return low if down else high


@settings(max_examples=300, deadline=None)
@given(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150,
                             max_value=1e150)] * 3),
       st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_fma_rounds_once(numbers, rounding):
    """Every rounding of a * b + c, subnormals and cancellation among them."""
    want = _exact(*numbers, rounding)
    got = ieee.fma64(*(np.array([x]) for x in numbers), rounding)[0]
    if want is None:
        assert got == 0
    else:
        assert got.view(np.uint64) == np.float64(want).view(np.uint64)


@pytest.mark.parametrize("mix", ["normal", "bits", "ladder", "subnormal"])
def test_fast_fma_equals_the_integer_one(mix):
    """The vectorised path and the definition agree to the bit, NaN and Inf included."""
    rng = fresh()
    a, b, c = (words("f64", (400,), mix, rng) for _ in range(3))
    with np.errstate(all="ignore"):
        c[::3] = (-(a.view(np.float64) * b.view(np.float64))).view(np.uint64)[::3]
    got = ieee.fma64(*(x.view(np.float64) for x in (a, b, c)))
    want = [ieee.fma_word(*row) for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert got.view(np.uint64).tolist() == want


def test_nan_of_fp64_keeps_its_payload():
    """b's NaN first, then c's, then a's, made quiet; Inf x 0 makes FFF8000000000000."""
    a, b, c = 0x7FF0000000000001, 0xFFF0000000000002, 0x7FF8000000000003
    quiet, one = 1 << 51, 0x3FF0000000000000
    assert ieee.fma_word(a, b, c) == b | quiet
    assert ieee.fma_word(a, one, c) == c
    assert ieee.fma_word(a, one, one) == a | quiet
    assert ieee.fma_word(0x7FF0000000000000, 0, one) == 0xFFF8000000000000


def test_signs_of_zero():
    """-0 only where both are -0, or where an exact zero is rounded down."""
    minus, one, negative_one = 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000
    assert ieee.fma_word(minus, one, minus) == minus
    assert ieee.fma_word(minus, one, 0) == 0
    assert ieee.fma_word(one, one, negative_one) == 0
    assert ieee.fma_word(one, one, negative_one, "rm") == minus


def test_overflow_follows_the_rounding():
    """Beyond the largest number: Inf or the largest, as the direction says."""
    big, largest, inf = 0x7FE0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000
    two = 0x4000000000000000
    assert [ieee.fma_word(big, two, 0, r) for r in ("rn", "rz", "rm", "rp")] == [
        inf, largest, largest, inf]


def test_single_precision_fma_has_no_double_rounding():
    """A tie in FP32 that a product far below breaks, where FP64 alone would not see it."""
    a = np.array([2.0**-30], np.float32)
    c = np.array([1 + 2.0**-23], np.float32)
    half = np.array([2.0**-24], np.float32)
    one = np.array([1.0], np.float32)
    assert ieee.fma32(half, one, c)[0] == np.float32(1 + 2.0**-22)  # tie to even
    below = ieee.fma32(np.array([2.0**-12 - 2.0**-36], np.float32), np.array([2.0**-12], "f4"), c)
    assert below[0] == c[0]
    assert ieee.fma32(a, a, c)[0] == c[0]


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_additions_have_canonical_nan(kind):
    """Inf - Inf and every NaN give 7FFFFFFF or 7FFF; other sums are IEEE's."""
    rng = fresh()
    x, y = words(kind, (3000,), "bits", rng), words(kind, (3000,), "bits", rng)
    real = np.float32 if kind == "f32" else np.float16
    got = ieee.add(x, y, kind)
    with np.errstate(all="ignore"):
        want = x.view(real) + y.view(real)
    nan = np.isnan(want)
    assert nan.any()
    assert set(got[nan].tolist()) == {0x7FFFFFFF if kind == "f32" else 0x7FFF}
    np.testing.assert_array_equal(got[~nan], want[~nan].view(x.dtype))
