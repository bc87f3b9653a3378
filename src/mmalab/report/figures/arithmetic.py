"""What chips add up: accumulator widths and errors by chip and format, computed by the units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mmalab.errors import ToolError
from mmalab.numerics import chain_error, probe
from mmalab.numerics.error import ChainError
from mmalab.report.charts import Axis, Bar, Dot, bars, dots
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.figures.measured import EQUAL_RECORDS, compared

__all__ = ["CHAIN_K", "bits", "errors"]

#: Products of each sum in the error table, as in both articles' experiments.
CHAIN_K = 4096


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    unit: str
    promote: int | None = None


_ROWS = (
    _Row("Ada mma.sync BF16", "sm_89.mma.bf16.f32"),
    _Row("Ada mma.sync FP16, FP16 sums", "sm_89.mma.f16.f16"),
    _Row("Ada mma.sync E4M3", "sm_89.mma.e4m3.f32"),
    _Row("Ada E4M3, promoted every 64", "sm_89.mma.e4m3.f32", 64),
    _Row("Hopper wgmma BF16", "sm_90.wgmma.bf16.f32"),
    _Row("Hopper wgmma TF32", "sm_90.wgmma.tf32.f32"),
    _Row("Hopper wgmma E4M3", "sm_90.wgmma.e4m3.f32"),
    _Row("Hopper E4M3, promoted every 128", "sm_90.wgmma.e4m3.f32", 128),
    _Row("Hopper mma.sync E4M3 (as FP16)", "sm_90.mma.e4m3.f32"),
    _Row("Blackwell tcgen05 BF16", "sm_100.tcgen05.bf16.f32"),
    _Row("Blackwell tcgen05 E4M3", "sm_100.tcgen05.e4m3.f32"),
)
_PROBED = ("sm_70.mma.f16.f32", "sm_80.mma.bf16.f32", "sm_89.mma.bf16.f32", "sm_89.mma.e4m3.f32",
           "sm_90.wgmma.bf16.f32", "sm_90.wgmma.e4m3.f32", "sm_90.mma.e4m3.f32",
           "sm_100.tcgen05.e4m3.f32", "sm_120.mma.e4m3.f32")
_MODEL = Evidence("computed here", "bit-exact units of mmalab.numerics")


def _checked() -> tuple[Evidence, ...]:
    """How the units of one chip were compared with it, where the records are."""
    try:
        total, wrong = compared()
    except ToolError:
        return ()
    return (Evidence("measured", f"units of sm_90: {wrong} of {total:,} outputs of an NVIDIA H200 "
                                 f"differ ({', '.join(EQUAL_RECORDS)})"),)


def bits() -> Figure:
    """The accumulator probe: the largest 2^e that keeps a 1 added to it."""
    found = [(name, probe(name)) for name in _PROBED]

    def draw(width: int) -> str:
        return bars(width, "significant bits that accumulators keep", [
            Bar(name.removesuffix(".f32"), row.bits, f"{row.bits} bits",
                "warn" if row.bits < 20 else "soft") for name, row in found])

    return Figure(
        "accumulator-bits", "How many bits an FP32 accumulator keeps",
        "The accumulator holds 2^e and one product of 1 x 1 is added. FP8 on Ada, and wgmma's FP8 "
        "on Hopper, forget the 1 beside 2^14; the same instruction name on another chip does not.",
        draw,
        Table(("unit", "largest e", "bits", "then"),
              tuple((name, row.exponent, row.bits, row.lost) for name, row in found)),
        (_MODEL, *_checked()), "mmalab numerics probe --unit sm_90.wgmma.e4m3.f32", "A, step 5")


@lru_cache(maxsize=1)
def _chains() -> tuple[tuple[_Row, ChainError], ...]:
    """The experiment with every unit: a second or two of exact sums."""
    return tuple((row, chain_error(row.unit, CHAIN_K, promote_every=row.promote))
                 for row in _ROWS)


def errors() -> Figure:
    """Error of the sums, without the rounding of inputs, for the usual experiment."""
    found = _chains()
    sums = {(row.unit, row.promote): error.from_sums for row, error in found}
    worse = sums["sm_90.wgmma.e4m3.f32", None] / sums["sm_90.wgmma.bf16.f32", None]
    ticks = (1e-8, 1e-6, 1e-4, 1e-2)

    def draw(width: int) -> str:
        return dots(width, "relative RMS error of the sums", [
            Dot(row.name, e.from_sums, f"{e.from_sums:.1e}", e.from_sums, e.from_sums,
                "warn" if e.from_sums > 1e-4 else "accent") for row, e in found],
            Axis(ticks, f"relative RMS error from the sums, K = {CHAIN_K:,}", log=True,
                 write="{:.0e}".format, low=4e-9, high=2e-2))

    return Figure(
        "errors", "What the sums cost, by chip and format",
        f"Uniform [-1, 1) operands, {CHAIN_K:,} products a sum, against the FP64 sum of the same "
        f"rounded operands. The sums of Hopper's FP8 are {worse:.0f} times worse than those of its "
        "BF16, until partial sums are promoted to FP32.",
        draw,
        Table(("unit", "promoted every", "from the sums", "total, inputs too", "bias"),
              tuple((row.unit, row.promote or "", e.from_sums, e.total, e.bias)
                    for row, e in found)),
        (_MODEL, *_checked()),
        f"mmalab numerics error --unit sm_90.wgmma.e4m3.f32 --k {CHAIN_K}", "A, step 5", wide=True)
