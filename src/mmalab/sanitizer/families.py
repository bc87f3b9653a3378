"""One cause, one finding: pairs of accesses that lack the same edge are told together.

An epilogue of sixteen stores without a proxy fence before one TMA store makes sixteen unordered
pairs. They share an end (the TMA store) and the gap, so they are one family, told as its first
member; the others are named by their lines::

    line 1279 reads what line 821 wrote: no fence.proxy.async ...   (the same after lines 851, 881)

Pairs belong together when code, severity and the words of the gap agree and one end is the same
instruction. The end with the most pairs takes its family first. Findings about one instruction
belong together when they differ in nothing but their lines, or name one family in their witness.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from mmalab.findings import Finding

__all__ = ["folded"]

#: (0: earlier, 1: later; line).
End: TypeAlias = tuple[int, int]
_SHOWN = 8
_LINES = re.compile(r"\blines? \d+")


def folded(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each family once, where its first member stood."""
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for index, finding in enumerate(findings):
        kinds.setdefault(_kind(finding), []).append(index)
    told: dict[int, Finding] = {}
    for members in kinds.values():
        for family in _families(findings, members):
            told[family[0]] = _told([findings[i] for i in family])
    return [told[index] for index in sorted(told)]


def _kind(finding: Finding) -> tuple[Any, ...]:
    witness = finding.witness or {}
    if "family" in witness:
        return finding.code, witness["family"]
    if _lines(finding) is None:
        words = _LINES.sub("line", finding.message) if "count" in witness else finding.message
        return (finding.code, finding.severity, words, finding.where.line is None)
    return (finding.code, finding.severity, witness.get("holds"), witness.get("missing"),
            witness["earlier"].get("actor"), witness["later"].get("actor"))


def _lines(finding: Finding) -> tuple[int, int] | None:
    """The lines of the two accesses, if the finding is about two."""
    witness = finding.witness or {}
    earlier, later = witness.get("earlier"), witness.get("later")
    if not isinstance(earlier, dict) or not isinstance(later, dict):
        return None
    if not isinstance(earlier.get("line"), int) or not isinstance(later.get("line"), int):
        return None
    return earlier["line"], later["line"]


def _families(findings: Sequence[Finding], members: list[int]) -> Iterable[list[int]]:
    """Split the members of one kind by the ends that they share."""
    ends: dict[int, tuple[End, End]] = {}
    for index in members:
        lines = _lines(findings[index])
        if lines is None or "family" in (findings[index].witness or {}):
            yield members
            return
        ends[index] = ((0, lines[0]), (1, lines[1]))
    while ends:
        counts = Counter(end for pair in ends.values() for end in pair)
        shared = max(counts, key=lambda end: counts[end])
        family = [index for index, pair in ends.items() if shared in pair]
        yield family
        for index in family:
            del ends[index]


def _told(family: list[Finding]) -> Finding:
    """The first of a family, with where the others are."""
    first, others = family[0], family[1:]
    if not others:
        return first
    witness = dict(first.witness or {})
    witness["count"] = sum((f.witness or {}).get("count", 1) for f in family)
    witness["same"] = [list(_lines(other) or (other.where.line,)) for other in others]
    message = _after_the_last(first, others, first.message)
    if "repair" in witness:
        witness["repair"] = _after_the_last(first, others, witness["repair"])
    return replace(first, message=f"{message} (the same {_where(first, others)})", witness=witness)


def _after_the_last(first: Finding, others: list[Finding], words: str) -> str:
    """A repair that stands behind the earlier access stands behind the last of the family."""
    own = _lines(first)
    if own is None:
        return words
    last = max([own[0], *((_lines(other) or own)[0] for other in others)])
    head, mark, repair = words.rpartition("Repair: ")
    return head + mark + re.sub(rf"\bafter line {own[0]}\b", f"after line {last}", repair)


def _where(first: Finding, others: list[Finding]) -> str:
    """The places of the others in words: the end that differs from the first's."""
    own = _lines(first)
    if own is None or "family" in (first.witness or {}):
        return _listed("at", [other.where.line for other in others])
    pairs = [_lines(other) or own for other in others]
    if all(earlier == own[0] for earlier, _ in pairs):
        return _listed("at", [later for _, later in pairs])
    return _listed("after", [earlier for earlier, _ in pairs])


def _listed(word: str, lines: Sequence[int | None]) -> str:
    known = sorted({line for line in lines if line is not None})
    if not known:
        return f"{len(lines)} times more"
    shown = ", ".join(map(str, known[:_SHOWN]))
    rest = len(known) - _SHOWN
    return (f"{word} line{'s' if len(known) > 1 else ''} {shown}"
            + (f" and {rest} more" if rest > 0 else ""))
