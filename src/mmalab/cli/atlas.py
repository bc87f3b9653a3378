"""``mmalab atlas``: what the installed assemblers do, asked here and now."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mmalab.cli.output import Json, print_json, say, table

__all__ = ["atlas"]


def atlas(
    pattern: Annotated[list[str] | None, typer.Argument(
        help="forms: a glob, words that all occur, or an opcode; without it, all")] = None,
    *,
    what: Annotated[str, typer.Option(help="targets")] = "targets",
    target: Annotated[list[str] | None, typer.Option(help="chip; may be given again")] = None,
    toolkit: Annotated[str | None, typer.Option(help="release of the assembler: 12.9, 13")] = None,
    json: Json = False,
) -> None:
    """Print which forms assemble for which targets, and why not."""
    from mmalab.atlas import matrix
    from mmalab.isa.targets import TargetSet

    del what
    rows = matrix(" ".join(pattern) if pattern else None, target, toolkit)
    if json:
        print_json([_plain(row) for row in rows])
        return
    say(table([(row.form, str(TargetSet(row.targets))) for row in rows], ("form", "targets")))


def _plain(row: Any) -> dict[str, Any]:
    return {"form": row.form, "ptx": row.ptx, "toolkit": row.toolkit, "targets": row.targets,
            "messages": row.messages}
