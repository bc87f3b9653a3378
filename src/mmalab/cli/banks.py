"""``mmalab banks``: wavefronts of eight rows (or thirty-two, ...) some pitch apart."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json, print_json, say

__all__ = ["banks"]

#: Bytes after which banks begin anew, and paddings repeat.
_PERIOD = 128


def banks(
    *,
    rows: Annotated[int, typer.Option(help="rows that one instruction touches")] = 8,
    pitch: Annotated[int | None, typer.Option(
        help="bytes from one row to the next; without it, three layouts of a 32-value BF16 row")]
        = None,
    access: Annotated[int, typer.Option(help="bytes that each lane takes")] = 16,
    columns: Annotated[int, typer.Option(
        help="neighbouring accesses of each row, by neighbouring lanes: 4 for a 32-bit fragment "
             "(lane/4, lane%4) or cp.async of 64-byte rows")] = 1,
    swizzle: Annotated[str | None, typer.Option(help="B,M,S, counting elements of --dtype")] = None,
    dtype: Annotated[str | None, typer.Option(help="element type of the swizzle; bytes if none")]
        = None,
    pad: Annotated[int, typer.Option(help="unused bytes behind each row")] = 0,
    json: Json = False,
) -> None:
    """Print the bank groups of the rows and the passes they take.

    A transposed fragment (lane%4, lane/4) is --rows 4 --columns 8 with the pitch of a row of K.
    """
    from mmalab.layouts import Swizzle
    from mmalab.plan import banks as model

    if pitch is None:
        _three(rows, json=json)
        return
    chosen = Swizzle(*numbers("--swizzle", swizzle, 3)) if swizzle else None
    found = model.ldmatrix(rows, pitch, size=access, pad=pad, swizzle=chosen, dtype=dtype,
                           columns=columns)
    padding = None
    if found.passes > found.ideal and chosen is None:
        padding = next((more for more in range(pad + access, pad + _PERIOD, access)
                        if (one := model.ldmatrix(rows, pitch, size=access, pad=more,
                                                  columns=columns)).passes == one.ideal), None)
    if json:
        print_json({**found.as_dict(), "padding": padding})
        return
    say(found.line())
    if padding:
        say(f"no conflicts with --pad {padding} (rows {pitch + padding} bytes apart)")
    if len(found.phases) > 1:
        say(found.table())


def _three(rows: int, *, json: bool) -> None:
    """Plain, padded and swizzled rows of 32 BF16 values, one below the other."""
    from mmalab.layouts import Swizzle
    from mmalab.plan import banks as model

    found = {
        "plain": model.ldmatrix(rows, 64), "padded": model.ldmatrix(rows, 64, pad=16),
        "swizzled": model.ldmatrix(rows, 64, swizzle=Swizzle(2, 3, 3), dtype="bf16"),
    }
    if json:
        print_json({name: access.as_dict() for name, access in found.items()})
        return
    for name, access in found.items():
        say(f"{name:<9} {access.line()}")
