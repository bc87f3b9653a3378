"""check: the same object as run, without running."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmalab.findings import CODES

CLEAN = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    add.u32 %r2, %r1, 1;
    ret;
}
"""


@pytest.fixture
def checked(mmalab, tmp_path: Path):
    """Check a text: ``checked(text, "--json")``."""
    def call(text: str, *words: str):
        (tmp_path / "k.ptx").write_text(text)
        return mmalab("check", tmp_path / "k.ptx", *words)
    return call


def test_clean(checked) -> None:
    """A text without fault is clean, exit 0, in the shape of the contract."""
    answer = checked(CLEAN, "--json")
    assert answer.code == 0
    assert answer.json == {"verdict": "clean", "findings": [], "counters": {}, "fidelity": {},
                           "deadlock": None}


@pytest.mark.parametrize(("line", "code"), [
    ("add.u33 %r2, %r1, 1;", "unknown-instruction"),
    ("add.u32 %r2, %r1;", "operand-mismatch"),
    ("add.u32 %r2, %nothere, 1;", "undeclared-name"),
    ("setmaxnreg.inc.sync.aligned.u32 64;", "target-unsupported")])
def test_findings(checked, line: str, code: str) -> None:
    """A fault is a finding with its code and line, exit 1."""
    answer = checked(CLEAN.replace("add.u32 %r2, %r1, 1;", line), "--json")
    assert answer.code == 1
    assert (code, 8) in [(f["code"], f["where"]["line"]) for f in answer.json["findings"]]


def test_strict_makes_warnings_count(checked) -> None:
    """Warnings alone exit 0, with --strict 1: FP8 mma on sm_90 is emulated."""
    text = CLEAN.replace("sm_80", "sm_90").replace("8.0", "8.4").replace(
        "add.u32 %r2, %r1, 1;",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0,%f0,%f0,%f0}, "
        "{%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f0,%f0,%f0,%f0};").replace(
        ".reg .b32 %r<3>;", ".reg .b32 %r<3>; .reg .f32 %f<1>;")
    severities = {f["severity"] for f in checked(text, "--json").json["findings"]}
    assert checked(text).code == 0
    assert checked(text, "--strict").code == (1 if "warning" in severities else 0)
    assert "error" not in severities


def test_codes(mmalab) -> None:
    """--codes lists every code with its meaning."""
    assert mmalab("check", "--codes", "--json").json == CODES
    assert len(mmalab("check", "--codes").out.splitlines()) == len(CODES)


def test_no_file(mmalab) -> None:
    """Without a file there is nothing to check: exit 2."""
    assert mmalab("check").code == 2
