"""The capability matrix: which form assembles for which target, and ptxas's words where not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Answer", "matrix"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One form, one toolkit: the targets that take it, and what ptxas says for the others.

    `ptx` is the module that was assembled (for the first target of the row); `messages` has every
    refused target; a target that the toolkit does not know is in neither.
    """

    form: str
    ptx: str
    toolkit: str
    targets: tuple[str, ...]
    messages: Mapping[str, str]


def matrix(
    forms: str | Iterable[str] | None = None,
    targets: Iterable[str] | None = None,
    toolkit: str | None = None,
) -> tuple[Answer, ...]:
    """Assemble forms for targets, many at a time; kept by content.

    Args:
        forms: a pattern as of :func:`mmalab.isa.forms`, opcodes, or None for all.
        targets: names; None for all that the toolkit knows.
        toolkit: ``"12.9"``; None for the newest.

    Raises:
        UsageError: no such target or form.
        ToolError: the toolkit is not installed.
    """
    raise NotImplementedError
