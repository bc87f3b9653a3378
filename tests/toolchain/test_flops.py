"""Work per instruction, read off the opcode."""

from __future__ import annotations

import pytest

from mmalab.toolchain.flops import matrix_shape, operations


@pytest.mark.parametrize(("mnemonic", "flops"), [
    ("HMMA.16816.F32.BF16", 4096),
    ("HMMA.1688.F16", 2048),
    ("HMMA.1684.F32.TF32", 1024),
    ("HMMA.SP.16832.F32", 8192),
    ("QMMA.16832.F32.E4M3.E4M3", 8192),
    ("QMMA.SF.SP.16864.F32.E4M3.E2M1.E8", 16384),
    ("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X", 16384),
    ("IMMA.16832.S8.S8.SAT", 8192),
    ("IMMA.8816.S8.S8", 2048),
    ("IMMA.SP.168128.S4.S4", 32768),
    ("BMMA.168256.XOR.POPC", 65536),
    ("BMMA.88128.AND.POPC", 16384),
    ("DMMA.884", 512),
    ("DMMA.8x8x4", 512),
    ("DMMA.16x8x16", 4096),
    ("HGMMA.64x256x16.F32.BF16", 524288),
    ("QGMMA.64x8x32.F32.E4M3.E5M2", 32768),
    ("FFMA", 64), ("FADD", 32), ("FFMA2", 128), ("HFMA2", 128), ("HADD2.F32", 32), ("DFMA", 64),
    ("IMAD.WIDE.U32", 0), ("LDSM.16.M88.4", 0),
])
def test_operations(mnemonic: str, flops: int) -> None:
    """2 M N K for a matrix opcode, lanes times operations for a scalar one, 0 for the rest."""
    opcode, *modifiers = mnemonic.split(".")
    assert operations(opcode, modifiers) == flops


@pytest.mark.parametrize("mnemonic", ["UTCHMMA", "UTCQMMA.2CTA", "UTCOMMA.4X", "UTCIMMA.WS"])
def test_shape_in_a_descriptor_is_unknown(mnemonic: str) -> None:
    """Work that only a descriptor knows is None, not zero."""
    opcode, *modifiers = mnemonic.split(".")
    assert operations(opcode, modifiers) is None
    assert matrix_shape(opcode, modifiers) is None


def test_volta_steps_add_up() -> None:
    """The four (FP16: two) steps of m8n8k4 are together the four products of its quads."""
    assert 4 * operations("HMMA", ("884", "F32", "F32", "STEP0")) == 4 * 2 * 8 * 8 * 4
    assert 2 * operations("HMMA", ("884", "F16", "F16", "STEP0")) == 4 * 2 * 8 * 8 * 4


def test_moves_are_no_work() -> None:
    """HFMA2 R0, -RZ, RZ, 0, 1 is how a constant is loaded."""
    assert operations("HFMA2", (), moves=True) == 0
