"""banks and swizzle: the article's three tiles."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("words", "passes"), [
    (["--pitch", 64], 4), (["--pitch", 64, "--pad", 16], 1), (["--pitch", 80], 1),
    (["--pitch", 64, "--swizzle", "2,3,3", "--dtype", "bf16"], 1), (["--pitch", 128], 8)])
def test_banks(mmalab, words: list[object], passes: int) -> None:
    """Plain rows of 64 bytes take 4 passes, padded and swizzled ones 1."""
    found = mmalab("banks", "--rows", 8, *words, "--json").json
    assert found["passes"] == passes
    assert f"passes needed: {passes}" in mmalab("banks", *words).out
    padded = ["--pitch", 64], ["--pitch", 128]
    assert found["padding"] == (16 if words in padded else None)


@pytest.mark.parametrize(("rows", "columns", "padding"), [(8, 4, 16), (4, 8, 32)])
def test_the_padding_that_frees_an_access(mmalab, rows: int, columns: int, padding: int) -> None:
    """Case L03: TF32 fragments in rows of 128 bytes; A and B want opposite paddings."""
    words = ["banks", "--rows", rows, "--columns", columns, "--access", 4]
    found = mmalab(*words, "--pitch", 128)
    assert f"no conflicts with --pad {padding} (rows {128 + padding} bytes apart)" in found.out
    assert mmalab(*words, "--pitch", 128, "--pad", padding, "--json").json["ways"] == 1
    assert mmalab(*words, "--pitch", 128, "--pad", padding - 4, "--json").json["ways"] > 1


def test_what_the_modes_of_the_hardware_cannot_is_searched(mmalab) -> None:
    """Case L01: an M-major tile of 8 rows of 256 bytes wants Swizzle<3,3,4>."""
    found = mmalab("swizzle", "--tile", "8,128", "--dtype", "f16", "--json").json
    assert [(mode["name"], mode["passes"] - mode["by_access"]["writes"]["passes"])
            for mode in found] == [
        ("plain", 128), ("Swizzle<1,3,3>", 128), ("Swizzle<2,3,3>", 64), ("Swizzle<3,3,3>", 32),
        ("Swizzle<3,3,4>", 16), ("padded 16 bytes", 16)]


def test_swizzle(mmalab) -> None:
    """The search finds Swizzle<2,3,3> for 32 BF16 values a row, at no cost in bytes."""
    found = mmalab("swizzle", "--tile", "128,32", "--dtype", "bf16", "--find", "--json").json
    assert found["best"] == "Swizzle<2,3,3>"
    assert found["plain"]["by_access"]["reads"] == {"passes": 256, "ideal": 64}
    table = mmalab("swizzle", "--tile", "128,32", "--dtype", "bf16", "--json").json
    assert [mode["tma"] for mode in table] == [None, "32B", "64B", "128B"]


@pytest.mark.parametrize("words", [
    ["banks", "--pitch", "x"], ["banks", "--pitch", "64", "--swizzle", "2,3"],
    ["banks", "--pitch", "8"],
    ["swizzle", "--tile", "128", "--dtype", "bf16"], ["swizzle", "--tile", "8,8", "--dtype", "x"]])
def test_wrong_use(mmalab, words: list[str]) -> None:
    """What is missing or malformed ends with 2."""
    assert mmalab(*words).code == 2


def test_banks_without_a_pitch_shows_three_layouts(mmalab) -> None:
    """Plain, padded and swizzled rows of 64 bytes: 4, 1 and 1 passes."""
    answer = mmalab("banks", "--json")
    assert answer.code == 0
    passes = {name: access["passes"] for name, access in answer.json.items()}
    assert passes == {"plain": 4, "padded": 1, "swizzled": 1}
    assert answer.json["swizzled"]["groups"] == [0, 4, 1, 5, 2, 6, 3, 7]
