"""Whole matrices, compiled."""

from __future__ import annotations

from mmalab.numerics import reference
from mmalab.numerics.operands import Words
from mmalab.numerics.unit import Unit


def multiply(unit: Unit, a: Words, b: Words, c: Words, *, k: int = 0,
             threads: int | None = None) -> Words:
    """D = A x B + C."""
    return reference.multiply(unit, a, b, c, k=k)
