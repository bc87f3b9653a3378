"""``mmalab plan tmem``: the ledger of Tensor Memory, and its allocator with several CTAs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json
from mmalab.cli.plan.answer import answer, record
from mmalab.cli.plan.drawing import draw_ledger
from mmalab.cli.plan.sizes import sizes
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import DataPath, data_path, warp_lanes
from mmalab.plan import pictures, pool
from mmalab.plan import tmem as model
from mmalab.plan.packing import Part

__all__ = ["tmem"]


def tmem(
    *,
    mma: Annotated[str | None, typer.Option(help="MxN or MxNxK of the instruction")] = None,
    dtype: Annotated[str | None, typer.Option(help="operand type; f16, or what --scales has")]
        = None,
    stages: Annotated[int, typer.Option(help="accumulators")] = 1,
    cta_group: Annotated[int, typer.Option(help="1, or 2 for a pair of CTAs")] = 1,
    scales: Annotated[str | None, typer.Option(help="mxfp8, mxfp6, mxfp4, nvfp4")] = None,
    scale_stages: Annotated[int, typer.Option(help="buffers for scale factors")] = 1,
    sparse: Annotated[bool, typer.Option("--sparse", help="2:4 sparse A, with metadata")] = False,
    ws: Annotated[bool, typer.Option("--ws", help="tcgen05.mma.ws")] = False,
    a_stages: Annotated[int, typer.Option(help="A operands in Tensor Memory")] = 0,
    epilogue: Annotated[int, typer.Option(help="further columns")] = 0,
    part: Annotated[list[str] | None, typer.Option(
        help="a part instead of --mma: NAME:COLUMNS[:START-END][:half]; repeat")] = None,
    target: Annotated[str, typer.Option(help="sm_100a ...")] = "sm_100a",
    ctas: Annotated[int, typer.Option(help="simulate the allocator with so many CTAs")] = 0,
    script: Annotated[list[str] | None, typer.Option(
        help="steps of one CTA: 'alloc 256; work 10; free 0', behind sm1: or pair:; repeat")]
        = None,
    permit: Annotated[bool, typer.Option(
        "--permit", help="the right to allocate belongs to one CTA at a time")] = False,
    at: Annotated[str | None, typer.Option(
        help="row,column of D: its lane and column, and the warps that reach it")] = None,
    warp: Annotated[int | None, typer.Option(
        min=0, help="the lanes that this warp reaches, and their rows of D")] = None,
    svg: Annotated[Path | None, typer.Option(help="draw the plan into this file")] = None,
    json: Json = False,
) -> None:
    """Plan 512 columns: accumulators, scale factors, metadata, A, epilogue; or simulate CTAs.

    K of --mma is how many elements along K have their scale factors there at once.
    """
    if script:
        _simulate([pool.Script.parse(text) for text in script], permit=permit, svg=svg, json=json)
        return
    if mma and (at is not None or warp is not None):
        m, n, *_ = sizes("--mma", mma, 2, 3)
        path = data_path(m, n, cta_group=cta_group, sparse=sparse, ws=ws)
        found = _element(path, m, n, at) if at is not None else _reach(path, warp or 0)
        answer(found.pop("text"), found, model, json=json)
        return
    if part:
        ledger = model.ledger_of([_part(text) for text in part])
    elif mma:
        m, n, *k = sizes("--mma", mma, 2, 3)
        ledger = model.ledger(
            m, n, dtype, k=k[0] if k else None, stages=stages, cta_group=cta_group, scales=scales,
            scale_stages=scale_stages, sparse=sparse, ws=ws, a_stages=a_stages, epilogue=epilogue,
            target=target)
    else:
        raise UsageError("plan tmem", "needs something to plan",
                         legal="--mma 128x256, --part D:384 ..., --script 'alloc 256; ...'",
                         where="mmalab plan tmem --help")
    if ctas and ledger.fits:
        plain = pool.Script.plain(ledger.allocations, sms=(0, 1) if cta_group == 2 else (0,))
        _simulate([plain] * ctas, permit=permit, svg=svg, json=json)
        return
    if svg:
        svg.write_text(pictures.ledger_svg(ledger), encoding="utf-8")
    if not json:
        draw_ledger(ledger)
    answer(ledger.table(), ledger.as_dict(), model, json=json, fits=ledger.fits)


def _element(path: DataPath, m: int, n: int, at: str) -> dict[str, Any]:
    """Where one element of D lies, and who may load it."""
    row, col = numbers("--at", at, 2)
    cta, lane, column = path.place(row, col, m=m, n=n)
    quarter = lane // 32
    return {"at": [row, col], "cta": cta, "lane": lane, "column": column, "layout": path.name,
            "quarter": quarter,
            "text": f"D[{row}][{col}] of {m} x {n} (layout {path.name}): lane {lane}, column "
                    f"{column}" + (f" of CTA {cta}" if cta else "") + "\n"
                    f"warps {quarter}, {quarter + 4}, {quarter + 8} ... (number mod 4 = {quarter}) "
                    f"reach lanes {32 * quarter} to {32 * quarter + 31}, and no others do"}


def _reach(path: DataPath, warp: int) -> dict[str, Any]:
    """The lanes of one warp, and the rows of D in them."""
    lanes = warp_lanes(warp)
    rows = [row for row in range(path.rows)
            if any(path.place(row, part * path.columns(path.parts), m=path.rows, n=path.parts)[1]
                   in lanes for part in range(path.parts))]
    shown = f"rows {rows[0]} to {rows[-1]}" if rows else "no row"
    return {"warp": warp, "lanes": [lanes.start, lanes.stop - 1], "rows": rows,
            "layout": path.name,
            "text": f"warp {warp} reaches lanes {lanes.start} to {lanes.stop - 1} "
                    f"(32 x ({warp} mod 4) on): {shown} of a CTA's part of D (layout {path.name})\n"
                    "two warps with the same lanes share them by columns"}


def _simulate(scripts: list[pool.Script], *, permit: bool, svg: Path | None, json: bool) -> None:
    found = pool.simulate(scripts, permit=permit)
    if svg:
        svg.write_text(pictures.pool_svg(found), encoding="utf-8")
    answer(found.table(), record(found), model, json=json, fits=not found.findings)


def _part(text: str) -> Part:
    name, *words = text.split(":")
    half = "half" in words
    numbers = [word for word in words if word != "half"]
    start, dash, end = numbers[1].partition("-") if len(numbers) > 1 else ("0", "-", "1")
    if not numbers or len(numbers) > 2 or not dash or not all(
            word.isdigit() for word in (numbers[0], start, end)):
        raise UsageError(f"--part {text}", "is no part",
                         legal=["D:256", "P:64:0-2 (phases 0 and 1)", "D0:256:half"],
                         where="mmalab plan tmem --help")
    return Part(name, int(numbers[0]), int(start), int(end), half, role=name)
