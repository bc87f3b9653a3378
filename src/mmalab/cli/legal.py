"""``mmalab legal INSTRUCTION --target T``: legal or not, why, and what instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mmalab.cli.output import Json, print_json, say

if TYPE_CHECKING:
    from mmalab.isa import Verdict

__all__ = ["legal"]

#: Rules about a target or a version: what does the job there is another instruction.
_ABOUT_CHIPS = ("target", "ptx-version")


def _lines(verdict: Verdict) -> list[str]:
    """The rule behind an absence, then what to write; where the suffix is all, only that."""
    what = verdict.instead
    first = ["because: " + what] if what and verdict.rule not in _ABOUT_CHIPS else []
    other = [what] if what and not first else []
    if not what.endswith("(the same chip)"):
        other += verdict.nearest
    return first + [("instead: ", " " * 9)[at > 0] + line for at, line in enumerate(other)]


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
        raise UsageError(f"--ptx {ptx}", "is not a PTX version", legal="8.6",
                         where="mmalab legal --help")
    text = " ".join(instruction)
    verdict = isa.legal(text, target, ptx)
    if json:
        print_json({"instruction": text, "target": target, "ptx": ptx, "legal": verdict.legal,
                    "reason": verdict.reason, "nearest": verdict.nearest, "rule": verdict.rule,
                    "instead": verdict.instead, "known": verdict.known})
    else:
        say(f"{'legal' if verdict.legal else 'illegal' if verdict.known else 'unknown'}: "
            f"{verdict.reason}")
        for line in _lines(verdict):
            say(line)
    if not verdict.legal:
        raise typer.Exit(2 if verdict.rule in ("opcode", "not-in-table") else 1)
