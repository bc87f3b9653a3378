"""The table of verdicts: every fault, what was found, and that its right twin has no finding.

``PYTHONPATH=tests python -m mutants.verdicts`` writes it anew; the tests that run the kernels
compare their row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutants.faults import MUTANTS
from mutants.small_hopper import FAULTS, UNUSUAL, Case

__all__ = ["ANEW", "codes", "recorded", "table"]

#: What to do where a row is not today's.
ANEW = "if that is meant: PYTHONPATH=tests python -m mutants.verdicts"

_TABLE = Path(__file__).parent / "VERDICTS.md"
_HEAD = """# Verdicts

Written by `PYTHONPATH=tests python -m mutants.verdicts`; the tests that run the kernels compare
their row. Errors found under the eager schedule, by line. "-": no error and no warning.
"""


def table() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_pipeline(), "", *_small(), "", *_right()]) + "\n"


def recorded(name: str) -> list[str]:
    """The cells behind a fault's name, as committed."""
    shown = name if name in MUTANTS else name.replace("_", " ")
    rows = [line.strip("| ").split(" | ") for line in _TABLE.read_text("utf-8").splitlines()
            if line.startswith(f"| {shown} |")]
    return rows[0][1:] if rows else ["not in the table"]


def _pipeline() -> Iterator[str]:
    from mutants.hopper_pipeline import text
    from mutants.test_mutants import arguments, run

    yield "## A warp-specialised pipeline, one fault at a time"
    yield ""
    yield "| fault | what is wrong | found |"
    yield "| --- | --- | --- |"
    yield f"| none | | {codes(run(text(), arguments()[0]).findings)} |"
    for name, mutant in MUTANTS.items():
        found = run(text(mutant.fault), arguments()[0]).findings
        yield f"| {name} | {mutant.what} | {codes(found)} |"


def _small() -> Iterator[str]:
    yield "## Small kernels, each beside its right twin"
    yield ""
    yield "| fault | found | in the twin |"
    yield "| --- | --- | --- |"
    for name, (wrong, right) in FAULTS.items():
        yield f"| {name.replace('_', ' ')} | {_of(wrong)} | {_of(right)} |"


def _right() -> Iterator[str]:
    yield "## Right kernels of unusual make"
    yield ""
    yield "| kernel | found |"
    yield "| --- | --- |"
    for name, case in UNUSUAL.items():
        yield f"| {name.replace('_', ' ')} | {_of(case)} |"


def _of(case: Case) -> str:
    from mutants.hopper_snippets import run

    return codes(run(case.body, case.args(), **case.launch).findings)


def codes(findings: list[Any]) -> str:
    """A cell: the codes of the errors."""
    errors = dict.fromkeys(f.code for f in findings if f.severity == "error")
    warned = any(f.severity == "warning" for f in findings)
    return ", ".join(errors) or ("warning" if warned else "-")


if __name__ == "__main__":
    _TABLE.write_text(table(), encoding="utf-8")
