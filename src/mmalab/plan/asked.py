"""What a planner is asked: each value of the kind that its signature names, and of a size that is.

A planner's arithmetic would go on with what is no count: half a stage, a text, a number beyond all
chips (over which some would compute for hours). :func:`asked` looks at what the signature says::

    >>> @asked
    ... def stages(tile: int, target: str) -> int:
    ...     return tile
    >>> stages(1.5, "sm_90a")
    Traceback (most recent call last):
      ...
    mmalab.errors.UsageError: tile=1.5: is not of type int
      legal: int, up to 2^40
      see:   mmalab.plan.asked, stages
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from mmalab.errors import UsageError

__all__ = ["asked"]

P = ParamSpec("P")
R = TypeVar("R")

#: More than any size, count or rate of a chip or a product.
_MOST = 1 << 40


def _count(value: object) -> bool:
    return (isinstance(value, numbers.Integral) and not isinstance(value, bool)
            and abs(int(value)) <= _MOST)


def _counts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(map(_count, value))


def _number(value: object) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value) and abs(float(value)) <= _MOST


def _names(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(
        isinstance(one, str) for one in value)


#: What an annotation accepts. Parameters with any other are the function's own business.
_KINDS: dict[str, Callable[[object], bool]] = {
    "int": _count, "Sequence[int]": _counts, "float": _number, "Sequence[str]": _names,
    "str": lambda value: isinstance(value, str), "None": lambda value: value is None,
    "bool": lambda value: isinstance(value, (bool, numbers.Integral)),
}


def asked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse values of other kinds than the annotations of `function` name (with UsageError)."""
    signature = inspect.signature(function)
    kinds = {name: parts for name, parameter in signature.parameters.items()
             if (parts := str(parameter.annotation).split(" | ")) and set(parts) <= set(_KINDS)}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            parts = kinds.get(name)
            if parts and not any(_KINDS[part](value) for part in parts):
                limit = ", up to 2^40" if {"int", "float", "Sequence[int]"} & set(parts) else ""
                raise UsageError(f"{name}={value!r}", f"is not of type {' or '.join(parts)}",
                                 legal=" or ".join(parts) + limit,
                                 where=f"{function.__module__}, {function.__name__}")
        return function(*args, **kwargs)

    return checked
