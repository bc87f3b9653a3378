"""The page: whole, self-contained, well formed, and what the verb says of it."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmalab.claims import statements
from mmalab.claims.statements import recorded
from mmalab.cli import tour_report
from mmalab.cli.main import VERBS, app
from mmalab.cli.tour import STEPS
from mmalab.errors import ToolError
from mmalab.report import Figure, Report
from mmalab.report import page as page_module
from mmalab.report.claims_table import RECORD as CLAIMS
from mmalab.report.figures import (
    allocator_code,
    latency,
    measured,
    portability,
    register_file,
)
from mmalab.report.pipeline import RECORD as FAULTS

ROOT = Path(__file__).resolve().parents[2]
#: Elements that have no end.
VOID = {"meta", "input", "br", "link", "img", "hr", "col", "wbr"}
#: What would be fetched.
FETCHED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("use", "href"),
           ("object", "data"), ("video", "src"), ("audio", "src"), ("source", "src")}


class Reader(HTMLParser):
    """Checks that elements nest, and keeps ids, addresses and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.unnamed: list[str] = []
        self.figures: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.fetched += [value or "" for name, value in attrs if (tag, name) in FETCHED]
        self.fetched += re.findall(r"url\((.*?)\)", found.get("style") or "")
        if "id" in found:
            self.ids.append(found["id"] or "")
        if tag == "a":
            self.links.append(found.get("href") or "")
        if tag == "svg" and not found.get("aria-label"):
            self.unnamed.append(str(self.getpos()))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, (tag, self.getpos())
        assert self.open.pop() == tag, (tag, self.getpos())


@pytest.fixture(scope="module")
def read(made: Report) -> Reader:
    reader = Reader()
    reader.feed(made.html)
    reader.close()
    return reader


def test_elements_nest_and_ids_are_unique(read: Reader) -> None:
    assert read.open == []
    assert sorted(read.ids) == sorted(set(read.ids))
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)
    assert read.unnamed == []


def test_nothing_is_fetched(made: Report, read: Reader) -> None:
    """No element loads an address, no style does, no script asks for one; the policy forbids it."""
    assert read.fetched == []
    style = made.html.partition("<style>")[2].partition("</style>")[0]
    script = made.html.rpartition("<script>")[2]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(|EventSource", script)
    assert "default-src 'none'" in made.html
    assert len(made.html.encode()) < 3_000_000


def test_nothing_is_missing_in_a_checkout(made: Report) -> None:
    """With the repository's records every figure is there, and every claim."""
    assert made.missing == ()
    assert made.pipeline is not None
    assert [claim.id for claim in made.claims.rows] == list(statements())
    assert len(made.figures) >= 18


def test_every_figure_is_whole(made: Report) -> None:
    """Evidence, command, numbers, two pictures, a place on the page of its own."""
    for figure in made.figures:
        assert figure.evidence, figure.id
        assert all(each.what for each in figure.evidence), figure.id
        assert figure.table.rows, figure.id
        assert {len(row) for row in figure.table.rows} == {len(figure.table.head)}, figure.id
        wide, narrow = figure.pictures()
        assert wide != narrow, figure.id
        assert f'id="{figure.id}"' in made.html
    names = [figure.id for figure in made.figures]
    assert sorted(names) == sorted(set(names))


def commands(figure: Figure) -> list[str]:
    """The words of the last command of a line, without variables."""
    last = figure.command.rpartition("&&")[2]
    return [word for word in shlex.split(last) if "=" not in word]


def test_commands_can_be_typed(made: Report) -> None:
    """Each is a verb of the command line, or a script of the repository."""
    for figure in made.figures:
        first, second, *_ = commands(figure)
        if first == "mmalab":
            assert second in VERBS, figure.command
        else:
            assert first == "python", figure.command
            assert (ROOT / second).is_file(), figure.command


def test_the_answers_on_record_have_the_verdicts_on_record(made: Report) -> None:
    """Both are written by the same run: python tools/claims_verdicts.py."""
    assert {claim.id: claim.verdict for claim in made.claims.rows} == {
        name: verdict.value for name, verdict in recorded().items()}
    assert sum(made.claims.counts.values()) == len(made.claims.rows)


def test_claims_have_all_that_is_asked(made: Report) -> None:
    for claim in made.claims.rows:
        assert claim.says, claim.id
        assert claim.evidence, claim.id
        assert claim.command.startswith("mmalab "), claim.id
        assert claim.id.lower() in claim.text


def test_data_cannot_end_its_element(made: Report) -> None:
    data = made.html.partition('type="application/json">')[2].partition("</script>")[0]
    assert json.loads(data) == json.loads(json.dumps(made.explorer))


def test_records_travel_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    shown = {CLAIMS, FAULTS, register_file.DRAIN, portability.ATLAS, measured.LADDER,
             measured.BENCHES, latency.LATENCY}
    assert shown <= set(carried)
    assert all((ROOT / name).exists() for name in shown)
    assert all(place == f"mmalab/{name}" for name, place in carried.items())


def test_without_records_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that need a record are left out by name; the others are there."""
    def absent(name: str) -> None:
        raise ToolError(name, "is not installed")

    for module in (measured, register_file, portability, allocator_code, latency):
        monkeypatch.setattr(module, "load", absent)
    monkeypatch.setattr(measured, "listed", lambda _: ())
    monkeypatch.setattr(page_module, "explorer_data", dict)
    monkeypatch.setattr("mmalab.report.pipeline.load", absent)
    found = page_module.build()
    names = {figure.id for figure in found.figures}
    assert {"ledger", "tile", "errors", "portability"} <= names
    assert not {"measured", "agreement", "drain", "inner-loops", "guardrails",
                "latency"} & names
    assert found.pipeline is None
    assert len(found.missing) == 7
    assert all(words in found.html.replace("&#39;", "'") for words in found.missing)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ToolError, match="is not installed"):
        page_module.build()


def test_the_verb(made: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmalab.report.build", lambda: made)
    answer = CliRunner().invoke(app, ["report", "-o", str(tmp_path / "new"), "--json"])
    assert answer.exit_code == 0
    told = json.loads(answer.stdout)
    path = Path(told["path"])
    assert path.parent == tmp_path / "new"
    assert path.read_text(encoding="utf-8") == made.html
    assert path.stat().st_size == told["bytes"]
    assert told["figures"] == [figure.id for figure in made.figures]
    assert told["missing"] == []


def test_the_tour_ends_with_it(made: Report, tmp_path: Path,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step writes it here; where here cannot be written, elsewhere, and says where."""
    assert STEPS[-1] == ("the report", tour_report.page)
    monkeypatch.setattr(tour_report, "build", lambda: made)
    monkeypatch.chdir(tmp_path)
    outcome = tour_report.page()
    assert outcome.ok
    assert (tmp_path / outcome.data["path"]).read_text(encoding="utf-8") == made.html
    monkeypatch.setattr(tour_report, "FOLDER", tmp_path / outcome.data["path"])  # a file
    outcome = tour_report.page()
    assert outcome.ok
    assert Path(outcome.data["path"]).read_text(encoding="utf-8") == made.html
