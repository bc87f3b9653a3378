"""The table of units: names, look-up, and which instruction runs on which unit."""

from __future__ import annotations

import pytest

from mmalab.errors import UsageError
from mmalab.numerics import unit, unit_for, units


def test_every_name_finds_its_own_row():
    """Names are unique, and each finds the row that has it."""
    rows = units()
    assert len({row.name for row in rows}) == len(rows) > 800
    assert all(unit(row.name) is row for row in rows)


def test_every_row_says_how_it_is_known():
    """No row without a source and a confidence; approximate rows say why."""
    for row in units():
        assert row.source, row
        assert row.confidence in ("inferred", "matches-model", "recorded", "measured", "documented")
        assert row.splits, row


def test_repeated_types_and_suffixes_are_other_spellings():
    """e4m3.e4m3 is e4m3, sm_90a is sm_90, .rn is the default rounding."""
    assert unit("sm_89.mma.e4m3.e4m3.f16") is unit("sm_89.mma.e4m3.f16")
    assert unit("sm_90a.wgmma.f16.f16.f16") is unit("sm_90.wgmma.f16.f16")
    assert unit("sm_90.mma.f64.f64.f64") is unit("sm_90.mma.f64.f64")
    assert unit("sm_90.mma.f64.rn.f64") is unit("sm_90.mma.f64.f64")


def test_unknown_units_name_the_nearest():
    """A unit that nobody has seen is an error that says what there is."""
    with pytest.raises(UsageError) as error:
        unit("sm_90.wgmma.e4m3.f64")
    assert str(error.value) == (
        "unit 'sm_90.wgmma.e4m3.f64': is not a known arithmetic unit\n"
        "  legal: sm_90.wgmma.e4m3.f16, sm_90.wgmma.e4m3.f32, sm_90.wgmma.e5m2.f16, "
        "sm_90.wgmma.e5m2.e4m3.f16\n"
        "  see:   mmalab.numerics.units()")


@pytest.mark.parametrize(("name", "expected"), [
    ("sm_90.wgmma.e4m3.f32", (13, "RZ-E8M13", 32, 32)),
    ("sm_89.mma.e5m2.f16", (13, "RNE16", 32, 16)),
    ("sm_80.mma.bf16.f32", (24, "RZ32", 16, 8)),
    ("sm_90.mma.tf32.f32", (25, "RZ32", 8, 8)),
    ("sm_100.tcgen05.e3m2.e2m1.f32", (25, "RZ32", 32, 32)),
    ("sm_70.mma.f16.f16", (23, "RNE16", 4, 4)),
])
def test_parameters(name, expected):
    """F, rounding, K and L of rows that anybody can check against the literature."""
    row = unit(name)
    assert (row.fraction, row.rounding, row.k, row.block(row.k)) == expected


def test_block_of_an_impossible_k():
    """An instruction K that the unit lacks is named, with those it has."""
    with pytest.raises(UsageError, match=r"^sm_90.mma.bf16.f32: K = 32: .*\n"
                                         r"  legal: 8, 16\n  see:   mmalab.numerics$"):
        unit("sm_90.mma.bf16.f32").block(32)


_FP8 = {"shape": "m16n8k32", "dtype": "f32", "atype": "e4m3", "btype": "e5m2"}


@pytest.mark.parametrize(("target", "family", "modifiers", "name", "algorithm"), [
    ("sm_89", "mma.sync", _FP8, "sm_89.mma.e4m3.e5m2.f32", "tfs"),
    ("sm_90a", "mma.sync", _FP8, "sm_90.mma.e4m3.e5m2.f32", "rewrite"),
    ("sm_103f", "mma.sync", _FP8, "sm_103.mma.e4m3.e5m2.f32", "rewrite"),
    ("sm_110", "mma.sp", _FP8, "sm_110.mma.e4m3.e5m2.f32", "rewrite"),
    ("sm_121a", "mma.sync", _FP8 | {"kind": "f8f6f4"}, "sm_121.mma.e4m3.e5m2.f32", "tfs"),
    ("sm_90a", "wgmma.mma_async", {"dtype": "f32", "atype": "bf16", "btype": "bf16"},
     "sm_90.wgmma.bf16.f32", "tfs"),
    ("sm_80", "mma.sync", {"shape": "m8n8k4", "dtype": "f32", "atype": "f16", "btype": "f16"},
     "sm_80.mma884.f16.f32", "ffma"),
    ("sm_80", "mma.sync", {"shape": "m8n8k4", "dtype": "f64", "atype": "f64", "btype": "f64",
                           "rounding": "rz"}, "sm_80.mma.f64.rz.f64", "fma"),
    ("sm_90", "mma.sync", {"shape": "m16n8k64", "dtype": "s32", "atype": "s4", "btype": "u4",
                           "satfinite": "satfinite"}, "sm_90.mma.s4.u4.s32.satfinite", "integer"),
    ("sm_80", "mma.sync", {"shape": "m16n8k256", "dtype": "s32", "atype": "b1", "btype": "b1",
                           "op": "xor"}, "sm_80.mma.b1.xor.s32", "bits"),
    ("sm_100a", "tcgen05.mma", {"kind": "f16", "dtype": "f16", "atype": "f16", "btype": "f16"},
     "sm_100.tcgen05.f16.f16", "tfs"),
    ("sm_120a", "mma.sync", {"kind": "mxf8f6f4", "dtype": "f32", "atype": "e4m3", "btype": "e2m1",
                             "stype": "ue8m0"}, "sm_120.mma.mxf8f6f4.e4m3.e2m1.f32", "tfs"),
    ("sm_120a", "mma.sync", {"kind": "mxf4nvf4", "scale_vec": "4X", "dtype": "f32",
                             "atype": "e2m1", "stype": "ue4m3"}, "sm_120.mma.mxf4nvf4.f32",
     "groups"),
    ("sm_100a", "tcgen05.mma", {"kind": "mxf4nvf4", "scale_vec": "2X", "dtype": "f32",
                                "atype": "e2m1", "stype": "ue8m0"}, "sm_100.tcgen05.mxf4.f32",
     "groups"),
])
def test_instructions_find_the_unit_that_executes_them(target, family, modifiers, name, algorithm):
    """What runs depends on the target: FP8 mma.sync is native on Ada and GeForce alone."""
    row = unit_for(target, family, modifiers)
    assert (row.name, row.algorithm) == (name, algorithm)


def test_no_unit_where_the_chip_has_no_instruction():
    """wgmma on Blackwell, tcgen05 on GeForce and FP8 on Ampere are unknown."""
    for target, family in (("sm_100a", "wgmma.mma_async"), ("sm_120a", "tcgen05.mma"),
                           ("sm_80", "mma.sync")):
        with pytest.raises(UsageError):
            unit_for(target, family, {"dtype": "f32", "atype": "e4m3", "btype": "e4m3"})
