"""Nested tuples of integers: the shapes, strides and coordinates of CuTe.

An `IntTuple` is an integer or a tuple of IntTuples. ``(4, (2, 3))`` is one of rank 2 and depth 2;
its leaves are 4, 2, 3 and, read as a shape, its size is 24. Text follows the papers and CuTe's
printer: no spaces, and a one-tuple is ``(4)``.

    >>> parse("(4,(2,3))")
    (4, (2, 3))
    >>> prefix_product((4, (2, 3)))
    (1, (4, 8))
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from math import prod
from typing import Any, TypeAlias

from mmalab.errors import UsageError

__all__ = [
    "IntTuple",
    "congruent",
    "depth",
    "flatten",
    "normalise",
    "parse",
    "prefix_product",
    "size",
    "text",
    "unflatten",
]

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"


def normalise(value: Any) -> IntTuple:
    """`value` with lists made tuples and NumPy integers made ints; anything else is an error."""
    if isinstance(value, (tuple, list)):
        return tuple(normalise(item) for item in value)
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(
            f"{value!r}", "neither an integer nor a nested tuple of integers",
            legal="4, (4, 8), ((4, 8), (2, 2))",
            where="CuTe, Layout",
        ) from None


def flatten(value: IntTuple) -> tuple[int, ...]:
    """The leaves from left to right."""
    return (value,) if isinstance(value, int) else tuple(x for item in value for x in flatten(item))


def unflatten(leaves: Iterator[int], profile: IntTuple) -> IntTuple:
    """`leaves` in the nesting of `profile`."""
    if isinstance(profile, int):
        return next(leaves)
    return tuple(unflatten(leaves, item) for item in profile)


def size(shape: IntTuple) -> int:
    """The product of the leaves; 1 for the empty tuple."""
    return shape if isinstance(shape, int) else prod(map(size, shape))


def depth(value: IntTuple) -> int:
    """0 for an integer, 1 for a flat tuple, and so on."""
    return 0 if isinstance(value, int) else 1 + max(map(depth, value), default=0)


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether `a` and `b` have the same nesting."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(congruent, a, b))


def prefix_product(shape: IntTuple) -> IntTuple:
    """The strides that make `shape` compact with the first mode fastest (column major)."""
    leaves = flatten(shape)
    products = [1]
    for extent in leaves:
        products.append(products[-1] * extent)
    return unflatten(iter(products), shape)


def text(value: IntTuple) -> str:
    """``((4,8),2)``: the notation of CuTe, which `parse` reads back."""
    return str(value) if isinstance(value, int) else f"({','.join(map(text, value))})"


def parse(source: str) -> IntTuple:
    """The IntTuple that `source` spells; CuTe's ``_4`` for a static 4 is read as 4.

    Raises UsageError with the place of the first character that does not fit.
    """
    tokens = re.findall(r"-?\d+|[(),]|[^\s_]", source)
    value, end = _parse_item(tokens, 0, source)
    if end != len(tokens):
        raise _malformed(source, f"unexpected {tokens[end]!r} after {text(value)}")
    return value


def _parse_item(tokens: list[str], at: int, source: str) -> tuple[IntTuple, int]:
    if at == len(tokens):
        raise _malformed(source, "it ends where an integer or '(' should stand")
    if tokens[at] != "(":
        if not tokens[at].lstrip("-").isdigit():
            raise _malformed(source, f"{tokens[at]!r} stands where an integer or '(' should")
        return int(tokens[at]), at + 1
    items: list[IntTuple] = []
    at += 1
    while at < len(tokens) and tokens[at] != ")":
        item, at = _parse_item(tokens, at, source)
        items.append(item)
        if at < len(tokens) and tokens[at] == ",":
            at += 1
        elif at < len(tokens) and tokens[at] != ")":
            raise _malformed(source, f"{tokens[at]!r} stands where ',' or ')' should")
    if at == len(tokens):
        raise _malformed(source, "a ')' is missing")
    return tuple(items), at + 1


def _malformed(source: str, rule: str) -> UsageError:
    return UsageError(f"{source!r}", rule, legal="4, (4,8), ((4,8),(2,2))", where="CuTe, Layout")
