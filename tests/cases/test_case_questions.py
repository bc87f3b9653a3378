"""Questions in the help, and ``mmalab --ask``: their commands work, and people find them."""

from __future__ import annotations

import shlex
import shutil

import pytest

from mmalab.cli.main import VERBS
from mmalab.cli.questions import QUESTIONS, epilog, matching

_NEEDS_PTXAS = ("atlas", "asm")
_STANDS_FOR = {"kernel.ptx": "c01_ring.ptx", "old.ptx": "f02_two_accumulators.ptx",
               "new.ptx": "f02_one_accumulator.ptx"}


@pytest.mark.parametrize("row", [pytest.param(
    row, marks=[pytest.mark.toolkit] if row.verb in _NEEDS_PTXAS else []) for row in QUESTIONS],
    ids=lambda row: row.command[:40])
def test_every_command_works(ask, row) -> None:
    """An answer, no wrong use."""
    for name, of in _STANDS_FOR.items():
        shutil.copy(of, name)
    said = ask(*shlex.split(row.command))
    if said.code == 2 and "CUDA C++" in said.text:
        pytest.skip("no CUDA C++ compiler works here")
    # legal says 2 of what is no instruction, and why there is none
    assert said.code in (0, 1) or "because:" in said.text, said.text


def test_each_verb_of_an_answer_has_its_questions() -> None:
    """All commands begin with a verb; no question is there twice."""
    assert {row.verb for row in QUESTIONS} <= set(VERBS)
    assert len({row.words for row in QUESTIONS}) == len(QUESTIONS)
    for row in QUESTIONS:
        assert row.words in epilog(row.verb)


@pytest.mark.parametrize(("words", "command"), [
    ("hang", "run kernel.ptx"), ("kernel hangs deadlock", "run kernel.ptx"),
    ("setmaxnreg hang", "plan registers"), ("bank conflicts", "swizzle"), ("LBO SBO", "descriptor"),
    ("no kernel image B300", "--what images"), ("RTX 50", "legal"), ("512 columns", "plan tmem"),
    ("fp8 accumulator", "numerics probe"), ("spill", "plan registers"),
    ("TMA refused", "tensormap"), ("CUDA release", "toolkits"), ("fallback", "asm"),
])
def test_words_find_their_command(ask, words: str, command: str) -> None:
    assert any(command in row.command for row in matching(words))
    said = ask("--ask", words)
    assert said.code == 0
    assert command in said.text


def test_words_that_no_question_has(ask) -> None:
    said = ask("--ask", "zebra")
    assert said.code == 2
    assert "lists all" in said.text
    assert ask("--ask", "?").text.count("mmalab ") >= len(QUESTIONS)


@pytest.mark.parametrize("verb", ["swizzle", "plan", "numerics", "run"])
def test_the_help_ends_with_questions(ask, verb: str) -> None:
    first = next(row for row in QUESTIONS if row.verb == verb)
    assert first.words.split("?")[0][:30] in ask(verb, "--help").text
