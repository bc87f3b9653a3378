"""``mmalab plan rates``: SMs x rate x clock against data sheets, and against a measured figure."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json, table
from mmalab.cli.plan.answer import answer, record
from mmalab.errors import UsageError
from mmalab.plan import rates as model

__all__ = ["rates"]


def rates(
    *,
    on: Annotated[str | None, typer.Option(help="a product or a target; all without it")] = None,
    measured: Annotated[float | None, typer.Option(help="1e12 operations per second")] = None,
    dtype: Annotated[str, typer.Option(help="operand type of the measured figure")] = "f16",
    acc: Annotated[str, typer.Option(help="its accumulator; f32 without it")] = "",
    issued: Annotated[str | None, typer.Option(
        help="N,OPERATIONS of matrix instructions: the clocks that a tensor-pipe counter should "
             "show")] = None,
    clock: Annotated[float | None, typer.Option(help="MHz that it ran at")] = None,
    json: Json = False,
) -> None:
    """Print every data-sheet row beside what it is made of; or judge a measured figure (exit 1:
    the chip cannot do it)."""
    if issued is not None:
        _clocks(issued, dtype, on, acc, json=json)
        return
    if measured is not None:
        if on is None:
            raise UsageError("a measured figure", "needs a chip", legal="--on H200",
                             where="mmalab plan rates --help")
        found = model.plausible(measured, dtype, on, acc, clock=clock)
        text = (f"{found.tflops:g} T/s {found.dtype}.{found.acc} on {found.chip} at "
                f"{found.clock:g} MHz: {found.per_clock:.0f} operations per SM and clock\n"
                f"{found.verdict}: {found.why}")
        answer(text, record(found, "share"), model, json=json, fits=found.verdict == "plausible")
        return
    rows = model.identities(on)
    cells = [(row.chip, f"{row.dtype}.{row.acc}", row.sms, row.per_clock, f"{row.clock:.0f}",
              f"{row.computed:.1f}", f"{row.published:g}",
              "-" if row.published_sparse is None else f"{row.published_sparse:g}",
              f"{row.ratio:.4f}", row.evidence) for row in rows]
    head = ("chip", "type", "SMs", "per SM and clock", "MHz", "product", "dense", "sparse",
            "ratio", "rate is")
    answer(table(cells, head), [record(row, "ratio", "sparse_factor") for row in rows], model,
           json=json)


def _clocks(issued: str, dtype: str, on: str | None, acc: str, *, json: bool) -> None:
    count, operations = numbers("--issued", issued, 2)
    if on is None:
        raise UsageError("issued instructions", "need a chip", legal="--on H200",
                         where="mmalab plan rates --help")
    clocks = model.tensor_clocks(count, operations, dtype, on, acc)
    text = (f"{count:,} {dtype} instructions of {operations:,} operations keep the tensor cores of "
            f"an SM of {on} busy for {clocks:,.0f} clocks\n"
            "from a pipe's share of clocks back to operations there is no way without the types: "
            "a counter called HMMA counts TF32 and BF16 too")
    answer(text, {"instructions": count, "operations": operations, "clocks": clocks}, model,
           json=json)
