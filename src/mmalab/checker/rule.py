"""What a rule is: a name, the code and severity of what it finds, where it is written, a function.

    Rule("bar-count", "operand-mismatch", "error", "PTX ISA, bar", "counts are ...", faults)

The function takes the :class:`~mmalab.checker.subject.Subject` and yields faults; it reports facts
and leaves wording of severity and code to its row, except where one look finds two kinds of things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mmalab.checker.subject import Subject
from mmalab.findings import Finding, Severity, Where

__all__ = ["Fault", "Rule", "message"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One breach of a rule. `code` and `severity` replace those of the rule where they are set."""

    message: str
    line: int | None = None
    witness: dict[str, Any] | None = None
    code: str = ""
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules."""

    name: str
    code: str
    severity: Severity
    source: str
    summary: str
    faults: Callable[[Subject], Iterable[Fault]]

    def findings(self, subject: Subject) -> Iterable[Finding]:
        """What the rule finds in a module."""
        for fault in self.faults(subject):
            witness = {"rule": self.name, **(fault.witness or {})}
            yield Finding(fault.code or self.code, fault.severity or self.severity,
                          f"{fault.message}\n  see:   {self.source}" if self.source
                          else fault.message, Where(line=fault.line), witness)


def message(given: str, rule: str, legal: Iterable[str] = (), instead: str = "") -> str:
    """The parts of a message in their order: what was given, which rule, what would be legal."""
    text = f"{given.rstrip(';')}: {rule}"
    legal = list(legal)
    if legal:
        text += "\n  legal: " + ", ".join(legal)
    if instead:
        text += "\n  instead: " + instead
    return text
