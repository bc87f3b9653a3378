"""The format records: derived numbers against ml_dtypes and gfloat, names, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.formats import ALIASES, FORMATS, Specials

FLOATS = ["f64", "f32", "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0"]


@pytest.mark.parametrize("name", FLOATS)
def test_limits_are_those_of_ml_dtypes(name):
    """Largest, smallest normal and smallest subnormal value, mantissa bits and width."""
    fmt, info = FORMATS[name], ml_dtypes.finfo(formats.dtype_of(name))
    assert fmt.max_value == float(info.max)
    assert fmt.min_normal == float(info.smallest_normal)
    assert fmt.mantissa_bits == info.nmant
    assert fmt.bits == info.bits
    if fmt.subnormals:
        assert fmt.min_subnormal == float(info.smallest_subnormal)


def test_the_table_of_block_scaled_elements():
    """Bias, largest value and smallest subnormal as the facts list them."""
    expected = {
        "e4m3": (7, 448.0, 2.0**-9), "e5m2": (15, 57344.0, 2.0**-16),
        "e3m2": (3, 28.0, 2.0**-4), "e2m3": (1, 7.5, 2.0**-3), "e2m1": (1, 6.0, 0.5),
        "ue4m3": (7, 448.0, 2.0**-9),
    }
    for name, row in expected.items():
        fmt = FORMATS[name]
        assert (fmt.bias, fmt.max_value, fmt.min_subnormal) == row


@pytest.mark.parametrize(
    ("name", "emin"),
    [("f16", -14), ("bf16", -126), ("tf32", -126), ("f32", -126), ("e4m3", -6), ("e5m2", -14),
     ("e3m2", -2), ("e2m3", 0), ("e2m1", 0), ("ue8m0", -127)],
)
def test_smallest_normal_exponents(name, emin):
    """emin as the accumulation rules use it."""
    assert FORMATS[name].emin == emin


def test_special_words():
    """Canonical NaN and infinity, and refusals where there is none."""
    assert {n: hex(FORMATS[n].nan_word) for n in ("f32", "f16", "bf16", "e4m3", "e5m2", "ue8m0")} \
        == {"f32": "0x7fffffff", "f16": "0x7fff", "bf16": "0x7fff", "e4m3": "0x7f",
            "e5m2": "0x7f", "ue8m0": "0xff"}
    assert FORMATS["tf32"].nan_word == 0x7FFFFFFF
    assert FORMATS["f16"].inf_word == 0x7C00
    assert FORMATS["tf32"].inf_word == 0x7F800000
    with pytest.raises(UsageError, match=r"^NaN in e2m1: the format has no NaN\n  legal: f64, f32"):
        _ = FORMATS["e2m1"].nan_word
    with pytest.raises(UsageError, match=r"^infinity in e4m3: the format has no infinity"):
        _ = FORMATS["e4m3"].inf_word


def test_integers_are_two_s_complement_ranges():
    """Largest and smallest words of every width; s2f6 counts 64ths."""
    assert (FORMATS["s4"].min_integer, FORMATS["s4"].max_integer) == (-8, 7)
    assert (FORMATS["u64"].min_integer, FORMATS["u64"].max_integer) == (0, 2**64 - 1)
    assert FORMATS["b1"].max_integer == 1
    assert FORMATS["s2f6"].max_value == 127 / 64
    assert [f.name for f in FORMATS.values() if f.is_integer] == [
        "s4", "s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64", "b1"
    ]


@pytest.mark.parametrize(
    ("alias", "name"),
    [("float8_e4m3fn", "e4m3"), ("torch.bfloat16", "bf16"), ("half_t", "f16"), ("e8m0", "ue8m0"),
     ("cutlass::float_e2m1_t", "e2m1"), (".f32", "f32"), ("FP16", "f16"), ("int8", "s8"),
     ("b16", "u16"), ("fp64", "f64"), ("float4_e2m1fn_x2", "e2m1"), ("tfloat32_t", "tf32")],
)
def test_other_libraries_names_are_understood(alias, name):
    """ml_dtypes, torch, CUTLASS and PTX spellings lead to one record."""
    assert formats.get(alias) is FORMATS[name]


def test_aliases_are_unambiguous():
    """No alias is the name of a format, and each leads to one."""
    assert not ALIASES.keys() & FORMATS.keys()
    assert set(ALIASES.values()) <= set(FORMATS)


def test_an_unknown_name_is_an_error_with_the_nearest_ones():
    """Never a default."""
    with pytest.raises(UsageError, match=r"^number format 'e4m4': not a format.*\n  legal: .*e4m3"):
        formats.get("e4m4")
    with pytest.raises(UsageError, match="legal: f64, f32, tf32"):
        formats.get("qqqq")


def test_words_have_the_type_of_their_width():
    """uint8 up to 8 bits, then uint16, uint32, uint64; tf32 has a 32-bit word."""
    widths = {"b1": 1, "e2m1": 1, "e3m2": 1, "e4m3": 1, "bf16": 2, "tf32": 4, "s64": 8}
    assert {n: FORMATS[n].dtype.itemsize for n in widths} == widths
    assert all(np.issubdtype(f.dtype, np.unsignedinteger) for f in FORMATS.values())
    assert FORMATS["e2m1"].container_lsb == 2
    assert FORMATS["e2m1"].specials is Specials.FINITE
