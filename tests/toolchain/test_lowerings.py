"""What a PTX matrix instruction became, by chip."""

from __future__ import annotations

from pathlib import Path

import pytest
from sources import EMPTY, matrix_kernel

from mmalab.errors import UsageError
from mmalab.toolchain import assemble, load_cubin, lowerings
from mmalab.toolchain.lowering import verdict

FP8 = ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", (4, 4, 2, 4))
S4 = ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", (4, 4, 2, 4))
B1 = ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", (4, 4, 2, 4))
VOLTA = ("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16", (4, 2, 2, 4))
BF16 = ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", (4, 4, 2, 4))


@pytest.mark.toolkit
@pytest.mark.parametrize(("form", "chip", "expected", "why"), [
    (FP8, "sm_89", "native", "1 QMMA.16832.F32.E4M3.E4M3"),
    (FP8, "sm_90a", "emulated", "e4m3 through 2 HMMA.16816.F32"),
    (FP8, "sm_100a", "emulated", "e4m3 through 2 HMMA.16816.F32"),
    (FP8, "sm_120a", "native", "1 QMMA.16832.F32.E4M3.E4M3"),
    (S4, "sm_80", "native", "1 IMMA.16864.S4.S4"),
    (S4, "sm_90a", "emulated", "s4 through 2 IMMA.16832.S8.S8"),
    (B1, "sm_80", "native", "1 BMMA.168256.XOR.POPC"),
    (B1, "sm_90a", "emulated", "b1 through 2 BMMA.168256.AND.POPC"),
    # The helper for .xor calls the one for .and twice: 2 x 8 are executed.
    (B1, "sm_100a", "emulated", "b1 through 16 IMMA.16832.U8.U8"),
    (BF16, "sm_80", "native", "1 HMMA.16816.F32.BF16"),
])
def test_verdicts(form: tuple[str, tuple[int, ...]], chip: str, expected: str, why: str) -> None:
    """Native, emulated by other matrix opcodes, with the opcodes that show it."""
    (row,) = lowerings(assemble(matrix_kernel(*form, target=chip)))
    assert (row.verdict, row.why) == (expected, why)
    assert row.opcode == form[0]


@pytest.mark.toolkit
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_120a"])
def test_fallback(chip: str) -> None:
    """The Volta shape has no matrix opcode since sm_80, and on sm_75 it has."""
    (row,) = lowerings(assemble(matrix_kernel(*VOLTA, target=chip)))
    assert row.verdict == "fallback"
    assert row.others["FADD"] + row.others["FFMA"] > 0
    (native,) = lowerings(assemble(matrix_kernel(*VOLTA, target="sm_75")))
    assert native.verdict == "native"


@pytest.mark.toolkit
def test_removed() -> None:
    """A product whose result nobody uses is said to be gone, not native."""
    text = matrix_kernel(*BF16)
    dead = "".join(line for line in text.splitlines(keepends=True) if "st.global" not in line)
    (row,) = lowerings(assemble(dead))
    assert row.verdict == "removed"


@pytest.mark.toolkit
def test_tensor_memory_kinds() -> None:
    """tcgen05 kinds are judged by their UTC opcodes."""
    text = (Path(__file__).resolve().parent.parent / "corpus" / "ptx" /
            "matmul_whole_f16_tcgen05.sm_100a.triton3.9.0.ptx").read_text()
    rows = lowerings(assemble(text))
    assert rows
    assert {row.verdict for row in rows} == {"native"}
    assert {word.split(".")[0] for row in rows for word in row.sass} == {"UTCHMMA"}


@pytest.mark.toolkit
def test_warpgroup_products_are_followed_by_order() -> None:
    """The assembler counts them to other lines; each PTX line still finds its own SASS."""
    text = (Path(__file__).resolve().parent.parent / "corpus" / "ptx" /
            "matmul_whole_f16_wgmma.sm_90a.triton3.9.0.ptx").read_text()
    rows = lowerings(assemble(text))
    assert rows
    assert {row.verdict for row in rows} == {"native"}
    for row in rows:
        (word,) = row.sass
        m, n, k = word.split(".")[1].split("x")
        assert f".m{m}n{n}k{k}." in row.opcode


@pytest.mark.toolkit
def test_without_lines_or_text(tmp_path: Path) -> None:
    """Without PTX, or without its lines, there is no verdict, and the error says what to do."""
    text = matrix_kernel(*BF16)
    with pytest.raises(UsageError, match="line_info=True"):
        lowerings(assemble(text, line_info=False))
    with pytest.raises(UsageError, match="no PTX"):
        lowerings(load_cubin(assemble(text).save(tmp_path / "k.cubin")))
    assert lowerings(assemble(EMPTY)) == ()


def test_no_code_is_removed() -> None:
    """An opcode with no SASS at all is removed."""
    assert verdict(BF16[0], [])[0] == "removed"
