"""The index of public questions: every case has a row, and every row's command gives its answer."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cases.pipelines import PTX, TWINS

from mmalab.errors import ToolError
from mmalab.toolchain import compile_cuda
from mmalab.toolchain.locate import tools

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
INDEX: dict[str, dict[str, Any]] = tomllib.loads((_HERE / "index.toml").read_text("utf-8"))
_LACKS = {"partly": 1, "not": 1}


@pytest.mark.parametrize("case", INDEX)
def test_the_command_answers(case: str, ask) -> None:
    """Exit code and words of the answer are those of the row."""
    row = INDEX[case]
    _need(row.get("needs", ""))
    said = ask(*shlex.split(row["command"]))
    assert said.code == row["exit"], said.text
    assert [words for words in row["says"] if " ".join(words.split()) not in said.text] == []


def _need(what: str) -> None:
    """Skip without an assembler or a compiler, unless they are required."""
    required = os.environ.get("MMALAB_REQUIRE_TOOLKIT") == "1"
    if what and not tools("ptxas") and not required:
        pytest.skip("ptxas is not installed: pip install 'mmalab[toolchain]'")
    if what == "compiler":
        try:
            compile_cuda('extern "C" __global__ void k() {}', "sm_120")
        except ToolError:
            pytest.skip("no CUDA C++ compiler works here")


@pytest.mark.parametrize("case", INDEX)
def test_a_row_is_whole(case: str) -> None:
    """A question, words to look for, a verdict with its reason, and a test that exists."""
    row = INDEX[case]
    assert set(row) - {"needs"} == {"question", "command", "exit", "says", "test", "verdict"}
    assert row["question"].endswith(("?", ".", ")"))
    assert row["says"]
    word, colon, why = row["verdict"].partition(": ")
    assert word == "answered" if not colon else word in _LACKS and why
    path, _, name = row["test"].partition("::")
    assert f"def {name}(" in (_ROOT / path).read_text("utf-8")


@pytest.mark.shared
def test_every_case_has_a_row(shared: Path) -> None:
    """The ids of the collection, one by one."""
    text = (shared / "cases" / "cases.md").read_text("utf-8")
    assert sorted(re.findall(r"^### ([A-Z]\d\d) ", text, re.MULTILINE)) == sorted(INDEX)


@pytest.mark.parametrize("name", TWINS)
def test_files_are_what_the_builder_writes(name: str) -> None:
    """The kernels beside the index are current (python -m cases.pipelines writes them)."""
    assert (PTX / f"{name}.ptx").read_text("utf-8") == TWINS[name]()
