"""tools/gpu_wgmma.py without a GPU: what --every covers, and that a comparison notices one bit."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pretend import pretend, tool

import mmalab
from mmalab import isa

TOOL = tool("gpu_wgmma")
#: Seven small kernels.
SOME = "m64n8k32.f32.e4m3.e4m3"


def test_every_form_is_there() -> None:
    """All that the table has, and their alternatives: each N, both places of A, each once."""
    setups = TOOL._wanted(every=True, only="")
    ran = {(setup.key, setup.a is None) for setup in setups}
    known = [key for key in isa.forms("wgmma.mma_async")
             if isa.find(key).family == "wgmma.mma_async"]
    assert {(key, registers) for key in known for registers in (False, True)} <= ran
    assert len({setup.key for setup in setups}) == 1074
    assert len({str(setup) for setup in setups}) == len(setups)


def test_every_type_meets_all_signs_and_layouts() -> None:
    """Four pairs of signs and four swizzles for each type; all majors at each N of 16 bits."""
    signs, swizzles, majors = (defaultdict[str, set[Any]](set) for _ in range(3))
    for setup in TOOL._wanted(every=True, only=""):
        kind = setup.key.partition("m64n")[2].partition("k")[2]
        signs[kind].add((setup.options.get("negate_a"), setup.options.get("negate_b")))
        if setup.a is not None:
            swizzles[kind].add(setup.a.swizzle)
            majors[setup.key].add((setup.a_major, setup.b_major))
    floats = {kind for kind in signs if "s32" not in kind}
    assert all(len(signs[kind]) == 4 for kind in floats)
    assert all(len(found) == 4 for found in swizzles.values())
    assert {len(found) for key, found in majors.items()
            if "16.f16" in key or "bf16" in key} == {4}


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a device that computes as the emulator does has written."""
    pretend(monkeypatch, TOOL)
    path = tmp_path / "every.npz"
    assert TOOL.main(["--every", "--only", SOME, "--seed", "7", "--vectors", str(path)]) == 0
    return path


def test_equal_words_make_a_clean_record(vectors: Path, tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    assert TOOL.main(["--compare", str(vectors), "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert (record["mismatches"], record["not_compared"], record["forms"]) == (0, [], 1)
    assert record["kernels"] == 2
    assert record["outputs"] == sum(case["outputs"] for case in record["cases"]) == 4 * 4 * 128 * 2
    assert record["vectors"][0]["file"] == "every.npz"
    assert record["compilers"] == ["ptxas 0.0"]


def test_one_bit_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                            capsys: pytest.CaptureFixture[str]) -> None:
    """A word of a narrow product is named; a wrong digest alone is a case that differs."""
    def spoil(kernel: Any, args: list[Any]) -> None:
        args[4][2, 1, 5] ^= 1

    pretend(monkeypatch, TOOL, spoil)
    path, out = tmp_path / "spoilt.npz", tmp_path / "record.json"
    TOOL.main(["--every", "--only", SOME, "--seed", "7", "--vectors", str(path)])
    assert TOOL.main(["--compare", str(path), "--out", str(out)]) == 1
    record = json.loads(out.read_text())
    assert record["mismatches"] == 2
    assert record["cases"][0]["first"]["at"] == [2, 1, 5]
    assert record["cases"][0]["by_mix"] == {"bits": 0, "normal": 0, "ladder": 1, "cancel": 0}
    assert "mismatches" in capsys.readouterr().out
    # both halves at once see the same
    assert TOOL.main(["--every", "--only", SOME, "--seed", "7", "--out", str(out)]) == 1
    both = json.loads(out.read_text())
    assert (both["mismatches"], both["cases"][1]["first"]["at"]) == (2, [2, 1, 5])


def test_a_wide_product_is_held_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              ) -> None:
    """No word of it is kept: it is known which of its cases differ."""
    def spoil(kernel: Any, args: list[Any]) -> None:
        args[4][[0, 3], 1, 5] ^= 1

    pretend(monkeypatch, TOOL, spoil)
    path, out = tmp_path / "wide.npz", tmp_path / "record.json"
    TOOL.main(["--every", "--only", "m64n96k32.s32.s8.s8 A K", "--seed", "7", "--vectors",
               str(path)])
    assert TOOL.main(["--compare", str(path), "--out", str(out)]) == 1
    (case,) = json.loads(out.read_text())["cases"]
    assert (case["mismatches"], "first" in case) == (2, False)
    assert case["by_mix"] == {"bits": 1, "normal": 0, "ladder": 0, "cancel": 1}


def test_what_did_not_run_is_no_agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(kernel: Any, args: list[Any]) -> None:
        raise mmalab.errors.ToolError("kernel x", "CUDA_ERROR_Y: a fresh process", where="z")

    pretend(monkeypatch, TOOL, fails)
    path, out = tmp_path / "none.npz", tmp_path / "record.json"
    assert TOOL.main(["--every", "--only", SOME, "--seed", "7", "--vectors", str(path)]) == 1
    assert TOOL.main(["--compare", str(path), "--out", str(out)]) == 1
    record = json.loads(out.read_text())
    assert len(record["not_compared"]) == 2
    assert record["outputs"] == 0


def test_no_kernel_at_all_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no kernel is printed so"):
        TOOL.main(["--only", "nonsense", "--emulate-only"])


def test_vectors_of_other_kernels_are_refused(vectors: Path, monkeypatch: pytest.MonkeyPatch,
                                              ) -> None:
    monkeypatch.setattr(TOOL, "_wanted", lambda **_: [])
    with pytest.raises(SystemExit, match="other kernels"):
        TOOL.main(["--compare", str(vectors)])
