"""Opcodes, the allocator, the drain, registers, messages, differences: what each release makes."""

from __future__ import annotations

import re

import pytest

from mmalab import atlas, isa
from mmalab.atlas.drain_curve import SHAPES, drain_text
from mmalab.atlas.kernel_text import PARTS, loaded
from mmalab.atlas.provoked import CASES, numbered, wgmma_text
from mmalab.atlas.registers import BOUNDS
from mmalab.atlas.releases import releases
from mmalab.errors import ToolError, UsageError
from mmalab.toolchain import AssemblyError, assemble
from mmalab.toolchain.locate import Tool

pytestmark = pytest.mark.toolkit

# --- opcodes --------------------------------------------------------------------------------------

FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
KINDS = {
    "tcgen05.mma.cta_group::1.kind::f16": "UTCHMMA",
    "tcgen05.mma.sp.cta_group::1.kind::f16": "UTCHMMA",
    "tcgen05.mma.cta_group::2.kind::f16": "UTCHMMA.2CTA",
    "tcgen05.mma.ws.cta_group::1.kind::tf32": "UTCHMMA.WS",
    "tcgen05.mma.cta_group::1.kind::f8f6f4": "UTCQMMA",
    "tcgen05.mma.cta_group::1.kind::i8": "UTCIMMA",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32": "UTCQMMA",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32": "UTCOMMA",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16": "UTCOMMA.4X",
    "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16": "UTCOMMA.2CTA.4X",
}


def test_every_kind_has_its_opcode(ptxas: Tool) -> None:
    """The article's table, for each release; no opcode differs between them."""
    found = {row.form: row for row in atlas.opcodes(KINDS, ["sm_100a"], ptxas.toolkit)}
    assert {form: dict(row.opcodes) for form, row in found.items()} == {
        form: {opcode: 1} for form, opcode in KINDS.items()}
    for row in found.values():
        assert row.verdict == "native"
        assert not re.search(r"\bR\d", row.sass[0]), "a vector register"


def test_block16_is_named_by_the_chip() -> None:
    rows = atlas.opcodes(["tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16"],
                         ["sm_100a", "sm_103a", "sm_107a", "sm_110a"], "13.5")
    assert [next(iter(row.opcodes)) for row in rows] == [
        "UTCOMMA.4X", "UTCOMMA.BLOCK16", "UTCOMMA.BLOCK16", "UTCOMMA.4X"]


def test_native_emulated_and_absent() -> None:
    """FP8 has a unit on Ada and on sm_120, imitators elsewhere, nothing before; wgmma one home."""
    found = {row.target: row for row in atlas.opcodes(
        [FP8], ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])}
    assert {name: row.verdict for name, row in found.items()} == {
        "sm_80": "absent", "sm_89": "native", "sm_90a": "emulated", "sm_100a": "emulated",
        "sm_120a": "native"}
    assert dict(found["sm_90a"].opcodes) == {"HMMA.16816.F32": 2}
    assert found["sm_90a"].others["F2FP"] == 12
    assert "requires .target sm_89" in found["sm_80"].why
    hopper, blackwell = atlas.opcodes(["wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"],
                                      ["sm_90a", "sm_100a"])
    assert dict(hopper.opcodes) == {"HGMMA.64x8x16.F32.BF16": 1}
    assert (hopper.verdict, blackwell.verdict) == ("native", "absent")


def test_an_opcode_answer_can_be_repeated() -> None:
    row, = atlas.opcodes([FP8], ["sm_120a"])
    words = [i.mnemonic for i in assemble(row.ptx, None, row.toolkit).sass if i.matrix]
    assert words == list(row.opcodes)


def test_opcodes_are_of_products() -> None:
    with pytest.raises(UsageError, match=r"mma\.sync"):
        atlas.opcodes(["add.u32"])


# --- the allocator --------------------------------------------------------------------------------


@pytest.mark.parametrize(("toolkit", "handlers", "references", "instructions", "registers"), [
    ("12.9", 3, 15, (400, 152), (20, 14)), ("13.0", 3, 15, (424, 136), (20, 8)),
    ("13.5", 2, 8, (400, 120), (20, 8)),
])
def test_the_guardrails_of_each_release(
    toolkit: str, handlers: int, references: int, instructions: tuple[int, int],
    registers: tuple[int, int],
) -> None:
    """Article B counted 3 handlers and 15 references at every level; 13.5 has fewer."""
    if toolkit not in {tool.toolkit for tool in releases()}:
        pytest.skip(f"ptxas {toolkit} is not installed")
    for at, level in enumerate((0, 3)):
        found = atlas.allocator(toolkit, level)
        assert (len(found.handlers), found.references) == (handlers, references)
        assert (found.instructions, found.registers) == (instructions[at], registers[at])
        assert found.shared == 24
        assert found.retries
    assert ("phase_invalid_during_alloc" in found.handlers) == (toolkit != "13.5")


def test_what_each_part_becomes(ptxas: Tool) -> None:
    """The claim and its pause belong to alloc, the pool's counter to relinquish."""
    found = atlas.allocator(ptxas.toolkit)
    words = {part: " ".join(lines) for part, lines in found.sequences.items()}
    alloc = words["alloc"]
    order = [alloc.index(word) for word in (
        "ELECT", "DEPBAR.LE SB0, 0x36", "FIND_AND_SET.ALIGN", "NANOSLEEP 0x64", "ATOMS.OR")]
    assert order == sorted(order)
    assert "UVIRTCOUNT.DEALLOC.SMPOOL" in words["relinquish"]
    assert "UVIRTCOUNT" not in alloc
    assert "UTCATOMSWS.AND" in words["dealloc"]
    assert found.sequences["ld"][-1].startswith("LDTM")


def test_guards_come_with_what_they_guard() -> None:
    """Without dealloc only the phase is checked, by the releases that check it at all."""
    assert atlas.allocator("12.9", without=["dealloc"]).handlers.keys() == {
        "phase_invalid_during_alloc"}
    assert atlas.allocator("13.5", without=["dealloc"]).references == 0
    checked = atlas.allocator("13.5", checks="on")
    assert {"unallocated_columns_access", "current_warp_owner_invalid"} <= checked.handlers.keys()
    assert atlas.allocator("13.5", checks="off").references == 8
    with pytest.raises(ToolError, match=r"13\.5"):
        atlas.allocator("12.9", checks="off")


def test_column_counts(ptxas: Tool) -> None:
    """ptxas checks an immediate and cannot check a register."""
    found = {c.columns: c for c in atlas.column_counts((16, 48, 64, 96, 1024), ptxas.toolkit)}
    assert [n for n, c in found.items() if not c.immediate] == [64]
    assert all(c.register == "" for c in found.values())
    assert "power of 2" in found[96].immediate
    assert "[32..512]" in found[1024].immediate


@pytest.mark.parametrize("options", [{"checks": "perhaps"}, {"without": ["everything"]}])
def test_the_probe_says_what_it_has(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="legal"):
        atlas.allocator(**options)  # type: ignore[arg-type]
    assert set(PARTS) >= {"alloc", "dealloc"}


# --- the drain ------------------------------------------------------------------------------------


def test_the_drain_of_32x32b(ptxas: Tool) -> None:
    """N + 6 from N = 4 on, in one load, never spilt."""
    points = atlas.drain(["32x32b"], ptxas.toolkit, counts=(1, 2, 4, 32, 128))
    assert [p.registers for p in points] == [8, 8, 10, 38, 134]
    assert [p.loaded for p in points] == [1, 2, 4, 32, 128]
    assert all(p.spills == 0 and sum(p.opcodes.values()) == 1 for p in points)
    assert points[-1].overhead == 6
    assert points[-1].share == 128 * 134 / 65536


def test_every_shape_loads_what_it_says() -> None:
    """Registers follow the values, whatever the shape; a wrong number of values is refused."""
    for point in atlas.drain(["16x256b", "16x128b", "16x64b", "16x32bx2"], counts=(1, 16)):
        assert point.loaded == loaded(f"{point.shape}.x{point.num}")
        assert point.registers >= point.loaded + 6
    with pytest.raises(AssemblyError, match="vector size mismatch"):
        assemble(drain_text("16x256b", 2).replace("16x256b", "16x128b"))
    with pytest.raises(UsageError, match="32x32b"):
        atlas.drain(["64x64b"])
    assert SHAPES["16x256b"] == 32


# --- registers ------------------------------------------------------------------------------------


def test_the_ceiling(ptxas: Tool) -> None:
    fine, above = atlas.ceiling((255, 256), ptxas.toolkit)
    assert fine.message == ""
    assert above.message == (
        "ptxas warning : Too big maxrregcount value specified 256, will be ignored")


def test_accumulators_against_the_ceiling() -> None:
    """Hopper's largest takes half of a thread's registers, Blackwell's one more than there are."""
    found = {row.tile: row for row in atlas.accumulators()}
    assert (found["wgmma m64n256"].registers, found["wgmma m64n256"].fits) == (128, True)
    assert (found["tcgen05 m128n256"].registers, found["tcgen05 m128n256"].fits) == (256, False)
    assert found["tcgen05 m128n256"].ceiling == 255


@pytest.mark.parametrize(("counts", "launch", "asked", "possible"), [
    ((24, 232, 232), 168, 62464, True), ((24, 240, 240), 168, 64512, True),
    ((40, 232, 232), 168, 64512, True), ((24, 24, 240, 240), None, 67584, False),
    ((168, 240, 240), 168, 82944, False), ((24, 208), 112, 29696, False),
])
def test_budgets(counts: tuple[int, ...], launch: int | None, asked: int, possible: bool) -> None:
    """128 threads for each count; what increases ask for must have been released."""
    found = atlas.budget(counts, launch=launch)
    assert (found.asked, found.possible) == (asked, possible)


def test_counts_that_setmaxnreg_does_not_take() -> None:
    with pytest.raises(UsageError, match="232"):
        atlas.budget((24, 233))


def test_when_setmaxnreg_counts() -> None:
    """Where the registers at entry are known, and never under -g."""
    kept = {name: atlas.setmaxnreg(bounds=bounds) for name, bounds in BOUNDS.items()}
    for name, row in kept.items():
        directives = {word: [int(n) for n in numbers.split(",")] for word, _, numbers in (
            line.partition(" ") for line in BOUNDS[name])}
        known = isa.entry_registers(directives, "sm_90a", raised=232)
        assert row.in_force == (known > 0), name
        assert not known or row.registers == known
    assert [name for name, row in kept.items() if row.in_force] == [
        ".reqntid and .minnctapersm", ".maxntid and .minnctapersm", ".maxnreg"]
    assert "unable to determine register count" in kept[".maxntid"].message
    assert "to allow debugging" in atlas.setmaxnreg(debug=True).message


# --- messages -------------------------------------------------------------------------------------


def test_what_is_provoked_is_explained(ptxas: Tool) -> None:
    """Each case brings its message about, and the kernel that is as it should be none."""
    said = atlas.provoked(ptxas.toolkit)
    assert {p.case for p in said} >= {"no wait", "two m64n256 accumulators",
                                      "setmaxnreg, registers unknown", "wait of some warps"}
    assert {"as it should be", "one m64n256 accumulator"} <= CASES.keys() - {p.case for p in said}
    spilt, = (p for p in said if p.case == "two m64n256 accumulators")
    assert (spilt.number, spilt.registers) == ("C7511", 255)
    assert spilt.spills > 3000
    assert "255" in spilt.message.cause
    told = [p.text for p in said if p.case == "two m64n256 accumulators, spills told"]
    assert any(text.startswith("Registers are spilled") for text in told)


def test_a_number_is_no_name() -> None:
    """What 12.9 says about a missing fence, 13.5 does not say at all."""
    old, = atlas.provoked("12.9", "no fence")
    assert (old.number, old.message.words) == ("C7519", "warpgroup.arrive is injected")
    assert atlas.provoked("13.5", "no fence") == ()
    with_it = {row.toolkit for row in numbered("C7519")}
    assert "12.9" in with_it
    assert "13.5" not in with_it
    with pytest.raises(UsageError, match="C7511"):
        numbered("C9999")


def test_messages_of_the_matrix_are_explained(ptxas: Tool) -> None:
    """Every word that ptxas says of a family's forms has its row."""
    targets = ["sm_80", "sm_90", "sm_100a", "sm_120a"]
    for answer in atlas.matrix("cp.async.bulk*", targets, ptxas.toolkit):
        for words in (*answer.messages.values(), *answer.advice.values()):
            for one in words.split("; "):
                assert atlas.explain_message(one).remedy


def test_the_particular_row_wins() -> None:
    """Rows are tried in order: none may hide a later one from its own words."""
    for row in atlas.messages():
        assert atlas.explain_message(row.words.replace("*", "x")) == row
    with pytest.raises(UsageError, match="legal"):
        atlas.explain_message("all is well")


def test_the_pipeline_has_hoppers_widths() -> None:
    assert wgmma_text(n=16).count("%f7") == 4
    with pytest.raises(UsageError, match="steps of 8"):
        wgmma_text(n=12)


# --- differences ----------------------------------------------------------------------------------


def test_what_a_release_changes() -> None:
    """Article B's probe, 12.9 against 13.5."""
    old, new = (atlas.build(atlas.probe(), toolkit) for toolkit in ("12.9", "13.5"))
    found = {change.what: (change.old, change.new) for change in atlas.changes(old, new)}
    assert found["instructions"] == ("152", "120")
    assert found["registers"] == ("14", "8")
    assert "UTCHMMA" not in found
    assert atlas.changes(new, new) == ()


def test_a_refusal_is_a_change() -> None:
    """Two CTA groups in one kernel: 12.9 lets it pass."""
    text = atlas.probe("tcgen05.mma.cta_group::2.kind::f16 [%r2], %rd2, %rd3, %r3, %p1;")
    old, new = (atlas.build(text, toolkit) for toolkit in ("12.9", "13.5"))
    verdict, *rest = atlas.changes(old, new)
    assert (verdict.old, verdict.new) == ("accepted", "refused")
    assert any("CTA pair granularity" in change.new for change in rest)


def test_forms_that_a_release_compiles_otherwise() -> None:
    """NVFP4 with UE8M0 scales of sixteen: absent from 12.9, native in 13.5; F16 as it was."""
    fp4 = ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
           ".f32.e2m1.e2m1.f32.ue8m0")
    same = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    change, = atlas.opcode_changes("12.9", "13.5", [fp4, same], ["sm_120a"])
    assert change.form == fp4
    assert change.old.startswith("absent")
    assert change.new.startswith("native: 1 OMMA.SF.16864")


def test_forms_that_a_release_gains_and_loses() -> None:
    found = {c.form: c for c in atlas.matrix_changes(
        "12.9", "13.5", ["cvt.ftz.f32.bf16", "add.u32", "cvt.rn.satfinite.e4m3x2.bf16x2"],
        ["sm_80", "sm_90", "sm_100a"])}
    assert found["cvt.ftz.f32.bf16"].lost == ("sm_80",)
    assert found["cvt.rn.satfinite.e4m3x2.bf16x2"].gained == ("sm_100a",)
    assert "add.u32" not in found
