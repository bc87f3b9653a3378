"""The table of arithmetic units, from the rows of `mmalab.numerics`: like rows in one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from generators.markdown import code, table
from mmalab import numerics
from mmalab.numerics import Unit

__all__ = ["floating", "others"]

_FUSED = ("tfs", "groups", "rewrite")


def floating() -> str:
    """Units whose sum is fused and truncated: what they fuse, what they keep, how it is known."""
    rows = _grouped(unit for unit in numerics.units() if unit.algorithm in _FUSED)
    return table(("class", "chips", "types", "to", "algorithm", "K: fused", "fraction bits",
                  "result", "known", "source"), rows)


def others() -> str:
    """Units of integers, bits and FP64: exact or IEEE, so the algorithm says all."""
    found: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for unit in numerics.units():
        if unit.algorithm not in _FUSED:
            found[unit.algorithm, unit.klass][unit.chip] = None
    return table(("algorithm", "class", "chips"),
                 [(algorithm, code(klass), " ".join(chips))
                  for (algorithm, klass), chips in found.items()])


def _grouped(units: Iterable[Unit]) -> list[tuple[str, ...]]:
    """One line for units that differ in chip or in types only."""
    found: defaultdict[tuple[str, ...], tuple[dict[str, None], dict[str, None]]] = defaultdict(
        lambda: ({}, {}))
    for unit in units:
        splits = ", ".join(f"{k}: {fused}" for k, fused in unit.splits)
        key = (code(unit.klass), unit.acc, unit.algorithm, splits, str(unit.fraction or ""),
               unit.rounding, unit.confidence, unit.source)
        chips, types = found[key]
        chips[unit.chip] = None
        types[_types(unit)] = None
    return [(klass, " ".join(chips), ", ".join(types), acc, algorithm, splits, *rest)
            for (klass, acc, algorithm, splits, *rest), (chips, types) in found.items()]


def _types(unit: Unit) -> str:
    pair = unit.a if unit.a == unit.b else f"{unit.a} x {unit.b}"
    return f"{unit.kind}.{pair}" if unit.kind else pair
