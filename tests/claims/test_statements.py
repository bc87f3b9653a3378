"""The list of claims: complete, in our words, with the articles' values, each with code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mmalab.claims.registry import claim, codes
from mmalab.claims.statements import VERDICTS, recorded, statement, statements
from mmalab.claims.topics import MODULES
from mmalab.errors import UsageError


def test_every_claim_has_code() -> None:
    """And no code has no claim."""
    assert set(codes()) == set(statements())
    assert len(statements()) == 343


@pytest.mark.shared
def test_the_list_is_the_articles(shared: Path) -> None:
    """Ids, order and values are those of the list of claims."""
    rows = json.loads((shared / "claims.json").read_text(encoding="utf-8"))
    assert [row["id"] for row in rows] == list(statements())
    assert [row["id"] for row in rows if row["value"] != statements()[row["id"]].value] == []


@pytest.mark.shared
def test_words_are_ours(shared: Path) -> None:
    """No run of seven words of ours stands in an article, nor of ten in the handed list."""
    def plain(text: str) -> str:
        return " ".join(re.findall(r"[a-z0-9.]+", text.lower()))

    articles = plain(" ".join(path.read_text(encoding="utf-8")
                              for path in (shared / "seeds").glob("*.txt")))
    handed = plain(" ".join(row["statement"] for row in json.loads(
        (shared / "claims.json").read_text(encoding="utf-8"))))
    copied = [f"{each.id}: {each.says}" for each in statements().values()
              for length, text in ((7, articles), (10, handed))
              if any(run in text for run in _runs(plain(each.says), length))]
    assert copied == []


def _runs(text: str, length: int) -> list[str]:
    words = text.split()
    return [" ".join(words[at:at + length]) for at in range(len(words) - length + 1)]


def test_short() -> None:
    """One line of words for each, and no two alike."""
    says = [each.says for each in statements().values()]
    assert max(map(len, says)) <= 100
    assert len(set(says)) == len(says)


def test_every_claim_is_on_record() -> None:
    """The record has a verdict for each, and says what made it."""
    record = json.loads(VERDICTS.read_text(encoding="utf-8"))
    assert set(recorded()) == set(statements())
    assert record["ptxas"]
    assert sum(record["counts"].values()) == 343
    settled = [name for name, verdict in recorded().items() if verdict.settled]
    assert len(settled) >= 250
    assert sum(verdict.value in ("false", "changed") for verdict in recorded().values()) >= 14


def test_ids() -> None:
    """Any case, with or without zeros; unknown ones name the nearest."""
    assert statement("b-47") is statement("B47") is statement("B-047")
    with pytest.raises(UsageError) as failed:
        statement("B-999")
    assert "B-179" in str(failed.value)
    assert "B-001 to B-179" in str(failed.value)


def test_code_is_registered_once() -> None:
    """Two codes for one claim, or code for none, is an error of the package."""
    with pytest.raises(ValueError, match="has code already"):
        claim("A-001")
    with pytest.raises(ValueError, match="is not a claim"):
        claim("A-999")


def test_topics_are_modules_of_the_package() -> None:
    """Every topic file is imported: none is forgotten."""
    folder = Path(MODULES[0].__file__ or "").parent
    assert {Path(module.__file__ or "") for module in MODULES} == {
        path for path in folder.glob("*.py") if path.stem != "__init__"}


def test_readme_lists_the_corrections() -> None:
    """The table in the README has a row for every refuted claim on record, and no other."""
    text = (VERDICTS.parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([AB]-\d{3}) \| (\w+) \|", text, re.MULTILINE)
    assert dict(rows) == {name: verdict.value for name, verdict in recorded().items()
                          if verdict.refuted}
