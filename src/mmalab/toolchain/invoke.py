"""Run an external program: bounded in time, its words kept, its temporary files apart.

    >>> invoke(["true"]).code
    0

Two runs never share a file: each works in a fresh folder of its own (:func:`workspace`).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmalab.errors import ToolError

__all__ = ["Outcome", "invoke", "workspace"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: exit code, and standard output and error as one text."""

    command: tuple[str, ...]
    code: int
    output: str


def invoke(command: Sequence[str], *, timeout: float = 120.0,
           folder: Path | None = None) -> Outcome:
    """Run `command` to its end; a non-zero exit is the caller's to judge.

    Args:
        command: program and arguments.
        timeout: seconds after which it is killed.
        folder: where it runs; the current folder if None.

    Raises:
        ToolError: it cannot be started, or it did not end in time.
    """
    try:
        # LC_ALL: the messages are parsed, so they must be the English ones.
        ended = subprocess.run(
            command, cwd=folder, timeout=timeout, check=False, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired as late:
        said = late.output.decode(errors="replace") if isinstance(late.output, bytes) else ""
        raise ToolError(Path(command[0]).name, f"did not end within {timeout:g} s",
                        legal="a smaller kernel, or a longer timeout=",
                        command=command, output=said) from None
    except OSError as failed:
        raise ToolError(Path(command[0]).name, f"cannot be run: {failed.strerror}",
                        command=command) from None
    return Outcome(tuple(command), ended.returncode, ended.stdout)


@contextmanager
def workspace() -> Iterator[Path]:
    """A fresh folder that is gone afterwards.

    Raises:
        ToolError: no temporary folder can be written.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="mmalab-", ignore_cleanup_errors=True)
    except OSError as failed:
        raise ToolError("temporary files", f"cannot be written: {failed.strerror}",
                        legal="set TMPDIR to a folder that can be written") from None
    with made as name:
        yield Path(name)
