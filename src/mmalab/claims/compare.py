"""Comparing our value with the article's, and saying how it is known.

    >>> near([1.0, 2.0], [1.01, 1.99], 0.02)
    True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmalab.claims.model import Answer, Evidence, Statement, answer

__all__ = ["compiled", "derived", "elsewhere", "emulated", "equal", "measured", "near", "same",
           "within"]


def derived(formula: str) -> Evidence:
    """It follows from a formula over instruction records or documented limits."""
    return Evidence("derived", formula)


def compiled(what: str) -> Evidence:
    """Assembled and disassembled here and now."""
    return Evidence("compiled", what)


def emulated(what: str) -> Evidence:
    """Computed here with a chip's arithmetic, or executed by the emulator."""
    return Evidence("emulated", what)


def measured(what: str) -> Evidence:
    """Read from a committed record of a run on a chip."""
    return Evidence("measured", what)


def elsewhere(source: str) -> Evidence:
    """Read in somebody else's document or record."""
    return Evidence("recorded elsewhere", source)


def same(ours: Any, article: Any) -> bool:
    """Equal, whether tuples or lists, NumPy or plain numbers."""
    return bool(_plain(ours) == _plain(article))


def near(ours: Any, article: Any, tolerance: float) -> bool:
    """Every number of `ours` within a relative `tolerance` of the article's."""
    left, right = np.array(_numbers(ours)), np.array(_numbers(article))
    return left.shape == right.shape and bool(np.all(np.abs(left - right)
                                                     <= tolerance * np.abs(right)))


def equal(said: Statement, ours: Any, *evidence: Evidence, right: str = "", unchecked: str = "",
          command: str | None = None) -> Answer:
    """An answer that must be the article's value."""
    return answer(ours, *evidence, must={f"{_short(ours)} = {_short(said.value)}":
                                         same(ours, said.value)},
                  right=right, unchecked=unchecked, command=command)


def within(said: Statement, ours: Any, tolerance: float, *evidence: Evidence, right: str = "",
           unchecked: str = "", command: str | None = None) -> Answer:
    """An answer whose numbers must be within a relative `tolerance` of the article's."""
    words = f"{_short(ours)} within {100 * tolerance:g} % of {_short(said.value)}"
    return answer(ours, *evidence, must={words: near(ours, said.value, tolerance)},
                  right=right, unchecked=unchecked, command=command)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _numbers(value: Any) -> list[float]:
    plain = _plain(value)
    if isinstance(plain, dict):
        return _numbers([plain[key] for key in sorted(plain)])
    if isinstance(plain, list):
        return [number for item in plain for number in _numbers(item)]
    return [float(plain)]


def _short(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, float):
        return f"{plain:.4g}"
    if isinstance(plain, list):
        return "[" + ", ".join(map(_short, plain)) + "]"
    if isinstance(plain, dict):
        return ", ".join(f"{key} {_short(item)}" for key, item in plain.items())
    return str(plain)
