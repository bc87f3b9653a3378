"""The first PTX version that takes a form, by bisection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["FirstVersion", "first_version", "first_versions"]


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """The oldest ``.version`` with which something assembles.

    `version` is "8.6", "" when no version does; `below` is what ptxas says one version earlier
    ("" when that is the oldest that the target knows).
    """

    form: str
    target: str
    toolkit: str
    version: str
    below: str
    ptx: str


def first_version(
    source: str, target: str | None = None, toolkit: str | None = None
) -> FirstVersion:
    """The first version of an opcode, or of a whole PTX module with its ``.version`` rewritten.

    `target` None is the module's own, for an opcode the oldest target that takes it.
    """
    raise NotImplementedError


def first_versions(
    forms: str | Iterable[str] | None = None,
    target: str | None = None,
    toolkit: str | None = None,
) -> tuple[FirstVersion, ...]:
    """As :func:`first_version` for many forms at once."""
    raise NotImplementedError
