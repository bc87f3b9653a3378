"""The table against what ptxas 13.5 accepts, instruction by instruction and target by target."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mmalab import isa

pytestmark = pytest.mark.shared


#: Entries that no instruction alone decides: the checker's business.
_OF_SEVERAL = ("mixed cta_group",)


def _replay(path: Path) -> tuple[int, list[str]]:
    """(verdicts compared, disagreements); entries of families that the table lacks are left out."""
    compared, wrong = 0, []
    for name, entry in json.loads(path.read_text(encoding="utf-8")).items():
        if name in _OF_SEVERAL:
            continue
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
    ("isa_mma_matrix.json", 2080), ("isa_misc_matrix.json", 1600), ("isa_tma_matrix.json", 871),
    ("isa_tcgen05_matrix.json", 2550),
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


def test_wgmma_has_the_shapes_that_assembled(shared: Path) -> None:
    """Each (types, K) exists with exactly the N that ptxas took, dense and sparse, and its
    operands are counted: both ways to give A fit, any other number of registers of D does not."""
    recorded = json.loads((shared / "facts/isa/isa_wgmma_shapes.json").read_text(encoding="utf-8"))
    for name, sizes in recorded.items():
        types, k, source, *sparse = name.split()
        dtype, atype, *rest = types.split(".")
        head = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned"
        tail = f"{k}.{dtype}.{atype}.{rest[0] if rest else atype}" + ".and.popc" * (atype == "b1")
        legal = [n for n in range(265) if isa.legal(f"{head}.m64n{n}{tail}", "sm_90a")]
        assert legal == sizes, name
        for n in (sizes[0], sizes[-1]):
            form = isa.find(f"{head}.m64n{n}{tail}")
            assert form.flops == 2 * 64 * n * int(k[1:])
            registers = n // (4 if dtype == "f16" else 2)
            assert form.operands[0].count == registers
            a = "%q1" if source == "ss" else "{%r1,%r2,%r3,%r4}"
            more = {"f16": ",1,1,0,0", "bf16": ",1,1,0,0", "s8": "", "u8": "", "b1": ""}.get(
                atype, ",1,1")
            more = more[:-2] if source == "rs" and len(more) > 4 else more
            meta = ", %r9, 0" if sparse else ""
            for count in (registers - 1, registers):
                d = ",".join(f"%f{i}" for i in range(count))
                text = f"{form.key} {{{d}}}, {a}, %q2{meta}, %p1{more};"
                verdict = isa.legal(text, "sm_90a")
                assert verdict.legal == (count == registers), (text, verdict.reason)
