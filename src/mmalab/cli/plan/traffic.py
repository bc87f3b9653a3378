"""``mmalab plan traffic``: bytes per FLOP of accumulators and operands."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json, table
from mmalab.cli.plan.answer import answer
from mmalab.cli.plan.sizes import sizes
from mmalab.plan import traffic as model

__all__ = ["traffic"]


def traffic(
    *,
    mma: Annotated[str, typer.Option(help="MxN or MxNxK of the instruction")] = "128x256",
    dtype: Annotated[str, typer.Option(help="operand type")] = "f16",
    on: Annotated[str, typer.Option(help="a product (B200, H200 ...) or a target")] = "B200",
    passes: Annotated[int, typer.Option(help="2: the accumulator is read and written")] = 2,
    cta_group: Annotated[int, typer.Option(help="2: the tile of a pair of CTAs")] = 1,
    json: Json = False,
) -> None:
    """Print the traffic of one tile, and the same tile in every operand width of the chip."""
    m, n, *k = sizes("--mma", mma, 2, 3)
    found = model.traffic(m, n, dtype, on=on, k=k[0] if k else None, passes=passes,
                          cta_group=cta_group)
    widths = model.invariance(m, n, on=on)
    rows = [(row.name, row.k, row.bits_k, f"{row.accumulator:.5g}", f"{row.peak / 1e12:,.0f}",
             f"{row.accumulator_tb_s:.1f}", f"{row.operand_tb_s:.1f}",
             "same" if row.holds else "differs") for row in widths]
    head = ("type", "K", "bits", "B/FLOP", "T/s", "accumulator TB/s", "operands TB/s",
            "accumulator")
    text = (f"{found.table()}\n\nevery width of the chip, accumulator read and written once:\n"
            f"{table(rows, head)}")
    answer(text, {**found.as_dict(), "invariance": widths}, model, json=json)
