"""``mmalab plan registers``: accumulators against 255, drains, setmaxnreg's pool."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json
from mmalab.cli.plan.answer import answer
from mmalab.cli.plan.sizes import counts, sizes
from mmalab.errors import UsageError
from mmalab.plan import registers as model

__all__ = ["registers"]


def registers(
    *,
    mma: Annotated[str | None, typer.Option(help="MxN of an accumulator")] = None,
    threads: Annotated[int, typer.Option(help="threads that hold it; of each warpgroup")] = 128,
    count: Annotated[int, typer.Option(help="accumulators at the same time")] = 1,
    dtype: Annotated[str, typer.Option(help="type of the accumulator")] = "f32",
    drain: Annotated[int | None, typer.Option(help="columns of one tcgen05.ld.32x32b")] = None,
    setmaxnreg: Annotated[str | None, typer.Option(help="of each warpgroup: 24,232,232")] = None,
    launch: Annotated[int, typer.Option(help="registers of a thread at the launch")] = 168,
    target: Annotated[str, typer.Option(help="sm_90a ...")] = "sm_90a",
    json: Json = False,
) -> None:
    """Count registers of accumulators and drains, and check a setmaxnreg split."""
    found: dict[str, model.Accumulators | model.Drain | model.RegisterSplit] = {}
    if mma:
        m, n = sizes("--mma", mma, 2, 2)
        found["accumulators"] = model.accumulators(m, n, threads=threads, count=count, dtype=dtype)
    if drain is not None:
        found["drain"] = model.drain(drain)
    if setmaxnreg:
        found["setmaxnreg"] = model.setmaxnreg_split(
            counts("--setmaxnreg", setmaxnreg), launch=launch, threads=threads, target=target)
    if not found:
        raise UsageError("plan registers", "needs something to plan",
                         legal="--mma 128x256, --drain 128, --setmaxnreg 40,232,232",
                         where="mmalab plan registers --help")
    fits = all(getattr(item, "misfit", None) is None for item in found.values())
    answer("\n".join(map(str, found.values())), found, model, json=json, fits=fits)
