"""The page of Tensor Memory: kinds, shapes, and where D lies, from `mmalab.isa.tensor_memory`."""

from __future__ import annotations

from collections.abc import Iterator

from generators.markdown import code, fence, table
from mmalab.isa.tensor_memory import (
    COLUMNS,
    GRANULE,
    KINDS,
    LANES,
    DataPath,
    data_path,
    legal_sizes,
    warp_lanes,
)

__all__ = ["pages", "picture"]

#: Every product that has a layout of D: M, cta_group, sparse, ws.
_PRODUCTS = [(256, 2, False, False), (128, 2, False, False), (128, 2, True, False),
             (128, 1, False, False), (64, 1, False, True), (64, 1, False, False),
             (32, 1, False, True)]
_N = 64
_BLOCK = 16


def pages() -> dict[str, str]:
    """isa/tensor-memory.md."""
    parts = [
        "# Tensor Memory",
        (f"{LANES} lanes of {COLUMNS} columns of 32 bits on each SM; an address has the lane in "
         f"its high half and the column in its low half. Allocations are powers of two from "
         f"{GRANULE} columns. Warp w reaches lanes {warp_lanes(0).start} to "
         f"{warp_lanes(0).stop - 1} plus 32 (w mod 4) with `tcgen05.ld` and `tcgen05.st`."),
        "## Kinds of tcgen05.mma",
        table(("kind", "A, B", "D", "K", "later K", "scales", "M, N of a CTA", "M, N of a pair",
               "evidence"), _kinds()),
        "## Where D lies",
        (f"By layout, with N = {_N}; in a pair, M is that of both CTAs. "
         "`mmalab plan tmem` counts the columns of a kernel."),
    ]
    for m, group, sparse, ws in _PRODUCTS:
        path = data_path(m, _N, cta_group=group, sparse=sparse, ws=ws)
        words = f"M = {m}, `cta_group::{group}`{', sparse' if sparse else ''}{', `.ws`' * ws}"
        parts += [f"### Layout {path.name}", words, fence(picture(path, m))]
    return {"isa/tensor-memory.md": "\n\n".join(parts) + "\n"}


def _kinds() -> Iterator[tuple[str, ...]]:
    for kind in KINDS.values():
        later = "; ".join(f"{k}: {targets}" for k, targets in kind.later_k)
        scales = (f"{' or '.join(kind.scales)} for {' or '.join(map(str, kind.blocks))}"
                  if kind.scaled else "")
        yield (code(kind.name), " ".join(kind.operands), " ".join(kind.accumulators), str(kind.k),
               later, scales, *(_sizes(kind.name, group) for group in (1, 2)), str(kind.evidence))


def _sizes(kind: str, group: int) -> str:
    ms, ns = legal_sizes(kind, cta_group=group)
    return f"M {' '.join(map(str, ms))}; N {_steps(ns)}"


def _steps(values: tuple[int, ...]) -> str:
    """Increasing numbers as ranges of one step: "8 to 24 by 8, 32 to 256 by 16"."""
    runs: list[list[int]] = [[values[0]]]
    for value in values[1:]:
        run = runs[-1]
        if len(run) > 1 and value - run[-1] != run[1] - run[0]:
            runs.append([value])
        else:
            run.append(value)
    return ", ".join(f"{run[0]} to {run[-1]} by {run[1] - run[0]}" if len(run) > 1 else
                     str(run[0]) for run in runs)


def picture(path: DataPath, m: int) -> str:
    """Which rows and columns of an `m` x 64 D lie in which lanes, a line for each block."""
    found: dict[tuple[int, int], tuple[set[int], set[int], set[int]]] = {}
    for row in range(m):
        for col in range(_N):
            cta, lane, column = path.place(row, col, m=m, n=_N)
            for held, value in zip(found.setdefault((cta, lane // _BLOCK), (set(), set(), set())),
                                   (row, col, column), strict=True):
                held.add(value)
    lines = ["CTA      lanes   rows of D  columns of D  columns of memory"]
    for cta in range(max(cta for cta, _ in found) + 1):
        for block in range(LANES // _BLOCK):
            rows, cols, columns = map(_span, found.get((cta, block), (set(), set(), set())))
            lanes = f"{block * _BLOCK}-{block * _BLOCK + _BLOCK - 1}"
            lines.append(f"{cta:>3}  {lanes:>9}  {rows:>10}  {cols:>12}  {columns:>17}")
    return "\n".join(lines)


def _span(values: set[int]) -> str:
    return f"{min(values)}-{max(values)}" if values else "-"
