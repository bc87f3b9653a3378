"""The site as a whole: links lead somewhere, nothing public is missing, the map is the imports."""

from __future__ import annotations

import importlib
import re
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from generators import api_pages, contents, finding_pages, isa_pages, layer_map, litmus, verb_pages
from generators.docstrings import markdown
from generators.examples import fences
from generators.markdown import anchor, first_sentence, prose, table
from generators.offline import fetched

from mmalab import isa
from mmalab.cli.main import VERBS
from mmalab.findings import CODES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WRITTEN = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
           for path in DOCS.rglob("*.md")}
_LINK = re.compile(r"(?<!!)\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^)\s]+)\)")
_PART = re.compile(r"<!-- generated: ([\w-]+) -->")


@cache
def generated() -> dict[str, str]:
    return contents.pages()


@cache
def every_page() -> dict[str, str]:
    """All pages of the site, parts of pages filled in."""
    parts = contents.parts()
    written = {name: _PART.sub(lambda found: parts[found[1]](), text)
               for name, text in WRITTEN.items()}
    return {**written, **generated()}


def anchors(text: str) -> set[str]:
    """The names that a page's headings and marks have."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL),
                          re.MULTILINE)
    return {anchor(re.sub(r"`", "", heading)) for heading in headings} | set(
        re.findall(r'id="([\w-]+)"', text))


def test_no_page_is_written_and_generated() -> None:
    """A generated page does not hide one that somebody wrote."""
    assert not set(WRITTEN) & set(generated())


def test_links_lead_somewhere() -> None:
    """Every relative link of every page names a page of the site and a heading of it."""
    wrong = []
    for name, text in every_page().items():
        for link in _LINK.findall(re.sub(r"```.*?```|`[^`\n]*`(?!\])", "", text, flags=re.DOTALL)):
            target, _, heading = link.partition("#")
            if "://" in target:
                wrong.append(f"{name}: {link} leads outside")
                continue
            path = (DOCS / name).parent.joinpath(target).resolve() if target else DOCS / name
            page = path.relative_to(DOCS.resolve()).as_posix()
            if page not in every_page():
                wrong.append(f"{name}: no page {link}")
            elif heading and heading not in anchors(every_page()[page]):
                wrong.append(f"{name}: no heading {link}")
    assert wrong == []


def test_links_are_found() -> None:
    """The expression of the test above sees the links that there are."""
    assert _LINK.findall("[a](b.md#c) [`x`](y.md), ![no](z.png)") == ["b.md#c", "y.md"]
    assert sum(len(_LINK.findall(text)) for text in every_page().values()) > 100


def test_generated_parts_exist_and_are_used() -> None:
    """A comment names a part that is known; a part that no page uses is forgotten."""
    named = {name for text in WRITTEN.values() for name in _PART.findall(text)}
    assert named == set(contents.parts())


def test_navigation_has_every_written_page() -> None:
    """mkdocs.yml lists each written page once; folders of generated pages by a star."""
    listed = re.findall(r"([\w/-]+\.md)\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert len(listed) == len(set(listed))
    alone = {name for name in generated() if "/" not in name}
    assert set(listed) == set(WRITTEN) | alone


def test_paths_in_the_pages_exist() -> None:
    """A file or folder of the repository that a page names is there."""
    wrong = [f"{name}: {path}" for name, text in WRITTEN.items()
             for path in re.findall(r"`((?:src|tests|tools|records|bench|docs)/[\w./-]*)`", text)
             if not (ROOT / path).exists()]
    assert wrong == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str) -> None:
    """The command line page has each verb, each question of it and each option."""
    page = unescape(generated()["cli.md"])
    assert f"\n## {verb}\n" in page
    for words, command in verb_pages.commands(verb):
        usage = re.search(rf"^`mmalab {words}\b.*$", page, re.MULTILINE)
        assert usage is not None
        section = page[usage.end():].split("\n#", 1)[0]
        for param in command.params:
            if param.param_type_name == "option":
                assert f"`{param.opts[0]}`" in section, param.opts


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_used_in_a_written_page(verb: str) -> None:
    """Each verb appears in a page that somebody wrote, or in the README."""
    texts = [*WRITTEN.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    assert any(re.search(rf"mmalab {verb}\b|make {verb}\b", text) for text in texts)


def spoken(text: str) -> list[str]:
    """The commands of a page that are not run: inline, in shell fences, in marked fences."""
    inline = re.findall(r"`(mmalab [^`]+)`", " ".join(text.split()))
    blocks = [block.body for block in fences(text)
              if block.language == "sh" or block.mark == "not run"]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return inline + [line.removeprefix("$ ").partition("#")[0].strip() for line in lines]


@pytest.mark.parametrize("name", WRITTEN)
def test_commands_that_are_not_run_exist(name: str) -> None:
    """Verb, question and options of every mmalab command that a page only mentions; make targets
    and tools too."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in spoken(WRITTEN[name]):
        words = command.split()
        if words[0] == "mmalab" and words[1:2] and words[1].startswith("--"):
            assert words[1] in {"--ask", "--version", "--help"}, command
        elif words[0] == "mmalab" and words[1:2] and words[1].islower():
            known = dict(verb_pages.commands(words[1]))
            asked = known.get(" ".join(words[1:3])) or known.get(words[1]) or next(
                iter(known.values()))
            options = {option for param in asked.params for option in param.opts}
            used = {word for word in words if re.fullmatch(r"--[a-z][\w-]*", word)}
            assert used <= options | {"--help"}, command
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), command
    for tool in re.findall(r"\b(?:tools|bench)/\w+\.py\b", WRITTEN[name]):
        assert (ROOT / tool).exists(), tool


@pytest.mark.parametrize("package", layer_map.rows())
def test_every_package_is_documented(package: str) -> None:
    """Each package has a page that names everything in its ``__all__``."""
    page = generated()[f"api/{package}.md"]
    module = importlib.import_module(f"mmalab.{package}")
    for name in getattr(module, "__all__", []):
        value = getattr(module, name)
        if getattr(value, "__name__", "").startswith("mmalab."):
            assert f"::: {value.__name__}" in page, name
        else:
            assert f'heading: "{name}"' in page, name
    assert page.startswith(f"# mmalab.{package}\n")


def test_public_names_of_the_package_are_listed() -> None:
    """The index of the reference names what ``import mmalab`` gives."""
    index = generated()["api/index.md"]
    module = importlib.import_module("mmalab")
    assert [name for name in module.__all__
            if not name.startswith("__") and f"`mmalab.{name}`" not in index] == []
    assert list(api_pages.public(importlib.import_module("mmalab.findings")))


def test_every_family_and_form_is_shown() -> None:
    """The instruction pages have each family under its chapter, and count every form once."""
    for family in isa_pages.families():
        page = generated()[isa_pages.path_of(isa_pages.chapter_of(family))]
        assert f"\n## {family}\n" in page, family
    total = len(isa.forms())
    assert f"{total:,} forms" in generated()["isa/index.md"]
    counted = [int(count.replace(",", "")) for name, text in generated().items()
               if name.startswith("isa/") for count in re.findall(r"^([\d,]+) forms\.", text,
                                                                   re.MULTILINE)]
    assert sum(counted) == total


def test_fragments_are_drawn() -> None:
    """The grid of a fragment is the one that `layout` prints."""
    page = generated()[isa_pages.path_of(isa_pages.chapter_of("mma.sync"))]
    form = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    row = isa.show(form, "D").splitlines()[2]
    assert f"    {row}".rstrip() in page


def test_every_finding_code_is_explained() -> None:
    """Each code has its heading and its sentence; groups lose none; most have an example."""
    page = generated()["findings.md"]
    assert [code for codes in finding_pages.groups().values() for code in codes] == list(CODES)
    for code, meaning in CODES.items():
        assert f"\n### {code}\n\n{meaning[0].upper()}{meaning[1:]}." in page
    assert page.count("??? example") >= len(CODES) / 2
    assert '??? example ""' not in page


@pytest.mark.parametrize("code", litmus.STATIC)
def test_static_examples_show_their_code(code: str) -> None:
    """The wrong line reports its code and the right one does not."""
    shown = litmus.static(code)
    assert shown is not None
    assert f"[{code}]" in shown.reported


def test_the_map_is_the_imports() -> None:
    """The drawing leaves arrows out only where others lead to the same package."""
    drawn = layer_map.reduced()

    def below(package: str) -> set[str]:
        return set(drawn[package]).union(*(below(one) for one in drawn[package]))

    for package, imported in layer_map.edges().items():
        assert set(drawn[package]) <= imported
        assert imported <= below(package)
    picture = layer_map.drawing()
    assert all(f">{package}</text>" in picture for package in layer_map.rows())
    assert picture.count("<path") == sum(map(len, drawn.values()))


def test_figures_name_their_record() -> None:
    """Every row of the table of figures ends with a record that is there and its command."""
    rows = contents.parts()["measured"]().splitlines()[2:]
    for row in rows:
        record, command = re.findall(r"`([^`]+)`", row)[-2:]
        assert (ROOT / record).exists()
        assert re.search(r"(tools|bench)/\w+\.py", command)


@pytest.mark.parametrize(("text", "wanted"), [
    ("see :func:`~mmalab.isa.find`::", "see `find`:"),
    ("a :class:`Form`, ``x``", "a `Form`, `x`"),
    ("one\n\n    >>> f()\n    [0]\n\ntwo", "one\n\n```pycon\n>>> f()\n[0]\n```\n\ntwo"),
    ("one\n\n>>> f()\n[0]", "one\n\n```pycon\n>>> f()\n[0]\n```\n"),
    ("==  ===\na   b\n    ``c``\n==  ===", "\n|  |  |\n|---|---|\n| a | b `c` |\n"),
    ("==  ===\nh   i\n==  ===\na   b\n==  ===", "\n| h | i |\n|---|---|\n| a | b |\n"),
    ("plain", "plain")])
def test_docstrings_become_markdown(text: str, wanted: str) -> None:
    """Roles, sessions and drawn tables of the source."""
    assert markdown(text) == wanted


def test_markdown_pieces() -> None:
    """Cells, anchors, sentences and prose are escaped where Markdown would read them."""
    assert table(("a", "b"), [("x|y", "1\n2")]).splitlines()[-1] == r"| x\|y | 1 2 |"
    assert anchor("mma.sync: D = A B + C") == "mmasync-d-a-b-c"
    assert first_sentence("One thing. And another.\n\nMore.") == "One thing"
    assert prose("x[0] * <y>") == r"x\[0\] \* \<y\>"


def test_what_a_page_fetches_is_seen() -> None:
    """Scripts, styles and pictures from elsewhere; not links, not the site's own files."""
    html = ('<script src="https://x.org/a.js"></script><link rel=stylesheet href=//x.org/b.css>'
            '<a href="https://x.org">x</a><img alt="" src="c.png"><svg xmlns="http://w3.org/svg">')
    assert fetched(html) == ["https://x.org/a.js", "//x.org/b.css"]
