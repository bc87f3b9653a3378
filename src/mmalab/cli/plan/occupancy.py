"""``mmalab plan occupancy``: CTAs per SM, and which resource decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmalab.cli.output import Json, table
from mmalab.cli.plan.answer import answer, record
from mmalab.cli.plan.sizes import counts
from mmalab.errors import UsageError
from mmalab.plan import occupancy as model
from mmalab.plan import pictures

__all__ = ["occupancy"]


def occupancy(
    cubin: Annotated[Path | None, typer.Argument(help="a cubin: registers, shared memory")] = None,
    *,
    entry: Annotated[str | None, typer.Option(help="the kernel, where there are several")] = None,
    registers: Annotated[int | None, typer.Option(help="per thread")] = None,
    shared: Annotated[int, typer.Option(help="bytes per CTA (beside a cubin: dynamic)")] = 0,
    threads: Annotated[int | None, typer.Option(help="per CTA")] = None,
    tmem: Annotated[str, typer.Option(help="columns of each allocation: 256 or 256,32")] = "",
    barriers: Annotated[int, typer.Option(help="named barriers")] = 0,
    target: Annotated[str | None, typer.Option(help="a chip; without it, every chip")] = None,
    svg: Annotated[Path | None, typer.Option(help="draw the shares into this file")] = None,
    json: Json = False,
) -> None:
    """Count the CTAs that fit on one SM: registers, shared memory, warps, CTAs, Tensor Memory."""
    if threads is None:
        raise UsageError("plan occupancy", "needs the threads of a CTA", legal="--threads 128",
                         where="mmalab plan occupancy --help")
    if cubin is not None:
        registers, static, barriers, chip = _compiled(cubin, entry)
        shared, target = shared + static, target or chip
    if registers is None:
        raise UsageError("plan occupancy", "needs the registers of a thread",
                         legal="--registers 128, or a cubin", where="mmalab plan occupancy --help")
    columns = counts("--tmem", tmem) if tmem else ()
    if target is None:
        found = model.every_target(registers=registers, shared=shared, threads=threads,
                                   tmem=columns, barriers=barriers)
        rows = [(row.target, row.ctas, f"{row.warps}/{row.warp_slots}", ", ".join(row.binding),
                 row.misfit.given if row.misfit else "") for row in found]
        answer(table(rows, ("target", "CTAs", "warps", "binds", "does not fit")),
               [record(row, "share") for row in found], model, json=json)
        return
    one = model.occupancy(registers=registers, shared=shared, threads=threads, target=target,
                          tmem=columns, barriers=barriers)
    if svg:
        svg.write_text(pictures.occupancy_svg(one), encoding="utf-8")
    answer(one.table(), record(one, "share"), model, json=json, fits=one.misfit is None)


def _compiled(path: Path, entry: str | None) -> tuple[int, int, int, str]:
    """(registers, static shared bytes, barriers, target) of a cubin's kernel."""
    from mmalab import isa, toolchain

    cubin = toolchain.load_cubin(path)
    row = cubin.resources[entry] if entry else cubin.resources.only
    # From sm_90 on the file's number includes what the system takes from every CTA.
    chip = isa.limits(cubin.target)
    own = chip.shared_reserved if chip.capability >= (9, 0) else 0
    return row.registers, max(0, row.shared - own), row.barriers, cubin.target
