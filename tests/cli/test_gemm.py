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


def test_every_choice_of_the_factory_can_be_planned(mmalab) -> None:
    """--plan takes what the factory takes: no list of its own that could lag behind."""
    answer = mmalab("gemm", 768, 128, 256, "--kernel", "sm80_mma", "--dry-run", "--plan",
                    "tile=256x128,stages=4,copy=tma,waves=even,drain=3,sms=2")
    assert answer.code == 0
    assert "4 stages, warps of 64x64, swizzled, copy tma, even waves" in answer.out
    answer = mmalab("gemm", 256, 128, 64, "--kernel", "sm80_mma", "--plan", "waves=7")
    assert answer.err.splitlines()[:2] == ["--plan waves=7: is not a word",
                                           "  legal: such as waves=whole"]


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


@pytest.mark.parametrize(("sizes", "told"), [
    ((4096, 4096, 1000), ["TMA: rows of 2,000 bytes are a multiple of 16, zeros behind K"]),
    ((4096, 4096, 4092), ["copy shifted, A from registers", "8,184 bytes are no multiple of 16"]),
    ((256, 256, 4092), ["copy threads", "threads gather: rows of 8,184 bytes"]),
    ((64, 4096, 4096), ["K split by 2"]),
])
def test_a_dry_run_tells_what_would_run(mmalab, sizes: tuple[int, ...], told: list[str]) -> None:
    """Plan, launch and copy of a size that nobody would emulate; nothing is run."""
    answer = mmalab("gemm", *sizes, "--kernel", "sm90_wgmma", "--dry-run")
    assert answer.code == 0
    assert all(each in answer.out for each in [*told, "emulation", "shared memory"])
    assert "verdict" not in answer.out


def test_a_dry_run_as_data(mmalab) -> None:
    """The facts of the kernel, whole; both families, either spelling of the kernel."""
    answer = mmalab("gemm", 8192, 8192, 4092, "--kernel", "sm90_wgmma.gemm", "--dry-run", "--json")
    assert answer.json["facts"]["copy"] == "shifted"
    assert answer.json["grid"] == [128, 1, 1]
    assert answer.json["emulation_seconds"]["plain"] < answer.json["emulation_seconds"]["sanitized"]
    other = mmalab("gemm", 128, 128, 64, "--kernel", "sm80_mma.gemm", "--dry-run", "--json")
    assert other.json["facts"]["layout"] == "swizzled"
    assert "copy" not in other.json["plan"]


def test_who_waits_is_told_so(mmalab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that takes long says so before, where its JSON is not."""
    monkeypatch.setattr("mmalab.cli.described._LONG", 0)
    answer = mmalab("gemm", 64, 64, 64, "--json")
    assert answer.err.startswith("emulating with the sanitizer, about 1 s; --no-sanitize takes 1 s")
    assert answer.json["verdict"] == "clean"
    monkeypatch.setattr("mmalab.cli.described._LONG", 15)
    assert mmalab("gemm", 64, 64, 64).err == ""


def test_the_error_says_what_is_rounding(mmalab) -> None:
    """A result in 16 bits differs from FP64 by its own rounding; one in FP32 by the sums alone."""
    words = ["gemm", 64, 64, 64, "--no-sanitize"]
    assert "C's rounding to bf16 (8 bits)" in mmalab(*words, "--kernel", "sm90_wgmma").out
    assert "rounding" not in mmalab(*words).out
    sums = ["--kernel", "sm90_wgmma", "--dtype", "f16", "--accumulate", "f16"]
    assert "rounding" not in mmalab(*words, *sums).out  # each step rounds, not only C
