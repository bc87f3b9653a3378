"""The matrix against the instruction table: where ptxas and :mod:`mmalab.isa` differ.

What the table states of a form is a set of targets; what ptxas does is another. They should be
equal, so the whole matrix fits into a small record: the table's statement, and the exceptions.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from mmalab import isa
from mmalab.atlas.capability import Answer
from mmalab.atlas.specimens import Specimen
from mmalab.isa.operand_text import split
from mmalab.isa.targets import TargetSet, parse_targets
from mmalab.isa.targets import target as target_row

__all__ = ["digest_of", "disagreements", "record", "stated"]


def stated(specimen: Specimen, targets: Sequence[str], version: str) -> TargetSet:
    """The targets, of those given, for which the instruction table says that it is legal."""
    form = isa.find(specimen.opcode)
    major, _, minor = version.partition(".")
    number = int(major), int(minor)
    if form.until is not None and number > form.until:
        return TargetSet()
    able = [name for name in targets if name in parse_targets(form.targets)]
    if specimen.name == specimen.opcode:
        return TargetSet(able)
    operands = split(specimen.text)[1] or ()
    return TargetSet(name for name in able if isa.operand_problem(
        form, operands, target_row(name), number) is None)


def disagreements(answers: Iterable[Answer]) -> dict[str, tuple[TargetSet, TargetSet]]:
    """Forms for which ptxas takes other targets than the table states: (ptxas, table)."""
    found = {}
    for answer in answers:
        judged = (*answer.targets, *answer.messages)
        table = stated(answer.specimen, judged, answer.version)
        if table != frozenset(answer.targets):
            found[answer.form] = TargetSet(answer.targets), table
    return found


def digest_of(rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """One number for (form, targets) of a whole matrix, in any order."""
    state = hashlib.sha256()
    for form, targets in sorted((form, sorted(targets)) for form, targets in rows):
        state.update(f"{form}\t{' '.join(targets)}\n".encode())
    return state.hexdigest()


def record(answers: Sequence[Answer]) -> dict[str, Any]:
    """A matrix as a small record: counts, a digest, and where the table states something else."""
    first = answers[0]
    judged = sorted({*first.targets, *first.messages}, key=lambda name: (
        target_row(name).number, target_row(name).suffix))
    sets = Counter(str(TargetSet(a.targets)) for a in answers)
    return {
        "command": "mmalab atlas -o FILE", "ptxas": first.toolkit, "ptx": first.version,
        "targets": judged, "spellings": len(answers), "verdicts": len(answers) * len(judged),
        "accepted": sum(len(a.targets) for a in answers),
        "spellings_by_targets": dict(sorted(sets.items(), key=lambda pair: -pair[1])),
        "digest": digest_of((a.form, a.targets) for a in answers),
        "exceptions": {form: {"ptxas": str(ours), "table": str(table)}
                       for form, (ours, table) in disagreements(answers).items()},
    }
