"""Sizes as options of the planners spell them: ``128x256``, ``128x256x64``."""

from __future__ import annotations

from mmalab.errors import UsageError

__all__ = ["counts", "sizes"]


def sizes(option: str, text: str, least: int, most: int) -> tuple[int, ...]:
    """`least` to `most` positive numbers with ``x`` between them.

    Raises:
        UsageError: anything else.
    """
    words = text.lower().split("x")
    if not least <= len(words) <= most or not all(w.isdigit() and int(w) for w in words):
        raise UsageError(f"{option} {text}", "is no size",
                         legal=["128x256", "128x256x64"][least == most == 3:][: most - 1],
                         where="mmalab plan --help")
    return tuple(map(int, words))


def counts(option: str, text: str) -> tuple[int, ...]:
    """Numbers with commas between them, at least one.

    Raises:
        UsageError: anything else.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() for word in words):
        raise UsageError(f"{option} {text}", "is no list of numbers", legal="24,232,232",
                         where="mmalab plan --help")
    return tuple(map(int, words))
