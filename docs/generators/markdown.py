r"""Small pieces of Markdown: tables, fences, cells.

    >>> print(table(("form", "ptx"), [("a|b", "7.0")]))
    | form | ptx |
    |---|---|
    | a\\|b | 7.0 |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["anchor", "code", "fence", "first_sentence", "indented", "prose", "table"]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars in cells are escaped, line ends become spaces."""
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    """Inline code, also inside tables, where a bar would end the cell; nothing for nothing."""
    if "|" in text:
        return f"<code>{escape(text).replace('|', '&#124;')}</code>"
    return f"`{text}`" if text else ""


def fence(text: str, language: str = "text", *, wrap: bool = False) -> str:
    """A fenced block; `wrap` breaks long lines instead of scrolling."""
    head = f"{{.{language} .wrap}}" if wrap else language
    return f"```{head}\n{text.rstrip()}\n```"


def prose(text: str) -> str:
    """Plain words with what Markdown would read as a sign escaped."""
    return re.sub(r"([\\\[\]*_<>`\"])", r"\\\1", text)


def indented(text: str) -> str:
    """Four spaces before each line: the inside of a block."""
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


def anchor(text: str) -> str:
    """What a heading's link is called: as Markdown's table of contents makes it."""
    kept = re.sub(r"[^\w\s-]", "", text.strip().lower())
    return re.sub(r"[-\s]+", "-", kept)


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, in one line, without its full stop."""
    paragraph = " ".join((docstring or "").strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s", paragraph + " ")[0].strip().rstrip(".:")
