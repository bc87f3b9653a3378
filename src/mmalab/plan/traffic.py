"""Bytes per FLOP of a tensor-core tile: the accumulator's and the operands', and what carries them.

An M x N x K instruction does 2 M N K operations. It reads and writes its accumulator (32 bits an
element) and reads K columns of A and K rows of B::

    accumulator   8 M N / (2 M N K)        = 4 / K
    operands      (M + N) K b / (2 M N K)  = (M + N) b / (2 M N)       b bytes an element

Where K is 256 bits of operand, 4 / K = bits / 64: halving the width halves the bytes per FLOP
just as the rate doubles, so bytes per second stay the same (562.5 TB/s on a B200 at f16, e4m3 and
e2m1). It is an upper bound: a unit may keep partial sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.isa import Evidence

__all__ = ["Traffic", "Width", "accumulator_bytes_per_flop", "invariance", "operand_bytes_per_flop",
           "traffic"]


def accumulator_bytes_per_flop(k: int, *, accumulator_bytes: float = 4.0,
                               passes: int = 2) -> float:
    """passes x bytes / (2 K): 4 / K for 32-bit sums that are read and written once."""
    return passes * accumulator_bytes / (2 * k)


def operand_bytes_per_flop(m: int, n: int, operand_bytes: float) -> float:
    """(M + N) b / (2 M N): A and B each read once."""
    return (m + n) * operand_bytes / (2 * m * n)


@dataclass(frozen=True)
class Traffic:
    """One tile on one chip. Bytes per FLOP; TB/s of the whole chip at its dense peak; bytes per
    clock and SM; and ratios to HBM, to shared memory (128 bytes per clock and SM) and the bytes of
    register file per FLOP and clock.
    """

    m: int
    n: int
    k: int
    dtype: str
    chip: str
    peak: float
    accumulator: float
    operands: float
    accumulator_tb_s: float
    operand_tb_s: float
    accumulator_per_clock: float
    operand_per_clock: float
    to_hbm: float
    ratio: float
    shared_share: float
    register_file: float
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Width:
    """One operand width in the invariance table; `bits_k` is bits x K of the instruction."""

    name: str
    dtype: str
    k: int
    bits_k: int
    accumulator: float
    operands: float
    accumulator_tb_s: float
    operand_tb_s: float
    holds: bool


def traffic(m: int, n: int, dtype: str, *, on: str = "B200", k: int | None = None,
            accumulator_bytes: float = 4.0, passes: int = 2, cta_group: int = 1) -> Traffic:
    """The traffic of one M x N tile at the chip's dense peak.

    `k` is the instruction's (256 bits of operand unless given); `passes` 2 for an accumulator that
    is read and written, 0 for one that stays in the unit. `cta_group` 2 counts one SM of a pair.

    Raises:
        UsageError: unknown chip or type, sizes that are not positive.
    """
    raise NotImplementedError


def invariance(m: int = 128, n: int = 256, *, on: str = "B200") -> tuple[Width, ...]:
    """The same tile in every operand width of the chip, and where bits x K = 256 does not hold:
    FP4 under kind::f8f6f4 (K = 32), FP6, and the K = 96 of sm_103."""
    raise NotImplementedError
