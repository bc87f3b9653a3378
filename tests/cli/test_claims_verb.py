"""``mmalab claims``."""

from __future__ import annotations

import pytest

from mmalab.claims import Verdict, statements
from mmalab.claims import rerun as all_of


def test_one_claim_whole(mmalab) -> None:
    """Article, ours, comparisons, what is right instead; exit 1 because it is refuted."""
    found = mmalab("claims", "A-084")
    assert found.code == 1
    assert "A-084: imprecise" in found.out
    assert "DIFFERS" in found.out
    assert "instead" in found.out
    assert "again    mmalab claims A-084" in found.out


def test_holding_claims_exit_0(mmalab) -> None:
    """Several claims are a line each."""
    found = mmalab("claims", "A-014", "a-16", "A-086", "B-018")
    assert found.code == 0
    assert found.out.splitlines()[0].split()[:2] == ["claim", "verdict"]
    assert [line.split()[0] for line in found.out.splitlines()[1:]] == [
        "A-014", "A-016", "A-086", "B-018"]


def test_json(mmalab) -> None:
    """Six keys, the contract's."""
    [row] = mmalab("claims", "B-002", "--json").json
    assert set(row) == {"id", "verdict", "article", "ours", "evidence", "command"}
    assert row["verdict"] == "imprecise"
    assert row["article"]["value"] == [0, 4]
    assert {"compared", "instead", "derived"} <= {each["kind"] for each in row["evidence"]}


def test_unknown_claim(mmalab) -> None:
    """Wrong use, with the nearest ids."""
    found = mmalab("claims", "C-7")
    assert found.code == 2
    assert "is not one of the articles' claims" in found.err
    assert "A-001 to A-164" in found.err


def test_only(mmalab) -> None:
    """Verdicts choose, by their beginnings; a word that is none is wrong use."""
    found = mmalab("claims", "A-014", "A-084", "--only", "imp,fal", "--json").json
    assert [row["id"] for row in found] == ["A-084"]
    assert mmalab("claims", "A-014", "--only", "holds").code == 0
    wrong = mmalab("claims", "--only", "maybe")
    assert wrong.code == 2
    assert "not checkable here" in wrong.err


def test_markdown(mmalab) -> None:
    """The corrections as a table that GitHub draws."""
    found = mmalab("claims", "A-118", "B-103", "A-014", "--markdown").out
    assert "| claim | verdict | the article says | what is right | known by |" in found
    assert "| A-118 | imprecise |" in found
    assert "A-014" not in found


def test_moved_verdicts_are_told(mmalab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict that is not the one on record ends the output, and the exit code is 1."""
    monkeypatch.setattr("mmalab.claims.rerunning.recorded", lambda: {"A-014": Verdict.FALSE})
    found = mmalab("claims", "A-014")
    assert found.code == 1
    assert "moved: A-014 was false, now holds" in found.out


def test_all_are_counted(mmalab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ids the last line counts every verdict."""
    some = all_of(["A-014", "A-084"])
    monkeypatch.setattr("mmalab.claims.rerun", lambda _ids: some)
    found = mmalab("claims")
    assert "2 claims: 1 holds, 1 imprecise" in found.out
    assert len(statements()) == 343
