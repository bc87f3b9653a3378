"""``mmalab plan tiles``: which CTA tile for one product."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json, table
from mmalab.cli.plan.answer import answer, record
from mmalab.cli.plan.sizes import sizes
from mmalab.plan import tiles as model

__all__ = ["tiles"]


def tiles(
    *,
    gemm: Annotated[str, typer.Option(help="MxNxK of the product")],
    dtype: Annotated[str, typer.Option(help="operand type")] = "bf16",
    on: Annotated[str, typer.Option(
        "--on", "--target", help="a product (H200, B200 ...) or a target")] = "H200",
    cluster: Annotated[str, typer.Option(help="CTAs along M and N that share operands")] = "1x1",
    top: Annotated[int, typer.Option(help="how many to print")] = 8,
    json: Json = False,
) -> None:
    """Rank CTA tiles by edges, waves and what can be fed to the tensor cores."""
    m, n, k = sizes("--gemm", gemm, 3, 3)
    along_m, along_n = sizes("--cluster", cluster, 2, 2)
    found = model.search(m, n, k, dtype, on=on, cluster=(along_m, along_n))[:top]
    rows = [(f"{t.m} x {t.n} x {t.k}", t.tiles, t.waves, f"{100 * t.edges:.1f} %",
             f"{100 * t.wave_share:.1f} %", f"{t.fill:.0f}", f"{100 * t.feed:.1f} %",
             f"{100 * t.share:.1f} %", t.accumulators, t.stages) for t in found]
    head = ("tile", "tiles", "waves", "edges", "last wave", "B/clk", "feed", "share",
            "accumulators", "stages")
    data = {"tiles": [record(tile, "feed", "share") for tile in found]}
    answer(table(rows, head), data, model, json=json)
