"""gemm: a kernel of ours with both comparisons."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("words", [[], ["--dtype", "e4m3", "--target", "sm_90"],
                                   ["--layout", "padded", "--no-sanitize"]])
def test_bits_are_the_units(mmalab, words: list[str]) -> None:
    """The result has the bits of the unit's arithmetic, and the run is clean."""
    answer = mmalab("gemm", 128, 128, 64, *words, "--json")
    assert answer.code == 0
    assert answer.json["bits_equal"] is True
    assert answer.json["verdict"] == "clean"
    assert answer.json["relative_rms"] < 1e-6


@pytest.mark.parametrize("words", [
    ["128", "64", "128"], ["16", "64", "128"],
    ["64", "64", "128", "--dtype", "e4m3", "--promote-every", "128", "--plan",
     "tile=128x128,stages=2"],
    ["64", "32", "64", "--dtype", "f16", "--accumulate", "f16", "--no-sanitize"],
])
def test_hopper_bits_are_the_units(mmalab, words: list[str]) -> None:
    """The wgmma family too: its own choice of a kernel, few rows, a plan, types and promotion."""
    answer = mmalab("gemm", *words, "--kernel", "sm90_wgmma", "--json")
    assert answer.code == 0
    assert answer.json["bits_equal"] is True
    assert answer.json["verdict"] == "clean"
    assert answer.json["unit"].startswith("sm_90.wgmma.")
    assert answer.json["relative_rms"] < 4e-3


def test_a_plan_of_the_older_family(mmalab) -> None:
    """--plan says what has no option of its own."""
    answer = mmalab("gemm", 64, 64, 64, "--plan", "tile=256x128,stages=2", "--json")
    assert answer.code == 0
    assert answer.json["bits_equal"] is True
    assert "256x128" in answer.json["kernel"]


SEE = "  see:   mmalab gemm --help"
REFUSED = {
    "stages": (["--stages", "3"], ["--stages 3: is no option of sm90_wgmma",
                                   "  legal: --plan stages=3", SEE]),
    "layout": (["--layout", "padded"], [
        "--layout padded: is no option of sm90_wgmma",
        "  legal: without it: tiles are as the tensor maps' 128B swizzle lays them out", SEE]),
    "choice": (["--plan", "warp_tile=64x64"], [
        "--plan warp_tile=(64, 64): is no choice of sm90_wgmma",
        ("  legal: tile, stages, cluster, groups, schedule, store, copy, left, flight, part, "
         "parts, band, panels, l2_promotion, persistent, sms"), SEE]),
    "kind": (["--plan", "tile=5"], ["--plan tile=5: is not 2 numbers",
                                    "  legal: such as tile=128x256", SEE]),
    "no value": (["--plan", "stages"], ["--plan stages: has no value", "  legal: KEY=VALUE",
                                        "  see:   mmalab.cli.choices"]),
}


@pytest.mark.parametrize(("words", "lines"), REFUSED.values(), ids=REFUSED)
def test_options_that_a_family_does_not_have(mmalab, words: list[str], lines: list[str]) -> None:
    """What was given, the rule, what would be legal, and where it is written."""
    answer = mmalab("gemm", 128, 64, 128, "--kernel", "sm90_wgmma", *words)
    assert answer.code == 2
    assert answer.err.splitlines() == lines


def test_the_same_said_twice(mmalab) -> None:
    """An option and the plan may not both name a choice."""
    answer = mmalab("gemm", 8, 8, 8, "--plan", "stages=3", "--stages", "2")
    assert answer.code == 2
    assert "say the same twice" in answer.err


def test_words(mmalab) -> None:
    """Without --json the comparison is said in words."""
    assert "every bit equal" in mmalab("gemm", 128, 128, 32).out


@pytest.mark.parametrize("words", [["127", "128", "64"], ["128", "128", "64", "--dtype", "f33"],
                                   ["128", "128", "64", "--kernel", "sm70_mma"],
                                   ["128", "128", "64", "--on", "moon"], ["128", "128"]])
def test_wrong_use(mmalab, words: list[str]) -> None:
    """Sizes, types, kernels and places that do not exist end with 2."""
    assert mmalab("gemm", *words).code == 2
