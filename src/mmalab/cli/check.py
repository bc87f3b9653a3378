"""``mmalab check FILE.ptx``: static findings, nothing executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, read_text, say, table
from mmalab.errors import UsageError
from mmalab.findings import CODES, summary, verdict

__all__ = ["check"]


def check(
    file: Annotated[Path | None, typer.Argument(help="PTX")] = None,
    *,
    target: Annotated[str | None, typer.Option(help="chip; the module's own if not given")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="warnings are findings too")] = False,
    codes: Annotated[bool, typer.Option("--codes", help="list every finding code")] = False,
    json: Json = False,
) -> None:
    """Print what is wrong with a PTX file. Exit 1 for any error (with --strict, any warning)."""
    if codes:
        if json:
            print_json(CODES)
        else:
            say(table(list(CODES.items())))
        return
    if file is None:
        raise UsageError("check", "names no file", legal="mmalab check FILE.ptx",
                         where="mmalab check --help")

    from mmalab.checker import check as check_module
    from mmalab.ptx import parse

    found = check_module(parse(read_text(file), str(file)), target)
    judged = verdict(found, strict=strict)
    if json:
        print_json({"verdict": judged, "findings": [finding.as_dict() for finding in found],
                    "counters": {}, "fidelity": {}, "deadlock": None})
    else:
        say(*map(str, found), f"{file}: {summary(found, strict=strict)}")
    if judged == "findings":
        raise typer.Exit(1)
