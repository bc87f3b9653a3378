"""Opcodes: known, on this chip, in this version, in hardware; and what to write instead."""

from __future__ import annotations

import pytest
from checking import FIRST, codes, found, kernel

from mmalab.checker import check

BF16 = ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f32_0,%f32_1,%f32_2,%f32_3}, "
        "{%b32_0,%b32_1,%b32_2,%b32_3}, {%b32_4,%b32_5}, {%f32_0,%f32_1,%f32_2,%f32_3};")
FP8 = BF16.replace("m16n8k16", "m16n8k32").replace("bf16.bf16", "e4m3.e4m3")


def test_an_opcode_that_does_not_exist_names_the_nearest():
    """A misspelt opcode is an error that shows the difference and the nearest legal spelling."""
    [finding] = found("add.rn.f31 %f32_0, %f32_1, %f32_2;")
    assert (finding.code, finding.severity, finding.where.line) == (
        "unknown-instruction", "error", FIRST)
    assert "add.rn.f32" in finding.message


def test_one_opcode_is_reported_once_with_all_its_lines():
    """Forty wrong instructions of one opcode are one finding; the witness has the lines."""
    [finding] = found("add.f31 %f32_0, %f32_1, %f32_2;\n" * 4)
    assert finding.witness is not None
    assert finding.witness["lines"] == [FIRST, FIRST + 1, FIRST + 2, FIRST + 3]
    assert finding.witness["rule"] == "opcode"


@pytest.mark.parametrize(("target", "hint"), [
    ("sm_100a", "tcgen05.mma"),
    ("sm_120a", "mma.sync"),
    ("sm_90", ".target sm_90a"),
    ("sm_80", "mma.sync"),
])
def test_wgmma_off_hopper_says_what_to_write_there(target, hint):
    """wgmma exists on sm_90a alone: elsewhere an error names the instruction that does its job."""
    findings = found("wgmma.fence.sync.aligned;", target)
    [finding] = [f for f in findings if f.code == "target-unsupported"]
    assert finding.severity == "error"
    assert hint in finding.message


@pytest.mark.parametrize(("target", "hint"), [
    ("sm_120a", "there is no Tensor Memory"),
    ("sm_90a", "wgmma.mma_async"),
    ("sm_100", ".target sm_100"),
])
def test_tcgen05_off_its_chips_says_what_to_write_there(target, hint):
    """tcgen05 lives on data-centre Blackwell with a suffix: elsewhere an error says what does."""
    findings = found("tcgen05.wait::ld.sync.aligned;", target)
    [finding] = [f for f in findings if f.code == "target-unsupported"]
    assert hint in finding.message


@pytest.mark.parametrize(("line", "bad", "good"), [
    (BF16, "sm_75", "sm_80"),
    (FP8, "sm_86", "sm_89"),
    ("setmaxnreg.inc.sync.aligned.u32 232;", "sm_90", "sm_90a"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {%b32_0};", "sm_89", "sm_90"),
    ("redux.sync.min.f32 %f32_0, %f32_1, -1;", "sm_120a", "sm_100a"),
    ("cvt.rn.satfinite.e2m1x2.f32 %b8_0, %f32_0, %f32_1;", "sm_120", "sm_120f"),
])
def test_the_target_decides(line, bad, good):
    """What one chip lacks and another has is an error on the first only."""
    assert codes(found(line, bad)) == ["target-unsupported"]
    assert not [f for f in found(line, good) if f.severity == "error"]


def test_a_suffix_that_would_help_is_named():
    """When the chip has the instruction and the plain target does not, the suffix is the hint."""
    [finding] = found("setmaxnreg.inc.sync.aligned.u32 232;", "sm_100")
    assert "instead: .target sm_100f or sm_100a (the same chip)" in finding.message


def test_an_older_version_than_the_instruction_needs():
    """Block-scaled FP4 on sm_120a needs PTX 8.7; at 8.0 the version is the finding."""
    assert codes(found(FP8, "sm_89", "7.8")) == ["ptx-version"]
    assert codes(found(FP8, "sm_89", "8.4")) == []


def test_another_target_is_judged_as_if_the_module_were_retargeted():
    """check(text, target) answers for that chip and raises the version to what the chip needs."""
    text = kernel(FP8, "sm_80", "7.0")
    assert codes(check(text)) == ["target-unsupported"]
    assert codes(check(text, "sm_120a")) == []


def test_emulated_instructions_are_warnings():
    """FP8 mma.sync runs on sm_90 through f16 units: legal, and worth a warning; not on sm_89."""
    [finding] = found(FP8, "sm_90")
    assert (finding.code, finding.severity) == ("emulated-instruction", "warning")
    assert "F2FP + HMMA" in finding.message
    assert found(FP8, "sm_89") == []


def test_unordered_sparse_metadata_is_a_warning():
    """Plain mma.sp is legal; the ordered form is named as the better one."""
    line = ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f32_0,%f32_1,%f32_2,%f32_3}, "
            "{%b32_0,%b32_1}, {%b32_2,%b32_3}, {%f32_0,%f32_1,%f32_2,%f32_3}, %b32_4, 0;")
    [finding] = found(line)
    assert (finding.code, finding.severity) == ("slower-form", "warning")
    assert "mma.sp::ordered_metadata.sync" in finding.message
    assert found(line.replace("mma.sp.", "mma.sp::ordered_metadata.")) == []


def test_an_instruction_outside_the_table_is_a_note_and_no_error():
    """The ISA has textures, the table does not: the checker says that it did not look."""
    findings = found("txq.width.b32 %b32_0, [%u64_0];")
    assert [(f.code, f.severity) for f in findings] == [("unknown-instruction", "note")]


@pytest.mark.parametrize(("target", "version", "code"), [
    ("sm_70", "8.0", "target-unsupported"),
    ("sm_90", "9.6", "ptx-version"),
    ("sm_90", "7.0", "ptx-version"),
    ("sm_120a", "8.6", "ptx-version"),
])
def test_headers(target, version, code):
    """Unknown targets, versions of the future, and targets younger than their version."""
    assert code in codes([f for f in found("", target, version) if f.severity == "error"])
