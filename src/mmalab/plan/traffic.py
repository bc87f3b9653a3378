"""Bytes per FLOP of a tensor-core tile: the accumulator's and the operands', and what carries them.

An M x N x K instruction does 2 M N K operations. It reads and writes its accumulator (32 bits an
element) and reads K columns of A and K rows of B::

    accumulator   8 M N / (2 M N K)        = 4 / K
    operands      (M + N) K b / (2 M N K)  = (M + N) b / (2 M N)       b bytes an element

Where K is 256 bits of operand, 4 / K = bits / 64: halving the width halves the bytes per FLOP
just as the rate doubles, so bytes per second stay the same::

    >>> {round(row.accumulator_tb_s, 1) for row in invariance(128, 256, on="B200")}
    {562.5}
    >>> found = traffic(128, 256, "f16", on="B200")
    >>> round(found.operand_tb_s, 1), round(found.ratio, 1), round(found.to_hbm)
    (26.4, 21.3, 70)

It is an upper bound: a unit may keep partial sums and spare the accumulator's way (``passes=0``).

Source: article B, "Why it had to be a separate memory"; peaks from :mod:`mmalab.plan.chips`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.isa import Evidence
from mmalab.isa.tensor_memory import KINDS
from mmalab.plan.aligned import aligned
from mmalab.plan.asked import asked
from mmalab.plan.chips import Chip, chip
from mmalab.plan.rates import published_peak, register_file_ratio

__all__ = ["FORMULA", "SHARED_BYTES_PER_CLOCK", "SOURCE", "Traffic", "Width",
           "accumulator_bytes_per_flop", "invariance", "operand_bytes_per_flop", "traffic"]

#: Shared memory delivers 32 banks of 4 bytes in a clock.
SHARED_BYTES_PER_CLOCK = 128
#: What the question rests on, in one line each.
FORMULA = ("accumulator: passes x 4 / (2 K) bytes per FLOP (4 / K); operands: (M + N) b / (2 M "
           "N); x dense peak")
SOURCE = "PTX ISA, matrix shapes; data sheets (plan chips); an upper bound, not a measurement"


def accumulator_bytes_per_flop(k: int, *, accumulator_bytes: float = 4.0,
                               passes: int = 2) -> float:
    """passes x bytes / (2 K): 4 / K for 32-bit sums that are read and written once."""
    return passes * accumulator_bytes / (2 * k)


def operand_bytes_per_flop(m: int, n: int, operand_bytes: float) -> float:
    """(M + N) b / (2 M N): A and B each read once."""
    return (m + n) * operand_bytes / (2 * m * n)


@dataclass(frozen=True)
class Traffic:
    """One tile on one chip at its dense peak (operations per second).

    `accumulator` and `operands` in bytes per FLOP; ``_tb_s`` in 1e12 bytes per second of the whole
    chip; ``_per_clock`` in bytes per clock and SM; `to_hbm` accumulator traffic / HBM bandwidth;
    `ratio` accumulator / operands; `shared_share` operand bytes per clock / the 128 that shared
    memory delivers; `register_file` bytes of register file on an SM per FLOP and clock.
    """

    m: int
    n: int
    k: int
    dtype: str
    chip: str
    cta_group: int
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

    @property
    def accumulator_per_sm_tb_s(self) -> float:
        """Accumulator traffic of one SM in 1e12 bytes per second: 3.80 on a B200."""
        return self.accumulator_tb_s / float(chip(self.chip).sms)

    def table(self) -> str:
        """The numbers as text."""
        rows = [
            ("accumulator", f"{self.accumulator:.5g}", f"{self.accumulator_tb_s:.1f}",
             f"{self.accumulator_per_clock:.0f}"),
            ("operands", f"{self.operands:.5g}", f"{self.operand_tb_s:.1f}",
             f"{self.operand_per_clock:.0f}"),
        ]
        head = (f"{self.m} x {self.n} x {self.k} {self.dtype} on {self.chip}, "
                f"{self.peak / 1e12:,.0f} T/s dense ({self.evidence})")
        hbm = f"{chip(self.chip).bandwidth / 1000:.2f} TB/s of memory"
        ratios = (f"accumulator / operands {self.ratio:.1f}; accumulator / {hbm} "
                  f"{self.to_hbm:.1f}; {self.accumulator_per_sm_tb_s:.2f} TB/s in each SM")
        shares = (f"operands take {100 * self.shared_share:.0f} % of shared memory's "
                  f"{SHARED_BYTES_PER_CLOCK} bytes per clock; {self.register_file:g} bytes of "
                  "register file per FLOP and clock")
        table = aligned(rows, ("", "bytes per FLOP", "TB/s", "bytes per clock and SM"))
        return f"{head}\n{table}\n{ratios}\n{shares}"

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON-able data."""
        return {**asdict(self), "accumulator_per_sm_tb_s": self.accumulator_per_sm_tb_s}


@dataclass(frozen=True, slots=True)
class Width:
    """One operand width in the invariance table, dense or sparse (counted as the dense product).

    `k` is the instruction's, `bits_k` bits x K (x 1/2 for sparse A), `peak` operations per second;
    `rule` whether bits x K is 256, so that accumulator bytes per FLOP are bits / 64; `holds`
    whether the accumulator moves as many bytes per second as in the chip's first row (within 1 %).
    """

    name: str
    dtype: str
    k: int
    bits_k: int
    peak: float
    accumulator: float
    operands: float
    accumulator_tb_s: float
    operand_tb_s: float
    rule: bool
    holds: bool


@asked
def traffic(m: int, n: int, dtype: str, *, on: str | Chip = "B200", k: int | None = None,
            accumulator_bytes: float = 4.0, passes: int = 2, cta_group: int = 1) -> Traffic:
    """The traffic of one M x N tile at the chip's dense peak (published, else SMs x rate x clock).

    `k` is the instruction's (256 bits of operand unless given); `passes` 2 for an accumulator that
    is read and written, 0 for one that stays in the unit. With `cta_group` 2, M x N is the tile of
    a pair of SMs: each holds M / 2 rows of it and shares the reading of B.

    Raises:
        UsageError: unknown chip or type, sizes that are not positive.
    """
    row, fmt = chip(on), formats.get(dtype)
    chosen = k if k is not None else max(1, 256 // fmt.bits)
    if min(m, n, chosen) < 1 or passes < 0 or cta_group not in (1, 2):
        raise UsageError(f"{m} x {n} x {chosen}, {passes} passes, cta_group::{cta_group}",
                         "is no tile", legal="positive sizes, passes from 0, cta_group 1 or 2",
                         where="mmalab.plan.traffic")
    peak = published_peak(row, fmt.name)
    rate = row.rate(fmt.name)
    acc = accumulator_bytes_per_flop(chosen, accumulator_bytes=accumulator_bytes, passes=passes)
    # A pair reads A and B once for both SMs: per FLOP that is the pair's tile.
    operands = operand_bytes_per_flop(m, n, fmt.bits / 8)
    return Traffic(
        m=m, n=n, k=chosen, dtype=fmt.name, chip=row.name, cta_group=cta_group, peak=peak,
        accumulator=acc, operands=operands, accumulator_tb_s=acc * peak / 1e12,
        operand_tb_s=operands * peak / 1e12, accumulator_per_clock=acc * rate.per_clock,
        operand_per_clock=operands * rate.per_clock,
        to_hbm=acc * peak / (float(row.bandwidth) * 1e9),
        ratio=acc / operands, shared_share=operands * rate.per_clock / SHARED_BYTES_PER_CLOCK,
        register_file=register_file_ratio(row, fmt.name), evidence=rate.evidence,
    )


def invariance(m: int = 128, n: int = 256, *, on: str | Chip = "B200") -> tuple[Width, ...]:
    """The same tile in every operand width of the chip.

    Accumulator bytes per second are the same in all of them, because the rate is proportional to K.
    The rule of 256 bits behind it does not hold for FP4 and FP6 under kind::f8f6f4 (K = 32, a byte
    an element in shared memory) nor for the FP4 of sm_103 (K = 96): their rates follow K all the
    same. Operand bytes per second differ where K is 96, and for sparse A, because B is not halved.
    """
    row = chip(on)
    rates = [rate for rate in row.rates if rate.acc != "f16" and rate.dtype not in ("f64", "b1")]
    found: list[Width] = []
    for rate in rates:
        for name, k, bits, peak in _instructions(rate.dtype, row):
            first = found[0].accumulator_tb_s if found else None
            found.append(_width(name, rate.dtype, k, bits, peak, (m, n), first))
    return tuple(found)


def _width(name: str, dtype: str, k: int, bits: int, peak: float, tile: tuple[int, int],
           first: float | None) -> Width:
    m, n = tile
    sparse = name.endswith("sparse")
    stored = bits * k // (2 if sparse else 1)
    acc = accumulator_bytes_per_flop(k)
    # Sparse A is stored halved (its metadata, 2 bits for each kept element, left out).
    operands = operand_bytes_per_flop(m, n, bits / 8) - sparse * bits / 8 * m / 2 / (2 * m * n)
    moved = acc * peak / 1e12
    return Width(name, dtype, k, stored, peak, acc, operands, moved, operands * peak / 1e12,
                 rule=stored == 256 and bits == formats.get(dtype).bits,
                 holds=first is None or abs(moved / first - 1) < 0.01)


def _instructions(dtype: str, row: Chip) -> Iterator[tuple[str, int, int, float]]:
    """(name, K, bits of an element in shared memory, peak) of what multiplies a type."""
    bits, dense = formats.get(dtype).bits, published_peak(row, dtype)
    sparse = next((sheet.sparse for sheet in row.published
                   if sheet.dtype == dtype and sheet.sparse), None)
    if row.capability[0] not in (10, 11):
        k = 256 // bits
        yield dtype, k, bits, dense
        if sparse:
            yield f"{dtype} sparse", 2 * k, bits, sparse * 1e12
        return
    for kind in KINDS.values():
        if dtype not in kind.operands or kind.name in ("mxf8f6f4", "mxf4nvf4"):
            continue
        width = kind.container_bits or bits
        # Narrow types in bytes run at the rate of the 8-bit ones.
        peak = min(dense, published_peak(row, "e4m3")) if width > bits else dense
        ultra = kind.name == "mxf4" and row.capability == (10, 3)
        yield f"{dtype} ({kind.name})", 96 if ultra else kind.k, width, peak
        if sparse and width == bits:
            yield f"{dtype} ({kind.name}) sparse", 2 * kind.k, bits, sparse * 1e12
