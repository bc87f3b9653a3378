"""E8M0 scale policies against rational arithmetic, and the example that tells them apart."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.formats import FORMATS, POLICIES, e8m0_scale

ELEMENTS = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]


def floor_log2(value: Fraction) -> int:
    top = value.numerator.bit_length() - value.denominator.bit_length()
    return top if value >= Fraction(2) ** top else top - 1


def expected(amax: float, fmt: formats.Format, policy: str) -> int:
    """The policies in their words."""
    if amax == 0:
        return 0
    exact, ratio = Fraction(amax), Fraction(amax) / Fraction(fmt.max_value)
    low = floor_log2(ratio)
    power = Fraction(2) ** low
    exponent = {
        "floor": floor_log2(exact) - fmt.emax,
        "ceil": floor_log2(exact) + (exact != Fraction(2) ** floor_log2(exact)) - fmt.emax,
        "rceil": low + (ratio != power),
        "rne": low + (ratio >= power * Fraction(3, 2)),
        "even": 0,
    }[policy]
    if policy == "even":
        step = Fraction(2) ** (floor_log2(exact) - fmt.mantissa_bits)
        exponent = floor_log2(round(exact / step) * step) - fmt.emax  # round() ties to even
    return min(max(exponent + 127, 0), 254)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_policies_are_what_they_say(element, policy, rng):
    """Random magnitudes, powers of two, multiples of the largest element, and neighbours."""
    fmt = FORMATS[element]
    powers = np.exp2(np.arange(-149, 128))
    points = np.concatenate([powers, powers * 1.5, powers * fmt.max_value / 2.0**fmt.emax])
    with np.errstate(all="ignore"):
        points = points.astype(np.float32)
        points = np.concatenate([
            points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf)),
            rng.integers(1, 0x7F800000, 2000, dtype=np.uint32).view(np.float32),
            np.zeros(1, np.float32),
        ])
    points = points[np.isfinite(points)]
    got = e8m0_scale(points, element, policy)
    for value, code in zip(points.tolist(), got.tolist(), strict=True):
        assert code == expected(value, fmt, policy), value


def test_the_example_that_tells_the_policies_apart():
    """amax 150 for E4M3: RCEIL 126, CEIL 127, FLOOR 126 (torchao 2035)."""
    codes = {p: int(e8m0_scale(np.array([150.0]), "e4m3", p)[0]) for p in POLICIES}
    assert (codes["rceil"], codes["ceil"], codes["floor"]) == (126, 127, 126)


def test_rceil_never_saturates_and_floor_does():
    """Under RCEIL amax / scale is at most the largest element; under FLOOR it can be more."""
    amax = np.linspace(1, 8, 1001).astype(np.float32)
    for policy, saturates in (("rceil", False), ("ceil", False), ("floor", True)):
        scale = formats.decode(e8m0_scale(amax, "e2m1", policy), "ue8m0")
        assert bool((amax / scale > 6).any()) is saturates


def test_rne_is_the_cast_of_ml_dtypes():
    """The policy is the plain cast of amax / dmax, but for the rounding of that division."""
    amax = np.exp2(np.linspace(-60, 60, 997)).astype(np.float32)
    quotient = (amax / np.float32(1.75 * 2**15)).astype(np.float32)
    cast = quotient.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    differ = np.flatnonzero(e8m0_scale(amax, "e5m2", "rne") != cast)
    for at in differ:  # only where the FP32 division itself rounded onto the threshold
        ratio = Fraction(float(amax[at])) / Fraction(1.75 * 2**15)
        assert Fraction(float(quotient[at])) != ratio
    assert len(differ) < 3


def test_specials_and_refusals():
    """NaN is 255, infinity 254, zero 0; unknown policies are errors."""
    special = np.array([np.nan, np.inf, 0.0], np.float32)
    for policy in POLICIES:
        assert e8m0_scale(special, "e4m3", policy).tolist() == [255, 254, 0]
    with pytest.raises(UsageError, match="legal: floor, even, ceil, rceil, rne"):
        e8m0_scale(special, "e4m3", "round")
    with pytest.raises(UsageError, match="no floating element format"):
        e8m0_scale(special, "s8", "floor")
