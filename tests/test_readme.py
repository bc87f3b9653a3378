"""The README's blocks are run: what they show is what comes out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mmalab.cli.main import VERBS, app

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"^\$ mmalab (.+)\n((?:(?!\$|```).*\n)*)", README, re.MULTILINE)


@pytest.mark.toolkit
def test_python_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The Python block runs as it stands, and its first print shows what its comment says."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "clean 33554432"
    assert f"# {first}" in block


@pytest.mark.parametrize(("command", "shown"), CONSOLE)
def test_console_blocks(command: str, shown: str) -> None:
    """Each command prints what stands below it."""
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0
    assert result.stdout == shown


def test_every_verb_is_named() -> None:
    """The table of verbs holds all of them, and no other."""
    rows = re.findall(r"^\| (`.+?`) \|", README, re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert named == set(VERBS)
    assert CONSOLE
