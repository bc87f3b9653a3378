"""Clocks of one instruction by the width of its tile: what is reported, and what the pipe takes."""

from __future__ import annotations

from mmalab.claims import statement
from mmalab.plan.chips import chip
from mmalab.plan.rates import tensor_clocks
from mmalab.report.charts import Axis, Line, lines
from mmalab.report.figure import Evidence, Figure, Table

__all__ = ["WIDTHS", "busy", "latency"]

WIDTHS = (64, 128, 256)


def busy(m: int, n: int, on: str) -> float:
    """Clocks that an SM's tensor cores are busy with one m x n x 16 product in FP16."""
    return tensor_clocks(1, 2 * m * n * 16, "f16", on)


def latency() -> Figure:
    """Reported latencies of wgmma and tcgen05.mma beside the clocks that the product takes."""
    flat = statement("B-130").value
    reported = {int(name[1:]): clocks for name, clocks in statement("B-131").value.items()}
    rows = tuple((n, busy(64, n, "H200"), reported.get(n, ""), busy(128, n, "B200"),
                  max(flat)) for n in WIDTHS)

    def draw(width: int) -> str:
        return lines(
            width, "clocks of one instruction by the width of its tile",
            Axis(WIDTHS, "N of the instruction", log=True),
            Axis((8, 16, 32, 64, 128), "clocks", log=True), [
                Line("the product takes", tuple((n, row[3]) for n, row in
                                                zip(WIDTHS, rows, strict=True)),
                     "band soft", lift=-10, dots=False),
                Line("wgmma, reported", tuple((float(n), float(c)) for n, c in reported.items()),
                     "dashed ink", lift=6),
                Line("tcgen05, reported", tuple((n, row[4]) for n, row in
                                                zip(WIDTHS, rows, strict=True))),
            ], height=250)

    return Figure(
        "latency", "Latency: what is reported, and what it cannot be",
        f"wgmma's reported latency grows with the tile, as the clocks do that the tensor cores "
        f"need for the product. tcgen05.mma is reported at {max(flat):g} clocks at any size, while "
        f"the product of 128 x 256 x 16 takes {busy(128, 256, 'B200'):g} at the chip's rate: it "
        "cannot be the time to the result. No latency was measured here.",
        draw,
        Table(("N", "wgmma m64: clocks of the product", "wgmma, reported",
               "tcgen05 m128: clocks of the product", "tcgen05, reported"), rows),
        (Evidence("derived", "2 M N K / FLOP per SM and clock"),
         Evidence("measured", f"H200's rate: {chip('H200').rate('f16').source}"),
         Evidence("recorded elsewhere", "Jarmusch and Chandrasekaran, arXiv 2512.02189, as "
                                        "article B quotes it")),
        "mmalab claims B-130 B-131", "B, figure 7")
