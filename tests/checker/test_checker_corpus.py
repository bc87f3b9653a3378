"""PTX that others wrote: what compilers make, and the litmus set, has no false error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checking import header

from mmalab.checker import check
from mmalab.findings import Finding

CORPUS = sorted((Path(__file__).parent.parent / "corpus" / "ptx").glob("*.ptx"))

#: Where a static error is the expected verdict.
STATIC = {"mbar_wait_not_looped": ["mbarrier-wait-unchecked"],
          "tc_alloc_48": ["tmem-size", "tmem-size"]}


#: What may be said of a correct kernel: about hardware, and about the limits of the table.
HARDWARE = {("warning", "emulated-instruction"), ("warning", "slower-form"),
            ("note", "unknown-instruction")}


def _said(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(f.severity, f.code) for f in findings} - HARDWARE


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_compilers_output_is_clean(path):
    """nvcc's, nvrtc's and Triton's PTX assembles and works: no error for it, and no warning but
    about hardware (emulated, slower)."""
    assert _said(check(path.read_text())) == set()


@pytest.mark.shared
def test_the_litmus_set(shared):
    """Every litmus kernel assembles; only the expected static error is reported, and kernels
    whose verdict is clean have no warning about a fault."""
    for path in sorted((shared / "litmus").glob("*.ptx")):
        text = path.read_text()
        findings = check(text)
        errors = [f.code for f in findings if f.severity == "error"]
        assert errors == STATIC.get(path.stem, []), path.name
        if ": expected clean" in text.partition("\n")[0]:
            assert _said(findings) == set(), path.name


REGISTERS = """.reg .b32 r<300>; .reg .f32 f<300>; .reg .b64 d<80>; .reg .f64 fd<80>;
.reg .pred p<20>; .reg .b16 h<80>; .reg .b32 addr; .reg .b64 addr64;
"""


@pytest.mark.shared
@pytest.mark.parametrize("name", ["isa_mma_matrix", "isa_misc_matrix", "isa_tma_matrix",
                                  "isa_tcgen05_matrix"])
def test_the_recorded_matrices(shared, name):
    """Each recorded form, wrapped in a kernel, is an error on exactly the targets on which ptxas
    refused it. Families that the table does not hold are judged by their first targets only: they
    may be let through, never refused wrongly."""
    rows = json.loads((shared / "facts" / "isa" / f"{name}.json").read_text())
    wrong, judged = [], 0
    for key, row in rows.items():
        if ".sp::2:4" in row["ptx"]:
            continue  # a colon in an opcode: the parser's grammar does not have it yet
        for target, assembles in [*((t, True) for t in row["ok"]),
                                  *((t, False) for t in row["err"])]:
            text = (f"{header(target)}.visible .entry k() {{\n{REGISTERS}{row['ptx']}\nret;\n}}\n")
            findings = [f for f in check(text) if f.code != "mbarrier-wait-unchecked"]
            unheld = any(f.severity == "note" for f in findings)
            refused = any(f.severity == "error" for f in findings)
            judged += not unheld
            if refused == assembles and not (unheld and not refused):
                wrong.append((key, target, [str(f) for f in findings]))
    assert wrong == []
    assert judged or name in ("isa_tma_matrix", "isa_tcgen05_matrix")
