"""The tensor maps of a product: how boxes of A, B and C lie in global memory.

The matrices of a batch are one matrix of all their rows; a tile's lines past its own matrix are the
next one's, and are not stored. Only C's map keeps them apart.

A box of an operand is 128 bytes of K by the lines that one CTA copies. With store "permuted", and
where words of C go through shared memory, B's lines are dealt out: line ``b + 2 t + 8 j`` of 32 in
shared memory, which is column n of wgmma, is column ``8 t + 2 j + b`` of C, so that thread t of a
quad, which holds columns 2 t and 2 t + 1 of every eight, holds eight neighbours of C::

    dims    (K, 2, 4, 4, N / 32)     innermost first: k, b, t, j, and the 32 columns
    strides (   1, 8, 2, 32) lines

Two CTAs that share B copy one half of its columns each. Where that is no multiple of 32 each takes
two of the four j instead, of all 32: then the eight of wgmma's columns that hold j = 2 begin behind
all those of j = 0 and 1 (see `eight`).

Where lines are to be shifted (see `shift`), strides of lines that begin anywhere are the multiples
of 16 bytes below: of all of A's phases, of b, and of j where that counts phases too (4 phases in
deals of 16 columns, 8 in deals of 32). Maps end behind the longest shift.

Where rows of the first of P phases are in place (see `windowed`) an operand has two maps, each for
a box of every part that a CTA copies: of those rows, and behind them of the others, by phase::

    in place    dims (K, M / P),         strides P         rows of the operand
    others      dims (K, M / P, P - 1),  strides P - 1, 1  rows of the window

For P = 4 that deals B's columns out: lines 2 t and 2 t + 1 of all phases are the eight columns from
8 t on. For P = 2 line ``b + 2 t + 8 e`` of phase p is column ``8 t + 4 e + 2 b + p``: maps have the
dimensions above, with e for j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmalab import formats
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.tensormap.tensor_map import TensorMap

__all__ = ["MapShape", "eight", "line_of", "maps_of", "panel_columns", "prepare"]


@dataclass(frozen=True, slots=True)
class MapShape:
    """A tensor map without its array: sizes innermost first, strides in bytes."""

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str
    #: Lines of the matrix that a coordinate counts at a time, which one that is, and which one
    #: tells the parts of a box apart that the CTAs of a cluster copy.
    lines: int = 1
    counts: int = -1
    parts: int = -1
    l2_promotion: str = "256B"

    @property
    def rank(self) -> int:
        """Dimensions."""
        return len(self.dims)

    def over(self, array: Any) -> TensorMap:
        """The map over an array."""
        return TensorMap.tiled(array, box=self.box, swizzle=self.swizzle, dims=self.dims,
                               strides=self.strides, dtype=self.dtype,
                               l2_promotion=self.l2_promotion)


def panel_columns(problem: Problem) -> int:
    """Columns of C in one box that leaves."""
    return problem.plan.panel_columns(problem.out_bytes)


def eight(problem: Problem, block: int, j: int) -> int:
    """Which eight of wgmma's columns hold the j-th pairs of the block-th dealt columns."""
    each = problem.deal // 8 // problem.dealt_in
    part, within = divmod(j, each)
    return part * (problem.plan.tile[1] // 8 // problem.dealt_in) + block * each + within


def line_of(problem: Problem, column: int) -> int:
    """Which of wgmma's columns is a column of the tile, where lines are in place."""
    part, phases = problem.plan.tile[1] // problem.plan.cluster[0], problem.phases
    above = column - column % part
    line, phase = divmod(column % part, phases)
    if problem.dealt and phases == 2:
        thread, pair, b = line % 16 // 4, line % 4 // 2, line % 2
        line += 8 * pair + 2 * thread + b - line % 16
    return above + phase * (part // phases) + line


def maps_of(problem: Problem) -> dict[str, MapShape]:
    """The maps by argument: of a and b where TMA brings them, of c where TMA stores it."""
    plan = problem.plan
    made: dict[str, MapShape] = {}
    if problem.in_place:
        made = _in_place(problem)
    elif not problem.gathered:
        a_lines, b_lines = plan.tile[0] // plan.cluster[1], plan.tile[1] // plan.cluster[0]
        made["a"] = (_by_phase(problem, a_lines) if problem.loaded else
                     _operand(problem, problem.a_lines, a_lines))
        made["b"] = (_dealt(problem, b_lines) if problem.dealt else
                     _operand(problem, problem.b_lines, b_lines))
    made = {name: replace(shape, l2_promotion=plan.l2_promotion) for name, shape in made.items()}
    if plan.store == "staged":
        columns = panel_columns(problem)
        pitch = problem.n * problem.out_bytes
        made["c"] = MapShape(problem.out, (problem.n, problem.m, problem.batch),
                             (pitch, problem.m * pitch), (columns, 64, 1),
                             f"{columns * problem.out_bytes}B")
    return made


def _words(problem: Problem) -> str:
    """The map's element type: tf32 travels as it is, wgmma leaves out the low bits."""
    return "f32" if problem.recipe.dtype == "tf32" else problem.recipe.dtype


def _operand(problem: Problem, lines: int, box_lines: int) -> MapShape:
    row = (problem.row_values, problem.values)
    if problem.shifted:
        phases = problem.phases
        return MapShape(_words(problem), (row[0], phases, lines // phases),
                        (problem.row_pitch, phases * problem.pitch),
                        (row[1], phases, box_lines // phases), "128B", phases)
    return MapShape(_words(problem), (row[0], lines), (problem.row_pitch,),
                    (row[1], box_lines), "128B")


def _by_phase(problem: Problem, box_lines: int) -> MapShape:
    each, phases = problem.phase_lines, problem.phases
    return MapShape(_words(problem), (problem.row_values, problem.m // phases, phases),
                    (phases * problem.pitch, problem.row_pitch),
                    (problem.values, each, box_lines // each), "128B", phases, counts=-2)


def _in_place(problem: Problem) -> dict[str, MapShape]:
    """Of A and B: the rows that are read where they lie, and the window of the others."""
    plan, phases, made = problem.plan, problem.phases, {}
    for name, of, window, lines in (
            ("a", problem.m, problem.a_lines, plan.tile[0] // plan.cluster[1]),
            ("b", problem.n, problem.b_lines, plan.tile[1] // plan.cluster[0])):
        each, pitch, others = lines // phases, problem.padded_pitch, phases - 1
        if name == "b" and problem.dealt and phases == 2:
            made["b"] = _pairs(problem, phases * problem.pitch, of // phases, each)
            made["b_others"] = _pairs(problem, pitch, window, each)
            continue
        made[name] = MapShape(_words(problem), (problem.k, -(-of // phases)),
                              (phases * problem.pitch,), (problem.values, each), "128B", phases)
        made[f"{name}_others"] = MapShape(
            _words(problem), (problem.k, window // others, others), (others * pitch, pitch),
            (problem.values, each, others), "128B", phases, counts=-2, parts=-2)
    return made


def _pairs(problem: Problem, pitch: int, lines: int, box_lines: int) -> MapShape:
    """B's lines of one of two phases, dealt out."""
    return MapShape(_words(problem), (problem.k, 2, 4, 2, lines // 16),
                    (pitch, 4 * pitch, 2 * pitch, 16 * pitch),
                    (problem.values, 2, 4, 2, box_lines // 16), "128B", 32)


def _dealt(problem: Problem, box_lines: int) -> MapShape:
    pitch, deal, shared = problem.row_pitch, problem.deal, problem.dealt_in
    each = deal // 4
    apart = problem.pitch if problem.shifted else pitch
    pairs = 2 * pitch if problem.phases > 2 else 2 * apart
    return MapShape(
        _words(problem), (problem.row_values, 2, 4, each // 2, problem.b_lines // deal),
        (pitch, each * apart, pairs, deal * apart),
        (problem.values, 2, 4, each // 2 // shared, box_lines * shared // deal), "128B", deal,
        parts=-1 if shared == 1 else -2)


def prepare(problem: Problem, args: Sequence[Any]) -> list[Any]:
    """From [a, b, ..., c] to the entry's parameters."""
    maps = maps_of(problem)
    if problem.copies:
        copies = [np.zeros((lines, problem.row_pitch // problem.recipe.bytes),
                           formats.dtype_of(problem.recipe.dtype))
                  for lines in (problem.a_lines, problem.b_lines)]
        read = args[:2] if problem.in_place else copies
        others = ("a_others", "b_others") if problem.in_place else ()
        counters = 2 + 2 * problem.window_steps if problem.windowed else 1
        return [*(maps[name].over(array) for name, array in zip("ab", read, strict=True)),
                maps["c"].over(args[-1]) if "c" in maps else args[-1],
                *(maps[name].over(array) for name, array in zip(others, copies, strict=False)),
                *args[:2], *copies, np.zeros(counters, np.uint32)]
    made = [maps[param.name].over(value) if param.name in maps else value
            for param, value in zip(problem.params, args, strict=True)]
    return made + [value for value, left in zip(args[:2], problem.left_over, strict=True) if left]
