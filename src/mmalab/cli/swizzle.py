"""``mmalab swizzle``: which swizzle or padding removes the conflicts of a tile."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json, print_json, say

__all__ = ["swizzle"]


def swizzle(
    *,
    tile: Annotated[str, typer.Option(help="rows,columns in elements; the "
        "table has passes/ideal of ldmatrix reads and of 16-byte writes")],
    dtype: Annotated[str, typer.Option(help="element type: bf16, e4m3 ...")],
    find: Annotated[bool, typer.Option("--find", help="search all swizzles and paddings")] = False,
    json: Json = False,
) -> None:
    """Print passes of reads and writes: plain and TMA's modes, or (--find) the best found."""
    from mmalab.plan import swizzle_search, swizzle_table
    from mmalab.plan.swizzle import arrangements_text

    rows, cols = numbers("--tile", tile, 2)
    if find:
        found = swizzle_search(rows, cols, dtype)
        if json:
            print_json(found.as_dict())
        else:
            say(found.table())
        return
    modes = swizzle_table(rows, cols, dtype)
    if json:
        print_json([mode.as_dict() for mode in modes])
    else:
        say(arrangements_text(modes))
