"""``mmalab forms [PATTERN]``: which instructions exist."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say

__all__ = ["forms"]


def forms(
    pattern: Annotated[list[str] | None, typer.Argument(
        help="a glob ('mma.sync*bf16*'), or words that must all occur")] = None,
    *,
    json: Json = False,
) -> None:
    """Print the spelling of every instruction form that matches, one a line.

    Exit 1 when none does; the nearest spellings then go to standard error.
    """
    from mmalab import isa

    wanted = " ".join(pattern or [])
    found = isa.forms(wanted or None)
    if json:
        print_json(found)
    else:
        say(*found)
    if not found:
        near = ", ".join(isa.nearest(wanted)) or "none"
        sys.stderr.write(f"no form matches {wanted!r}; nearest: {near}\n")
        raise typer.Exit(1)
