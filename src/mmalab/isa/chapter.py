"""Where a group of rows is written: one chapter of the PTX manual for all of them.

``chapter("Integer Arithmetic Instructions", row("add.integer d, a, b"), ...)`` gives each row the
section "Integer Arithmetic Instructions: add".
"""

from __future__ import annotations

from mmalab.isa.syntax import Row

__all__ = ["chapter"]


def chapter(title: str, *rows: Row) -> tuple[Row, ...]:
    """The rows, each with its section; a row that names its own keeps it."""
    for one in rows:
        one.section = one.section or f"{title}: {one.head}"
    return rows
