"""Operands: how many, of what shape, in which registers, with which literals."""

from __future__ import annotations

import pytest
from checking import FIRST, codes, found
from hypothesis import given
from hypothesis import strategies as st

from mmalab.checker.types import REGISTER_TYPES, takes_register
from mmalab.isa import type_bits

MMA = ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f32_0,%f32_1,%f32_2,%f32_3}, "
       "{%b32_0,%b32_1}, {%b32_2}, {%f32_0,%f32_1,%f32_2,%f32_3};")

LEGAL = [
    MMA,
    MMA.replace("{%f32_0,%f32_1,%f32_2,%f32_3};", "{0f00000000,%f32_1,%b32_2,%f32_3};"),
    "add.f32 %f32_0, %f32_1, 0d3FF0000000000000;",
    "add.s32 %s32_0, %b32_1, 4294967296;",
    "and.b32 %f32_0, %u32_1, 0f3F800000;",
    "ld.global.v2.u8 {%u32_1, %b32_0}, [%u64_0];",
    "ld.global.v4.u32 {_, _, _, %u32_0}, [%u64_0];",
    "ld.global.b16 {%b16_0}, [%u64_0];",
    "st.global.u8 [%u64_0], %u64_1;",
    "cvt.u16.u32 %u16_0, %ctaid.x;",
    "mov.u16 %u16_0, %tid.x;",
    "mov.u32 %u32_0, %gridid;",
    "mov.b64 %b64_0, {%b32_0, %f32_1};",
    "mov.b64 {%f32_0, _}, %f64_0;",
    "mov.b32 %b32_0, {%b8_0, %u8_1, %s8_2, %b8_3};",
    "mov.u64 %u64_0, gmem+16;",
    "mapa.shared::cluster.u32 %u32_0, tile, %u32_1;",
    "setp.eq.and.s32 %pred_0|%pred_1, %s32_0, 1, !%pred_2;",
    "setp.eq.s32 _|%pred_0, %s32_0, 1;",
    "selp.b32 %f32_0, %s32_1, %b32_2, !%pred_0;",
    "shfl.sync.bfly.b32 %f32_0|%pred_1, %f32_1, 1, 0x1f, -1;",
    "atom.global.add.u32 _, [%u64_0], 1;",
    "cp.async.ca.shared.global [%u32_0], [%u64_0], 16, %pred_0;\ncp.async.wait_all;",
    "mbarrier.arrive.shared.b64 _, [%u32_0];",
    "bar.sync 15, 128;",
    "vmad.s32.s32.s32 %s32_0, -%s32_1, %s32_2, %s32_3;",
]

ILLEGAL = [
    ("add.f32 %f32_0, %f32_1;", "takes 3 operands, 2 given"),
    ("mov.u32 %u32_0, %u32_1, %u32_2;", "takes 2 operands, 3 given"),
    ("add.f32 %f32_0, %u32_1, %f32_2;", "operand 2, %u32_1, is a .u32 register, and the operand"),
    ("add.u32 %u64_0, %u32_1, %u32_2;", "is a .u64 register, and the operand is .u32"),
    ("add.f32 %f32_0, %f32_1, 1;", "is an integer literal, and the operand is .f32"),
    ("add.u32 %u32_0, %u32_1, 1.5;", "is a float literal (1.5...), and the operand is .u32"),
    ("add.f16 %f16_0, %f16_1, 0x3C00;", "is an integer literal"),
    ("mov.b32 %b32_0, 1.5;", "is a float literal"),
    ("add.u32 5, %u32_0, 6;", "must be a register"),
    ("add.s32 %s32_0, %s32_1, -%s32_2;", "PTX has no operand negation"),
    ("add.u32 %u32_0, %tid.x, 1;", "is a special register, which only mov and cvt read"),
    ("mov.u64 %u64_0, %tid.x;", "is a .u32 special register, and the operand is .u64"),
    ("mov.u32 %u32_0, %clock64;", "is a .u64 special register"),
    ("mov.u32 %u32_0, %tid;", "four components"),
    ("mov.u32 %tid.x, %u32_0;", "cannot be written"),
    ("add.u32 %u32_0, tile, 4;", "is a .shared symbol, not a register"),
    ("cvta.global.u64 %u64_0, tile;", "is a .shared symbol"),
    ("setp.lt.s32 %b32_0, %s32_0, 1;", "is a .b32 register, and the operand is .pred"),
    ("selp.b32 %b32_0, %b32_1, %b32_2, %b32_3;", "and the operand is .pred"),
    ("add.u32 %u32_0, %u32_1, %pred_0;", "is a .pred register"),
    ("shl.b64 %b64_0, %b64_1, %b64_2;", "an integer of 32 bits"),
    ("shfl.sync.idx.b32 %b32_0, %b32_1, 0, 31, %f32_0;", "an integer of 32 bits"),
    ("ld.global.u32 _, [%u64_0];", "must be a register"),
    ("ld.global.v2.u32 {_, _}, [%u64_0];", "drops what it should give"),
    ("ld.global.v2.u32 {%u32_0}, [%u64_0];", "must have 2 registers, it has 1"),
    ("ld.global.v2.u32 %u32_0, [%u64_0];", "has 1 elements"),
    ("ld.global.v2.u8 {%u16_0, %u32_0}, [%u64_0];", "mixes registers of 16 and 32 bits"),
    ("ld.global.u32 %u32_0, [%f64_0];", "addresses are integers"),
    ("ld.global.u32 %u32_0, [%laneid];", "special register as its base"),
    ("ld.global.u32 %u32_0, %u64_0;", "must be an address"),
    ("st.global.v2.u32 [%u64_0], {%u32_0, _};", "drops what it should give"),
    ("mov.b64 %b64_0, {%b32_0, %b16_1};", "have 32 bits each"),
    ("mov.b32 {%b16_0, %b16_1}, {%b16_2, %b16_3};", "packs and unpacks at once"),
    (MMA.replace("{%b32_0,%b32_1}", "{%b32_0}"), "must have 2 registers, it has 1"),
    (MMA.replace("{%b32_2}", "%b32_2"), "must be a vector of 1"),
    (MMA.replace("{%b32_2}", "{%u32_2}"), "is a .u32 register, and the operand is .f16x2"),
    (MMA.replace("{%f32_0,%f32_1,%f32_2,%f32_3}, {%b32_0",
                 "{%f32_0,%f32_1,%f32_2,%s32_3}, {%b32_0"), "is a .s32 register"),
    ("cp.async.wait_group %u32_0;", "must be an immediate"),
    ("cp.async.cg.shared.global [%u32_0], [%u64_0], 8;", "is 8, legal are 16"),
    ("cp.async.ca.shared.global [%u32_0], [%u64_0], 12;", "is 12, legal are 4, 8, 16"),
    ("cp.async.ca.shared.global [%u32_0], [%u64_0], 8, 16;", "legal are 0 to the copy's 8 bytes"),
    ("bar.sync 16;", "is 16, legal are 0 to 15"),
    ("bar.sync 1, 100;", "is 100, legal are 0 to 1024 in steps of 32"),
    ("bar.arrive 1;", "takes 2 operands, 1 given"),
    ("setmaxnreg.inc.sync.aligned.u32 20;", "is 20"),
    ("setmaxnreg.dec.sync.aligned.u32 44;", "is 44"),
    ("mbarrier.init.shared.b64 [tile], 0;", "is 0, legal are 1 to 1048575"),
    ("mbarrier.arrive.shared.b64 %b64_0, [tile], 0;", "a count of arrivals is positive"),
    ("mbarrier.try_wait.parity.shared.b64 %pred_0, [tile], 2;", "is 2, legal are 0 to 1"),
    ("mbarrier.test_wait.shared.b64 _, [tile], %b64_0;", "all that a wait gives"),
    ("bfe.u32 %u32_0, %u32_1, 300, 1;", "is 300, legal are 0 to 255"),
    ("createpolicy.fractional.L2::evict_last.b64 %b64_0, 2.0;", "at most 1"),
    ("fence.proxy.tensormap::generic.acquire.gpu [%u64_0], 64;", "is 64, legal are 128"),
    ("ld.global.L2::cache_hint.u32 %u32_0, [%u64_0];", "takes 3 operands, 2 given"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {1};", "only a register will do"),
    ("bra tile;", "is a .shared symbol"),
    ("@%b32_0 ret;", "the guard %b32_0 is a .b32 register"),
    ("@%tid.x bra L; L: ret;", "the guard %tid.x is a .u32 special register"),
]


@pytest.mark.parametrize("line", LEGAL)
def test_what_the_assembler_takes_is_clean(line):
    """Operands at the edge of what is legal raise nothing."""
    assert found(line) == []


@pytest.mark.parametrize(("line", "words"), ILLEGAL, ids=[line for line, _ in ILLEGAL])
def test_what_the_assembler_refuses_is_an_error(line, words):
    """Each wrong operand is one error in its line that says what is wrong."""
    said = [(f.where.line, f.message) for f in found(line) if f.code == "operand-mismatch"]
    assert len(said) == 1
    assert said[0][0] == FIRST
    assert words in said[0][1]


def test_a_message_whole():
    """What was given, which rule, what would be legal, where it is written."""
    [finding] = found("@%pred_0 add.f32 %f32_0, %u32_1, 0f3F800000;")
    assert str(finding) == (
        "error[operand-mismatch] line 12: @%pred_0 add.f32 %f32_0, %u32_1, 0f3F800000: operand 2, "
        "%u32_1, is a .u32 register, and the operand is .f32\n"
        "  legal: .b32, .f32\n"
        "  see:   PTX ISA, Instruction Operands")
    assert finding.witness == {"rule": "operands", "operand": 2, "given": "%u32_1"}


def test_a_declared_vector_register_is_a_vector():
    """``.reg .v4 .f32`` serves where braces would, its components where one register would."""
    declared = ".reg .v4 .f32 v;\n"
    assert found(declared + "ld.global.v4.f32 v, [%u64_0];\nadd.f32 v.x, v.y, v.w;") == []
    assert codes(found(declared + "add.f32 v, v.y, v.w;")) == ["operand-mismatch"]
    assert codes(found(declared + "ld.global.v2.f32 v, [%u64_0];")) == ["operand-mismatch"]


@given(st.sampled_from(REGISTER_TYPES), st.sampled_from(REGISTER_TYPES))
def test_register_types_agree_with_their_widths(wanted, given_):
    """Only one width fits exactly; wider registers fit where that is allowed; predicates alone."""
    if takes_register(wanted, given_):
        assert type_bits(wanted) == type_bits(given_)
        assert takes_register(wanted, given_, wider=True)
    if takes_register(wanted, given_, wider=True):
        assert type_bits(wanted) <= type_bits(given_)
        assert (wanted == "pred") == (given_ == "pred")
