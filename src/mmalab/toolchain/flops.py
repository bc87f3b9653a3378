"""How much arithmetic one SASS instruction is, for the warp that executes it.

A matrix opcode carries its shape: ``HMMA.16816`` is 16 x 8 x 16, so 2 * 16 * 8 * 16 = 4,096
operations; ``QMMA.16832`` 8,192; ``HGMMA.64x256x16`` 524,288 for the warpgroup. A scalar opcode
does its work once per lane: FFMA is 2 * 32 = 64. Sparse shapes count the dense product that they
stand for. ``UTC*MMA`` hide their shape in an instruction descriptor, so their work cannot be read
off the code: it is None, not zero.

Integer and logical matrix operations are counted the same way. Additions and multiplications of
whole numbers outside matrix instructions are not: they are addresses.

Source: the shapes are those of the PTX forms that assemble to each opcode (PTX ISA, mma, wgmma);
each row was seen by assembling that form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["LANES", "MATRIX_OPCODES", "SCALAR_FLOPS", "is_matrix", "matrix_shape",
           "operations"]

LANES = 32

#: Matrix opcodes, by where their operands live.
MATRIX_OPCODES: dict[str, str] = {
    "HMMA": "registers", "QMMA": "registers", "OMMA": "registers", "IMMA": "registers",
    "BMMA": "registers", "DMMA": "registers",
    "HGMMA": "shared memory", "QGMMA": "shared memory", "IGMMA": "shared memory",
    "BGMMA": "shared memory",
    "UTCHMMA": "tensor memory", "UTCQMMA": "tensor memory", "UTCIMMA": "tensor memory",
    "UTCOMMA": "tensor memory",
}

#: Operations per lane of scalar arithmetic; packed forms do two lanes' worth.
SCALAR_FLOPS: dict[str, int] = {
    "FFMA": 2, "FADD": 1, "FMUL": 1, "FFMA32I": 2, "FADD32I": 1, "FMUL32I": 1,
    "FFMA2": 4, "FADD2": 2, "FMUL2": 2,
    "HFMA2": 4, "HADD2": 2, "HMUL2": 2, "HFMA2_32I": 4, "HADD2_32I": 2, "HMUL2_32I": 2,
    "DFMA": 2, "DADD": 1, "DMUL": 1,
}

#: Volta's quads: four m8n8k4 products per instruction, issued in 4 steps (FP32 sums) or 2 (FP16).
_VOLTA_QUADS = 4

_CROSSED = re.compile(r"(\d+)x(\d+)x(\d+)")
_PACKED = re.compile(r"\d{3,6}")
#: "16816" has no separators; M is 8 or 16 and N is 8 in every one of them.
_SPLIT = re.compile(r"(16|8)(8)(\d+)")


def is_matrix(opcode: str) -> bool:
    """Whether the opcode (its head: ``HMMA``) is a matrix instruction."""
    return opcode in MATRIX_OPCODES


def matrix_shape(opcode: str, modifiers: Sequence[str]) -> tuple[int, int, int] | None:
    """(M, N, K) as the opcode spells it; None where it does not (UTC*MMA, other opcodes)."""
    if opcode not in MATRIX_OPCODES:
        return None
    for word in modifiers:
        found = _CROSSED.fullmatch(word)
        if found is None and _PACKED.fullmatch(word):
            found = _SPLIT.fullmatch(word)
        if found is not None:
            m, n, k = map(int, found.groups())
            return m, n, k
    return None


def operations(opcode: str, modifiers: Sequence[str], *, moves: bool = False) -> int | None:
    """Operations of one warp's (or warpgroup's) execution; None where the code does not say.

    `moves`: the operands make it a move (``HFMA2 R0, -RZ, RZ, 0, 1``), which computes nothing.
    """
    if opcode in MATRIX_OPCODES:
        shape = matrix_shape(opcode, modifiers)
        if shape is None:
            return None
        m, n, k = shape
        if "884" in modifiers and opcode == "HMMA":
            return 2 * m * n * k * _VOLTA_QUADS // (2 if "F16" in modifiers else 4)
        return 2 * m * n * k
    if moves:
        return 0
    each = SCALAR_FLOPS.get(opcode, 0)
    if opcode == "HADD2" and "F32" in modifiers:
        each = 1  # a conversion of one half with an addition
    return each * LANES
