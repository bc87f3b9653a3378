"""Peak rates: SMs x rate x clock, against the data sheet and against a figure somebody measured.

A peak is three numbers, and two published ones give the third::

    A100    108 SMs x 2048 per SM and clock x 1.410 GHz = 311.9e12, published 312
    B200    2250e12 published / (148 SMs x 8192)        = 1.856 GHz

:func:`identities` does this for every row of every data sheet; :func:`plausible` turns a measured
figure into operations per SM and clock and says whether the chip can do it. Dense and sparse are
never mixed: a sparse figure counts the zeros, so it is compared with twice the dense rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.isa import Evidence
from mmalab.plan.asked import asked
from mmalab.plan.chips import CHIPS, Chip, Published, chip

__all__ = ["FORMULA", "SOURCE", "Identity", "Plausibility", "identities", "peak", "plausible",
           "published_peak", "register_file_ratio", "tensor_clocks"]

#: What the question rests on, in one line each.
FORMULA = "SMs x operations per SM and clock x clock; sparse figures count zeros: twice the dense"
SOURCE = "data sheets and whitepapers by chip (plan chips NAME)"


@asked
def peak(on: str | Chip, dtype: str, acc: str = "", *, clock: float | None = None,
         sparse: bool = False) -> float:
    """Operations per second: SMs x rate x clock (MHz; the chip's own unless given).

    Source: :mod:`mmalab.plan.chips`. With `sparse` twice the dense rate.

    Raises:
        UsageError: the chip, or its rate for these types, is not in the table.
    """
    row = chip(on)
    rate = row.rate(formats.get(dtype).name, acc)
    return row.sms * rate.per_clock * (1 + sparse) * (clock or row.clock) * 1e6


def published_peak(on: str | Chip, dtype: str, acc: str = "") -> float:
    """Dense operations per second as the data sheet prints them; :func:`peak` where it does not.

    Raises:
        UsageError: the chip, or its rate for these types, is not in the table.
    """
    row = chip(on)
    rate = row.rate(formats.get(dtype).name, acc)
    for sheet in row.published:
        if (sheet.dtype, sheet.acc) == (rate.dtype, rate.acc):
            return sheet.dense * 1e12
    return peak(row, rate.dtype, rate.acc)


@dataclass(frozen=True, slots=True)
class Identity:
    """One data-sheet row re-computed. Rates in 1e12 operations per second, clocks in MHz.

    `computed` is SMs x `per_clock` x `clock`; `implied_clock` the clock that would give the
    published dense figure exactly; `sparse_factor` published sparse / published dense.
    """

    chip: str
    dtype: str
    acc: str
    sms: int
    per_clock: int
    clock: float
    computed: float
    published: float
    published_sparse: float | None
    implied_clock: float
    evidence: Evidence
    source: str

    @property
    def ratio(self) -> float:
        """computed / published, dense."""
        return self.computed / self.published

    @property
    def sparse_factor(self) -> float | None:
        """published sparse / published dense: 2 wherever both are printed, but for B300's FP4."""
        return None if self.published_sparse is None else self.published_sparse / self.published


def identities(on: str | Chip | None = None) -> tuple[Identity, ...]:
    """Every dense data-sheet row of one chip, or of all, beside what SMs, rate and clock give."""
    chosen = CHIPS.values() if on is None else [chip(on)]
    return tuple(_identity(row, sheet) for row in chosen for sheet in row.published)


def _identity(row: Chip, sheet: Published) -> Identity:
    rate = row.rate(sheet.dtype, sheet.acc)
    clock = sheet.clock or float(row.clock)
    per_second = row.sms * rate.per_clock
    return Identity(
        chip=row.name, dtype=sheet.dtype, acc=sheet.acc, sms=int(row.sms),
        per_clock=rate.per_clock, clock=clock, computed=per_second * clock * 1e-6,
        published=sheet.dense, published_sparse=sheet.sparse,
        implied_clock=sheet.dense * 1e6 / per_second, evidence=rate.evidence, source=sheet.source,
    )


Verdict = Literal["plausible", "implausible", "sparse or double counted"]


@dataclass(frozen=True, slots=True)
class Plausibility:
    """A measured figure, as operations per SM and clock beside the chip's rate."""

    chip: str
    dtype: str
    acc: str
    tflops: float
    clock: float
    per_clock: float
    rate: int
    verdict: Verdict
    why: str

    @property
    def share(self) -> float:
        """Of the dense peak at that clock."""
        return self.per_clock / self.rate


@asked
def plausible(tflops: float, dtype: str, on: str | Chip, acc: str = "", *,
              clock: float | None = None, slack: float = 0.03) -> Plausibility:
    """Whether `tflops` (1e12 operations per second, dense) is possible: share of peak <= 1 + slack.

    per_clock = tflops x 1e12 / (SMs x clock). Without `clock` (MHz) the data sheet's is taken, and
    a chip may boost higher: give the clock that it ran at.

    Raises:
        UsageError: unknown chip or types, a figure or clock that is not positive.
    """
    row = chip(on)
    rate = row.rate(formats.get(dtype).name, acc)
    mhz = float(row.clock if clock is None else clock)
    if tflops <= 0 or mhz <= 0:
        raise UsageError(f"{tflops} TFLOPS at {mhz} MHz", "is not positive",
                         legal="a measured pair", where="mmalab.plan.rates")
    per_clock = tflops * 1e6 / (row.sms * mhz)
    share = per_clock / rate.per_clock
    verdict: Verdict = "plausible"
    why = f"{100 * share:.0f} % of {rate.per_clock} operations per SM and clock"
    if share > 1 + slack:
        doubled = share <= 2 * (1 + slack)
        verdict = "sparse or double counted" if doubled else "implausible"
        why = (f"{share:.2f} times the {rate.per_clock} dense {rate.dtype} operations with "
               f"{rate.acc} sums that an SM of {row.name} does in a clock")
    return Plausibility(row.name, rate.dtype, rate.acc, tflops, mhz, per_clock, rate.per_clock,
                        verdict, why)


def tensor_clocks(instructions: int, flops: int, dtype: str, on: str | Chip, acc: str = ""
                  ) -> float:
    """Clocks that an SM's tensor cores are busy with `instructions` of `flops` operations each.

    instructions x flops / rate: 8 clocks of a GeForce Ada SM for one m16n8k16 in bf16, 128 of a
    Hopper SM for m64n256k16. Over the clocks of a run this is what a tensor-pipe counter ought to
    show; back from the counter to FLOPs there is no way without the types (a counter called HMMA
    counts TF32 as well).

    Raises:
        UsageError: unknown chip or types, negative counts.
    """
    if instructions < 0 or flops < 0:
        raise UsageError(f"{instructions} instructions of {flops} operations", "are negative",
                         legal="from 0", where="mmalab.plan.rates")
    return instructions * flops / chip(on).rate(formats.get(dtype).name, acc).per_clock


def register_file_ratio(on: str | Chip, dtype: str = "f16") -> float:
    """Bytes of register file on an SM for each operation per clock: 256 on V100, 32 on B200.

    262,144 bytes (65,536 registers of 32 bits, every SM since Volta) / rate.
    """
    row = chip(on)
    registers = row.limits.registers if row.limits else 65536
    return 4 * registers / row.rate(dtype).per_clock
