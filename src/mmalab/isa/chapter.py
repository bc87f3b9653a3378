"""Where a group of rows is written: one chapter of the PTX manual for all of them.

``chapter("Integer Arithmetic Instructions", row("add.integer d, a, b"), ...)`` gives each row the
section "Integer Arithmetic Instructions: add".
"""

from __future__ import annotations

from dataclasses import replace

from mmalab.isa.syntax import Row

__all__ = ["chapter"]


def chapter(title: str, *rows: Row) -> tuple[Row, ...]:
    """The rows, each with its section; a row that names its own keeps it."""
    return tuple(r if r.section else replace(r, section=f"{title}: {r.head}") for r in rows)
