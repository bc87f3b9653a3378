"""``mmalab explain FORM``: one instruction whole."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say

__all__ = ["explain"]


def explain(
    form: Annotated[str, typer.Argument(help="the full spelling, as PTX writes it")],
    *,
    json: Json = False,
) -> None:
    """Print operands, fragments, targets, PTX version, native or emulated, source, evidence."""
    from mmalab import isa

    if json:
        print_json(isa.explain_data(form))
    else:
        say(isa.explain(form))
