"""What an article says, what we find, and the verdict that follows from the two.

A claim's code computes our value and compares it; it never says the verdict. Three kinds of
comparison decide it::

    must      false for any: the claim is FALSE
    across    one entry a compiler release (or chip): right as the article had it and wrong under
              another is CHANGED, wrong as the article had it is FALSE
    should    wrong where the claim still stands in substance: IMPRECISE

    >>> answer(8, must={"the number": True}, should={"the words": False}).verdict.value
    'imprecise'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

__all__ = ["Answer", "Check", "Evidence", "Kind", "Result", "Statement", "Verdict", "answer",
           "open_question", "out_of_reach"]

#: How a value is known. `measured` is a committed record of a run on a chip.
Kind = Literal["derived", "compiled", "emulated", "measured", "recorded elsewhere"]


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FALSE = "false"
    CHANGED = "changed"
    IMPRECISE = "imprecise"
    OPEN = "open"
    OUT_OF_REACH = "not checkable here"

    @property
    def refuted(self) -> bool:
        """Whether something has to be corrected."""
        return self in (Verdict.FALSE, Verdict.CHANGED, Verdict.IMPRECISE)

    @property
    def settled(self) -> bool:
        """Whether the claim was decided at all."""
        return self not in (Verdict.OPEN, Verdict.OUT_OF_REACH)


@dataclass(frozen=True, slots=True)
class Statement:
    """One claim as the article makes it: its value, where it stands, in our words."""

    id: str
    at: str
    says: str
    value: Any

    @property
    def article(self) -> str:
        """``A`` (tensor cores on an Ada laptop) or ``B`` (Blackwell's Tensor Memory)."""
        return self.id[0]


@dataclass(frozen=True, slots=True)
class Evidence:
    """How we know: `kind`, and the formula, tool, model or source."""

    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison of ours with the article's: what was compared, and whether it agrees."""

    what: str
    agrees: bool
    weight: Literal["must", "across", "should"] = "must"


@dataclass(frozen=True, slots=True)
class Answer:
    """Our value of a claim, the comparisons made, and how we know.

    `undecided` is OPEN or OUT_OF_REACH where nothing could be compared, with the reason in
    `reason`. `right` says in words what is right instead, `unchecked` which parts of the claim
    nobody compared, `command` what repeats it (None: ``mmalab claims ID``).
    """

    ours: Any
    checks: tuple[Check, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    as_written: str = ""
    right: str = ""
    reason: str = ""
    unchecked: str = ""
    command: str | None = None
    undecided: Verdict | None = None

    @property
    def verdict(self) -> Verdict:
        """What the comparisons say."""
        if self.undecided is not None:
            return self.undecided
        across = {c.what: c.agrees for c in self.checks if c.weight == "across"}
        if not all(c.agrees for c in self.checks if c.weight == "must"):
            return Verdict.FALSE
        if across and not across[self.as_written]:
            return Verdict.FALSE
        if not all(across.values()):
            return Verdict.CHANGED
        if not all(c.agrees for c in self.checks):
            return Verdict.IMPRECISE
        return Verdict.HOLDS


@dataclass(frozen=True, slots=True)
class Result:
    """A claim and its answer. `before` is the verdict on record."""

    statement: Statement
    answer: Answer
    before: Verdict | None = None

    @property
    def id(self) -> str:
        """``B-047``."""
        return self.statement.id

    @property
    def verdict(self) -> Verdict:
        """The verdict of today."""
        return self.answer.verdict

    @property
    def moved(self) -> bool:
        """Whether the verdict differs from the one on record."""
        return self.before is not None and self.before is not self.verdict

    @property
    def command(self) -> str:
        """What repeats it."""
        return self.answer.command or f"mmalab claims {self.id}"

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON-able data: six keys; comparisons are part of the evidence."""
        found = self.answer
        evidence: list[dict[str, Any]] = [
            {"kind": each.kind, "what": each.what} for each in found.evidence]
        evidence += [{"kind": "compared", "what": check.what, "agrees": check.agrees}
                     for check in found.checks]
        for kind, words in (("instead", found.right), ("reason", found.reason),
                            ("not compared", found.unchecked)):
            if words:
                evidence.append({"kind": kind, "what": words})
        if self.moved:
            evidence.append({"kind": "moved", "what": f"on record: {self.before}"})
        return {
            "id": self.id, "verdict": self.verdict.value,
            "article": {"article": self.statement.article, "at": self.statement.at,
                        "says": self.statement.says, "value": self.statement.value},
            "ours": found.ours, "evidence": evidence, "command": self.command,
        }


_NONE: Mapping[str, bool] = {}


def answer(ours: Any, *evidence: Evidence, must: Mapping[str, bool] = _NONE,
           should: Mapping[str, bool] = _NONE, across: Mapping[str, bool] = _NONE,
           as_written: str = "", right: str = "", unchecked: str = "",
           command: str | None = None) -> Answer:
    """An answer with its comparisons by name; `as_written` is the article's entry of `across`.

    Raises:
        ValueError: nothing is compared, or `as_written` is no entry of `across`.
    """
    checks = (*(Check(what, bool(ok)) for what, ok in must.items()),
              *(Check(what, bool(ok), "across") for what, ok in across.items()),
              *(Check(what, bool(ok), "should") for what, ok in should.items()))
    if not checks or (across and as_written not in across):
        raise ValueError(f"an answer needs a comparison: {ours!r}")
    return Answer(ours, checks, evidence, as_written, right, unchecked=unchecked, command=command)


def open_question(reason: str, *evidence: Evidence, ours: Any = None) -> Answer:
    """Nothing known decides it; `reason` says what would."""
    return Answer(ours, (), evidence, reason=reason, undecided=Verdict.OPEN)


def out_of_reach(reason: str, *evidence: Evidence, ours: Any = None) -> Answer:
    """It can be decided, but not here; `reason` says with what. `ours` is what can be said."""
    return Answer(ours, (), evidence, reason=reason, undecided=Verdict.OUT_OF_REACH)
