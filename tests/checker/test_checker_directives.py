"""Performance directives and declared memory against the chip."""

from __future__ import annotations

import pytest
from checking import found, header, kernel

from mmalab.checker import check

USE = "mov.u32 %u32_0, big;\nst.shared.u32 [%u32_0], 1;"


def _said(attributes: str, target: str = "sm_90a") -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in found("", target, attributes=attributes)]


@pytest.mark.parametrize("attributes", [
    ".maxntid 1024", ".reqntid 256, 4", ".reqntid 1024 .maxnreg 64", ".maxclusterrank 8",
    ".blocksareclusters .reqntid 128 .reqnctapercluster 2", ".explicitcluster",
    ".reqntid 128 .minnctapersm 4", ".reqnctapercluster 2, 2, 2",
])
def test_directives_that_fit(attributes):
    """Shapes within the chip's limits are clean."""
    assert _said(attributes) == []


@pytest.mark.parametrize(("attributes", "code", "severity"), [
    (".reqntid 0", "directive-conflict", "error"),
    (".reqntid 128 .maxntid 256", "directive-conflict", "error"),
    (".maxclusterrank 8 .reqnctapercluster 2", "directive-conflict", "error"),
    (".blocksareclusters", "directive-conflict", "error"),
    (".maxnctapersm 4", "directive-conflict", "error"),
    (".noreturn", "directive-conflict", "error"),
    (".maxntid 1025", "directive-conflict", "warning"),
    (".reqntid 1024, 2", "directive-conflict", "warning"),
    (".reqntid 1024 .maxnreg 255", "directive-conflict", "warning"),
    (".maxnreg 300", "directive-conflict", "warning"),
    (".minnctapersm 2", "directive-conflict", "warning"),
    (".reqntid 1024 .minnctapersm 4", "directive-conflict", "warning"),
    (".reqnctapercluster 32", "directive-conflict", "warning"),
    (".reqnctapercluster 16", "directive-conflict", "warning"),
])
def test_directives_that_do_not(attributes, code, severity):
    """Contradictions are errors, launches that cannot succeed are warnings."""
    assert _said(attributes) == [(code, severity)]


@pytest.mark.parametrize(("attributes", "counts"), [
    ("", False), (".maxntid 256", False), (".reqntid 256", False), (".maxnreg 128", True),
    (".maxntid 256 .minnctapersm 1", True), (".reqntid 256 .minnctapersm 1", True),
])
def test_setmaxnreg_needs_the_registers_at_entry(attributes, counts):
    """Where they are not known the assembler leaves it out; only the warning says so."""
    said = found("setmaxnreg.dec.sync.aligned.u32 40;", "sm_90a", attributes=attributes)
    assert [(f.code, f.severity) for f in said] == (
        [] if counts else [("directive-conflict", "warning")])
    assert all("C7508" in f.message and ".minnctapersm" in f.message for f in said)
    assert found("mov.u32 %u32_0, 1;", "sm_90a", attributes=attributes) == []


@pytest.mark.parametrize("directive", [".reqnctapercluster 2", ".explicitcluster"])
def test_clusters_before_hopper(directive):
    """Cluster directives need sm_90."""
    assert _said(directive, "sm_80") == [("target-unsupported", "error")]


@pytest.mark.parametrize(("target", "size", "fits"), [
    ("sm_80", 49152, True), ("sm_80", 49153, False), ("sm_90", 49153, False),
    ("sm_90a", 232448, True), ("sm_90a", 232449, False), ("sm_120a", 101377, False),
    ("sm_120f", 49153, False),
])
def test_static_shared_memory_has_a_limit(target, size, fits):
    """48 KiB, or all that the chip has where the target ends in a."""
    before = f".shared .align 1 .b8 big[{size}];"
    findings = check(kernel(USE, target, before=before))
    assert [f.code for f in findings] == ([] if fits else ["memory-limit"])


def test_only_what_an_entry_uses_counts():
    """Shared variables that nothing reachable names take no space; a callee's do."""
    before = ".shared .b8 big[40000];\n.shared .b8 more[40000];\n"
    callee = ".func f(){ .reg .u32 r; mov.u32 r, more; st.shared.u32 [r], 1; ret; }"
    assert check(kernel(USE, "sm_80", before=before)) == []
    [finding] = check(kernel(USE + "\ncall f;", "sm_80", before=before + callee))
    assert finding.witness is not None
    assert (finding.witness["bytes"], finding.witness["limit"]) == (80000, 49152)


def test_constants_and_parameters_have_limits():
    """64 KiB of constants, 32764 bytes of parameters."""
    assert [f.code for f in check(header() + ".const .b8 c[65540];\n")] == ["memory-limit"]
    big = ".visible .entry k(.param .align 4 .b8 p[{}]) {{ ret; }}\n"
    assert check(header() + big.format(32764)) == []
    assert [f.code for f in check(header() + big.format(32768))] == ["memory-limit"]
