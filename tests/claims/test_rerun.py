"""Claims run again without an assembler, and with other values in the article."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mmalab.claims import Result, Verdict, counts, records, rerun
from mmalab.claims.registry import codes
from mmalab.claims.statements import statements
from mmalab.cli.main import VERBS
from mmalab.errors import ToolError
from mmalab.toolchain import AssemblyError

ROOT = Path(__file__).parents[2]
#: The article's numbers are shown and cannot be compared: values of inputs that it does not print,
#: the size of a download, a duration.
SHOWN_ONLY = {"A-027", "B-003", "B-170"}


@pytest.fixture(scope="module")
def without(no_tools: None) -> list[Result]:
    """All claims where no ptxas is installed."""
    del no_tools
    return rerun()


@pytest.fixture(scope="module")
def decided(without: list[Result]) -> list[Result]:
    """Those that need no assembler."""
    return [result for result in without if result.verdict.settled]


def test_none_is_skipped(without: list[Result]) -> None:
    """343 results, each with comparisons or a reason, evidence, and a command."""
    assert [result.id for result in without] == list(statements())
    assert sum(counts(without).values()) == 343
    for result in without:
        found = result.answer
        assert bool(found.checks) != bool(found.reason), result.id
        assert not found.checks or found.evidence, result.id
        assert result.command.startswith("mmalab ")


def test_missing_tools_are_told(without: list[Result]) -> None:
    """What needs ptxas says so; nothing else differs from the record."""
    other = {result.id: (result.before, result.verdict) for result in without if result.moved}
    told = {result.id for result in without if result.answer.reason.startswith(
        ("ptxas", "nvdisasm"))}
    assert set(other) - told == set()
    assert all(verdict is Verdict.OUT_OF_REACH for _, verdict in other.values())


def test_enough_needs_no_tool(decided: list[Result]) -> None:
    """Arithmetic, models, emulation and records decide these everywhere."""
    assert len(decided) >= 130


def test_refuted_claims_say_what_is_right(decided: list[Result]) -> None:
    """A correction has words."""
    assert [r.id for r in decided if r.verdict.refuted and not r.answer.right] == []


def test_numbers_decide(decided: list[Result]) -> None:
    """With another number in the article a claim that holds no longer does."""
    blind = []
    for result in decided:
        value = result.statement.value
        if result.verdict is not Verdict.HOLDS or not _has_number(value):
            continue
        other = codes()[result.id](replace(result.statement, value=_other(value)))
        if other.verdict is Verdict.HOLDS:
            blind.append(result.id)
    assert set(blind) <= SHOWN_ONLY


def _has_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_number, value))
    return isinstance(value, (int, float))


def _other(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _other(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_other(item) for item in value]
    return 2 * value + 1 if isinstance(value, (int, float)) else value


def test_a_refusal_makes_a_claim_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer assembler that refuses the text is seen, in its own words."""
    def refused(_said: object) -> None:
        raise AssemblyError("ptxas 99.0", "refuses the text", diagnostics=(), command=(),
                            output="error: no such instruction")

    monkeypatch.setattr("mmalab.claims.rerunning.codes", lambda: {"B-061": refused})
    [result] = rerun(["B-061"])
    assert result.verdict is Verdict.FALSE
    assert "no such instruction" in result.answer.ours
    assert result.moved


def test_a_missing_record_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a record that is not there."""
    def absent(_name: str) -> None:
        raise ToolError("records/h200/equality.json", "is not installed")

    monkeypatch.setattr("mmalab.claims.records.load", absent)
    [result] = rerun(["A-026"])
    assert result.verdict is Verdict.OUT_OF_REACH
    assert "equality.json" in result.answer.reason


def test_records_travel_with_the_package() -> None:
    """What the claims read is what the wheel carries."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    read = {records.EQUALITY, records.COPIES, records.WARPGROUPS, records.OCCUPANCY, records.BENCH}
    assert all(any(Path(name).is_relative_to(each) for each in carried) for name in read)
    assert all(place == f"mmalab/{name}" and (ROOT / name).exists()
               for name, place in carried.items())


def test_commands_are_verbs(without: list[Result]) -> None:
    """What repeats a claim is something that the command line has."""
    assert {result.command.split()[1] for result in without} <= set(VERBS)
