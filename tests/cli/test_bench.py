"""bench: what would be measured is said anywhere; measuring without a GPU is refused in words."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuda-bindings cannot be imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("words", [
    ["bench", "gemm", "--table", "bf16"], ["bench", "gemm", 512, 512, 512],
    ["gemm", 128, 128, 64, "--on", "gpu"],
])
def test_without_a_gpu(mmalab, words: list[object]) -> None:
    """Exit 2: what is missing, what to install, what works without, where to look."""
    answer = mmalab(*words)
    assert answer.code == 2
    *_, first, legal, see = answer.err.splitlines()
    assert "cannot be imported" in first
    assert legal == ("  legal: pip install 'mmalab[gpu]', mmalab.emulate runs the same kernel "
                     "without a GPU")
    assert see == "  see:   mmalab doctor"
    assert answer.out == ""


def test_a_table_is_listed_without_a_gpu(mmalab) -> None:
    """Rows, kernels, arguments, and how long it takes."""
    answer = mmalab("bench", "gemm", "--table", "bf16", "--table", "skinny", "--dry-run")
    assert answer.code == 0
    assert answer.err.startswith("21 rows, about ")
    assert "8192 x 8192 x 1024" in answer.out
    assert answer.out.count("M=16") == 4
    assert answer.err.endswith("against cublasLt\n")
    assert max(map(len, answer.out.splitlines())) <= 150


def test_one_row_from_the_command_line(mmalab) -> None:
    """Each --set is a candidate; values are numbers, tuples, flags or words."""
    answer = mmalab("bench", "gemm", 4096, 2048, 1024, "--kernel", "sm80_mma.gemm",
                    "--set", "dtype=bf16,stages=4,warp_tile=64x64", "--set", "persistent=false",
                    "--baseline", "sm80_mma.gemm:stages=3", "--dry-run", "--json")
    (row,) = answer.json
    assert [row[name] for name in "mnk"] == [4096, 2048, 1024]
    assert row["arguments"] == [{"dtype": "bf16", "stages": 4, "warp_tile": [64, 64]},
                                {"persistent": False}]
    assert row["plans"][0].startswith("128x128, 4 stages, warps of 64x64")
    assert row["plans"][1].startswith("refused: ")
    assert (row["baseline"], row["baseline_arguments"]) == ("sm80_mma.gemm", {"stages": 3})


def test_the_plan_that_would_be_measured_is_said(mmalab) -> None:
    """Without a choice given, the one that the kernel makes; the family is enough as its name."""
    answer = mmalab("bench", "gemm", 4096, 4096, 4092, "--kernel", "sm90_wgmma", "--dry-run")
    assert answer.err.startswith("1 row, about ")
    assert "sm90_wgmma.gemm" in answer.out
    assert "256x192, 4 stages, cluster 1x2, store permuted, copy shifted" in answer.out
    words = ["bench", "gemm", 4096, 4096, 4096, "--kernel", "sm90_wgmma", "--dry-run"]
    several = mmalab(*words, "--set", "band=1024", "--set", "band=4096", "--set", "tile=128x128")
    assert "(2 candidates)" in several.out
    assert "128x128" in several.out


def test_less_is_faster(mmalab) -> None:
    """The expected time follows the pairs and the devices."""
    def expected(*more: object) -> int:
        answer = mmalab("bench", "gemm", "--table", "bf16", "--dry-run", *more)
        return int(answer.err.split("about ")[1].split(" s")[0])

    assert expected("--sustained", 0) < expected() < expected("--sustained", 4)
    assert expected("--gpu", 0, "--gpu", 1) < expected()


@pytest.mark.parametrize("words", [
    ["conv"], ["gemm"], ["gemm", "1", "2"], ["gemm", "--table", "nonsense"],
    ["gemm", "--table", "bf16", "--only", "no such title"],
    ["gemm", "8", "8", "8", "--burst", "0", "--sustained", "0"],
    ["gemm", "8", "8", "8", "--set", "stages"], ["gemm", "8", "8", "8", "--set", "stage=4"],
])
def test_wrong_use(mmalab, words: list[str]) -> None:
    assert mmalab("bench", *words, "--dry-run").code == 2
