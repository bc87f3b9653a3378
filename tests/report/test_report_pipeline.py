"""The sanitizer's section: the record is the faults of tests/mutants, each at its step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mutants.faults import MUTANTS

from mmalab.errors import MmalabError
from mmalab.findings import CODES
from mmalab.report import Report
from mmalab.report import pipeline as module
from mmalab.report.pipeline import RECORD, STEPS

ROOT = Path(__file__).resolve().parents[2]


def test_the_record_is_that_of_the_faults(made: Report) -> None:
    """Names, words and accepted codes; made again by python tools/report_records.py pipeline."""
    rows = json.loads((ROOT / RECORD).read_text(encoding="utf-8"))["faults"]
    assert {row["name"]: (row["what"], tuple(row["expected"])) for row in rows} == {
        name: (mutant.what, mutant.codes) for name, mutant in MUTANTS.items()}
    for row in rows:
        assert row["caught"] == bool(set(row["found"]) & set(row["expected"])), row["name"]
        assert set(row["found"]) <= set(CODES)
    assert made.pipeline is not None
    assert (made.pipeline.total, made.pipeline.caught) == (
        len(rows), sum(row["caught"] for row in rows))


def test_every_fault_stands_at_one_step(made: Report) -> None:
    assert made.pipeline is not None
    placed = [fault.name for step in made.pipeline.steps for fault in step.faults]
    assert sorted(placed) == sorted(MUTANTS)
    assert all(step.faults for step in made.pipeline.steps)
    assert len(made.pipeline.steps) == len(STEPS)
    assert made.pipeline.clean["verdict"] == "clean"


def test_deadlocks_are_explained(made: Report) -> None:
    """Each has causes with a repair, and who waits for what."""
    assert made.pipeline is not None
    assert len(made.pipeline.deadlocks) >= 7
    for fault in made.pipeline.deadlocks:
        assert fault.causes, fault.name
        assert all(cause["words"] and cause["repair"] for cause in fault.causes)
        assert all(wait["instruction"] and wait["because"] for wait in fault.waits)
        assert fault.what in made.html.replace("&#39;", "'")


def test_an_unknown_step_is_an_error() -> None:
    with pytest.raises(MmalabError, match="no step of the pipeline"):
        module._step_of("nowhere.at.all")
