"""Loads whose value is only a guess that a compare-and-swap checks.

    ld.global.u32       %r12, [%rd1];               // a guess: may be old
LOOP:
    add.u32             %r11, %r12, 5;
    atom.global.cas.b32 %r4, [%rd1], %r12, %r11;    // succeeds only if the guess was right
    setp.ne.u32         %p1, %r4, %r12;

By the text the load races with the atomics of other threads. The CUDA guide builds every atomic
that hardware lacks this way, and a wrong guess costs one more turn, so it is not reported.
"""

from __future__ import annotations

from mmalab.emulator.program import Program, Reg

__all__ = ["guesses"]


def guesses(program: Program) -> frozenset[int]:
    """Sites of loads into a register that is the compare operand of an atom.cas."""
    compared = {
        (operand.file, operand.slot)
        for site in program.sites
        if site.form.family == "atom" and "cas" in site.form.modifiers.values()
        for operand in site.operands[2:3] if isinstance(operand, Reg)
    }
    return frozenset(
        site.index for site in program.sites
        if site.form.family == "ld" and site.operands and isinstance(site.operands[0], Reg)
        and (site.operands[0].file, site.operands[0].slot) in compared)
