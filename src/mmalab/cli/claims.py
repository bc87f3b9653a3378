"""``mmalab claims [ID ...]``: the articles' claims, re-run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from mmalab.cli.output import Json, print_json, say, table

if TYPE_CHECKING:
    from mmalab.claims import Result, Verdict

__all__ = ["claims"]

#: As many claims are shown whole; more are a line each.
_WHOLE = 3


def claims(
    ids: Annotated[list[str] | None, typer.Argument(help="claims, A-001 to B-179; all without")]
        = None,
    *,
    only: Annotated[str | None, typer.Option(help="verdicts to show: false,changed ...")] = None,
    markdown: Annotated[bool, typer.Option("--markdown",
                                           help="the corrections as a Markdown table")] = False,
    json: Json = False,
) -> None:
    """Print article's value, ours, verdict, evidence. Exit 1 if any claim shown is refuted."""
    from mmalab.claims import counts, report, rerun

    wanted = _verdicts(only)
    if not ids:
        sys.stderr.write("every claim is run again, about a minute\n")
    found = rerun(ids or ())
    shown = [result for result in found if not wanted or result.verdict in wanted]
    if json:
        print_json([result.as_dict() for result in shown])
    elif markdown:
        say(report.corrections(shown))
    else:
        if ids and len(ids) <= _WHOLE:
            for result in shown:
                say(*report.whole(result))
        elif shown:
            say(table([report.line(result) for result in shown],
                      ("claim", "verdict", "the article says", "ours")))
        if not ids:
            say("", f"{len(found)} claims: " + ", ".join(
                f"{n} {word}" for word, n in counts(found).items() if n))
        _moved(found)
    if any(result.verdict.refuted or result.moved for result in shown):
        raise typer.Exit(1)


def _verdicts(only: str | None) -> set[Verdict]:
    from mmalab.claims import Verdict
    from mmalab.errors import UsageError

    chosen = set()
    for word in filter(None, (only or "").split(",")):
        fits = [verdict for verdict in Verdict if verdict.value.startswith(word.strip().lower())]
        if not fits:
            raise UsageError(f"--only {word}", "is not a verdict",
                             legal=[verdict.value for verdict in Verdict],
                             where="mmalab claims --help")
        chosen.update(fits)
    return chosen


def _moved(found: list[Result]) -> None:
    """Verdicts that are not those on record are told last, where they are seen."""
    for result in found:
        if result.moved:
            say(f"moved: {result.id} was {result.before}, now {result.verdict}; "
                f"mmalab claims {result.id}")
