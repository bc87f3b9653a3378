"""``mmalab plan smem``: stages of a pipeline in shared memory, with alignment and conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmalab.cli.output import Json
from mmalab.cli.plan.answer import answer
from mmalab.cli.plan.sizes import sizes
from mmalab.errors import UsageError
from mmalab.plan import pictures
from mmalab.plan import smem as model

__all__ = ["smem"]


def smem(
    *,
    tile: Annotated[str | None, typer.Option(help="MxNxK of one stage")] = None,
    dtype: Annotated[str, typer.Option(help="operand type")] = "bf16",
    stages: Annotated[int | None, typer.Option(help="stages; as many as fit without it")] = None,
    target: Annotated[str, typer.Option(help="sm_90a ...")],
    scales: Annotated[str | None, typer.Option(help="mxfp8, mxfp6, mxfp4, nvfp4")] = None,
    epilogue: Annotated[int, typer.Option(help="bytes kept for the result")] = 0,
    cta_group: Annotated[int, typer.Option(help="2: the tile of a pair of CTAs")] = 1,
    pad: Annotated[int, typer.Option(help="unused bytes behind each row, instead of a swizzle")]
        = 0,
    member: Annotated[list[str] | None, typer.Option(
        help="a member instead of --tile: NAME:BYTES[:ALIGN][:stage]; repeat")] = None,
    svg: Annotated[Path | None, typer.Option(help="draw the layout into this file")] = None,
    json: Json = False,
) -> None:
    """Lay the stages out, count padding, find the most stages and the conflict-free layout."""
    if member:
        members = [_member(text) for text in member]
        most = model.max_stages(members, target)
        layout = model.shared_layout(members, stages or most or 1, target)
        if svg:
            svg.write_text(pictures.shared_svg(layout), encoding="utf-8")
        answer(f"{layout.table()}\nat most {most} stages",
               {"layout": layout, "max_stages": most, "fits": layout.fits}, model, json=json,
               fits=layout.fits)
        return
    if tile is None:
        raise UsageError("plan smem", "needs something to plan",
                         legal="--tile 128x256x64, --member A:16384:1024:stage ...",
                         where="mmalab plan smem --help")
    m, n, k = sizes("--tile", tile, 3, 3)
    plan = model.stage_plan(m, n, k, dtype, target=target, stages=stages, scales=scales,
                            epilogue=epilogue, cta_group=cta_group, pad=pad)
    if svg:
        svg.write_text(pictures.shared_svg(plan.layout), encoding="utf-8")
    answer(plan.table(), plan.as_dict(), model, json=json, fits=plan.fits)


def _member(text: str) -> model.Member:
    name, *words = text.split(":")
    staged = "stage" in words
    numbers = [word for word in words if word != "stage"]
    if not 1 <= len(numbers) <= 2 or not all(word.isdigit() for word in numbers):
        raise UsageError(f"--member {text}", "is no member",
                         legal=["A:16384:1024:stage", "epilogue:34000:1024"],
                         where="mmalab plan smem --help")
    size, align = [*map(int, numbers), 16][:2]
    return model.Member(name, size, align, per_stage=staged)
