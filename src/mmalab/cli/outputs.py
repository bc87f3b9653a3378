"""What a run left in its outputs: rows that nobody wrote, rows of zeros, NaNs.

A buffer given as ``out:`` starts as all ones, so an element that still has them was not written (or
was written with the same bits). In words::

    outputs: d.npy (f32 32,8): rows 16-31 not written; rows 0-3 zero; 2 NaN, the first at 5,3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.cli.arguments import Argument

__all__ = ["described"]

_RUNS = 4


def described(arguments: Sequence[Argument]) -> list[str]:
    """One line per output of which there is something to say beyond its numbers."""
    lines = []
    for argument in arguments:
        if argument.output is None:
            continue
        array = argument.value if argument.array is None else argument.array
        said = "; ".join(_said(array, argument.type))
        if said:
            shape = ",".join(map(str, array.shape))
            kind = argument.type or array.dtype
            lines.append(f"{argument.output} ({kind} {shape}): {said}")
    return lines


def _said(array: NDArray[Any], type_: str) -> Iterator[str]:
    if not array.size:
        return
    octets = array.reshape(-1, 1).view(np.uint8)
    left = (octets == 0xFF).all(axis=1).reshape(array.shape) if type_ else np.zeros(
        array.shape, bool)
    yield from _where(left, "not written")
    yield from _where((octets == 0).all(axis=1).reshape(array.shape), "zero", whole_rows=True)
    nans = _nans(array, type_) & ~left
    yield from _where(nans, "NaN")


def _where(hit: NDArray[np.bool_], what: str, *, whole_rows: bool = False) -> Iterator[str]:
    """Rows of which all elements are so; with fewer, how many and the first."""
    if not hit.any():
        return
    rows = hit.reshape(len(hit), -1).all(axis=1) if hit.ndim else hit.reshape(1)
    word = "rows" if hit.ndim > 1 else "elements"
    if hit.all():
        yield f"all {what}"
    elif rows.any() and (hit.ndim > 1 or not whole_rows):
        yield f"{word} {_ranges(np.flatnonzero(rows).tolist())} {what}"
    if whole_rows:
        return
    rest = hit if hit.ndim == 1 else hit & ~rows.reshape(-1, *[1] * (hit.ndim - 1))
    if hit.ndim > 1 and rest.any():
        first = ",".join(map(str, np.argwhere(rest)[0].tolist()))
        yield f"{int(rest.sum())} {what}{' elsewhere' if rows.any() else ''}, the first at {first}"


def _nans(array: NDArray[Any], type_: str) -> NDArray[np.bool_]:
    if type_ and type_ in formats.FORMATS and array.dtype.kind != "f":
        kind = formats.get(type_)
        return np.isnan(formats.decode(array, kind)) if kind.is_float else np.zeros(
            array.shape, bool)
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 7, 9-12``; the first few."""
    runs = [[number for _, number in run] for _, run in groupby(
        enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    shown = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0])
                      for run in runs[:_RUNS])
    return shown + (f" and {len(runs) - _RUNS} more runs" if len(runs) > _RUNS else "")
