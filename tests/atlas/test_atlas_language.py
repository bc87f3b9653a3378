"""First versions, images, and rejections: what the language says by release."""

from __future__ import annotations

import random

import pytest

from mmalab import atlas, isa
from mmalab.atlas.releases import PTX_VERSIONS, written
from mmalab.atlas.specimens import module, specimens_of
from mmalab.errors import SourceError, ToolError, UsageError
from mmalab.isa.targets import TARGETS, parse_targets, runs_on

# --- versions -------------------------------------------------------------------------------------

@pytest.mark.toolkit
def test_first_versions_are_the_tables() -> None:
    """Fresh forms with each of their operand lists: the first version is the first of which the
    instruction table says that it is legal."""
    seed = random.randrange(1 << 32)  # noqa: S311 - not cryptography
    rng = random.Random(seed)  # noqa: S311 - not cryptography
    target = rng.choice(["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_107a"])
    print("seed", seed, target)
    there = [key for key in rng.sample(isa.forms(), 400)
             if target in parse_targets(isa.find(key).targets)][:60]
    texts = {s.name: s.text for key in there for s in specimens_of(key)}
    for row in atlas.first_versions(there, target):
        assert row.version == stated_first(texts[row.form], target), (row.form, row.below)
        assert row.below or row.version == written(PTX_VERSIONS[0])


def stated_first(text: str, target: str) -> str:
    """The first PTX version for which the instruction table says that it is legal."""
    return next((written(v) for v in PTX_VERSIONS if isa.legal(text, target, v)), "")


@pytest.mark.toolkit
@pytest.mark.parametrize(("opcode", "target", "version"), [
    ("set.lt.u32.f16", "sm_75", "6.5"), ("set.lt.s32.f16x2", "sm_75", "6.5"),
    ("set.lt.f16.f16", "sm_75", "6.3"),
    ("mbarrier.arrive.relaxed.cta.b64", "sm_90", "8.6"),
    ("mbarrier.arrive.release.cluster.b64", "sm_90", "8.0"),
    ("mbarrier.expect_tx.relaxed.cta.b64", "sm_90", "8.0"),
    ("min.abs.f32", "sm_100", "8.8"), ("cvta.to.param.u64", "sm_75", "7.7"),
    ("isspacep.param", "sm_75", "7.7"), ("isspacep.global", "sm_75", "6.3"),
    ("cvt.rn.satfinite.e4m3x2.f32", "sm_89", "8.1"),
    ("cvt.rn.satfinite.e4m3x2.f32", "sm_90", "7.8"),
    ("cp.async.cg.shared::cta.global", "sm_80", "7.0"),
    ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e5m2.f32", "sm_100a", "8.6"),
    ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.e4m3.e5m2.f16", "sm_100a", "8.7"),
    ("shfl.up.b32", "sm_80", ""),
])
def test_first_versions_that_need_a_second_look(opcode: str, target: str, version: str) -> None:
    """Ones that neighbours would let one guess wrongly: the table and the assembler agree."""
    for row, specimen in zip(atlas.first_versions([opcode], target), specimens_of(opcode),
                             strict=True):
        assert row.version == stated_first(specimen.text, target), row.below
        assert row.version == version or row.form != opcode


@pytest.mark.toolkit
@pytest.mark.parametrize(("form", "version", "last", "below"), [
    ("tcgen05.alloc.cta_group::1.sync.aligned.b32", "8.6", "9.5",
     "Feature 'tcgen05.alloc' requires PTX ISA .version 8.6 or later"),
    ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", "8.7", "9.5", "8.7"),
    ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16", "8.8", "9.5", "8.8"),
    ("shfl.up.b32", "6.3", "6.3", ""),
    ("cvta.global.u32", "", "", "32-Bit compilation is no longer supported"),
])
def test_one_first_version(form: str, version: str, last: str, below: str) -> None:
    """Forms that came late, one that went, one that never assembles; each can be repeated."""
    row = atlas.first_version(form, toolkit="13.5")
    assert (row.version, row.last) == (version, last)
    assert below in row.below
    assert f".version {version or '9.5'}\n" in row.ptx


def test_declarations_belong_to_their_users() -> None:
    """A register file that a version lacks is the fault of the specimens that use it alone."""
    wide, = specimens_of("mov.b128")[:1]
    narrow, = specimens_of("add.u32")
    text, owners = module([narrow, wide, narrow], "sm_90", "8.2")
    lines = text.splitlines()
    found = {lines[at - 1].split()[1]: whose for at, whose in owners.items()
             if ".reg" in lines[at - 1]}
    assert found[".b128"] == (1,)
    assert set(found[".b32"]) >= {0, 2}


# --- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("image", "device", "runs"), [
    ("sm_90a", "9.0", True), ("sm_90a", "10.0", False), ("sm_90", "10.0", False),
    ("compute_90", "10.0", True), ("compute_90a", "10.0", False), ("sm_80", "8.9", True),
    ("sm_89", "8.6", False), ("sm_100f", "10.3", True), ("sm_100f", "11.0", False),
    ("sm_103f", "10.0", False), ("compute_100f", "12.0", False), ("sm_120f", "12.1", True),
    ("sm_120a", "12.1", False), ("compute_75", "12.1", True),
])
def test_where_images_run(image: str, device: str, runs: bool) -> None:
    """Machine code inside its major version, suffixes as their rules say."""
    row, = atlas.coverage([image], [device])
    assert row.runs == runs
    assert not (runs and row.instead)
    for other in row.instead:
        assert atlas.coverage([other], [device])[0].runs, other


def test_every_image_on_every_device() -> None:
    """PTX follows the table's own rule; machine code never runs where its PTX would not."""
    names = [name.removeprefix("sm_") for name in TARGETS]
    code = atlas.coverage([f"sm_{name}" for name in names])
    ptx = atlas.coverage([f"compute_{name}" for name in names])
    for made, written_out in zip(code, ptx, strict=True):
        chip = f"sm_{made.device.replace('.', '')}"
        assert written_out.runs == runs_on(written_out.image, chip)
        assert written_out.runs or not made.runs


@pytest.mark.parametrize(("images", "devices"), [
    (["sm_101a"], None), (["100a"], None), (["sm_100a"], ["10.1"]),
])
def test_images_that_do_not_exist(images: list[str], devices: list[str] | None) -> None:
    with pytest.raises(UsageError, match="legal"):
        atlas.coverage(images, devices)


# --- rejections -----------------------------------------------------------------------------------


@pytest.mark.toolkit
def test_every_trial_can_be_repeated() -> None:
    """Each neighbour has its text; the one that is accepted assembles."""
    found = atlas.why(specimens_of("wgmma.fence.sync.aligned")[0].module("sm_90", "9.0"))
    assert (found.because, found.line, found.text) == ("suffix", 6, "wgmma.fence.sync.aligned;")
    text = specimens_of("wgmma.fence.sync.aligned")[0].module("sm_90", "9.0")
    spread = text.replace("wgmma.fence.sync.aligned;", "wgmma.fence\n    .sync.aligned\n    ;")
    assert "wgmma" in atlas.why(spread).text
    good = next(trial for trial in found.trials if trial.accepted)
    assert ".target sm_90a" in good.ptx
    assert atlas.why(good.ptx).accepted


@pytest.mark.toolkit
def test_a_target_that_a_release_does_not_know() -> None:
    """12.9 knows no sm_110; others do, from the target's first version on."""
    text = specimens_of("add.u32")[0].module("sm_110a", "9.0").replace("9.0", "8.8")
    found = atlas.why(text, toolkit="12.9")
    assert found.because == "toolkit"
    assert "does not know sm_110a" in found.reason
    assert found.instead[0] == "--toolkit 13.5 with .version 9.0"


@pytest.mark.toolkit
def test_what_no_one_takes() -> None:
    """The instruction itself is wrong: its nearest legal spelling."""
    text = specimens_of("add.u32")[0].module("sm_90", "8.0").replace("add.u32", "add.u33")
    found = atlas.why(text)
    assert found.because == "text"
    assert "add.u32" in found.instead


@pytest.mark.toolkit
def test_what_is_no_module() -> None:
    with pytest.raises(SourceError):
        atlas.why(".version 8.0\n.target sm_90\n.entry k( {")
    with pytest.raises(UsageError, match="sm_90"):
        atlas.why(specimens_of("add.u32")[0].module("sm_90", "8.0"), target="sm_91")
    with pytest.raises(ToolError, match=r"13\.5"):
        atlas.why(specimens_of("add.u32")[0].module("sm_90", "8.0"), toolkit="10.2")
