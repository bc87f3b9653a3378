"""What the pages show is what comes out: every command and every Python block of every page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from generators.examples import Fence, Step, fences, matches, steps
from generators.fill import filled

from mmalab import toolchain
from mmalab.errors import MmalabError

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def run_alone(block: Fence) -> bool:
    """Whether a fence takes part in the run of its page."""
    return block.mark != "not run" and block.language in {"console", "python"}


def has_toolkit() -> bool:
    try:
        return bool(toolchain.find("ptxas", "13.5")) and bool(toolchain.find("nvdisasm"))
    except MmalabError:
        return False


def failures(name: str, folder: Path, *, toolkit: bool) -> list[str]:
    """The steps of a page whose output is not as shown, in words that name the remedy."""
    return [f"{name}:{step.line}: {step.what}\n{step.got}\n"
            f"(PYTHONPATH=docs python -m generators.fill docs/{name} writes it)"
            for step in steps(page(name), folder, toolkit=toolkit)
            if not matches(step.shown, step.got)]


@pytest.mark.parametrize("name", [name for name in PAGES
                                  if any(map(run_alone, fences(page(name))))])
def test_the_page_shows_what_comes_out(name: str, tmp_path: Path) -> None:
    """Commands, Python blocks and the files they read, in order; without the assemblers' parts."""
    assert failures(name, tmp_path, toolkit=False) == []


@pytest.mark.toolkit
@pytest.mark.parametrize("name", [name for name in PAGES
                                  if any(block.mark == "needs" for block in fences(page(name)))])
def test_the_page_shows_what_assemblers_say(name: str, tmp_path: Path) -> None:
    """The same with the fences that are marked ``needs: toolkit``."""
    assert has_toolkit()
    assert failures(name, tmp_path, toolkit=True) == []


def test_what_is_not_run_says_why() -> None:
    """Only a GPU is a reason; commands outside such fences are run."""
    reasons = {block.why for name in PAGES for block in fences(page(name)) if block.mark}
    assert reasons <= {"needs a GPU", "toolkit"}


def test_every_fence_is_closed_and_known() -> None:
    """The expression that finds fences finds all of them, with languages that mean something."""
    for name in PAGES:
        marks = len(re.findall(r"^```", page(name), re.MULTILINE))
        found = list(fences(page(name)))
        assert marks == 2 * len(found), name
        assert {block.language for block in found} <= {
            "console", "python", "ptx", "text", "sh"}, name


# --- the runner itself ----------------------------------------------------------------------------

def test_outputs_are_compared_line_by_line() -> None:
    """Equal lines match; ``...`` stands for lines, ``…`` for text; anything else does not."""
    assert matches("a\nb\n", "a\nb\n")
    assert matches("a  \n", "a\n")
    assert not matches("a\n", "a\nb\n")
    assert not matches("a\nb\n", "a\n")
    assert matches("a\n...\n", "a\nb\nc\n")
    assert matches("a\n...\nc\n", "a\nc\n")
    assert matches("took … s\n", "took 0.12 s\n")
    assert not matches("took … s\n", "took 0.12 ms\n")
    assert not matches("a.c\n", "abc\n")
    assert not matches("", "a\n")


def test_a_page_runs_in_order(tmp_path: Path) -> None:
    """Files are written before what follows, Python keeps its names, exit codes are shown."""
    text = ('```python\nx = 6\n```\n\n```python\nprint(x * 7)\n```\n\n'
            '```text title="prints"\n42\n```\n\n```ptx title="a.ptx"\nnonsense\n```\n\n'
            '```console\n$ mmalab check a.ptx\n...\n$ echo $?\n2\n```\n')
    found = list(steps(text, tmp_path))
    assert [step.what for step in found] == ["python", "python", "mmalab check a.ptx", "echo $?"]
    assert all(matches(step.shown, step.got) for step in found)


def test_a_wrong_output_is_seen_and_written(tmp_path: Path) -> None:
    """A page with a wrong output fails, and the filled page does not; the rest is untouched."""
    text = ("before\n\n```console\n$ mmalab banks --pitch 64 \\\n    --access 16\nwrong\n"
            "$ echo $?\n0\n```\n\nafter\n")
    assert [matches(step.shown, step.got) for step in steps(text, tmp_path)] == [False, True]
    mended = filled(text, tmp_path)
    assert all(matches(step.shown, step.got) for step in steps(mended, tmp_path))
    assert mended.startswith("before\n")
    assert mended.endswith("$ echo $?\n0\n```\n\nafter\n")


def test_other_commands_are_refused(tmp_path: Path) -> None:
    """A page cannot run what is not mmalab."""
    with pytest.raises(ValueError, match="only mmalab is run"):
        list(steps("```console\n$ rm -r x\n```\n", tmp_path))


def test_marked_fences_are_left_out(tmp_path: Path) -> None:
    """``not run`` always, ``needs: toolkit`` where there is none."""
    text = ("<!-- not run: needs a GPU -->\n```console\n$ rm x\n```\n\n"
            "<!-- needs: toolkit -->\n```console\n$ mmalab banks --pitch 64\n...\n```\n")
    assert list(steps(text, tmp_path, toolkit=False)) == []
    [step] = steps(text, tmp_path)
    assert isinstance(step, Step)
    assert step.what == "mmalab banks --pitch 64"
    shutil.rmtree(tmp_path)
