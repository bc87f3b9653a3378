"""Results for people: one claim whole, one line each, and the corrections as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mmalab.claims.model import Result, Verdict
from mmalab.claims.statements import ARTICLES

__all__ = ["corrections", "line", "short", "whole"]

def short(value: Any, width: int = 60) -> str:
    """A value in one line, cut with an ellipsis."""
    text = _words(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_words(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_words, value)) + "]"
    return "-" if value is None else str(value)


def line(result: Result) -> tuple[str, str, str, str]:
    """Id, verdict, what is claimed, our value: a row of the table."""
    verdict = f"{result.verdict.value}{' (moved)' if result.moved else ''}"
    return result.id, verdict, short(result.statement.says, 64), short(result.answer.ours, 40)


def whole(result: Result) -> Iterator[str]:
    """Everything about one claim."""
    said, found = result.statement, result.answer
    yield f"{said.id}: {result.verdict.value}"
    yield f"  article  {said.article}, {said.at}: {said.says}"
    yield f"           value {_words(said.value)}"
    yield f"  ours     {_words(found.ours)}"
    for check in found.checks:
        yield f"           {'agrees ' if check.agrees else 'DIFFERS'}  {check.what}"
    for label, words in (("instead", found.right), ("reason", found.reason),
                         ("apart", found.unchecked)):
        if words:
            yield f"  {label:<8} {words}"
    for evidence in found.evidence:
        yield f"  known by {evidence.kind}: {evidence.what}"
    if result.moved:
        yield f"  MOVED    on record it was: {result.before}"
    yield f"  again    {result.command}"


def corrections(results: Iterable[Result]) -> str:
    """What is false, changed or imprecise, with what is right instead, as Markdown."""
    rows = [result for result in results if result.verdict.refuted]
    parts = []
    for article, title in ARTICLES.items():
        own = [result for result in rows if result.statement.article == article]
        if not own:
            continue
        parts += [f"### Article {article}: {title}", "",
                  "| claim | verdict | the article says | what is right | known by |",
                  "|---|---|---|---|---|", *map(_row, sorted(own, key=_rank)), ""]
    return "\n".join(parts)


def _rank(result: Result) -> tuple[int, str]:
    return list(Verdict).index(result.verdict), result.id


def _row(result: Result) -> str:
    found = result.answer
    right = found.right or short(found.ours, 200)
    known = "; ".join(dict.fromkeys(f"{e.kind}: {e.what}" for e in found.evidence))
    cells = (result.id, result.verdict.value, result.statement.says, right, known)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
