"""For each rule one kernel that breaks only it, and a clean twin (the litmus set has the others).

A kernel file begins with ``// expect: clean`` or ``// expect: CODE SEVERITY[, ...]``, the twin's
name and the reason.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmalab.sanitizer.run import emulate

FOLDER = Path(__file__).parent / "kernels"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ptx"))


def header(name: str) -> dict[str, str]:
    """The fields of a kernel's comment lines."""
    lines = (FOLDER / f"{name}.ptx").read_text().splitlines()
    comments = [line[3:] for line in lines if line.startswith("// ")]
    return dict(line.split(": ", 1) for line in comments if ": " in line)


def findings(name: str, schedule: str | int = "eager"):
    """What a run of the kernel reports; the buffers have one word per thread."""
    text = (FOLDER / f"{name}.ptx").read_text()
    threads = int(text.split(".reqntid ")[1].split(",")[0])
    out, data = np.full(threads, 0xDEADBEEF, np.uint32), np.arange(threads, dtype=np.uint32)
    run = emulate(text, [out, data], grid=1, block=threads, schedule=schedule, max_steps=100_000)
    return run.findings


@pytest.mark.parametrize("schedule", ["eager", "lazy", 7])
@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_gets_its_finding_and_no_other(name, schedule):
    """Its codes, with their severities; clean kernels have nothing at all."""
    expect = header(name)["expect"]
    found = {f"{finding.code} {finding.severity}" for finding in findings(name, schedule)}
    assert found == (set() if expect == "clean" else set(expect.split(", ")))


@pytest.mark.parametrize("name", [name for name in NAMES if "clean twin" in header(name)])
def test_the_twin_is_clean(name):
    """Every breaking kernel names a kernel that is clean."""
    assert header(header(name)["clean twin"])["expect"] == "clean"


def test_every_finding_says_where():
    """CTA, warp and PTX line stand in every finding of the breaking kernels."""
    for name in NAMES:
        for finding in findings(name):
            where = finding.where
            assert None not in (where.cta, where.warp, where.line), (name, finding)
