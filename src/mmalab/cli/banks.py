"""``mmalab banks``: wavefronts of eight rows (or thirty-two, ...) some pitch apart."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json, print_json, say

__all__ = ["banks"]


def banks(
    *,
    rows: Annotated[int, typer.Option(help="rows that one instruction touches")] = 8,
    pitch: Annotated[int, typer.Option(help="bytes from one row to the next")],
    access: Annotated[int, typer.Option(help="bytes that each lane takes")] = 16,
    swizzle: Annotated[str | None, typer.Option(help="B,M,S, counting elements of --dtype")] = None,
    dtype: Annotated[str | None, typer.Option(help="element type of the swizzle; bytes if none")]
        = None,
    pad: Annotated[int, typer.Option(help="unused bytes behind each row")] = 0,
    json: Json = False,
) -> None:
    """Print the bank groups of the rows and the passes they take."""
    from mmalab.layouts import Swizzle
    from mmalab.plan import banks as model

    chosen = Swizzle(*numbers("--swizzle", swizzle, 3)) if swizzle else None
    found = model.ldmatrix(rows, pitch, size=access, pad=pad, swizzle=chosen, dtype=dtype)
    if json:
        print_json(found.as_dict())
        return
    say(found.line())
    if len(found.phases) > 1:
        say(found.table())
