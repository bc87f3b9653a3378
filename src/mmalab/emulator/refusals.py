"""Instructions that are refused: by name, with why, and with what does the same.

    >>> print(refusal("alloca.u64", "line 7 of the PTX text"))
    alloca.u64: not executed: no stack pointer is kept
      legal: a .local variable of fixed size
      see:   line 7 of the PTX text

Who runs a kernel learns at once whether the chip lacks the instruction, or only the emulator.
"""

from __future__ import annotations

from mmalab.errors import UnsupportedInstruction

__all__ = ["refusal"]

#: How the opcodes begin, why they are not executed, what does the same ("" for nothing).
_REASONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("multimem",), "multicast memory spans several GPUs, and there is one here",
     "red, ld and st on the memory of one GPU"),
    (("tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"),
     "textures and surfaces are not modelled", "ld.global.nc"),
    (("alloca", "stacksave", "stackrestore"), "no stack pointer is kept",
     "a .local variable of fixed size"),
    (("vote", "shfl"), "sm_70 and later have it with .sync alone", "vote.sync and shfl.sync"),
    (("mov.v2", "mov.v4"), "vectors are moved register by register", "mov of each register"),
    (("brkpt",), "there is no debugger to stop in", "trap"),
    (("spcompress",), "no chip at hand has shown what it computes", ""),
)


def refusal(opcode: str, where: str) -> UnsupportedInstruction:
    """The error for an instruction of the ISA that the emulator does not execute."""
    for heads, why, instead in _REASONS:
        if any(opcode == head or opcode.startswith(head + ".") for head in heads):
            return UnsupportedInstruction(opcode, f"not executed: {why}", legal=instead or (),
                                          where=where)
    return UnsupportedInstruction(opcode, "the PTX ISA has it, this emulator does not execute it",
                                  where=where)
