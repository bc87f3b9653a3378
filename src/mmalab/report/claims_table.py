"""The claims of the two articles as rows of the page, from the committed answers.

The record is what ``tools/claims_verdicts.py`` wrote when it last ran every claim; the page says
when, and with which assemblers. Where no record travels the claims are run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmalab.claims import Verdict, rerun
from mmalab.claims.records import load
from mmalab.claims.report import short
from mmalab.claims.statements import ARTICLES
from mmalab.errors import ToolError

__all__ = ["RECORD", "Claim", "ClaimsTable", "claims_table"]

RECORD = "records/claims.json"
_VALUE = 320


@dataclass(frozen=True, slots=True)
class Claim:
    """One row: `evidence` as (kind, words), comparisons joined, `text` what a search reads."""

    id: str
    article: str
    at: str
    says: str
    value: str
    verdict: str
    ours: str
    evidence: tuple[tuple[str, str], ...]
    command: str

    @property
    def text(self) -> str:
        """Everything that a search should find, in lower case."""
        words = [self.id, self.at, self.says, self.value, self.ours, self.command]
        return " ".join([*words, *(said for _, said in self.evidence)]).lower()


@dataclass(frozen=True, slots=True)
class ClaimsTable:
    """All claims, how many of each verdict, and when and with what they were found."""

    rows: tuple[Claim, ...]
    counts: Mapping[str, int]
    articles: Mapping[str, str]
    made: str


def claims_table() -> ClaimsTable:
    """From the record, or run again where there is none."""
    try:
        record = load(RECORD)
        rows, made = record["claims"], (
            f"{record['command']}, {record['date']}, ptxas {', '.join(record['ptxas'])}")
    except ToolError:
        rows, made = [result.as_dict() for result in rerun()], "run for this page"
    claims = tuple(map(_claim, rows))
    counted = Counter(claim.verdict for claim in claims)
    return ClaimsTable(claims, {verdict.value: counted[verdict.value] for verdict in Verdict},
                       ARTICLES, made)


def _claim(row: Mapping[str, Any]) -> Claim:
    said = row["article"]
    return Claim(
        id=row["id"], article=said["article"], at=said["at"], says=said["says"],
        value=short(said["value"], _VALUE), verdict=row["verdict"],
        ours=short(row["ours"], _VALUE),
        evidence=tuple(_evidence(row["evidence"])), command=row["command"])


#: What stands first below our value; comparisons stand last.
_FIRST = ("instead", "reason")


def _evidence(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What is right instead, how it is known, then the comparisons that differ and that agree."""
    said = [(str(row["kind"]), str(row["what"])) for row in rows if row["kind"] != "compared"]
    yield from sorted(said, key=lambda each: each[0] not in _FIRST)
    compared = [row for row in rows if row["kind"] == "compared"]
    for word, agrees in (("differs", False), ("agrees", True)):
        found = "; ".join(str(row["what"]) for row in compared if row["agrees"] is agrees)
        if found:
            yield word, found
