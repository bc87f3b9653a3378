"""Lines of the source that a page shows: read when the site is built, so they are today's."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

from generators.markdown import fence
from mmalab.emulator.execute import EXECUTORS
from mmalab.emulator.native.generate.registry import GENERATORS

__all__ = ["executor", "generator", "row"]

SOURCE = Path(__file__).resolve().parents[2] / "src" / "mmalab"


def row() -> str:
    """The row of bfind."""
    path = SOURCE / "isa/table/integer.py"
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "row" and isinstance(
                node.args[0], ast.Constant) and str(node.args[0].value).startswith("bfind"):
            lines = text.splitlines()[node.lineno - 1:node.end_lineno]
            return _shown(path, inspect.cleandoc("\n".join(lines)))
    raise LookupError("isa/table/integer.py has no row of bfind")


def executor() -> str:
    """The executor of and."""
    return _function(EXECUTORS["and"])


def generator() -> str:
    """The generator of popc."""
    return _function(GENERATORS["popc"])


def _function(function: Any) -> str:
    return _shown(Path(inspect.getfile(function)), inspect.getsource(function))


def _shown(path: Path, text: str) -> str:
    return f"In `src/mmalab/{path.relative_to(SOURCE)}`:\n\n{fence(text, 'python')}"
