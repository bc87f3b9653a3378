"""Verdicts: on opcodes, targets, versions, operands and values."""

from __future__ import annotations

import re

import pytest

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.absent import _no_shape

_F4, _R4 = "{%f0,%f1,%f2,%f3}", "{%r0,%r1,%r2,%r3}"
_SCALED = ("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
           ".f32.e4m3.e5m2.f32.ue8m0")
TILE = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def test_a_legal_instruction_says_on_what_grounds() -> None:
    """Legal verdicts are true and cite the manual."""
    verdict = isa.legal(MMA, "sm_80", (7, 0))
    assert verdict.legal
    assert bool(verdict)
    assert "PTX ISA" in verdict.reason


@pytest.mark.parametrize(("instruction", "target", "version", "rule", "word"), [
    ("add.f33", None, None, "opcode", "not an instruction"),
    (MMA, "sm_75", None, "target", "sm_80+"),
    (MMA, "sm_80", "6.5", "ptx-version", "7.0"),
    ("add.f32", "sm_100a", (8, 5), "ptx-version", "sm_100a"),
    ("shfl.bfly.b32", "sm_80", None, "ptx-version", "removed"),
    ("cvta.global.u32 %r1, %r2;", "sm_90", None, "target", ".u64"),
    ("cvta.to.shared.u32", None, None, "target", ".address_size 32"),
    ("cvt.rn.f16x2.e4m3x2", "sm_89", "8.0", "ptx-version", "8.1 on sm_89"),
    ("min.f32 %f1, %f2, %f3, %f4;", "sm_100", "8.7", "ptx-version", "8.8"),
    ("ld.relaxed.cluster.global.b32", "sm_80", None, "target", ".cluster"),
    ("bar.sync 16;", "sm_80", None, "value", "0 to 15"),
    ("bar.sync 1, 100;", "sm_80", None, "value", "steps of 32"),
    ("bar.arrive 1;", "sm_80", None, "operands", "2 operands"),
    ("setmaxnreg.dec.sync.aligned.u32 44;", "sm_90a", None, "value", "steps of 8"),
    ("setmaxnreg.dec.sync.aligned.u32 %r1;", "sm_90a", None, "operands", "immediate"),
    ("cp.async.cg.shared.global [%r1], [%rd1], 8;", "sm_80", None, "value", "16"),
    ("mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];", "sm_90", None, "operands", "sink"),
    ("mbarrier.arrive.shared.b64 %rd1, [%r1], 4;", "sm_80", None, "target", "sm_90+"),
    ("max.f32 %f1, %f2, %f3, %f4;", "sm_90", None, "target", "sm_100+"),
    ("add.s32 1, %r1, %r2;", None, None, "operands", "register"),
    ("add.s32 %r1, {%r2,%r3}, %r4;", None, None, "operands", "vector"),
    ("add.s32 %r1, !%r2, %r4;", None, None, "operands", "negated"),
    ("ld.global.v4.f32 {%f1,%f2}, [%rd1];", None, None, "operands", "4 registers"),
    ("ld.global.f32 %f1, %rd1;", None, None, "operands", "address"),
    ("mbarrier.test_wait.shared.b64 _, [%r1], %rd1;", "sm_90", None, "operands", "register"),
    (f"{TILE.replace('2d', '3d')} [%r1], [%rd1, {{%r2, %r3}}], [%r4];", "sm_90", None,
     "operands", "3 coordinates"),
    ("cp.async.bulk.commit_group %r1;", "sm_90", None, "operands", "0 operands"),
    ("cp.async.bulk.prefetch.L2.global [%rd1], 24;", "sm_90", None, "value", "steps of 16"),
    ("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 13;", "sm_90a", None, "value",
     "13 needs"),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "sm_100a", None,
     "value", "32, 64"),
    ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3,%r4}, %p1;", "sm_100a",
     None, "operands", "4 registers"),
    ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, 3;", "sm_110a", None,
     "target", "sm_100f"),
    (f"{WGMMA} {{%r1,%r2}}, {_R4}, %rd1, %p1, 1, 1, 0, 0;", "sm_90a", None, "operands", "vector"),
    ("elect.sync %r1, -1;", "sm_90", None, "operands", "pair"),
    ("mov.b64 %rd1, {%r1,%r2,%r3};", None, None, "operands", "2 or 4"),
    (f"{MMA} {{%f0,%f1,%f2,%f3}}, {{%r0,%r1,%r2}}, {{%r4,%r5}}, {{%f4,%f5,%f6,%f7}};", "sm_80",
     None, "operands", "4 registers"),
    (f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {_F4}, {_R4}, {_R4}, {_F4}, %r9, 2;",
     "sm_80", None, "value", "0, 1"),
])
def test_an_illegal_one_names_the_rule(
    instruction: str, target: str | None, version: object, rule: str, word: str
) -> None:
    """Each way to be illegal gives its rule, words that name it, and an alternative."""
    verdict = isa.legal(instruction, target, version)  # type: ignore[arg-type]
    assert not verdict.legal
    assert verdict.rule == rule
    assert word in verdict.reason
    assert verdict.known


@pytest.mark.parametrize("instruction", [
    "@%p1 bra $L__BB0_2;",
    "@!%p1 ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];",
    "mov.b32 {%rs1, _}, %r1;",
    "mov.b64 %rd1, {%r1, %r2};",
    "ld.global.b16 {%rs1}, [%rd1];",
    "setp.lt.s32 %p1|%p2, %r1, 5;",
    "selp.b32 %r1, %r2, %r3, %p1;",
    "lop3.b32 %r1, %r2, %r3, %r4, 0x40;",
    "lop3.or.b32 _|%p1, %r2, %r3, %r4, 0x40, %p2;",
    "fma.rn.f32 %f1, 0f3F800000, %f2, %f3;",
    "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;",
    "vote.sync.ballot.b32 %r1, !%p1, 0xffffffff;",
    "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;",
    "call.uni (retval0), vprintf, (param0, param1);",
    "mad.lo.s32 %r1, %r2, WARP_SZ, %r3;",
    "ret;",
    "mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid;",
    "mov.v2.b64 {%rd1, %rd2}, {%rd3, %rd4};",
    "atom.global.add.u32 _, [%rd1], %r2;",
    f"{TILE} [%r1], [%rd1, {{%r2, %r3}}], [%r4];",
    "bar.red.popc.u32 %r1, 0, %p1;",
    "cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;",
    f"{_SCALED} {_F4}, {_R4}, {{%r5,%r6}}, {_F4}, %r7, {{0,1}}, %r8, {{3,3}};",
])
def test_everyday_instructions_are_legal(instruction: str) -> None:
    """What compilers write passes whole, with guards, vectors, sinks, pairs and literals."""
    verdict = isa.legal(instruction, "sm_120a")
    assert verdict.legal, verdict.reason


def test_block_scale_selectors_have_their_ranges() -> None:
    """The byte id depends on the scale vector's size; the thread id of A is 0 or 1."""
    head = ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::{}.f32.e2m1"
            ".e2m1.f32.ue8m0 {{%f0,%f1,%f2,%f3}},{{%r1,%r2,%r3,%r4}},{{%r5,%r6}},"
            "{{%f0,%f1,%f2,%f3}}, %r7, {{{},{}}}, %r8, {{0,0}};")
    assert isa.legal(head.format("2X", 2, 1), "sm_120a").legal
    assert isa.legal(head.format("2X", 1, 1), "sm_120a").rule == "value"
    assert isa.legal(head.format("4X", 2, 1), "sm_120a").rule == "value"
    assert isa.legal(head.format("4X", 0, 2), "sm_120a").rule == "value"


def test_the_nearest_are_legal_there() -> None:
    """Alternatives to an instruction of a newer target exist on the one that was asked for."""
    verdict = isa.legal("ld.global.v8.b32", "sm_90")
    assert verdict.nearest
    assert all(isa.legal(spelling, "sm_90").legal for spelling in verdict.nearest)


def test_unknown_parts_of_the_isa_get_no_verdict() -> None:
    """Textures are neither legal nor called unknown instructions."""
    verdict = isa.legal("txq.width.b32 %r1, [%rd1];", "sm_90a")
    assert not verdict.known
    assert verdict.rule == "not-in-table"
    assert "not in this table yet" in verdict.reason


def test_a_wrong_target_is_the_callers_mistake() -> None:
    """A target that does not exist raises instead of giving a verdict."""
    with pytest.raises(UsageError):
        isa.legal("add.f32", "sm_42")


def test_parsed_instructions_are_taken_by_their_text() -> None:
    """Anything with a text is judged by it."""
    class Parsed:
        text = "@%p1 bar.sync 16;"

    assert isa.legal(Parsed(), "sm_80").rule == "value"


@pytest.mark.parametrize(("shape", "rule", "near"), [
    ("m64n12k16.f32.bf16.bf16", "N = 12: N is 8 to 256 in steps of 8 (8, 16)", "m64n16k16"),
    ("m64n264k16.f32.bf16.bf16", "N = 264: N is 8 to 256 in steps of 8 (256)", "m64n256k16"),
    ("m64n0k16.f32.f16.f16", "N = 0: N is 8 to 256 in steps of 8 (8)", "m64n8k16"),
    ("m64n40k32.s32.s8.s8", "up to 32, then of 16 (32, 48)", "m64n48k32"),
    ("m128n8k16.f32.f16.f16", "M = 128: M is always 64", "m64n8k16"),
    ("m64n8k8.f32.f16.f16", "K = 8: K of f16 is 16", "m64n8k16"),
])
def test_a_shape_that_is_none(shape: str, rule: str, near: str) -> None:
    """The size that is wrong, its rule, and the shape nearest in numbers, not in letters."""
    verdict = isa.legal(f"wgmma.mma_async.sync.aligned.{shape}", "sm_90a")
    assert not verdict.legal
    assert rule in verdict.instead
    assert f".{near}." in verdict.nearest[0]


def test_the_rules_of_shapes_are_the_tables() -> None:
    """Every legal shape breaks none of them, every other N one."""
    rows = [key for key in isa.forms("wgmma.mma_async*") if ".m64n" in key]
    for key in rows[::7]:
        assert _no_shape(key) == ""
        wrong = re.sub(r"m64n(\d+)k", lambda found: f"m64n{int(found[1]) + 4}k", key)
        assert _no_shape(wrong).startswith("N = ")


def test_groups_below_none_are_refused() -> None:
    """wgmma.wait_group -1, which ptxas refuses; cp.async's it takes for the highest number."""
    assert not isa.legal("wgmma.wait_group.sync.aligned -1;", "sm_90a").legal
    assert isa.legal("wgmma.wait_group.sync.aligned 3;", "sm_90a").legal
    assert isa.legal("cp.async.wait_group -1;", "sm_90a").legal
