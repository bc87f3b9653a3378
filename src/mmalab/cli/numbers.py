"""Numbers as options spell them: ``128,32``."""

from __future__ import annotations

from mmalab.errors import UsageError

__all__ = ["extent", "numbers"]

_WHERE = "the verb's --help"


def numbers(option: str, text: str, count: int) -> tuple[int, ...]:
    """Exactly `count` whole numbers, separated by commas.

    Raises:
        UsageError: more, fewer, or something else.
    """
    words = [word.strip() for word in text.split(",")]
    if len(words) != count or not all(map(_is_whole, words)):
        example = ",".join(["8"] * count)
        raise UsageError(f"{option} {text}", f"is not {count} whole numbers", legal=example,
                         where=_WHERE)
    return tuple(map(int, words))


def extent(option: str, text: str) -> tuple[int, int, int]:
    """One to three positive numbers; those that are missing are 1.

    Raises:
        UsageError: anything else.
    """
    words = [word.strip() for word in text.split(",")]
    if not 1 <= len(words) <= 3 or not all(_is_whole(word) and int(word) for word in words):
        raise UsageError(f"{option} {text}", "is not one to three positive numbers", legal="4,2,1",
                         where=_WHERE)
    x, y, z = [*map(int, words), 1, 1][:3]
    return x, y, z


def _is_whole(word: str) -> bool:
    """Digits that `int` reads: there are others, as in a superscript."""
    return word.isascii() and word.isdecimal()
