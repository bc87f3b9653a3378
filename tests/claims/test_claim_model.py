"""Verdicts follow from comparisons, and from nothing else."""

from __future__ import annotations

import pytest

from mmalab.claims import Verdict
from mmalab.claims.compare import near, same
from mmalab.claims.model import Result, Statement, answer, open_question, out_of_reach

SAID = Statement("A-001", "TL;DR", "a number", 8)


@pytest.mark.parametrize(("comparisons", "verdict"), [
    ({"must": {"a": True}}, "holds"),
    ({"must": {"a": True, "b": False}}, "false"),
    ({"must": {"a": True}, "should": {"b": False}}, "imprecise"),
    ({"must": {"a": False}, "should": {"b": False}}, "false"),
    ({"across": {"12.9": True, "13.5": True}, "as_written": "12.9"}, "holds"),
    ({"across": {"12.9": True, "13.5": False}, "as_written": "12.9"}, "changed"),
    ({"across": {"12.9": False, "13.5": True}, "as_written": "12.9"}, "false"),
    ({"across": {"12.9": True, "13.5": False}, "as_written": "12.9", "should": {"x": False}},
     "changed"),
    ({"must": {"a": False}, "across": {"12.9": True}, "as_written": "12.9"}, "false"),
])
def test_verdict(comparisons: dict, verdict: str) -> None:
    """False before changed before imprecise before holds."""
    assert answer(8, **comparisons).verdict == verdict


def test_an_answer_compares_something() -> None:
    """A claim that compares nothing cannot hold."""
    with pytest.raises(ValueError, match="needs a comparison"):
        answer(8)
    with pytest.raises(ValueError, match="needs a comparison"):
        answer(8, across={"13.5": True}, as_written="12.9")


def test_undecided() -> None:
    """Open and out of reach carry their reason and no comparison."""
    assert open_question("needs a chip").verdict is Verdict.OPEN
    assert out_of_reach("needs a laptop").verdict is Verdict.OUT_OF_REACH
    assert not Verdict.OPEN.settled
    assert not Verdict.OUT_OF_REACH.refuted
    assert Verdict.CHANGED.refuted


def test_moved() -> None:
    """A verdict that is not the one on record says so, in its data too."""
    result = Result(SAID, answer(9, must={"9 = 8": False}), Verdict.HOLDS)
    assert result.moved
    assert {"kind": "moved", "what": "on record: holds"} in result.as_dict()["evidence"]
    assert not Result(SAID, answer(8, must={"8 = 8": True}), Verdict.HOLDS).moved


def test_comparisons() -> None:
    """Tuples are lists, every number must be near, shapes must agree."""
    assert same((1, [2, 3]), [1, (2, 3)])
    assert not same([1, 2], [1, 2, 3])
    assert near({"b": 2.0, "a": 1.0}, {"a": 1.01, "b": 2.0}, 0.02)
    assert not near([1.0, 2.0], [1.0, 2.2], 0.05)
    assert not near([1.0], [1.0, 1.0], 0.5)
