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

__all__ = ["markdown"]

_ROLE = re.compile(r":(?:py:)?(?:class|func|mod|meth|data|attr|exc):`([^`]+)`")
#: After an empty line, lines of four spaces or more; sections of arguments have a head instead.
_BLOCK = re.compile(r"\n\n((?: {4,}[^\n]*(?:\n|\Z)(?:\n(?= {4}))?)+)")
#: A session that lost its indentation: a docstring of nothing else below its first line.
_SESSION = re.compile(r"\n\n(>>> (?:[^\n]+\n?)+)")
_RULE = re.compile(r"^\s*=+( +=+)+\s*$")


def markdown(text: str) -> str:
    """The docstring in Markdown."""
    text = _ROLE.sub(lambda found: f"`{_short(found[1])}`", text)
    text = re.sub(r"``([^`\n]+)``", r"`\1`", text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return "\n".join(_tables(_blocks(text).split("\n")))


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
    """Drawn tables inside fences; one with two rules has no head, one with three has one."""
    rules = [at for at, line in enumerate(lines) if _RULE.match(line)]
    if len(rules) < 2:
        return lines
    first, last = rules[0], rules[-1]
    return [*lines[:first], "```text", *lines[first:last + 1], "```", *lines[last + 1:]]
