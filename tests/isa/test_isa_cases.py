"""Questions that people asked in public: which instruction exists where, answered by the table.

The numbers are those of the collection of cases, section A; each case names what was asked.
"""

from __future__ import annotations

import pytest

from mmalab import isa
from mmalab.isa.index import rows
from mmalab.isa.lookup import spellings
from mmalab.isa.ports import replacements
from mmalab.isa.targets import TARGETS

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
NVFP4 = ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
         ".f32.e2m1.e2m1.f32.ue4m3")
TMA = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
REPLACE = "tensormap.replace.tile.global_address.shared::cta.b1024.b64"
SETMAXNREG = "setmaxnreg.dec.sync.aligned.u32"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
E2M1 = "cvt.rn.satfinite.e2m1x2.f32"

_FAMILY = "100f 100a 103f 103a 107f 107a 110f 110a"
_SUFFIXED = f"90a {_FAMILY} 120f 120a 121f 121a"


def _targets(opcode: str) -> set[str]:
    return {name for name in TARGETS if isa.legal(opcode, name)}


def _named(text: str) -> set[str]:
    return {f"sm_{word}" for word in text.split()}


def _from(number: int) -> set[str]:
    return {name for name, row in TARGETS.items() if row.number >= number}


@pytest.mark.parametrize(("opcode", "where"), [
    (BF16, _from(80)), (FP8, _from(89)), (NVFP4, _named("120f 120a 121f 121a")),
    (WGMMA, _named("90a")), (ALLOC, _named(_FAMILY)), (TMA, _from(90)),
    (f"{TMA}.multicast::cluster", _from(90)), (SETMAXNREG, _named(_SUFFIXED)),
    (REPLACE, _named(_SUFFIXED)), (E2M1, _named(_SUFFIXED) - _named("90a")),
    ("cvt.rn.satfinite.e4m3x2.f32", _from(89)),
    ("redux.sync.min.f32", _named(_FAMILY) - _named("110f 110a")),
    ("stmatrix.sync.aligned.m8n8.x4.shared.b16", _from(90)),
    ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8", _named(_SUFFIXED) - _named("90a")),
    ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", _named(_SUFFIXED) - _named("90a")),
])
def test_the_reference_table(opcode: str, where: set[str]) -> None:
    """Each row of the collection's table of targets, over all targets."""
    assert _targets(opcode) == where


@pytest.mark.parametrize(("target", "near", "words"), [
    ("sm_120a", BF16, "mma.sync"), ("sm_120", BF16, "mma.sync"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma"),
    ("sm_103f", "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma"),
    ("sm_90", BF16, ".target sm_90a"), ("sm_80", BF16, "mma.sync"),
])
def test_a01_wgmma_is_hoppers_alone(target: str, near: str, words: str) -> None:
    """A01: no flag brings wgmma to Blackwell; the nearest is what does its job on that chip."""
    verdict = isa.legal(WGMMA, target)
    assert (verdict.legal, verdict.rule) == (False, "target")
    assert "sm_90a" in verdict.reason
    assert verdict.nearest[0] == near
    assert words in verdict.instead
    assert all(isa.legal(other, target) for other in verdict.nearest)


def test_a03_tensormap_replace_needs_a_suffix_and_tma_does_not() -> None:
    """A03: plain sm_120 lacks the instruction, the same chip's suffixed targets have it."""
    verdict = isa.legal(REPLACE, "sm_120")
    assert not verdict.legal
    assert verdict.instead == ".target sm_120f or sm_120a (the same chip)"
    assert isa.legal(REPLACE, "sm_120a")
    assert isa.legal(TMA, "sm_120")


def test_a06_fp4_conversion_is_on_every_suffixed_blackwell() -> None:
    """A06, A05: sm_120a, 120f and 121a convert to FP4 in hardware; the plain target does not."""
    assert all(isa.legal(E2M1, name) for name in ("sm_120a", "sm_120f", "sm_121a"))
    verdict = isa.legal(E2M1, "sm_120")
    assert not verdict.legal
    assert "sm_120f or sm_120a" in verdict.instead


def test_a07_a_number_does_not_say_enough() -> None:
    """A07: of targets with the number 120, the plain one lacks block scales."""
    assert _targets(NVFP4) & _named("120 120f 120a") == _named("120f 120a")


@pytest.mark.parametrize("target", ["sm_120", "sm_120f", "sm_120a", "sm_121", "sm_121a"])
def test_a09_tensor_memory_is_not_on_consumer_chips(target: str) -> None:
    """A09: tcgen05 assembles for no sm_12x; products have a block-scaled mma.sync to go to."""
    assert not isa.legal(ALLOC, target)
    assert "there is no Tensor Memory" in isa.legal(ALLOC, target).instead
    verdict = isa.legal("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16", target)
    assert not verdict.legal
    assert verdict.nearest[:1] == ([NVFP4] if target[-1] in "af" else [])


@pytest.mark.parametrize(("code", "chip", "runs"), [
    ("sm_100a", "sm_103", False), ("sm_100f", "sm_103", True), ("sm_103a", "sm_103", True),
    ("sm_90a", "sm_100", False), ("sm_90", "sm_100", True), ("sm_100f", "sm_120", False),
])
def test_a10_which_image_runs_where(code: str, chip: str, runs: bool) -> None:
    """A10, A15: `a` code runs on its chip alone, `f` code in its family, plain code later on."""
    assert isa.runs_on(code, chip) is runs


def test_a12_the_least_ptx_version_is_the_instructions() -> None:
    """A12: what a kernel's body needs, and that one version less is refused by its number."""
    least = {BF16: (7, 0), FP8: (8, 4), WGMMA: (8, 0), TMA: (8, 0), ALLOC: (8, 6), NVFP4: (8, 7)}
    for opcode, version in least.items():
        assert isa.find(opcode).ptx == version
        before = isa.legal(opcode, None, (version[0], version[1] - 1) if version[1] else (
            version[0] - 1, 9))
        assert before.rule == "ptx-version"


def test_a13_tcgen05_is_legal_on_sm_103a() -> None:
    """A13: what a compiler could not select, the ISA has."""
    opcodes = (ALLOC, "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.ld.sync.aligned.32x32b.x8.b32",
               "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64")
    assert all(isa.legal(opcode, "sm_103a", "8.8") for opcode in opcodes)


def test_a15_what_the_letter_brings_on_hopper() -> None:
    """A15: wgmma, setmaxnreg and tensormap.replace need sm_90a; TMA, mbarriers, clusters and
    stmatrix do not."""
    for opcode in (WGMMA, SETMAXNREG, REPLACE):
        assert not isa.legal(opcode, "sm_90")
        assert isa.legal(opcode, "sm_90a")
    for opcode in (TMA, "mbarrier.try_wait.parity.shared::cta.b64", "barrier.cluster.arrive",
                   "stmatrix.sync.aligned.m8n8.x1.shared.b16"):
        assert isa.legal(opcode, "sm_90")


def test_a16_target_and_version_both_have_to_fit() -> None:
    """A16: NVFP4 needs a suffixed target and PTX 8.7; each verdict names what is missing."""
    assert isa.legal(NVFP4, "sm_120a", "8.7")
    assert isa.legal(NVFP4, "sm_120", "8.7").rule == "target"
    assert isa.legal(NVFP4, "sm_120a", "8.6").rule == "ptx-version"


@pytest.mark.parametrize(("opcode", "target", "near"), [
    (FP8, "sm_80", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    (BF16, "sm_75", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "sm_75",
     "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"),
    ("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32", "sm_80",
     "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"),
    (NVFP4, "sm_100a", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16"),
    ("tcgen05.mma.sp.cta_group::2.kind::f16", "sm_90a",
     "wgmma.mma_async.sp.sync.aligned.m64n128k32.f32.f16.f16"),
    ("cp.async.bulk.wait_group.read", "sm_80", "cp.async.wait_group"),
    (TMA, "sm_80", "cp.async.cg.shared.global"),
])
def test_the_nearest_keeps_family_density_and_type(opcode: str, target: str, near: str) -> None:
    """On a target that lacks it: the other generation's instruction, or the same family and
    density before the same type, before the shape."""
    assert isa.legal(opcode, target).nearest[0] == near


def test_every_replacement_exists() -> None:
    """What the table of ports says is found, and legal where it is said, for every new form."""
    asked = 0
    for head in ("wgmma", "tcgen05", "cp", "mbarrier", "stmatrix", "redux"):
        for row in rows(head):
            for opcode in list(spellings(row))[:3]:
                for on in TARGETS.values():
                    for other in replacements(opcode, on):
                        assert isa.legal(other, on.name), (opcode, on.name, other)
                        asked += 1
    assert asked > 1000
