"""``KEY=VALUE,KEY=VALUE`` on the command line: the choices that one kernel is made of.

    >>> choices_of("stages=4,cluster=2x1,store=direct", "--plan")
    {'stages': 4, 'cluster': (2, 1), 'store': 'direct'}

and the two spellings of a kernel, by its family or by the factory in it::

    >>> family_of("sm90_wgmma.gemm"), factory_of("sm90_wgmma")
    ('sm90_wgmma', 'sm90_wgmma.gemm')
"""

from __future__ import annotations

from typing import Any

from mmalab.errors import UsageError

__all__ = ["choices_of", "factory_of", "family_of"]

_FACTORY = ".gemm"
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


def family_of(kernel: str) -> str:
    """The family alone, where the factory is the family's gemm."""
    return kernel.removesuffix(_FACTORY)


def factory_of(kernel: str) -> str:
    """Family and factory, which is gemm where none is named."""
    return kernel if "." in kernel else kernel + _FACTORY


def _value(text: str) -> Any:
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    parts = text.split("x")
    if all(part.removeprefix("-").isdigit() for part in parts):
        numbers = tuple(int(part) for part in parts)
        return numbers[0] if len(numbers) == 1 else numbers
    return text
