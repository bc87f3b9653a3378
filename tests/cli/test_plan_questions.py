"""``mmalab plan``: one command for each question, its exit code, text, JSON and pictures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from mmalab import toolchain

FITS = [
    ["tmem", "--mma", "128x256", "--stages", "2"],
    ["tmem", "--mma", "128x256x64", "--scales", "nvfp4"],
    ["tmem", "--mma", "64x256", "--dtype", "bf16", "--stages", "4"],
    ["tmem", "--mma", "128x64", "--ctas", "9"],
    ["tmem", "--part", "D:384", "--part", "S:4", "--part", "P:64:1-2", "--part", "H:32:half"],
    ["occupancy", "--registers", "128", "--shared", "49152", "--threads", "128", "--target",
     "sm_100a", "--tmem", "256"],
    ["occupancy", "--registers", "128", "--threads", "128", "--tmem", "256,32"],
    ["smem", "--tile", "128x256x64", "--dtype", "bf16", "--target", "sm_90a"],
    ["smem", "--member", "A:33000:1024:stage", "--member", "C:34000", "--target", "sm_90a"],
    ["registers", "--mma", "64x256", "--drain", "128", "--setmaxnreg", "40,232,232"],
    ["traffic", "--mma", "128x256", "--dtype", "e2m1"],
    ["rates"], ["rates", "--on", "H200"],
    ["rates", "--measured", "518.6", "--dtype", "f16", "--on", "H100"],
    ["formats"], ["formats", "nvfp4", "--rows", "128", "--cols", "4096", "--target", "sm_100a"],
    ["decode", "--rows", "8", "--target", "sm_100a", "--n", "4096", "--k", "4096", "--curve"],
    ["decode", "--rows", "2", "--speculative", "4", "--experts", "3,0,17", "--target", "sm_90a"],
    ["tiles", "--gemm", "4096x4096x4096"],
    ["tiles", "--gemm", "4096x4096x4096", "--target", "sm_100a"],
    ["tiles", "--gemm", "8192x8192x8192", "--dtype", "e4m3", "--on", "B200", "--cluster", "2x1"],
    ["chips"], ["chips", "B200"],
]
DOES_NOT_FIT = [
    ["tmem", "--mma", "128x256", "--stages", "2", "--scales", "nvfp4"],
    ["tmem", "--script", "alloc 256; alloc 256", "--script", "alloc 256; alloc 256"],
    ["tmem", "--script", "alloc 48"],
    ["occupancy", "--registers", "32", "--shared", "102400", "--threads", "128", "--target",
     "sm_120a"],
    ["smem", "--tile", "128x256x64", "--stages", "5", "--target", "sm_90a"],
    ["registers", "--mma", "128x256"], ["registers", "--setmaxnreg", "24,24,240,240",
                                        "--launch", "128"],
    ["rates", "--measured", "1956", "--acc", "f16", "--on", "5090", "--clock", "2850"],
]
WRONG_USE = [
    ["tmem"], ["tmem", "--mma", "128"], ["tmem", "--mma", "128x257"], ["tmem", "--part", "D"],
    ["tmem", "--mma", "128x256", "--target", "sm_120a"], ["tmem", "--script", "wait"],
    ["occupancy", "--registers", "3"], ["occupancy", "--threads", "3"],
    ["occupancy", "--registers", "3", "--threads", "32", "--tmem", "x", "--target", "sm_100a"],
    ["smem", "--target", "sm_90a"], ["smem", "--tile", "128x128", "--target", "sm_90a"],
    ["smem", "--member", "A", "--target", "sm_90a"], ["registers"], ["rates", "--measured", "3"],
    ["traffic", "--on", "H300"], ["formats", "fp5"], ["formats", "--data", "none.npy"],
    ["decode", "--target", "sm_42"], ["decode", "--rows", "8", "--n", "4096"], ["chips", "H300"],
    ["tiles", "--gemm", "4096x4096"], ["tiles", "--gemm", "8x8x8", "--on", "A100"],
]


@pytest.mark.parametrize("words", FITS, ids=" ".join)
def test_what_fits(mmalab, words: list[str]) -> None:
    """Exit 0, text without JSON, JSON without text."""
    answer = mmalab("plan", *words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.strip()
    assert mmalab("plan", *words, "--json").json


@pytest.mark.parametrize("words", DOES_NOT_FIT, ids=" ".join)
def test_what_does_not_fit(mmalab, words: list[str]) -> None:
    """Exit 1, in text and in JSON."""
    assert mmalab("plan", *words).code == 1
    answer = mmalab("plan", *words, "--json")
    assert answer.code == 1
    assert answer.json


@pytest.mark.parametrize("words", WRONG_USE, ids=" ".join)
def test_wrong_use(mmalab, words: list[str]) -> None:
    """Exit 2 with the rule and what would be legal; JSON says refused."""
    answer = mmalab("plan", *words)
    assert answer.code == 2
    assert answer.err
    assert mmalab("plan", *words, "--json").json["verdict"] == "refused"


def test_the_ledger_is_drawn(mmalab) -> None:
    """512 columns as 64 characters; halves of the lanes in two rows; what fits instead."""
    full = mmalab("plan", "tmem", "--mma", "128x256", "--stages", "2").out
    assert "A" * 32 + "B" * 32 in full
    assert "512 of 512 columns" in full
    halves = mmalab("plan", "tmem", "--mma", "64x256", "--stages", "2").out
    assert "lanes 16-31 " + "B" * 32 + "." * 32 in halves
    tight = mmalab("plan", "tmem", "--mma", "128x256", "--stages", "2", "--scales", "nvfp4").out
    assert "fits: 1 stage (268 columns)" in tight


def test_pictures(mmalab, tmp_path: Path) -> None:
    """--svg draws ledger, allocator, decode curve, shared memory and occupancy; --roofline too."""
    asked = {"ledger": ["tmem", "--mma", "128x256"], "curve": ["decode", "--rows", "8"],
             "pool": ["tmem", "--mma", "128x128", "--ctas", "6"],
             "shared": ["smem", "--tile", "128x256x64", "--target", "sm_90a"],
             "bars": ["occupancy", "--registers", "168", "--threads", "384", "--target", "sm_90a"]}
    for name, words in asked.items():
        path = tmp_path / f"{name}.svg"
        assert mmalab("plan", *words, "--svg", path).code == 0
        assert ET.fromstring(path.read_text()).tag.endswith("svg")  # noqa: S314
    path = tmp_path / "roofline.svg"
    words = ["decode", "--target", "sm_90a", "--roofline", path]
    assert mmalab("plan", *words, "--n", 4096, "--k", 4096).code == 0
    assert "knee at 206 rows" in path.read_text()
    assert mmalab("plan", *words).code == 2


@pytest.mark.parametrize("words", [words for words in FITS if words[0] != "chips"], ids=" ".join)
def test_every_answer_names_its_formula_and_source(mmalab, words: list[str]) -> None:
    """The last two lines of the text; two fields of a JSON object."""
    lines = mmalab("plan", *words).out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["formula", "source"]
    data = mmalab("plan", *words, "--json").json
    if isinstance(data, dict):
        assert data["formula"]
        assert data["source"]


def test_formats_on_ones_own_data(mmalab, tmp_path: Path) -> None:
    """--data measures the error of an array; a file that is none is wrong use."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng().standard_normal((64, 256)).astype(np.float32))
    found = mmalab("plan", "formats", "nvfp4", "--rows", "64", "--cols", "256", "--data", path,
                   "--json").json
    assert 0.08 < found["error"]["relative_rms"] < 0.11
    (tmp_path / "no.npy").write_text("text")
    assert mmalab("plan", "formats", "--data", tmp_path / "no.npy").code == 2


@pytest.mark.toolkit
def test_occupancy_of_a_cubin(mmalab, tmp_path: Path) -> None:
    """Registers, static shared memory and target come out of the file; what the system reserves
    is counted once."""
    text = (".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n"
            ".shared .align 16 .b8 tile[40960];\n.reg .b32 %r<2>;\nmov.u32 %r1, tile;\n"
            "st.shared.u32 [%r1], %r1;\nret;\n}\n")
    cubin = toolchain.assemble(text, "sm_90a")
    path = cubin.save(tmp_path / "k.cubin")
    found = mmalab("plan", "occupancy", path, "--threads", 128, "--shared", 1024, "--json").json
    assert found["target"] == "sm_90a"
    assert found["registers"] == cubin.resources.registers
    assert found["shared"] == 40960 + 1024
    assert found["ctas"] == 233_472 // (40960 + 1024 + 1024)


def test_help_lists_the_questions(mmalab) -> None:
    """``plan --help`` names every question."""
    text = mmalab("plan", "--help").out
    assert all(word in text for word in ("tmem", "occupancy", "smem", "registers", "traffic",
                                         "rates", "formats", "decode", "chips"))


def test_every_rounding_of_scales_is_told_for_one_s_data(mmalab, tmp_path: Path) -> None:
    """Case E04: with amax 7 the floor rule clips, the others do not."""
    np.save(tmp_path / "seven.npy", np.pad(np.array([[7.0]]), ((0, 0), (0, 31))))
    words = ["plan", "formats", "mxfp4", "--rows", 1, "--cols", 32, "--data",
             tmp_path / "seven.npy"]
    saturated = {name: row["saturated"]
                 for name, row in mmalab(*words, "--json").json["policies"].items()}
    assert saturated["floor"] == pytest.approx(1 / 32)
    assert saturated["ceil"] == 0
    assert "rounding of the scales" in mmalab(*words).out
    words[2] = "nvfp4"  # its scales are no powers of two
    assert mmalab(*words, "--json").json["policies"] == {}
