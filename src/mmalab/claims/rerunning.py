"""Run the claims again: all of them, or some, in the order of the articles.

    >>> [row] = rerun(["A-014"])
    >>> row.verdict.value, row.answer.ours
    ('holds', 64)

Nothing is skipped: where a tool or a record is missing, the claim says so and is `not checkable
here`; where an assembler refuses what a claim is about, the claim is false and shows its words.
Verdicts are compared with those on record, so a new toolkit that turns one is seen at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mmalab.claims.model import Answer, Check, Evidence, Result, Verdict, out_of_reach
from mmalab.claims.statements import recorded, statement, statements
from mmalab.claims.topics import codes
from mmalab.errors import MmalabError, ToolError
from mmalab.toolchain import AssemblyError

__all__ = ["counts", "rerun"]


def rerun(names: Iterable[str] = ()) -> list[Result]:
    """The results of the claims of these ids; of all without any.

    Raises:
        UsageError: an unknown id.
    """
    chosen = [statement(name) for name in names] or list(statements().values())
    return [_result(each.id) for each in chosen]


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many there are of each verdict, every verdict named."""
    found = Counter(result.verdict for result in results)
    return {verdict.value: found[verdict] for verdict in Verdict}


def _result(name: str) -> Result:
    said = statements()[name]
    try:
        found = codes()[name](said)
    except AssemblyError as refused:
        found = Answer(str(refused), (Check(f"{refused.given} takes the text", agrees=False),),
                       (Evidence("compiled", refused.given),), right=str(refused.rule))
    except ToolError as missing:
        found = out_of_reach(_first_line(missing))
    return Result(said, found, recorded().get(name))


def _first_line(error: MmalabError) -> str:
    words = f"{error.given}: {error.rule}" if error.rule else error.given
    return f"{words}; {', '.join(error.legal)}" if error.legal else words
