"""SASS as objects, from listings by hand and from real cubins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from sources import LOOP, matrix_kernel

from mmalab.errors import ToolError
from mmalab.toolchain import Control, Predicate, assemble, read_sass
from mmalab.toolchain.operands import Other

CORPUS = Path(__file__).resolve().parent.parent / "corpus" / "ptx"

LISTING = """
\t.target\tsm_100a

//--------------------- .text.k  --------------------------
\t.section\t.text.k,"ax",@progbits
        .type           k,@function
        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"
k:
.text.k:
\t//## File ".nv_debug_ptx_txt", line 10
        /*0000*/              @!P0 LDC R1, c[0x0][0x37c] ;       /* 0x0000df00ff017b82 */
                                                                 /* 0x000e220000000800 */
\t//## File ".nv_debug_ptx_txt.1234", line 12
        /*0010*/                   CALL.REL.NOINC `($helper) ;   /* 0x0000000000007919 */
                                                                 /* 0x000e6e0000002100 */
        /*0020*/                   EXIT ;                        /* 0x000000000000794d */
                                                                 /* 0x000fea0003800000 */
        .type           $helper,@function
$helper:
        /*0030*/               @UP1 RET.REL.NODEC R2 `(k) ;      /* 0x0000000000007950 */
                                                                 /* 0x000fea0003c3ffff */
"""


def test_listing() -> None:
    """Guards, operands, lines, encodings and functions each come out in their field."""
    sass = read_sass(LISTING)
    assert sass.target == "sm_100a"
    assert [(f.name, f.entry, len(f)) for f in sass.functions] == [
        ("k", True, 3), ("$helper", False, 1)]
    first, call, leave, back = sass
    assert (first.address, first.opcode, first.predicate) == (0, "LDC", Predicate("P", 0, True))
    assert (first.ptx_line, call.ptx_line, leave.ptx_line, back.ptx_line) == (10, 12, 12, None)
    assert first.encoding == 0x000E220000000800_0000DF00FF017B82
    assert (call.mnemonic, call.modifiers, call.target) == (
        "CALL.REL.NOINC", ("REL", "NOINC"), 0x30)
    assert back.predicate == Predicate("UP", 1)
    assert back.target == 0
    assert str(first) == "/*0000*/ @!P0 LDC R1, c[0x0][0x37c]"


def test_control() -> None:
    """Stall cycles, scoreboards and waits are read from the upper bits."""
    word = (5 << 105) | (1 << 109) | (2 << 110) | (7 << 113) | (0b100001 << 116) | (0b11 << 122)
    assert Control.decode(word) == Control(5, False, 2, None, 0b100001, 0b11)


@pytest.mark.parametrize("text", ["", "no listing", "\t.target\tsm_90\n        /*0000*/ NOP ;\n"])
def test_no_listing(text: str) -> None:
    """Text that is no listing is an error, not an empty result."""
    with pytest.raises(ToolError):
        read_sass(text)


def test_line_not_understood() -> None:
    """A line in a code section that is not understood is an error, not skipped."""
    with pytest.raises(ToolError, match="not understood"):
        read_sass(LISTING + "        /*0040*/ ?? ;\n")


@pytest.mark.toolkit
def test_sequence() -> None:
    """A cubin's sass is the sequence of its instructions, 16 bytes apart."""
    sass = assemble(LOOP, "sm_90a").sass
    assert len(sass) == len(list(sass)) == sum(len(f) for f in sass.functions)
    assert [i.address for i in sass] == [16 * at for at in range(len(sass))]
    assert sass[-1] is list(sass)[-1]
    assert sass.histogram()["HMMA"] == sass.histogram(full=True)["HMMA.16816.F32.BF16"]


@pytest.mark.toolkit
@pytest.mark.parametrize("toolkit", ["12.9", "13.5"])
def test_loop_of_a_kernel(toolkit: str) -> None:
    """The main loop holds both products (perhaps more than once) and the wait inside it."""
    k = assemble(LOOP, toolkit=toolkit).sass.function("loops")
    assert k is not None
    assert k.main_loop is not None
    assert k.main_loop.depth == 1
    assert k.main_loop.children
    assert k.main_loop.flops is not None
    assert k.main_loop.flops % (2 * 4096) == 0
    assert k.main_loop.flops_per_instruction == k.main_loop.flops / len(k.main_loop.issued)


#: Opcodes of one matrix instruction by chip: the SASS that both assemblers agree on.
GOLDEN = {
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", (4, 4, 2, 4)): {
        "sm_80 sm_89 sm_90a sm_100a sm_120a sm_121a": {"HMMA.16816.F32.BF16": 1}},
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", (4, 4, 2, 4)): {
        "sm_89 sm_120a sm_121a": {"QMMA.16832.F32.E4M3.E4M3": 1},
        "sm_90a sm_100a sm_103a": {"HMMA.16816.F32": 2}},
    ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", (4, 4, 2, 4)): {
        "sm_80 sm_89": {"IMMA.16864.S4.S4": 1},
        "sm_90a sm_120a": {"IMMA.16832.S8.S8": 2}},
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", (4, 2, 1, 4)): {
        "sm_75 sm_80 sm_120a": {"HMMA.1688.F32": 1}},
}
CASES = [(opcode, registers, chips.split(), expected)
         for (opcode, registers), rows in GOLDEN.items() for chips, expected in rows.items()]


@pytest.mark.toolkit
@pytest.mark.parametrize("toolkit", ["12.9", "13.5"])
@pytest.mark.parametrize(("opcode", "registers", "chips", "expected"), CASES)
def test_golden_opcodes(opcode: str, registers: tuple[int, ...], chips: list[str],
                        expected: dict[str, int], toolkit: str) -> None:
    """Each chip's matrix opcodes are those recorded, with both assemblers."""
    for chip in chips:
        text = matrix_kernel(opcode, registers, target=chip)
        sass = assemble(text, toolkit=toolkit).sass
        assert Counter(i.mnemonic for i in sass if i.matrix) == expected, chip
        assert not [o for i in sass for o in i.operands if isinstance(o, Other)]


@pytest.mark.toolkit
@pytest.mark.parametrize("name", [
    "matmul_whole_f16_tcgen05.sm_100a.triton3.9.0", "matmul_whole_f16_wgmma.sm_90a.triton3.9.0",
    "switch_table.sm_80.nvcc13.0", "attention_bf16_full.sm_120a.triton3.9.0",
    "device_calls.sm_80.nvcc13.0"])
def test_kernels_of_others(name: str) -> None:
    """Kernels by Triton and nvcc read whole: every operand known, every branch at a place."""
    sass = assemble((CORPUS / f"{name}.ptx").read_text()).sass
    assert not [o for i in sass for o in i.operands
                if isinstance(o, Other) and i.opcode not in ("DEPBAR", "UP2UR", "UR2UP")]
    for function in sass.functions:
        places = {i.address for i in function.instructions}
        assert {i.target for i in function.instructions if i.opcode == "BRA"} <= places
        assert all(i.encoding is not None for i in function.instructions)
