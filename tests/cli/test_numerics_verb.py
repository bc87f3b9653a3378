"""``mmalab numerics``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmalab import formats
from mmalab.numerics import dot


@pytest.fixture
def arrays(tmp_path: Path) -> tuple[Path, Path]:
    """Three products, of which the last is lost on Hopper's wgmma."""
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(a, np.array([[256, 256, 1]], np.float32))
    np.save(b, np.array([[256, -256, 1]], np.float32))
    return a, b


def test_probe(mmalab) -> None:
    """The same types on the same chip: 14 bits and 24."""
    assert mmalab("numerics", "probe", "--unit", "sm_90.wgmma.e4m3.f32", "--json").json[
        "bits"] == 14
    assert "24 bits" in mmalab("numerics", "probe", "--unit", "sm_90.mma.e4m3.f32").out


def test_units(mmalab) -> None:
    """Units by a part of their name; none is told, not hidden."""
    found = mmalab("numerics", "units", "sm_90.wgmma.e4m3", "--json").json
    assert {row["name"] for row in found} >= {"sm_90.wgmma.e4m3.f32", "sm_90.wgmma.e4m3.f16"}
    assert "no unit" in mmalab("numerics", "units", "sm_999").out


def test_error(mmalab) -> None:
    """Promotion lowers what the sums add, and not what rounding the inputs costs."""
    words = ("numerics", "error", "--unit", "sm_89.mma.e4m3.f32", "--k", 256, "--outputs", 32,
             "--json")
    plain, promoted = mmalab(*words).json, mmalab(*words, "--promote", 64).json
    assert promoted["from_sums"] < plain["from_sums"] / 2
    assert plain["total"] == pytest.approx(promoted["total"], rel=0.01)


def test_dot(mmalab, arrays: tuple[Path, Path], tmp_path: Path) -> None:
    """Values in, value and word out; --out keeps the words."""
    out = tmp_path / "d.npy"
    assert mmalab("numerics", "dot", *arrays, "--unit", "sm_90.wgmma.e4m3.f32").out.split() == [
        "0", "0x00000000"]
    found = mmalab("numerics", "dot", *arrays, "--unit", "sm_90.mma.e4m3.f32", "--out", out,
                   "--json").json
    assert found["values"] == [1.0]
    assert np.load(out).view(np.float32).tolist() == [1.0]


def test_identify(mmalab, tmp_path: Path) -> None:
    """Outputs of Hopper's wgmma are recognised as such, and damaged ones as nobody's."""
    rng = np.random.default_rng(1)
    a, b = (formats.encode(rng.uniform(-1, 1, (64, 32)), "e4m3") for _ in range(2))
    c = np.zeros(64, np.uint32)
    d = dot(a, b, c, unit="sm_90.wgmma.e4m3.f32", raw=True)
    files = [tmp_path / f"{name}.npy" for name in "abd"]
    for file, array in zip(files, (a, b, d), strict=True):
        np.save(file, array)
    found = mmalab("numerics", "identify", *files, "--types", "e4m3,e4m3,f32", "--json")
    assert found.code == 0
    assert found.json["sm_90.wgmma.e4m3.f32"] == 1.0
    # without types: the arrays' widths say what they may be, floats what they are
    for given in (d, d.view(np.float32)):
        np.save(files[2], given)
        found = mmalab("numerics", "identify", *files, "--json")
        assert found.code == 0
        assert next(iter(found.json)) == "sm_90.wgmma.e4m3.f32"
    assert not any(".bf16." in name or ".tcgen05.s8" in name for name in found.json)
    np.save(files[2], d ^ np.uint32(1))
    assert mmalab("numerics", "identify", *files, "--types", "e4m3,e4m3,f32").code == 1


@pytest.mark.parametrize("words", [
    ["probe", "--unit", "sm_90.wgmma.e9m9.f32"], ["probe", "--unit", "sm_90.mma.s8.s32"],
    ["error", "--unit", "sm_89.mma.bf16.f32", "--k", "0"],
    ["error", "--unit", "sm_89.mma.bf16.f32", "--promote", "7"],
    ["dot", "missing.npy", "missing.npy", "--unit", "sm_89.mma.bf16.f32"],
    ["identify", "a.npy", "b.npy", "d.npy", "--types", "e4m3"]])
def test_wrong_use(mmalab, words: list[str]) -> None:
    """Unknown units, sizes and files end with 2."""
    assert mmalab("numerics", *words).code == 2


def test_other_units_of_the_chip_are_told_beside(mmalab) -> None:
    """Case D01: mma.sync of Hopper runs on another unit, and is no test of wgmma's."""
    found = mmalab("numerics", "probe", "--unit", "sm_90.wgmma.e4m3.f32", "--json").json
    assert (found["bits"], found["beside"]) == (14, {"sm_90.mma.e4m3.f32": 24})
    found = mmalab("numerics", "probe", "--unit", "sm_89.mma.e4m3.f32", "--json").json
    assert (found["bits"], found["beside"]) == (14, {})


def test_promotion_is_told_beside_no_promotion(mmalab) -> None:
    """Case D02: what it gives back, in one call."""
    words = ["numerics", "error", "--unit", "sm_90.wgmma.e4m3.f32", "--k", 1024, "--outputs", 16]
    plain = mmalab(*words, "--json").json
    both = mmalab(*words, "--promote", 128, "--json").json
    assert both["unpromoted"] == plain
    assert both["from_sums"] < plain["from_sums"] / 3
    assert "not promoted" in mmalab(*words, "--promote", 128).out


def test_units_that_are_not_known(mmalab) -> None:
    """Nothing found is no clean answer; with --json an empty list."""
    answer = mmalab("numerics", "units", "bogus")
    assert answer.code == 1
    assert "no unit has 'bogus'" in answer.out
    answer = mmalab("numerics", "units", "bogus", "--json")
    assert (answer.code, answer.json) == (1, [])
