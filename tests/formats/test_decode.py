"""Decoding: whole code spaces against ml_dtypes and gfloat, wide formats against NumPy."""

from __future__ import annotations

import gfloat
import gfloat.formats as gf
import numpy as np
import pytest

from mmalab import formats
from mmalab.errors import UsageError

NARROW = ["f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0"]
GFLOAT = {
    "f16": gf.format_info_binary16, "bf16": gf.format_info_bfloat16,
    "e4m3": gf.format_info_ocp_e4m3, "e5m2": gf.format_info_ocp_e5m2,
    "e3m2": gf.format_info_ocp_e3m2, "e2m3": gf.format_info_ocp_e2m3,
    "e2m1": gf.format_info_ocp_e2m1, "ue8m0": gf.format_info_ocp_e8m0,
    "s2f6": gf.format_info_ocp_int8,
}


def all_words(name):
    fmt = formats.get(name)
    return np.arange(1 << fmt.bits).astype(fmt.dtype)


def same(a, b):
    """Equal values, with -0 apart from 0 and all NaN alike."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    nan = np.isnan(a) & np.isnan(b)
    return bool(((a.view(np.uint64) == b.view(np.uint64)) | nan).all())


@pytest.mark.parametrize("name", NARROW)
def test_all_codes_mean_what_ml_dtypes_says(name):
    """Every code of every narrow format."""
    words = all_words(name)
    with np.errstate(invalid="ignore"):
        expected = words.view(formats.dtype_of(name)).astype(np.float64)
    assert same(formats.decode(words, name), expected)


@pytest.mark.parametrize("name", GFLOAT)
def test_all_codes_mean_what_gfloat_says(name):
    """Every code against a second implementation (the INT8 of OCP MX is s2f6)."""
    words = all_words(name)
    with np.errstate(all="ignore"):
        expected = gfloat.decode_ndarray(GFLOAT[name], words.astype(np.int64))
    assert same(formats.decode(words, name), expected)


def test_ue4m3_ignores_its_top_bit():
    """ue4m3 is e4m3 without a sign: 0x7F is NaN, and bit 7 changes nothing."""
    low = np.arange(128, dtype=np.uint8)
    expected = formats.decode(low, "e4m3")
    assert same(formats.decode(low, "ue4m3"), expected)
    assert same(formats.decode(low | np.uint8(0x80), "ue4m3"), expected)
    assert np.isnan(formats.decode(np.uint8(0xFF), "ue4m3"))


def test_e8m0_has_no_zero_and_one_nan():
    """Code 0 is 2^-127 (an FP32 subnormal, not 0), code 255 is NaN and not infinity."""
    values = formats.decode(np.array([0, 1, 127, 254, 255], np.uint8), "ue8m0")
    assert values[:4].tolist() == [2.0**-127, 2.0**-126, 1.0, 2.0**127]
    assert np.isnan(values[4])


def test_e4m3_subnormals_do_not_use_the_normal_formula():
    """Codes 1 to 7 are multiples of 2^-9, not (1 + m/8) 2^-7."""
    values = formats.decode(np.arange(9, dtype=np.uint8), "e4m3")
    assert values.tolist() == [i * 2.0**-9 for i in range(9)]


def test_tf32_ignores_its_low_13_bits(rng):
    """A tf32 word is an FP32 word cut to 10 mantissa bits, whatever lies below."""
    words = rng.integers(0, 1 << 32, 2000, dtype=np.uint32)
    cut = words & np.uint32(0xFFFFE000)
    with np.errstate(invalid="ignore"):
        expected = cut.view(np.float32).astype(np.float64)
    assert same(formats.decode(words, "tf32"), expected)
    # A NaN whose payload lies in the ignored bits alone reads as infinity.
    assert formats.decode(np.uint32(0x7F800001), "tf32") == np.inf


@pytest.mark.parametrize(("name", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_wide_floats_are_numpys(name, dtype, rng):
    """Random bit patterns, NaN and signalling NaN included."""
    words = rng.integers(0, 1 << 8 * dtype().itemsize, 5000, dtype=formats.get(name).dtype)
    with np.errstate(invalid="ignore"):
        assert same(formats.decode(words, name), words.view(dtype).astype(np.float64))
    parts = formats.take_apart(words, formats.get(name))
    with np.errstate(over="ignore"):  # the codes of infinity and NaN
        rebuilt = np.ldexp(parts.significand.astype(np.float64), parts.exponent.astype(np.int32))
    rebuilt = np.where(parts.inf, np.inf, np.where(parts.nan, np.nan, rebuilt))
    with np.errstate(invalid="ignore"):
        assert same(np.where(parts.sign, -rebuilt, rebuilt), words.view(dtype).astype(np.float64))


@pytest.mark.parametrize("name", ["s4", "s8", "s16", "s32", "u4", "u8", "u16", "u32", "b1"])
def test_integers_are_two_s_complement(name):
    """Smallest, largest, -1 and 0."""
    fmt = formats.get(name)
    top = 1 << (fmt.bits - 1)
    words = np.array([0, top - 1, top, 2 * top - 1]).astype(fmt.dtype)
    expected = [0, top - 1, -top, -1] if fmt.signed else [0, top - 1, top, 2 * top - 1]
    assert formats.decode(words, name).tolist() == expected


def test_64_bit_integers_that_float64_cannot_hold_are_refused():
    """Exact or an error, never a rounded value; to_array has them all."""
    exact = np.array([0, 1 << 53, 1 << 63, (1 << 64) - (1 << 11)], np.uint64)
    assert formats.decode(exact, "u64").tolist() == [0, 2.0**53, 2.0**63, 2.0**64 - 2.0**11]
    for word in ((1 << 53) + 1, (1 << 64) - 1):
        with pytest.raises(UsageError, match=r"legal: formats.to_array"):
            formats.decode(np.array([word], np.uint64), "u64")
    assert formats.decode(np.array([(1 << 64) - 1], np.uint64), "s64").tolist() == [-1.0]
    assert formats.to_array(np.array([(1 << 64) - 1], np.uint64), "u64").tolist() == [(1 << 64) - 1]


@pytest.mark.parametrize(
    ("words", "name", "message"),
    [
        ([16], "e2m1", ("^word 0x10: a word of e2m1 has 4 bits\n  legal: 0 to 0xf\n"
                        "  see:   mmalab.formats$")),
        ([64], "e3m2", "^word 0x40: a word of e3m2 has 6 bits"),
        ([-1], "e4m3", "^word -0x1: a word of e4m3 has 8 bits"),
        ([256], "e4m3", "^word 0x100: a word of e4m3 has 8 bits"),
        ([0.5], "e4m3", "^words of type float64: raw e4m3 words are integers\n  legal: uint8"),
    ],
)
def test_words_that_are_none_are_refused(words, name, message):
    """Too wide, negative, or numbers instead of words."""
    with pytest.raises(UsageError, match=message):
        formats.decode(words, name)
    assert formats.decode(np.array([-1], np.int8), "u8").tolist() == [255.0]
