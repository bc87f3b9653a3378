"""Questions that people asked in public, each answered by one call; names are the collection's."""

from __future__ import annotations

import pytest

from mmalab import atlas, isa
from mmalab.atlas.provoked import CASES, wgmma_text
from mmalab.atlas.specimens import specimens_of
from mmalab.errors import ToolError
from mmalab.toolchain import compile_cuda

pytestmark = pytest.mark.toolkit

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
INT4 = "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"
NVFP4 = ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
         ".f32.e2m1.e2m1.f32.ue4m3")
MXFP8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.{}.{}.f32.ue8m0"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
TMA = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
REPLACE = "tensormap.replace.tile.global_address.shared::cta.b1024.b64"
SETMAXNREG = "setmaxnreg.dec.sync.aligned.u32"
E2M1 = "cvt.rn.satfinite.e2m1x2.f32"


def targets(opcode: str, *among: str) -> tuple[str, ...]:
    """Where ptxas takes an opcode, of these targets."""
    return atlas.matrix([opcode], among or None)[0].targets


def rejected(opcode: str, target: str, version: str) -> atlas.Rejection:
    return atlas.why(specimens_of(opcode)[0].module(target, version))


def test_a01_wgmma_on_consumer_blackwell() -> None:
    """No target of that chip takes it; mma.sync is what to write."""
    assert targets(WGMMA) == ("sm_90a",)
    found = rejected(WGMMA, "sm_120a", "8.7")
    assert found.because == "chip"
    assert any("mma.sync" in word for word in found.instead)
    assert any("tcgen05" in word for word in rejected(WGMMA, "sm_100a", "8.7").instead)


def test_a03_tensormap_replace() -> None:
    assert targets(REPLACE, "sm_120", "sm_120a", "sm_120f") == ("sm_120f", "sm_120a")
    assert rejected(REPLACE, "sm_120", "9.0").because == "suffix"
    assert targets(TMA, "sm_120") == ("sm_120",)


def test_a04_the_stub_shows_before_it_runs() -> None:
    """A plain build holds no product, the other does: read back, not run."""
    source = """extern "C" __global__ void k(unsigned *p) {
#ifdef __CUDA_ARCH_FAMILY_SPECIFIC__
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32 "
        "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(p[0]));
    p[0] = __float_as_uint(d0);
#else
    __trap();
#endif
}"""
    try:
        builds = {name: atlas.build(compile_cuda(source, name).text)
                  for name in ("sm_120", "sm_120a")}
    except ToolError:
        pytest.skip("no CUDA C++ compiler works here")
    words = {name: {word.partition(".")[0] for word in made.opcodes}
             for name, made in builds.items()}
    assert "QMMA" in words["sm_120a"]
    assert "QMMA" not in words["sm_120"]
    assert "BPT" in words["sm_120"]


def test_a06_fp4_conversion_exists_on_sm_12x() -> None:
    """The threads are wrong: only the plain targets lack it."""
    assert targets(E2M1, "sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a") == (
        "sm_120f", "sm_120a", "sm_121a")


def test_a07_macros_that_tell_the_suffix() -> None:
    try:
        found = {row.target: row.defined for row in atlas.macros(
            ["sm_120", "sm_120a", "sm_120f", "sm_121a"])}
    except ToolError:
        pytest.skip("no CUDA C++ compiler works here")
    assert {row["__CUDA_ARCH__"] for name, row in found.items() if name != "sm_121a"} == {"1200"}
    assert found["sm_121a"]["__CUDA_ARCH__"] == "1210"
    assert [name for name, row in found.items() if "__CUDA_ARCH_SPECIFIC__" in row] == [
        "sm_120a", "sm_121a"]
    assert "__CUDA_ARCH_FAMILY_SPECIFIC__" not in found["sm_120"]
    assert "__CUDA_ARCH_FAMILY_SPECIFIC__" in found["sm_120f"]


def test_a09_tcgen05_on_a_desktop() -> None:
    assert not [name for name in targets(ALLOC) if "sm_12" in name]
    assert any("no Tensor Memory" in word for word in rejected(ALLOC, "sm_121a", "8.8").instead)


def test_a10_an_image_for_two_chips() -> None:
    alone, family = atlas.coverage(["sm_100a", "sm_100f"], ["10.3"])
    assert (alone.runs, family.runs) == (False, True)
    assert alone.instead == ("sm_100f", "sm_103a")


def test_a12_a_version_newer_than_the_assembler() -> None:
    """12.9 reads up to 8.8; the text needs no more than 7.0."""
    text = specimens_of("add.u32")[0].module("sm_80", "9.1")
    found = atlas.why(text, toolkit="12.9")
    assert found.because == "toolkit"
    assert found.reason.endswith("reads PTX up to 8.8, the text declares 9.1")
    assert found.instead == (".version 7.0 (all that the text needs)", "--toolkit 13.5")


def test_a13_a_compilers_table_or_the_chip() -> None:
    """ptxas takes it for sm_103a: what could not select it was a compiler."""
    assert rejected(ALLOC, "sm_103a", "8.8").accepted


def test_a15_what_needs_the_letter() -> None:
    both = ("sm_90", "sm_90a")
    assert [targets(key, *both) for key in (WGMMA, SETMAXNREG, REPLACE)] == [("sm_90a",)] * 3
    assert targets(TMA, *both) == both
    assert not atlas.coverage(["sm_90a"], ["10.0"])[0].runs


@pytest.mark.parametrize(("target", "version", "because"), [
    ("sm_120", "9.0", "suffix"), ("sm_120a", "8.6", "version"),
    ("sm_120", "8.6", "suffix and version"), ("sm_100a", "9.0", "chip"),
    ("sm_120a", "8.7", "accepted"),
])
def test_a16_why_a_text_is_rejected(target: str, version: str, because: str) -> None:
    assert rejected(NVFP4, target, version).because == because


def test_f02_accumulators_beyond_the_registers() -> None:
    """Predicted by arithmetic, then seen: C7511, 255 registers, spills."""
    tile = next(row for row in atlas.accumulators() if row.tile == "tcgen05 m128n256")
    assert (tile.registers, tile.fits) == (256, False)
    said, = atlas.provoked("13.5", "two m64n256 accumulators")
    assert (said.number, said.registers) == ("C7511", 255)
    assert said.spills > 0


def test_f03_splits_of_the_register_file() -> None:
    assert atlas.budget((24, 232, 232), launch=168).asked == 488 * 128
    assert atlas.budget((24, 240, 240), launch=168).asked == 64512
    never = atlas.budget((24, 24, 240, 240))
    assert (never.asked, never.possible) == (67584, False)


def test_f05_two_builds_compared() -> None:
    """Two accumulators against one: registers, spills and stack, opcode by opcode."""
    wide, narrow = (atlas.build(wgmma_text(n=256, tiles=tiles)) for tiles in (2, 1))
    found = {change.what: change for change in atlas.changes(wide, narrow)}
    assert found["spills"].new == "0"
    assert found["registers"].old == "255"
    assert int(found["instructions"].old) > int(found["instructions"].new)


def test_f06_a_debug_build_is_another_program() -> None:
    text = CASES["as it should be"].text
    release, debug = atlas.build(text), atlas.build(text, opt_level=0, options=("-g",))
    found = atlas.changes(release, debug)
    assert any("serialized" in change.new for change in found)
    assert next(c for c in found if c.what == "instructions")


def test_k02_column_counts() -> None:
    found = atlas.column_counts((16, 48, 64, 96, 1024))
    assert [bool(c.immediate) for c in found] == [True, True, False, True, True]
    assert not any(c.register for c in found)


def test_k07_the_space_of_a_commit() -> None:
    good = atlas.probe()
    bad = good.replace("arrive::one.shared::cluster", "arrive::one.shared::cta")
    assert atlas.why(good).accepted
    found = atlas.why(bad)
    assert found.because == "text"
    assert "State space incorrect for instruction 'tcgen05.commit'" in found.reason
    assert "never .shared::cta" in atlas.explain_message(found.diagnostics[0].message).cause


def test_n01_what_supported_means() -> None:
    """Products of a format, chip by chip: its own unit, another's, or none."""
    rows = atlas.opcodes([NVFP4, FP8, INT4], ["sm_86", "sm_89", "sm_90a", "sm_120a"])
    found = {(row.form, row.target): row.verdict for row in rows}
    assert found[NVFP4, "sm_90a"] == "absent"
    assert found[NVFP4, "sm_120a"] == "native"
    assert (found[FP8, "sm_86"], found[FP8, "sm_89"]) == ("absent", "native")
    assert (found[INT4, "sm_89"], found[INT4, "sm_90a"]) == ("native", "emulated")


def test_n03_fp6_is_no_narrower_in_a_register() -> None:
    """The same opcode and shape, and as many registers of A: a byte for each element."""
    fp6, fp8 = (MXFP8.format(name, name) for name in ("e3m2", "e4m3"))
    narrow, wide = atlas.opcodes([fp6, fp8], ["sm_120a"])
    assert [next(iter(row.opcodes)).split(".")[:3] for row in (narrow, wide)] == [
        ["QMMA", "SF", "16832"]] * 2
    assert isa.find(fp6).operands[1].count == isa.find(fp8).operands[1].count == 4


def test_p01_fp8_wgmma_has_no_transpose() -> None:
    """With two transpose immediates FP8 is refused, BF16 is not; and what was compiled is QGMMA."""
    fp8 = specimens_of("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3")[0]
    text = fp8.module("sm_90a", "8.0")
    found = atlas.why(text.replace(fp8.text, fp8.text.replace(";", ", 0, 0;")))
    assert (found.because, "Arguments mismatch" in found.reason) == ("text", True)
    assert atlas.why(specimens_of(WGMMA)[0].module("sm_90a", "8.0")).accepted
    row, = atlas.opcodes([fp8.opcode], ["sm_90a"])
    assert next(iter(row.opcodes)).startswith("QGMMA")


def test_p02_integer_products_are_row_col() -> None:
    text = specimens_of("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")[0].module(
        "sm_90", "8.0").replace(".row.col", ".row.row")
    found = atlas.why(text)
    assert found.because == "text"
    assert "Illegal blayout" in found.reason
    assert found.instead[0] == "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"


def test_p04_the_chip_or_the_library() -> None:
    """The products exist on sm_120: what is missing is the library's."""
    assert targets(FP8, "sm_120") == ("sm_120",)
    assert targets(MXFP8.format("e4m3", "e4m3"), "sm_120a") == ("sm_120a",)


def test_p05_mixed_fp8() -> None:
    assert targets("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2") == ("sm_90a",)
    assert "sm_89" in targets("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")


def test_the_starter_table() -> None:
    """Thirteen targets by six instructions, as the collection has them."""
    names = [f"sm_{word}" for word in [
        "80", "86", "89", "90", "90a", "100", "100a", "100f", "103a", "110a", "120", "120a",
        "121a"]]
    data = {"sm_100a", "sm_100f", "sm_103a", "sm_110a"}
    desk = {"sm_120a", "sm_121a"}
    expected = {WGMMA: {"sm_90a"}, ALLOC: data, NVFP4: desk, E2M1: data | desk,
                SETMAXNREG: data | desk | {"sm_90a"},
                "redux.sync.min.f32": data - {"sm_110a"}, BF16: set(names)}
    found = {row.form: set(row.targets) for row in atlas.matrix(list(expected), names)
             if row.form in expected}
    assert found == expected
