"""The tensor maps of a product that TMA feeds: how boxes of A and B lie in global memory.

A box is a slice of K by the lines of a tile. Where columns are dealt out (`Problem.deal`), line
``b + 2 t + 8 f`` of 16 in shared memory is line ``4 t + 2 f + b`` of B::

    dims    (K, 2, 4, 2, N / 16)     innermost first: k, b, t, f, and the 16 columns
    strides (   1, 4, 2, 16) lines
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmalab.kernels.sm80_mma.problem import Problem
from mmalab.kernels.sm90_wgmma.maps import MapShape

__all__ = ["maps_of", "prepare"]


def maps_of(problem: Problem) -> dict[str, MapShape]:
    """The maps of a and b."""
    made, pitch = problem.tile, problem.row_bytes
    # The instruction leaves out tf32's low bits itself.
    kind = "f32" if problem.recipe.dtype == "tf32" else problem.recipe.dtype
    swizzle, values = f"{made.span}B", problem.values
    a = MapShape(kind, (problem.k, problem.m), (pitch,), (values, made.lines("A")), swizzle)
    lines = made.lines("B")
    b = MapShape(kind, (problem.k, problem.n), (pitch,), (values, lines), swizzle)
    if problem.deal:
        deal = problem.deal
        b = MapShape(kind, (problem.k, 2, 4, deal // 8, problem.n // deal),
                     (pitch, deal // 4 * pitch, 2 * pitch, deal * pitch),
                     (values, 2, 4, deal // 8, lines // deal), swizzle)
    return {"a": a, "b": b}


def prepare(problem: Problem, args: Sequence[Any]) -> list[Any]:
    """From [a, b, c] to the entry's parameters."""
    maps = maps_of(problem)
    made = [maps[name].over(array) if name in maps else array
            for name, array in zip("abc", args, strict=True)]
    words = [np.zeros(problem.grid[0] * problem.tile.threads // 32, np.uint32)]
    return [*made, *(words if problem.even else ())]
