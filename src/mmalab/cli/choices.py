"""``KEY=VALUE,KEY=VALUE`` on the command line: the choices that one kernel is made of.

    >>> choices_of("stages=4,cluster=2x1,store=direct", "--plan")
    {'stages': 4, 'cluster': (2, 1), 'store': 'direct'}
"""

from __future__ import annotations

from typing import Any

from mmalab.errors import UsageError

__all__ = ["choices_of"]

_NAMED = {"true": True, "false": False, "none": None}


def choices_of(text: str, option: str) -> dict[str, Any]:
    """Keyword arguments: numbers, tuples of numbers (``2x1``), true, false, none, words.

    Raises:
        UsageError: a part of `option`'s text without a value.
    """
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, sign, value = part.partition("=")
        if not sign:
            raise UsageError(f"{option} {part}", "has no value", legal="KEY=VALUE",
                             where="mmalab.cli.choices")
        found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    parts = text.split("x")
    if all(part.removeprefix("-").isdigit() for part in parts):
        numbers = tuple(int(part) for part in parts)
        return numbers[0] if len(numbers) == 1 else numbers
    return text
