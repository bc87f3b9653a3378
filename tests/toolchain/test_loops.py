"""Loops, from listings written out by hand."""

from __future__ import annotations

from mmalab.toolchain import read_sass

HEAD = """\t.target\tsm_90a
\t.section\t.text.k,"ax",@progbits
        .type           k,@function
        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"
k:
.text.k:
"""


def function(*lines: str):
    """A listing of one kernel; a line that ends with a colon is a label."""
    text, address = HEAD, 0
    for line in lines:
        if line.endswith(":"):
            text += f"{line}\n"
        else:
            text += f"        /*{address:04x}*/                   {line} ;\n"
            address += 16
    return read_sass(text).functions[0]


TRAP = (".T:", "BRA `(.T)")


def test_straight_code_has_none() -> None:
    """The branch to itself behind EXIT, which nothing reaches, is no loop."""
    assert function("S2R R0, SR_TID.X", "EXIT", *TRAP).loops == ()


def test_a_loop_and_its_work() -> None:
    """One back branch is one loop; its work per instruction counts what is issued."""
    (loop,) = function(
        "MOV R0, RZ", ".L:", "HMMA.16816.F32 R8, R4, R2, R8", "HMMA.16816.F32 R8, R4, R2, R8",
        "@!PT LDS RZ, [RZ]", "IADD3 R0, R0, 0x1, RZ", "@P0 BRA `(.L)", "EXIT", *TRAP).loops
    assert (loop.header, loop.depth, len(loop), len(loop.issued)) == (16, 1, 5, 4)
    assert (loop.flops, loop.flops_per_instruction) == (8192, 2048.0)


def test_nesting() -> None:
    """An inner loop is one deeper, and its parent lists it."""
    outer, inner = function(
        ".A:", "MOV R1, RZ", ".B:", "FFMA R2, R3, R4, R2", "@P0 BRA `(.B)", "@P1 BRA `(.A)",
        "EXIT", *TRAP).loops
    assert (outer.depth, outer.children) == (1, (16,))
    assert (inner.depth, inner.children) == (2, ())


def test_main_loop_may_hold_a_wait() -> None:
    """The loop with the matrix work is the main one, although a wait loop spins inside it."""
    k = function(
        ".A:", "HMMA.16816.F32 R8, R4, R2, R8", ".W:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R1", "@!P0 BRA `(.W)", "@P1 BRA `(.A)",
        ".C:", "FFMA R2, R3, R4, R2", "@P0 BRA `(.C)", "EXIT", *TRAP)
    assert k.main_loop is not None
    assert k.main_loop.header == 0


def test_body_laid_out_far_away() -> None:
    """A wait's slow path behind EXIT belongs to the loop that it returns to."""
    (loop,) = function(
        ".A:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R1", "@!P0 BRA `(.S)", "EXIT",
        ".S:", "NANOSLEEP 0x20", "BRA `(.A)").loops
    assert [i.opcode for i in loop.instructions] == ["SYNCS", "BRA", "NANOSLEEP", "BRA"]


def test_condition_as_operand() -> None:
    """BRA.U UP0, label may fall through although no predicate stands before it."""
    k = function(".A:", "UIADD3 UR4, UR4, 0x1, URZ", "BRA.U UP0, `(.A)", "EXIT", *TRAP)
    assert len(k.loops) == 1
    assert k.loops[0].instructions[-1].opcode == "BRA"
    assert [i.opcode for i in k.loops[0].instructions] == ["UIADD3", "BRA"]


def test_indirect_branch() -> None:
    """The targets that nvdisasm writes beside BRX are its successors."""
    k = function(".A:", "IADD3 R2, R2, 0x1, RZ",
                 'BRX R4 -0x20 (*"BRANCH_TARGETS .A,.E"*)', ".E:", "EXIT")
    assert [loop.header for loop in k.loops] == [0]


def test_work_behind_a_descriptor_is_unknown() -> None:
    """A loop with UTCHMMA has no known work, and says so with None."""
    (loop,) = function(".A:", "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], "
                       "idesc[UR11], UPT", "@P0 BRA `(.A)", "EXIT", *TRAP).loops
    assert loop.flops is None
    assert loop.flops_per_instruction is None
