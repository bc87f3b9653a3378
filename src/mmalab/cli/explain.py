"""``mmalab explain FORM``: one instruction whole; or the code of a finding, in its words."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say
from mmalab.errors import UsageError
from mmalab.findings import CODES

__all__ = ["explain"]


def explain(
    form: Annotated[str, typer.Argument(
        help="an instruction, spelled out as PTX writes it, or the code of a finding")],
    *,
    json: Json = False,
) -> None:
    """Print operands, fragments, targets, PTX version, native or emulated, source, evidence."""
    if form in CODES:
        if json:
            print_json({"code": form, "meaning": CODES[form]})
        else:
            say(f"{form}: a finding of check or run", f"  means     {CODES[form]}",
                f"  example   docs/findings.md#{form}, in the site that make docs builds",
                "  reading   docs/how-to/read-a-finding.md; mmalab check --codes lists all")
        return

    from mmalab import isa

    if (near := get_close_matches(form, CODES, n=3, cutoff=0.75)) and "." not in form:
        raise UsageError(form, "is neither an instruction nor the code of a finding", legal=near,
                         where="mmalab check --codes; mmalab forms")
    if json:
        print_json(isa.explain_data(form))
    else:
        say(isa.explain(form))
