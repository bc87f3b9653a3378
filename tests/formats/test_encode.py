"""Encoding and conversion: exact reference in all roundings, oracles, PTX's rules at the edges."""

from __future__ import annotations

from fractions import Fraction

import gfloat
import gfloat.formats as gf
import numpy as np
import pytest

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.formats import FORMATS, Rounding

MODES = ["rn", "rz", "rm", "rp", "rna"]
SIGNED_FLOATS = ["f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]
GFLOAT = {
    "f16": gf.format_info_binary16, "bf16": gf.format_info_bfloat16,
    "e4m3": gf.format_info_ocp_e4m3, "e5m2": gf.format_info_ocp_e5m2,
    "e3m2": gf.format_info_ocp_e3m2, "e2m3": gf.format_info_ocp_e2m3,
    "e2m1": gf.format_info_ocp_e2m1,
}
GMODES = {
    "rn": gfloat.RoundMode.TiesToEven, "rz": gfloat.RoundMode.TowardZero,
    "rm": gfloat.RoundMode.TowardNegative, "rp": gfloat.RoundMode.TowardPositive,
    "rna": gfloat.RoundMode.TiesToAway,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*SIGNED_FLOATS, "s8", "u8", "s16", "s32", "s4", "s2f6"])
def test_every_value_is_rounded_as_rational_arithmetic_says(name, mode, values, reference):
    """Values, midpoints and their neighbours, random values: saturated to the largest."""
    fmt = FORMATS[name]
    numbers = values(fmt)
    words = formats.encode(numbers, fmt, mode, True)
    decoded = formats.decode(words, fmt)
    largest = Fraction(fmt.max_value)
    smallest = -largest if fmt.is_float else Fraction(fmt.min_integer, 1 << fmt.fraction_bits)
    for number, got in zip(numbers.tolist(), decoded.tolist(), strict=True):
        if not np.isfinite(number):
            continue
        exact = reference(Fraction(number), fmt, mode)
        assert Fraction(got) == min(max(exact, smallest), largest), (number, got)
    if fmt.is_float:  # the sign of zero survives
        zero = (decoded == 0) & ~np.isnan(numbers)
        assert np.array_equal(np.signbit(decoded[zero]), np.signbit(numbers[zero]))


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_rounding_to_nearest_agrees_with_ml_dtypes(name, values):
    """From FP32, without saturation; NaN in formats without NaN is PTX's own."""
    fmt = FORMATS[name]
    with np.errstate(all="ignore"):
        numbers = values(fmt).astype(np.float32)
        expected = numbers.astype(formats.dtype_of(name)).astype(np.float64)
    got = formats.decode(formats.encode(numbers, fmt, "rn", False), fmt)
    nan = np.isnan(numbers) if not fmt.has_infinity else np.zeros(len(numbers), bool)
    assert np.array_equal(got[~nan], expected[~nan], equal_nan=True)
    if fmt.specials == "finite":
        assert (got[nan] == fmt.max_value).all()
    else:
        assert np.isnan(got[nan]).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", GFLOAT)
def test_all_roundings_agree_with_gfloat(name, mode, values):
    """A second implementation, saturating, on the finite values."""
    fmt = FORMATS[name]
    numbers = values(fmt)
    numbers = numbers[np.isfinite(numbers)]
    with np.errstate(all="ignore"):
        expected = gfloat.round_ndarray(GFLOAT[name], numbers, GMODES[mode], sat=True)
    got = formats.decode(formats.encode(numbers, fmt, mode, True), fmt)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0",
                                  "s4", "u4", "s8", "b1", "s2f6"])
def test_encode_undoes_decode_for_every_code(name):
    """All codes of a narrow format come back, in every rounding; NaN comes back canonical."""
    fmt = FORMATS[name]
    words = np.arange(1 << fmt.bits).astype(fmt.dtype)
    numbers = formats.decode(words, fmt)
    expected = np.where(np.isnan(numbers), fmt.nan_word if fmt.specials != "finite" else 0, words)
    for mode in MODES:
        got = formats.encode(numbers, fmt, mode, False if fmt.is_float else None)
        assert np.array_equal(got, expected.astype(fmt.dtype)), mode


def test_overflow_without_saturation_follows_the_rounding():
    """Nearest goes to infinity, a mode that rounds inwards stops at the largest value."""
    big = np.array([1e30, -1e30])
    for name, infinity in (("f16", 0x7C00), ("e5m2", 0x7C)):
        largest, sign = infinity - 1, 1 << (FORMATS[name].bits - 1)
        expected = {
            "rn": [infinity, infinity | sign], "rna": [infinity, infinity | sign],
            "rz": [largest, largest | sign], "rm": [largest, infinity | sign],
            "rp": [infinity, largest | sign],
        }
        for mode, words in expected.items():
            assert formats.encode(big, name, mode, False).tolist() == words, (name, mode)
    assert formats.encode(np.array([np.inf]), "f16", "rz").tolist() == [0x7C00]
    assert formats.encode(np.array([65519.99, 65520.0]), "f16").tolist() == [0x7BFF, 0x7C00]


def test_satfinite_clamps_infinity_and_keeps_nan():
    """f16, bf16, tf32, e4m3, e5m2: infinity becomes MAX_NORM with its sign, NaN stays NaN."""
    special = np.array([np.inf, -np.inf, np.nan, -np.nan])
    expected = {
        "f16": [0x7BFF, 0xFBFF, 0x7FFF, 0x7FFF], "bf16": [0x7F7F, 0xFF7F, 0x7FFF, 0x7FFF],
        "tf32": [0x7F7FE000, 0xFF7FE000, 0x7FFFFFFF, 0x7FFFFFFF],
        "e4m3": [0x7E, 0xFE, 0x7F, 0x7F], "e5m2": [0x7B, 0xFB, 0x7F, 0x7F],
    }
    for name, words in expected.items():
        assert formats.encode(special, name, "rn", True).tolist() == words, name


def test_nan_becomes_the_largest_value_where_there_is_no_nan():
    """e2m1, e2m3, e3m2, s2f6: positive MAX_NORM, whatever the sign of the NaN."""
    nans = np.array([np.nan, -np.nan])
    for name, word in {"e2m1": 0x7, "e2m3": 0x1F, "e3m2": 0x1F, "s2f6": 0x7F}.items():
        assert formats.encode(nans, name).tolist() == [word, word]


def test_relu_clamps_negatives_to_plus_zero():
    """Negative values and -0 become +0; NaN stays the canonical NaN."""
    numbers = np.array([-1.0, -0.0, 2.0, np.nan, -np.inf], np.float32)
    assert formats.encode(numbers, "bf16", relu=True).tolist() == [0, 0, 0x4000, 0x7FFF, 0]
    assert formats.encode(numbers, "e2m1", relu=True).tolist() == [0, 0, 4, 7, 0]


def test_the_default_saturation_is_that_of_cvt():
    """8 bits and fewer saturate, wider formats overflow, integers clamp floats and cut integers."""
    big = np.array([1e6])
    assert formats.encode(big, "e4m3").tolist() == [0x7E]
    assert formats.encode(big, "f16").tolist() == [0x7C00]
    assert formats.encode(big, "s8").tolist() == [127]
    assert formats.encode(np.array([300]), "u8").tolist() == [300 - 256]
    assert formats.encode(np.array([300]), "u8", saturate=True).tolist() == [255]
    assert formats.encode(np.array([-300]), "s8", saturate=True).tolist() == [0x80]
    with pytest.raises(UsageError, match=r"^f64 to s8 without saturation: a float made an integer"):
        formats.encode(big, "s8", saturate=False)


def test_nan_made_an_integer_depends_on_the_types():
    """0 from f32 to 32 bits or fewer; the top bit alone from f64, and to 64 bits."""
    nan32, nan64 = np.array([np.nan], np.float32), np.array([np.nan])
    assert formats.encode(nan32, "s32").tolist() == [0]
    assert formats.encode(nan64, "s32").tolist() == [1 << 31]
    assert formats.encode(nan32, "u64").tolist() == [1 << 63]
    assert formats.encode(np.array([np.inf, -np.inf]), "s64").tolist() == [2**63 - 1, 2**63]
    assert formats.encode(np.array([-0.6, 1e30]), "u64").tolist() == [0, 2**64 - 1]


def test_integer_rounding_modifiers_are_the_same_modes():
    """rni, rzi, rmi and rpi."""
    numbers = np.array([2.5, -2.5, 3.5])
    assert formats.encode(numbers, "s32", "rni").astype(np.int32).tolist() == [2, -2, 4]
    assert formats.encode(numbers, "s32", "rzi").astype(np.int32).tolist() == [2, -2, 3]
    assert formats.encode(numbers, "s32", "rmi").astype(np.int32).tolist() == [2, -3, 3]
    assert formats.encode(numbers, "s32", "rpi").astype(np.int32).tolist() == [3, -2, 4]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("source", "destination"), [
    ("s64", "f32"), ("u64", "f32"), ("u64", "f64"), ("s64", "bf16"), ("u32", "f16"),
    ("f64", "f32"), ("f32", "bf16"), ("f16", "e4m3"), ("bf16", "e2m1"), ("f64", "s64"),
    ("f32", "u64"), ("s64", "s2f6"),
])
def test_conversions_round_once(source, destination, mode, rng, reference):
    """Random words of the source, 64-bit integers included, against rational arithmetic."""
    src, dst = FORMATS[source], FORMATS[destination]
    words = rng.integers(0, 1 << src.bits, 800, dtype=src.dtype)
    if src.is_integer:  # all magnitudes, not only the largest
        words = words >> rng.integers(0, src.bits, 800).astype(src.dtype)
    got = formats.convert(words, src, dst, mode, True)
    parts = formats.take_apart(words, src)
    result = formats.take_apart(got, dst)
    top = Fraction(dst.max_integer if dst.is_integer else 0) or Fraction(dst.max_value)
    low = -top if dst.is_float else Fraction(dst.min_integer, 1 << dst.fraction_bits)
    for i in np.flatnonzero(~parts.nan & ~parts.inf):
        exact = (-1) ** int(parts.sign[i]) * int(parts.significand[i]) * Fraction(2) ** int(
            parts.exponent[i])
        value = (-1) ** int(result.sign[i]) * int(result.significand[i]) * Fraction(2) ** int(
            result.exponent[i])
        assert value == min(max(reference(exact, dst, mode), low), top), (hex(words[i]), got[i])


def test_double_rounding_is_seen_where_it_happens():
    """f32 -> bf16 -> e4m3 differs from f32 -> e4m3, and convert gives the latter (torchao 4725)."""
    value = np.array([1.0 + 1 / 16 + 1 / 2048], np.float32)  # just above a tie of e4m3
    once = formats.encode(value, "e4m3")
    twice = formats.convert(formats.encode(value, "bf16"), "bf16", "e4m3")
    assert (once.tolist(), twice.tolist()) == ([0x39], [0x38])
    scale = np.array([1.001], np.float32)
    assert formats.encode(scale, "ue8m0", "rp").tolist() == [128]
    assert formats.convert(formats.encode(scale, "bf16"), "bf16", "ue8m0", "rp").tolist() == [127]


def test_large_and_small_arrays_take_the_same_path():
    """The table used for many narrow words gives what single words give."""
    words = np.tile(np.arange(1 << 8, dtype=np.uint8), 2)
    table = formats.convert(words, "e5m2", "e4m3", "rz")
    single = [int(formats.convert(w, "e5m2", "e4m3", "rz")) for w in words[:256]]
    assert table[:256].tolist() == table[256:].tolist() == single


def test_shapes_and_scalars():
    """The result has the shape of the input, scalars and empty arrays included."""
    assert formats.encode(np.zeros((2, 3, 4)), "e4m3").shape == (2, 3, 4)
    assert formats.encode(1.5, "f16").shape == ()
    assert int(formats.encode(1.5, "f16")) == 0x3E00
    assert formats.encode(np.zeros(0), "f16").shape == (0,)
    assert formats.encode([1, 2], "f32").tolist() == [0x3F800000, 0x40000000]


# --- stochastic rounding ---


@pytest.mark.parametrize(("name", "bits"), [("bf16", 16), ("f16", 13), ("e4m3", 16), ("e2m1", 16),
                                            ("e5m2", 16), ("e3m2", 16), ("e2m3", 16)])
def test_stochastic_rounding_is_a_carry(name, bits, rng):
    """Up exactly when random + (bits that fall off, to `bits` places) carries."""
    fmt = FORMATS[name]
    numbers = (rng.standard_normal(3000) * np.exp2(rng.integers(-6, 2, 3000))).astype(np.float32)
    noise = rng.integers(0, 1 << bits, 3000)
    got = formats.decode(formats.encode(numbers, fmt, "rs", True, random=noise, random_bits=bits),
                         fmt)
    low = formats.decode(formats.encode(numbers, fmt, "rz", True), fmt)
    away = np.where(numbers < 0, "rm", "rp")
    high = np.where(
        away == "rp", formats.decode(formats.encode(numbers, fmt, "rp", True), fmt),
        formats.decode(formats.encode(numbers, fmt, "rm", True), fmt),
    )
    for number, random, value, inner, outer in zip(
        numbers.tolist(), noise.tolist(), got.tolist(), low.tolist(), high.tolist(), strict=True
    ):
        if inner == outer:
            assert value == inner
            continue
        fraction = Fraction(number - inner) / Fraction(outer - inner)
        up = int(fraction * (1 << bits)) + random >= 1 << bits
        assert value == (outer if up else inner), (number, random)


def test_stochastic_rounding_over_all_random_bits_is_unbiased():
    """All 2^16 random values round 1 + 1/512 up in the right share of cases."""
    noise = np.arange(1 << 16)
    words = formats.encode(np.float32(1 + 1 / 512), "bf16", "rs", random=noise)
    assert words.shape == (1 << 16,)
    assert (words == 0x3F81).sum() == (1 << 16) // 4


def test_random_slices_serve_each_element():
    """Halves by the manual; second elements bit-reversed, E2M1 by interleaved bytes."""
    word = 0x1234_8001
    assert formats.random_slices(word, "bf16").tolist() == [0x8001, 0x1234]
    assert formats.random_slices(0xFFFF_E001, "f16").tolist() == [0x0001, 0x1FFF]
    assert formats.random_slices(word, "e4m3").tolist() == [0x8001, 0x8001, 0x1234, 0x2C48]
    slices = formats.random_slices(0x01_02_40_80, "e2m1").tolist()
    assert slices == [0x0280, 0x0140, 0x0140, 0x0280]
    with pytest.raises(UsageError, match=r"^cvt.rs to f32: no such conversion"):
        formats.random_slices(word, "f32")


def test_stochastic_rounding_needs_its_bits():
    """No random bits, or too many: an error."""
    with pytest.raises(UsageError, match=r"^rounding rs: it needs random bits"):
        formats.encode(1.5, "bf16", "rs")
    with pytest.raises(UsageError, match=r"^random bits 0x10000: more than 16 bits"):
        formats.encode(1.5, "bf16", "rs", random=1 << 16)


def test_an_unknown_rounding_is_an_error():
    """The modes of the ISA and nothing else."""
    with pytest.raises(UsageError, match=r"^rounding 'nearest': not a rounding modifier\n  legal: "
                                         r"rn, rz, rm, rp, rna, rs\n  see:   PTX ISA"):
        formats.encode(1.5, "bf16", "nearest")
    assert [str(mode) for mode in Rounding] == [*MODES, "rs"]


# --- pitfalls that others shipped ---


def test_e4m3_overflow_by_saturation_and_by_nan():
    """464 is the last that rounds to 448; above it PTX saturates, ml_dtypes' cast gives NaN."""
    numbers = np.array([448.0, 464.0, 465.0, 1e9, -465.0])
    assert formats.encode(numbers, "e4m3").tolist() == [0x7E, 0x7E, 0x7E, 0x7E, 0xFE]
    assert formats.encode(numbers, "e4m3", saturate=False).tolist() == [0x7E, 0x7E, 0x7F, 0x7F,
                                                                        0xFF]


def test_e8m0_casts():
    """Nearest: 1.42 -> 127, 1.5 -> 128. Zero and negatives by magnitude; rp rounds up."""
    numbers = np.array([1.42, 1.5, 0.0, -1.0, np.nan, np.inf])
    assert formats.encode(numbers, "ue8m0").tolist() == [127, 128, 0, 127, 255, 254]
    assert formats.encode(np.array([1.0, 1.0000001, 3.0]), "ue8m0", "rp").tolist() == [127, 128,
                                                                                       129]
    assert formats.encode(np.array([1.9, 4.0]), "ue8m0", "rz").tolist() == [127, 129]
    assert formats.encode(np.array([2.0**-140, 2.0**130]), "ue8m0", "rp").tolist() == [0, 254]
    assert formats.encode(np.array([2.0**130]), "ue8m0", "rp", False).tolist() == [255]


def test_e2m1_ties_go_to_even():
    """.25 -> 0, .75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 -> 4, 5 -> 4."""
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    got = formats.decode(formats.encode(ties, "e2m1"), "e2m1")
    assert got.tolist() == [0, 1, 1, 2, 2, 4, 4]


def test_nan_survives_every_narrow_conversion_that_has_one():
    """A NaN in the source is never a number in the destination (TransformerEngine 3550)."""
    for name in ("f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "ue8m0", "ue4m3"):
        for mode in MODES:
            word = formats.encode(np.array([np.nan]), name, mode, True)
            assert np.isnan(formats.decode(word, name)).all(), (name, mode)
