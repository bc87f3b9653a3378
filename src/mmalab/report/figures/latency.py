"""Clocks of one instruction by the width of its tile: measured, reported, and what the pipe takes.

wgmma's are measured on an H200 (``records/h200/latency.json``): ``single`` from one instruction to
its result, ``each`` in a chain of them. tcgen05's are as others report them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmalab.claims import statement
from mmalab.claims.records import load
from mmalab.plan.rates import tensor_clocks
from mmalab.report.charts import Axis, Line, lines
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.figures.measured import device_line

__all__ = ["LATENCY", "busy", "latency", "measured_clocks"]

LATENCY = "records/h200/latency.json"


def busy(m: int, n: int, on: str) -> float:
    """Clocks that an SM's tensor cores are busy with one m x n x 16 product in FP16."""
    return tensor_clocks(1, 2 * m * n * 16, "f16", on)


def measured_clocks(record: Mapping[str, Any], a: str) -> dict[int, tuple[float, float]]:
    """(single, each) of BF16 by N; A in ``shared`` memory or ``registers``."""
    return {row["n"]: (row["single"], row["each"]) for row in record["rows"]
            if (row["dtype"], row["a"]) == ("bf16", a)}


def latency() -> Figure:
    """Measured latencies of wgmma, and reported ones beside the clocks that the product takes."""
    record = load(LATENCY)
    shared, registers = (measured_clocks(record, a) for a in ("shared", "registers"))
    flat = max(statement("B-130").value)
    reported = {int(name[1:]): clocks for name, clocks in statement("B-131").value.items()}
    rows = tuple((n, busy(64, n, "H200"), *shared[n], *registers[n], reported.get(n, ""),
                  busy(128, n, "B200"), flat) for n in sorted(shared))
    widths = tuple(row[0] for row in rows)

    def draw(width: int) -> str:
        def line(name: str, column: int, kind: str, lift: float) -> Line:
            return Line(name, tuple((n, float(row[column])) for n, row in
                                    zip(widths, rows, strict=True)), kind, lift)

        return lines(
            width, "clocks of one instruction by the width of its tile",
            Axis((8, 16, 32, 64, 128, 256), "N of the instruction", log=True),
            Axis((8, 16, 32, 64, 128, 256), "clocks", log=True, low=4), [
                line("one wgmma", 2, "stroke accent", 6), line("in a chain", 3, "stroke ink", 0),
                Line("its product", tuple((n, row[1]) for n, row in
                                          zip(widths, rows, strict=True)), "band soft", -12,
                     dots=False),
                line("tcgen05, reported", 8, "dashed ink", 0),
            ], height=280)

    last, first = rows[-1], rows[0]
    return Figure(
        "latency", "Latency: what was measured, and what cannot be",
        f"From one wgmma to its result an H200 takes {last[2]:g} clocks at N = {widths[-1]} and "
        f"{first[2]:g} at N = {widths[0]}, {last[2] - last[4]:g} fewer with A in registers; in a "
        f"chain each takes what its product does from N = 64 on ({last[3]:g} at N = {widths[-1]}). "
        "What is reported for wgmma is the chain's. tcgen05.mma is reported at "
        f"{flat:g} clocks at any size, while the product of 128 x 256 x 16 takes "
        f"{busy(128, 256, 'B200'):g} at the chip's rate: it cannot be the time to the result, and "
        "it was not measured here.",
        draw,
        Table(("N", "wgmma m64: clocks of the product", "one, A in shared memory", "in a chain",
               "one, A in registers", "in a chain, A in registers", "wgmma, reported",
               "tcgen05 m128: clocks of the product", "tcgen05, reported"), rows),
        (Evidence("measured", device_line(record)),
         Evidence("derived", "2 M N K / FLOP per SM and clock"),
         Evidence("recorded elsewhere", "Jarmusch and Chandrasekaran, arXiv 2512.02189, as "
                                        "article B quotes it")),
        str(record["command"]), "B, figure 7")
