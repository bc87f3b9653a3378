"""``mmalab legal INSTRUCTION --target T``: legal or not, why, and what instead."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say

__all__ = ["legal"]


def legal(
    instruction: Annotated[list[str], typer.Argument(
        help="an opcode, or a whole instruction (quoted)")],
    *,
    target: Annotated[str | None, typer.Option(help="chip; without it, any")] = None,
    ptx: Annotated[str | None, typer.Option(help="PTX version, 8.6; without it, any")] = None,
    json: Json = False,
) -> None:
    """Print the verdict. Exit 0 legal, 1 illegal, 2 not a PTX instruction."""
    from mmalab import isa
    from mmalab.errors import UsageError

    if ptx is not None and not ptx.replace(".", "", 1).isdigit():
        raise UsageError(f"--ptx {ptx}", "is not a PTX version", legal="8.6")
    text = " ".join(instruction)
    verdict = isa.legal(text, target, ptx)
    if json:
        print_json({"instruction": text, "target": target, "ptx": ptx, "legal": verdict.legal,
                    "reason": verdict.reason, "nearest": verdict.nearest, "rule": verdict.rule,
                    "known": verdict.known})
    else:
        say(f"{'legal' if verdict.legal else 'illegal' if verdict.known else 'unknown'}: "
            f"{verdict.reason}")
        if verdict.nearest:
            say("instead: " + verdict.nearest[0],
                *(" " * 9 + spelling for spelling in verdict.nearest[1:]))
    if not verdict.legal:
        raise typer.Exit(2 if verdict.rule in ("opcode", "not-in-table") else 1)
