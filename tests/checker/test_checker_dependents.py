"""Dependent launches: what the text shows of accesses that nothing holds back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checking import found
from checking import kernel as module

from mmalab import Kernel, check
from mmalab.kernels.sm90_wgmma.skinny import skinny
from mmalab.toolchain import assemble, tools

WAIT, GO = "griddepcontrol.wait;\n", "griddepcontrol.launch_dependents;\n"
READ, WRITE = "ld.global.u32 %u32_0, [%u64_0];\n", "st.global.u32 [%u64_1], %u32_0;\n"
BARRIER = "bar.sync 0;\n"
ELECTED = "@!%pred_0 bra S;\n" + WAIT + "S:\n"
PHASE = ("{ W: mbarrier.try_wait.parity.shared.b64 %pred_1, [%u32_1], 0; @!%pred_1 bra W; }\n")
LOOP = "L: add.u32 %u32_2, %u32_2, 1; setp.lt.u32 %pred_1, %u32_2, 4; @%pred_1 bra L;\n"
BULK = "cp.async.bulk.global.shared::cta.bulk_group [%u64_1], [%u32_1], 512;\n"
FILL = ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%u32_1], [%u64_1], 512,"
        " [%u32_2];\n")

#: A body, and (severity, how many lines) of what is said.
CASES: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "no dependence at all": (READ + WRITE, []),
    "waits first": (WAIT + READ + WRITE, []),
    "waits first, lets go": (WAIT + GO + READ + WRITE, []),
    "lets go and never waits": (GO + READ + WRITE, [("note", 2)]),
    "lets go, touches nothing": (GO + "st.shared.u32 [%u32_1], 1;\n", []),
    "waits last": (READ + WRITE + WAIT, [("warning", 1), ("note", 1)]),
    "reads ahead": (READ + WAIT + WRITE, [("note", 1)]),
    "writes ahead": (WRITE + WAIT + READ, [("warning", 1)]),
    "an atomic ahead": ("red.global.add.u32 [%u64_1], 1;\n" + WAIT, [("warning", 1)]),
    "a bulk store ahead": (BULK + WAIT, [("warning", 1)]),
    "a bulk load ahead": (FILL + WAIT, [("note", 1)]),
    "waits on one path": (ELECTED + WRITE, [("warning", 1)]),
    "one waits for all": (ELECTED + BARRIER + READ + WRITE, []),
    "one waits under a guard": ("@%pred_0 " + WAIT + BARRIER + READ + WRITE, []),
    "a barrier before the wait is none": (BARRIER + WRITE + ELECTED + BARRIER, [("warning", 1)]),
    "who gives only an arrival knows nothing": (
        ELECTED + "bar.arrive 1, 128;\n" + WRITE, [("warning", 1)]),
    "told by an mbarrier": (
        "@%pred_0 bra C;\n" + WAIT + READ + "ret;\nC:\n" + PHASE + WRITE, []),
    "told by an acquire": (
        "@%pred_0 bra C;\n" + WAIT + READ + "ret;\nC:\n"
        "ld.acquire.gpu.global.u32 %u32_3, [%u64_0];\n" + WRITE, []),
    "a loop before the wait": (LOOP + WAIT + READ + WRITE, []),
    "a loop that writes before the wait": (
        LOOP.replace("L: ", "L: " + WRITE) + WAIT, [("warning", 1)]),
    "leaves before it waits": ("@%pred_0 ret;\n" + WAIT + WRITE, []),
    "prefetches ahead": ("prefetch.global.L2 [%u64_0];\n" + WAIT + READ, []),
    "shared memory and parameters ahead": (
        "st.shared.u32 [%u32_1], 1; ld.param.u64 %u64_2, [p0];\n" + WAIT + READ, []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_text_shows(name):
    """Writes that come early are a warning, reads a note: they may be weights."""
    body, told = CASES[name]
    said = found(body, "sm_90a")
    assert [(f.severity, len(f.witness["lines"])) for f in sorted(
        said, key=lambda f: f.severity != "warning")] == told
    assert {f.code for f in said} <= {"missing-grid-wait"}


@pytest.mark.parametrize("waits", [False, True])
def test_a_kernel_that_is_launched_as_a_dependent(waits):
    """The launch says more than the text: without a wait everything comes early."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p];
mov.u32 %r, %tid.x;
%WAIT
ld.global.u32 %r, [%d];
st.global.u32 [%d+4], %r; ret; }
""".replace("%WAIT\n", WAIT if waits else "")
    kernel = Kernel("k", text, "k", (1, 1, 1), (32, 1, 1), (), "sm_90")
    assert check(kernel) == []
    said = check(replace(kernel, programmatic=True))
    assert [(f.severity, f.code) for f in said] == (
        [] if waits else [("warning", "missing-grid-wait")])
    assert all("never" in f.message or "nothing waits for that kernel" in f.message for f in said)


@pytest.mark.parametrize("overlap", ["none", "launch", "weights"])
def test_our_kernels_wait(overlap):
    """What overlaps reads weights ahead, if it is told to, and nothing else; a wait taken out is
    noticed."""
    kernel = skinny(4, 256, 2048, split=2, overlap=overlap)
    assert [f.severity for f in check(kernel)] == (["note"] if overlap == "weights" else [])
    if overlap != "none":
        assert kernel.programmatic
        without = replace(kernel, ptx=kernel.ptx.replace(WAIT.strip(), ""))
        assert [f.severity for f in check(without)] == ["warning"]


@pytest.mark.skipif(not tools("ptxas"), reason="no ptxas")
def test_the_assembler_says_nothing():
    """All of these assemble."""
    for body, _ in CASES.values():
        assemble(module(body, "sm_90a"))
