"""Explanations, and what the hardware runs."""

from __future__ import annotations

import json

import pytest

from mmalab import isa
from mmalab.isa.operand_text import split

FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"


@pytest.mark.parametrize(("key", "target", "native", "unit"), [
    (FP8, "sm_89", True, "QMMA"),
    (FP8, "sm_90a", False, "F2FP + HMMA"),
    (FP8, "sm_100a", False, "F2FP + HMMA"),
    (FP8, "sm_120", True, "QMMA"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_90", True, "HMMA"),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_80", True, "DMMA"),
    ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "sm_89", True, "IMMA.S4"),
    ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "sm_90", False, "widening + IMMA.S8"),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "sm_89", True, "BMMA"),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "sm_90", False, "BMMA.AND"),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", "sm_90", True, "BMMA"),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", "sm_100", False, "IMMA"),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "sm_80", False, "HMMA, several"),
    ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
     "sm_120a", True, "OMMA.SF"),
    ("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0",
     "sm_120f", True, "QMMA.SF"),
])
def test_the_machine_runs_what_the_sass_showed(
    key: str, target: str, native: bool, unit: str
) -> None:
    """FP8 is f16 arithmetic on Hopper and sm_100; s4, b1 and m8n8k4 are imitated on newer chips."""
    how = isa.execution(isa.find(key), target)
    assert how is not None
    assert (how.native, how.unit) == (native, unit)


def test_no_unit_where_there_is_no_instruction() -> None:
    """A form that the target lacks, or that is no matrix product, has no unit."""
    assert isa.execution(isa.find(FP8), "sm_80") is None
    assert isa.execution(isa.find("add.f32"), "sm_80") is None


def test_flops_count_all_products() -> None:
    """2 M N K, four times for the quad pairs."""
    assert isa.find(FP8).flops == 2 * 16 * 8 * 32
    assert isa.find("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32").flops == 4 * 2 * 8 * 8 * 4
    assert isa.find("add.f32").flops == 0


def test_an_explanation_is_plain_data_and_text() -> None:
    """Every field survives JSON; the text names shape, fragments, targets, source and evidence."""
    data = json.loads(json.dumps(isa.explain_data(FP8)))
    assert data["targets"] == "sm_89+"
    assert data["ptx"] == "8.4"
    assert data["fragments"]["A"]["layout"] == "((4,8),(4,2,2)):((64,1),(16,8,256))"
    assert data["execution"]["sm_90"].startswith("emulated")
    text = isa.explain(FP8)
    for word in ("M 16, N 8, K 32", "sm_89+", "PTX ISA", "measured", "A is 16 x 32 e4m3"):
        assert word in text
    sparse = isa.explain("mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
    assert "2 of 4 kept" in sparse
    assert "until 6.3" in isa.explain("shfl.up.b32")


def test_immediates_have_their_values_and_descriptors_are_none_of_registers() -> None:
    """The layout of A in registers stands for the list of operands that has it there."""
    text = isa.explain("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16")
    for words in ("ia        immediate b32: 1 or -1", "ta        immediate b32: 0 or 1",
                  "or        {d x 32}, {a x 4}, b, scale_d, ia, ib, tb",
                  "a, b      64 bits: descriptors", "A, where it is in registers, is 64 x 16"):
        assert words in text
    assert "D is 64 x 64 f32" in text
    assert "descriptors" not in isa.explain(FP8)
    assert "n         immediate b32: 0 to 2147483647" in isa.explain(
        "wgmma.wait_group.sync.aligned")
    assert "immediate u32: 24 to 256 in steps of 8" in isa.explain(
        "setmaxnreg.inc.sync.aligned.u32")


def test_operand_text_is_read_by_shape() -> None:
    """Numbers in every PTX spelling, nested braces and guards."""
    opcode, operands = split("@!%p1 foo.b32 {%r1, {%r2}}, [a+4], 0x1F, 0b101, 017, -3, 0f3F800000;")
    assert opcode == "foo.b32"
    assert operands is not None
    assert [g.kind for g in operands] == ["vector", "address"] + ["immediate"] * 5
    assert [g.value for g in operands[2:]] == [31, 5, 15, -3, None]
    assert split("ret;") == ("ret", None)
    assert split("mov.b32\t%r1, %r2;")[0] == "mov.b32"
