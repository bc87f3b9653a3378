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
    row, marks=[pytest.mark.toolkit] if row.verb in _NEEDS_PTXAS else [])
    for row in QUESTIONS if row.verb != "tour"],  # tests/cli/test_tour.py runs it
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


@pytest.mark.parametrize(("asked", "command"), [
    ("where does element (9,5) of D live for wgmma m64n128k16", "layout wgmma.mma_async"),
    ("which swizzle for 64-byte rows", "swizzle --tile 64,32"),
    ("which tile for M=4096 N=576 K=7168", "plan tiles"), ("tile", "plan tiles"),
    ("best tile gemm", "plan tiles"),
    ("decode a wgmma descriptor 0x4000004000010040", "descriptor smem 0x4000004000010040"),
    ("what would bench measure, how long", "bench gemm 4096 4096 4096 --dry-run"),
    ("bench", "bench gemm"), ("cublas", "bench gemm"),
    ("compile for sm_90a, registers, what wgmma became", "asm kernel.ptx --target sm_90a"),
    ("compile", "asm kernel.ptx"), ("HGMMA", "asm kernel.ptx"),
    ("can TMA read a matrix with K=1000", "descriptor tensormap"),
    ("TMA stride", "descriptor tensormap"), ("K = 4092 TMA stride", "descriptor tensormap"),
    ("what does your GEMM do for K = 1000", "gemm 4096 4096 4092 --kernel sm90_wgmma --dry-run"),
    ("fp8 accumulation", "numerics probe"), ("swizzle", "swizzle"), ("registers", "plan registers"),
    ("is wgmma supported on sm_120", "legal wgmma"), ("how do I run my own ptx", "run kernel.ptx"),
    ("stages", "plan smem"), ("roofline", "plan rates"), ("explain wgmma", "explain"),
    ("ptxas warning C7510", "atlas --what messages"), ("does K=4092 work", "gemm 4096 4096 4092"),
    ("hang barrier", "run kernel.ptx"), ("deadl", "run kernel.ptx"),
    ("what is tx-mismatch", "explain tx-mismatch"),
    ("list finding codes", "check --codes"),
])
def test_the_first_answer_is_the_one(asked: str, command: str) -> None:
    """Questions as people asked them: whole words decide, rare ones most."""
    found = matching(asked)
    assert found[0].command.startswith(command)
    assert len(found) <= 4


def test_a_letter_is_no_word() -> None:
    """`K` finds nothing in `kernel`: it says no more than `the`."""
    assert matching("zebra K") == []


def test_every_verb_has_a_question_but_those_that_stand_behind_another() -> None:
    """sass reads what asm has built."""
    assert set(VERBS) - {row.verb for row in QUESTIONS} <= {"sass"}


def test_words_that_no_question_has(ask) -> None:
    said = ask("--ask", "zebra")
    assert said.code == 2
    assert "lists all" in said.text
    assert ask("--ask", "?").text.count("mmalab ") >= len(QUESTIONS)


@pytest.mark.parametrize("verb", ["swizzle", "plan", "numerics", "run"])
def test_the_help_ends_with_questions(ask, verb: str) -> None:
    first = next(row for row in QUESTIONS if row.verb == verb)
    assert first.words.split("?")[0][:30] in ask(verb, "--help").text
