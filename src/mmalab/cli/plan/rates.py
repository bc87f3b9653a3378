"""``mmalab plan rates``: SMs x rate x clock against data sheets, and against a measured figure."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say, table
from mmalab.cli.plan.sizes import finish
from mmalab.errors import UsageError
from mmalab.plan import rates as model

__all__ = ["rates"]


def rates(
    *,
    on: Annotated[str | None, typer.Option(help="a product or a target; all without it")] = None,
    measured: Annotated[float | None, typer.Option(help="1e12 operations per second")] = None,
    dtype: Annotated[str, typer.Option(help="operand type of the measured figure")] = "f16",
    acc: Annotated[str, typer.Option(help="its accumulator; f32 without it")] = "",
    clock: Annotated[float | None, typer.Option(help="MHz that it ran at")] = None,
    json: Json = False,
) -> None:
    """Print every data-sheet row beside what it is made of; or judge a measured figure (exit 1:
    the chip cannot do it)."""
    if measured is not None:
        if on is None:
            raise UsageError("a measured figure", "needs a chip", legal="--on H200")
        found = model.plausible(measured, dtype, on, acc, clock=clock)
        if json:
            print_json({**{n: getattr(found, n) for n in found.__dataclass_fields__},
                        "share": found.share})
        else:
            say(f"{found.tflops:g} T/s {found.dtype}.{found.acc} on {found.chip} at "
                f"{found.clock:g} MHz: {found.per_clock:.0f} operations per SM and clock",
                f"{found.verdict}: {found.why}")
        finish([found.verdict == "plausible"])
        return
    rows = model.identities(on)
    if json:
        print_json([{**{n: getattr(row, n) for n in row.__dataclass_fields__},
                     "ratio": row.ratio, "sparse_factor": row.sparse_factor} for row in rows])
        return
    say(table([(row.chip, f"{row.dtype}.{row.acc}", row.sms, row.per_clock, f"{row.clock:.0f}",
                f"{row.computed:.1f}", f"{row.published:g}",
                "-" if row.published_sparse is None else f"{row.published_sparse:g}",
                f"{row.ratio:.4f}", row.evidence) for row in rows],
              ("chip", "type", "SMs", "per SM and clock", "MHz", "product", "dense", "sparse",
               "ratio", "rate is")))
