"""How verbs print: plain text for people, one JSON value for programs.

Tables are aligned by hand here: loading a table library takes longer than most answers do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from mmalab.errors import UsageError

__all__ = ["Json", "plain", "print_json", "read_text", "say", "table"]

#: The option that every verb has.
Json = Annotated[bool, typer.Option("--json", help="One JSON value instead of text.")]


def say(*lines: str) -> None:
    """Print lines to standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_json(value: Any) -> None:
    """Print one JSON value; records, enums, paths, NumPy scalars and sets become plain data."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=True) + "\n")


def plain(value: Any) -> Any:
    """Turn records and NumPy values into what JSON knows."""
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


def table(rows: Sequence[Sequence[object]], head: Sequence[str] = (), *, indent: str = "") -> str:
    """Align columns: numbers to the right, words to the left; nothing at all for no rows."""
    cells = [[str(cell) for cell in row] for row in rows]
    everything = [list(head), *cells] if head else cells
    if not everything:
        return ""
    widths = [max(len(row[at]) for row in everything) for at in range(len(everything[0]))]
    right = [all(_is_number(row[at]) for row in cells) and bool(cells)
             for at in range(len(widths))]
    lines = [indent + "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(row, widths, right, strict=True)).rstrip()
        for row in everything]
    return "\n".join(lines)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).replace("%", "").isdigit() or text in ("", "-")


def read_text(path: Path) -> str:
    """The text of a file given on the command line; a missing one is wrong use (exit 2)."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as failed:
        raise UsageError(str(path), f"cannot be read: {failed.strerror}",
                         legal="a text file of PTX or CUDA C++", where="mmalab --help") from None
