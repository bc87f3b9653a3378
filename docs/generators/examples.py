"""The examples of the written pages: commands, Python, files; run in order, page by page.

A fence says by its language what it is:

``console``   lines that begin with ``$`` are commands, the lines below each are its output
``python``    runs in one namespace for the page; a ``text`` fence titled "prints" directly below
              it is its output
anything with ``title="NAME"`` that is not "prints" is a file, written before what follows it

``<!-- file: PATH -->`` anywhere puts a file of the repository beside them before all else.
``<!-- not run: REASON -->`` before a fence leaves it out; ``<!-- needs: toolkit -->`` leaves it out
where no assembler is installed. In an output, a line ``...`` stands for any lines, and ``…`` inside
a line for any text.

    PYTHONPATH=docs python -m generators.examples docs/start.md     # prints what comes out
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from mmalab.cli.main import app

__all__ = ["Fence", "Step", "fences", "matches", "steps"]

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>not run|needs): (?P<why>[^\n]*?) -->\n\n?)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
_ROOT = Path(__file__).resolve().parents[2]
_PRINTS = "prints"
#: Wide enough that no table of a verb is cut.
_WIDTH = "100"


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block of a page, with the comment before it."""

    language: str
    title: str
    body: str
    mark: str
    why: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """What a page says comes out of a command or a Python block, and what did."""

    line: int
    what: str
    shown: str
    got: str


def fences(markdown: str) -> Iterator[Fence]:
    """Every fenced block of a page."""
    for found in _FENCE.finditer(markdown):
        yield Fence(found["language"], found["title"] or "", found["body"], found["mark"] or "",
                    found["why"] or "", markdown.count("\n", 0, found.start("language")) + 1)


def steps(markdown: str, folder: Path, *, toolkit: bool = True) -> Iterator[Step]:
    """Run a page in `folder`: each command and each Python block with its output."""
    for path in _FILE.findall(markdown):
        shutil.copy(_ROOT / path, folder)
    session: dict[str, Any] = {}
    blocks = list(fences(markdown))
    for at, block in enumerate(blocks):
        if block.mark == "not run" or (block.mark == "needs" and not toolkit):
            continue
        if block.language == "console":
            yield from _console(block, folder)
        elif block.title and block.title != _PRINTS:
            (folder / block.title).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            after = blocks[at + 1] if at + 1 < len(blocks) else None
            shown = after.body if after and after.title == _PRINTS else ""
            yield Step(block.line, "python", shown, _python(block, folder, session))


def _console(block: Fence, folder: Path) -> Iterator[Step]:
    """Each command; a backslash at the end of a line continues it."""
    text = block.body.replace("\\\n", "")
    code = 0
    for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        command, _, shown = part.removeprefix("$ ").partition("\n")
        if not command:
            continue
        if command == "echo $?":
            got = f"{code}\n"
        else:
            code, got = _command(command, folder)
        yield Step(block.line, command, shown, got)


def _command(command: str, folder: Path) -> tuple[int, str]:
    words = shlex.split(command)
    if words[0] != "mmalab":
        message = f"only mmalab is run by the examples, not {words[0]!r}: mark it 'not run'"
        raise ValueError(message)
    with _inside(folder):
        result = CliRunner().invoke(app, words[1:], env={"COLUMNS": _WIDTH}, prog_name="mmalab")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def _python(block: Fence, folder: Path, session: dict[str, Any]) -> str:
    out = io.StringIO()
    with _inside(folder), contextlib.redirect_stdout(out):
        exec(compile(block.body, f"line {block.line}", "exec"), session)  # noqa: S102
    return out.getvalue()


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def matches(shown: str, got: str) -> bool:
    """Whether an output is as shown, where ``...`` lines and ``…`` stand for anything."""
    parts = []
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            text = ".*".join(map(re.escape, line.rstrip().split("…")))
            parts.append(rf"{text}[ ]*\n")
    lines = "".join(f"{line.rstrip()}\n" for line in got.rstrip("\n").split("\n"))
    return re.fullmatch("".join(parts), lines) is not None


def main() -> None:
    """Run pages and print what comes out, marking what differs from what is shown."""
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            for step in steps(Path(name).read_text(encoding="utf-8"), Path(folder)):
                mark = "" if matches(step.shown, step.got) else "  <- DIFFERS"
                sys.stdout.write(f"--- {name}:{step.line} $ {step.what}{mark}\n")
                if mark:
                    sys.stdout.write(step.got)


if __name__ == "__main__":
    main()
