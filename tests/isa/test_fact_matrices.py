"""The table against what ptxas 13.5 accepts, instruction by instruction and target by target."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mmalab import isa

pytestmark = pytest.mark.shared


def _replay(path: Path) -> tuple[int, list[str]]:
    """(verdicts compared, disagreements); entries of families that the table lacks are left out."""
    compared, wrong = 0, []
    for name, entry in json.loads(path.read_text(encoding="utf-8")).items():
        text = re.sub(r"^\{\s*\.reg[^;]*;|\}$", "", entry["ptx"]) if entry["ptx"][0] == "{" else (
            entry["ptx"])
        instructions = [part for part in text.split(";") if part.strip()]
        for target in (*entry["ok"], *entry["err"]):
            verdicts = [isa.legal(one, target) for one in instructions]
            if not all(v.known for v in verdicts):
                continue
            compared += 1
            if all(v.legal for v in verdicts) != (target in entry["ok"]):
                wrong.append(f"{name} on {target}: {[v.reason for v in verdicts]}")
    return compared, wrong


@pytest.mark.parametrize(("matrix", "least"), [
    ("isa_mma_matrix.json", 2080), ("isa_misc_matrix.json", 1600), ("isa_tma_matrix.json", 26),
])
def test_the_verdict_is_the_assemblers(shared: Path, matrix: str, least: int) -> None:
    """Legal exactly on the targets where the instruction assembled."""
    compared, wrong = _replay(shared / "facts" / "isa" / matrix)
    assert wrong == []
    assert compared >= least


def test_litmus_instructions_are_known(shared: Path) -> None:
    """Every opcode of the handed sm_80 kernels is found, and legal with its operands."""
    seen = 0
    for path in sorted((shared / "litmus").glob("*.ptx")):
        source = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        if not re.search(r"\.target\s+sm_80\b", source):
            continue
        for statement in source[source.index("{"):].split(";"):
            text = re.sub(r"^\s*(?:[\w$]+:\s*|[{}]\s*)+", "", statement).strip()
            if text and not text.startswith("."):
                verdict = isa.legal(" ".join(text.split()), "sm_80")
                assert verdict.legal, (path.name, text, verdict.reason)
                seen += 1
    assert seen > 1000
