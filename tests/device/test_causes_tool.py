"""tools/gpu_causes.py without a GPU: what it is asked, what it assembles, writes and says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pretend import INFO, tool

from mmalab.bench import record
from mmalab.bench.causes import Built
from mmalab.errors import UsageError

TOOL = tool("gpu_causes")
SMALL = "sm80_mma.gemm 512x256x512 copy=tma,stages=4,sms=2"


def test_a_kernel_is_named() -> None:
    case = TOOL.case_of("sm90_wgmma.gemm 512x384x516 tile=256x192,cluster=1x2,copy=shifted")
    assert (case.factory, case.m, case.n, case.k) == ("sm90_wgmma.gemm", 512, 384, 516)
    assert case.choices == {"tile": (256, 192), "cluster": (1, 2), "copy": "shifted"}
    assert case.kernel().facts["tile"] == (256, 192, 64)
    for text in ("sm80_mma.gemm", "sm80_mma.gemm 512x256", "512x256x512 copy=tma"):
        with pytest.raises(UsageError, match="names no factory and sizes"):
            TOOL.case_of(text)


def test_every_kernel_is_one_that_there_is() -> None:
    for text in TOOL.KERNELS:
        assert "stages" in TOOL.case_of(text).kernel().facts


@pytest.mark.toolkit
def test_the_dry_run_says_what_ptxas_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOL.main(["--dry-run", "--kernel", SMALL]) == 0
    first, title, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("11 kernels assembled")
    assert title == SMALL
    assert len(lines) == 11
    assert " ".join(lines[0].split()) == ("all of it 168 registers 0 bytes spilled "
                                          "256 products of 256")
    assert "64 products of 64" in lines[8]


def measured(built: Built, gpu: int, rounds: int, seed: int | None) -> dict[str, Any]:
    """What would be measured; a kernel of 384 columns cannot be."""
    if built.case.n == 384:
        return {"case": {}, "problem": "no such luck"}
    return {"case": {}, "rows": [
        {"variant": "all of it", "share_percent": 89.28, "mhz": 1717, "tflops": 552, "spilled": 0},
        {"variant": "C not written", "share_percent": 92.32, "mhz": 1746, "tflops": 581,
         "spilled": 0},
        {"variant": "1/4", "share_percent": None, "mhz": None, "tflops": 900, "spilled": 72}],
        "trace": {"slice_of_products": 1536.5, "over_plain": {"median": 1.004}, "lost": 3,
                  "slice": {"median": 1620.0, "mean": 1624.1, "p95": 1638.0, "count": 9}}}


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TOOL, "measure", measured)
    monkeypatch.setattr(TOOL, "build", lambda cases, chip: [Built(case, None, ())  # type: ignore[arg-type]
                                                            for case in cases])
    monkeypatch.setattr(TOOL, "open_gpu", lambda gpu: SimpleNamespace(chip="sm_90"))
    monkeypatch.setattr(record, "info", lambda gpu: INFO)


def test_the_record_keeps_what_no_tool_can_make_again(
        pretended: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    """The entries of scripts go along, from record to record; those of the tool do not."""
    old, out = tmp_path / "old.json", tmp_path / "there" / "causes.json"
    old.write_text(json.dumps({"what": "by hand", "first_call": [1]}))
    monkeypatch.setattr(TOOL, "RECORD", old)
    assert TOOL.main(["--kernel", SMALL, "--out", str(out)]) == 0
    first = json.loads(out.read_text())
    assert first["earlier"] == [{"what": "by hand", "first_call": [1]}]
    assert first["rows"][0]["title"] == SMALL
    assert first["evidence"] == "measured"
    said = capsys.readouterr().out
    assert "  C not written                 92.3 %   +3.0   1746 MHz    581 TFLOP/s" in said
    assert "72 bytes spilled" in said
    assert "1620 median" in said
    assert "3 warps had more events" in said
    monkeypatch.setattr(TOOL, "RECORD", out)
    assert TOOL.main(["--kernel", SMALL, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["earlier"] == first["earlier"]
    monkeypatch.setattr(TOOL, "RECORD", tmp_path / "none.json")
    assert TOOL.main(["--kernel", SMALL, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["earlier"] == []


def test_what_could_not_be_measured_is_told(pretended: None, tmp_path: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "causes.json"
    assert TOOL.main(["--kernel", SMALL.replace("256x", "384x"), "--kernel", SMALL,
                      "--out", str(out)]) == 1
    assert [row.get("problem") for row in json.loads(out.read_text())["rows"]] == [
        "no such luck", None]
    assert "not measured: no such luck" in capsys.readouterr().out


def test_what_the_committed_record_says_is_kept() -> None:
    """READMEs quote it."""
    kept = TOOL.earlier(TOOL.RECORD)
    rows = [row for old in kept for row in old.get("first_call", [])]
    assert {"kernel": "no store", "share_percent": 92.32}.items() <= next(
        row for row in rows if row["kernel"] == "no store").items()
