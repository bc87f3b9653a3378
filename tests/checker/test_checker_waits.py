"""Waits that do not wait, and collectives that part of a warp cannot reach."""

from __future__ import annotations

import pytest
from checking import FIRST, codes, found

WAIT = "mbarrier.try_wait.parity.shared.b64 %pred_1, [tile], 0;\n"


@pytest.mark.parametrize("use", [
    "W: @%pred_1 bra W;",
    "selp.u32 %u32_0, 1, 0, %pred_1;\nst.global.u32 [%u64_0], %u32_0;",
    "selp.u32 %u32_0, 1, 0, %pred_1;\nsetp.eq.u32 %pred_2, %u32_0, 0;\n@%pred_2 bra W;\nW:",
    "and.pred %pred_2, %pred_1, %pred_3;\n@!%pred_2 trap;",
    "@%pred_1 ld.global.u32 %u32_0, [%u64_0];",
])
def test_a_wait_that_is_looked_at(use):
    """A branch, a guard, or a chain of selections that ends in an effect will do."""
    assert codes(found(WAIT + use)) == []


@pytest.mark.parametrize("use", [
    "", "selp.u32 %u32_0, 1, 0, %pred_1;", "and.pred %pred_2, %pred_1, %pred_3;",
    "@%pred_2 bra W;\nW:",
])
def test_a_wait_that_nobody_looks_at(use):
    """Without a use, or with one that leads nowhere, the kernel has not waited."""
    [finding] = found(WAIT + use)
    assert (finding.code, finding.severity, finding.where.line) == (
        "mbarrier-wait-unchecked", "error", FIRST)


def test_a_predicate_of_another_scope_is_another_predicate():
    """The same name in an inner scope does not excuse the wait."""
    body = ("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [tile], 0; }\n"
            "{ .reg .pred p; setp.eq.u32 p, %u32_0, 0; @p bra W; W: }")
    assert codes(found(body)) == ["mbarrier-wait-unchecked"]


def test_copies_without_any_wait():
    """cp.async in a module without a wait is a warning; a wait of any kind ends it."""
    copy = "cp.async.cg.shared.global [tile], [%u64_0], 16;\n"
    [finding] = found(copy)
    assert (finding.code, finding.severity) == ("missing-cp-async-wait", "warning")
    assert found(copy + "cp.async.wait_all;") == []
    assert found(copy + "cp.async.mbarrier.arrive.noinc.shared.b64 [tile];") == []


TID = "mov.u32 %u32_0, %tid.x;\n"


@pytest.mark.parametrize("body", [
    "setp.lt.u32 %pred_0, %u32_0, 48;\n@!%pred_0 bra S;\nbar.sync 0;\nS:\nmov.u32 %u32_1, 0;",
    "setp.eq.u32 %pred_0, %u32_0, 0;\n@%pred_0 bar.sync 0;",
    ("and.b32 %u32_1, %u32_0, 31;\nsetp.ge.u32 %pred_0, %u32_1, 16;\n@%pred_0 bra S;\n"
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [tile];\nS:\nmov.u32 %u32_2, 0;"),
])
def test_a_split_warp_at_an_aligned_instruction(body):
    """A comparison that splits a warp beyond doubt, and a collective on one side of it."""
    [finding] = found(TID + body, attributes=".reqntid 128")
    assert (finding.code, finding.severity) == ("divergent-collective", "warning")


@pytest.mark.parametrize("body", [
    # whole warps on each side
    "setp.lt.u32 %pred_0, %u32_0, 64;\n@!%pred_0 bra S;\nbar.sync 1, 64;\nS:\nmov.u32 %u32_1, 0;",
    # the others have left
    "setp.lt.u32 %pred_0, %u32_0, 48;\n@!%pred_0 bra S;\nbar.sync 0;\nS:\nret;",
    # the barrier stands where the paths have met again
    "setp.lt.u32 %pred_0, %u32_0, 48;\n@!%pred_0 bra S;\nmov.u32 %u32_1, 0;\nS:\nbar.sync 0;",
    # true for nobody in a block of 128
    "setp.eq.u32 %pred_0, %u32_0, 200;\n@%pred_0 bar.sync 0;",
    # the form for parts of warps
    "setp.lt.u32 %pred_0, %u32_0, 48;\n@!%pred_0 bra S;\nbarrier.sync 0;\nS:\nmov.u32 %u32_1, 0;",
    # a second definition: not known any more
    "setp.eq.u32 %pred_0, %u32_0, 0;\nsetp.eq.u32 %pred_0, %u32_5, 0;\n@%pred_0 bar.sync 0;",
])
def test_silence_where_it_is_not_certain(body):
    """No warning where warps stay whole, have left, have met again, or where one cannot know."""
    assert found(TID + body, attributes=".reqntid 128") == []


FENCE = "wgmma.fence.sync.aligned;"
GIVE = "setmaxnreg.dec.sync.aligned.u32 40;"


@pytest.mark.parametrize(("compare", "split"), [
    ("setp.lt.u32 %pred_0, %u32_0, 32;", True),
    ("setp.ge.u32 %pred_0, %u32_0, 192;", True),
    ("setp.le.u32 %pred_0, %u32_0, 127;", False),
    ("setp.lt.u32 %pred_0, %u32_0, 128;", False),
    ("shr.u32 %u32_1, %u32_0, 5;\nsetp.eq.u32 %pred_0, %u32_1, 0;", True),
    ("shr.u32 %u32_1, %u32_0, 5;\nsetp.lt.u32 %pred_0, %u32_1, 4;", False),
    ("shr.u32 %u32_1, %u32_0, 7;\nsetp.eq.u32 %pred_0, %u32_1, 1;", False),
    # the last 32 of 288 threads are no warpgroup
    ("setp.ge.u32 %pred_0, %u32_0, 256;", False),
    ("setp.lt.u32 %pred_0, %u32_0, 272;", True),
])
@pytest.mark.parametrize("instruction", [GIVE, FENCE])
def test_a_split_warpgroup(compare, split, instruction):
    """A branch at a warp's border is no harm to bar.sync, but parts a warpgroup."""
    text = f"{compare}\n@!%pred_0 bra S;\n{{}}\nS:\nmov.u32 %u32_3, 0;"
    said = found(TID + text.format(instruction), "sm_90a", attributes=".reqntid 288 .maxnreg 128")
    assert [(f.code, f.severity) for f in said] == (
        [("divergent-collective", "warning")] if split else [])
    if split and "272" not in compare:
        assert "is for whole warpgroups" in said[0].message
        assert found(TID + text.format("bar.sync 1, 32;"), "sm_90a",
                     attributes=".reqntid 288 .maxnreg 128") == []


SKIPS = "setp.lt.u32 %pred_0, %u32_0, 128;\n@!%pred_0 bra S;\n"
LOOP = "L: add.u32 %u32_1, %u32_1, 1;\nsetp.lt.u32 %pred_1, %u32_1, %u32_2;\n@%pred_1 bra L;\n"


@pytest.mark.parametrize(("directive", "body", "told"), [
    (".reqntid 64", FENCE, True), (".maxntid 64", FENCE, True), (".reqntid 96", FENCE, True),
    (".reqntid 16, 4", FENCE, True), (".reqntid 32, 4", FENCE, False), ("", FENCE, False),
    (".reqntid 128", FENCE, False), (".maxntid 192", FENCE, False), (".reqntid 256", FENCE, False),
    (".reqntid 64", "@%pred_3 bra S; " + FENCE + " S:", True),
    (".reqntid 64", "mov.u32 %u32_1, 0;", False),
    # warps 4 and 5 come too, unless a branch lets only whole warpgroups by
    (".reqntid 192", FENCE, True), (".reqntid 192", LOOP + FENCE, True),
    (".reqntid 192", SKIPS + FENCE + "\nS:", False), (".reqntid 130", FENCE, True),
    (".reqntid 120", FENCE, True), (".reqntid 192", "@%pred_3 ret; " + FENCE, False),
])
def test_a_warpgroup_has_four_warps(directive, body, told):
    """wgmma in a CTA without a whole warpgroup, or by the threads that are none."""
    said = found(TID + body, "sm_90a", attributes=directive)
    assert [(f.code, f.severity) for f in said] == (
        [("divergent-collective", "error")] if told else [])
    assert all("warpgroup" in f.message and "legal" in f.message for f in said)


def test_setmaxnreg_without_a_warpgroup_is_a_warning():
    """No document says what fewer than four warps do with it; the wgmma beside it counts more."""
    fixed = ".reqntid 64 .maxnreg 128"
    assert [(f.code, f.severity) for f in found(TID + GIVE, "sm_90a", attributes=fixed)] == [
        ("divergent-collective", "warning")]
    [both] = found(TID + GIVE + FENCE, "sm_90a", attributes=fixed)
    assert (both.severity, len(both.witness["lines"])) == ("error", 2)


def test_a_warpgroup_in_a_function_that_is_called():
    """What an entry calls is executed by its threads."""
    callee = ".func f() { wgmma.fence.sync.aligned; ret; }\n"
    said = found("call f;", "sm_90a", attributes=".reqntid 64", before=callee)
    assert [f.code for f in said] == ["divergent-collective"]
    assert found("ret;", "sm_90a", attributes=".reqntid 64", before=callee) == []


MATRIX = ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f32_0, %f32_1, %f32_2, %f32_3},"
          " {%b32_0, %b32_1, %b32_2, %b32_3}, {%b32_0, %b32_1},"
          " {%f32_0, %f32_1, %f32_2, %f32_3};\n")


@pytest.mark.parametrize(("directive", "body", "told"), [
    (".reqntid 48", MATRIX, True), (".reqntid 16", MATRIX, True), (".maxntid 16", MATRIX, True),
    (".reqntid 64", MATRIX, False), (".maxntid 48", MATRIX, False), ("", MATRIX, False),
    (".reqntid 16, 3", MATRIX, True), (".reqntid 16, 2", MATRIX, False),
    (".reqntid 48", "bar.sync 0;", False),
    (".reqntid 48", "setp.ge.u32 %pred_0, %u32_0, 32;\n@%pred_0 bra S;\n" + MATRIX + "S:", False),
])
def test_a_matrix_lies_in_a_whole_warp(directive, body, told):
    """Lanes that the block does not have hold a part of it: a warning, where all execute it."""
    said = found(TID + body, "sm_90a", attributes=directive)
    assert [(f.code, f.severity) for f in said] == (
        [("divergent-collective", "warning")] if told else [])
    assert all("of a warp," in f.message or "whole warps" in f.message for f in said)
