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


def test_words(mmalab) -> None:
    """Without --json the comparison is said in words."""
    assert "every bit equal" in mmalab("gemm", 128, 128, 32).out


@pytest.mark.parametrize("words", [["127", "128", "64"], ["128", "128", "64", "--dtype", "f33"],
                                   ["128", "128", "64", "--kernel", "sm70_mma"],
                                   ["128", "128", "64", "--on", "moon"], ["128", "128"]])
def test_wrong_use(mmalab, words: list[str]) -> None:
    """Sizes, types, kernels and places that do not exist end with 2."""
    assert mmalab("gemm", *words).code == 2
