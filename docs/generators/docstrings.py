"""Docstrings as Markdown: what reads well in source is turned into what renders well.

Three habits of the source: ``:class:`~mmalab.isa.Form``` (a role), ``text::`` before an indented
block, and tables drawn with ``=====``; `docs/griffe_docstrings.py` hands each docstring over before
it is rendered.

    >>> markdown("see :func:`~mmalab.isa.find`::")
    'see `find`:'
"""

from __future__ import annotations

import re
import textwrap

from generators.markdown import table

__all__ = ["markdown"]

_ROLE = re.compile(r":(?:py:)?(?:class|func|mod|meth|data|attr|exc):`([^`]+)`")
#: After an empty line, lines of four spaces or more; sections of arguments have a head instead.
_BLOCK = re.compile(r"\n\n((?: {4,}[^\n]*(?:\n|\Z)(?:\n(?= {4}))?)+)")
#: A session that lost its indentation: a docstring of nothing else below its first line.
_SESSION = re.compile(r"\n\n(>>> (?:[^\n]+\n?)+)")
_RULE = re.compile(r"^\s*=+( +=+)+\s*$")


def markdown(text: str) -> str:
    """The docstring in Markdown."""
    text = "\n".join(_tables(text.split("\n")))
    text = _ROLE.sub(lambda found: f"`{_short(found[1])}`", text)
    text = re.sub(r"``([^`\n]+)``", r"`\1`", text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return _blocks(text)


def _blocks(text: str) -> str:
    """Indented blocks between empty lines as fences: sessions of Python, and everything else."""

    def fenced(found: re.Match[str]) -> str:
        body = textwrap.dedent(found[1]).rstrip()
        language = "pycon" if body.startswith(">>>") else "text"
        return f"\n\n```{language}\n{body}\n```\n"

    return _SESSION.sub(fenced, _BLOCK.sub(fenced, text))


def _short(target: str) -> str:
    return target.rpartition(".")[2] if target.startswith("~") else target


def _tables(lines: list[str]) -> list[str]:
    """Drawn tables as Markdown's; one with two rules has no head, one with three has one."""
    rules = [at for at, line in enumerate(lines) if _RULE.match(line)]
    if len(rules) < 2:
        return lines
    first, last = rules[0], rules[-1]
    starts = [found.start() for found in re.finditer("=+", lines[first])]
    rows: list[list[str]] = []
    for at in range(first + 1, last):
        if at in rules:
            continue
        cells = [lines[at][start:end].strip()
                 for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:  # a line that continues the row above
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    head = rows.pop(0) if len(rules) > 2 else [""] * len(starts)
    return [*lines[:first], "", *table(head, rows).split("\n"), "", *_tables(lines[last + 1:])]
