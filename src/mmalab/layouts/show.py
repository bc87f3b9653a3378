"""Pictures of layouts in text.

``grid`` draws a layout of two modes as a table of its values; ``fragment`` turns a (lane, slot)
layout round and draws the matrix with the lane and slot that hold each element:

    >>> print(grid(Layout((2, 4), (4, 1))))
        0  1  2  3
     +------------
    0|  0  1  2  3
    1|  4  5  6  7
    >>> print(fragment(Layout((2, 2), (1, 2)), 2, 2))
          0    1
     +----------
    0|  0:0  0:1
    1|  1:0  1:1
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError
from mmalab.layouts.layout import Layout
from mmalab.layouts.swizzle import ComposedLayout

__all__ = ["fragment", "grid"]

_MAX_CELLS = 1 << 16


def grid(layout: Layout | ComposedLayout) -> str:
    """The values of a layout of rank 1 (one row) or 2 (rows, columns) as aligned text."""
    if layout.rank > 2:
        raise UsageError(
            f"a grid of {layout}", f"the layout has rank {layout.rank}",
            legal="rank 1 or 2: group modes with make_layout", where="mmalab.layouts.show",
        )
    values = layout.array() if layout.rank == 2 else layout.indices()[None, :]
    return _table(values.astype(str))


def fragment(layout: Layout, rows: int, cols: int, *, row_major: bool = False) -> str:
    """The rows x cols matrix with ``lane:slot`` in each cell; several holders with a comma.

    `layout` maps (lane, slot) to ``row + rows * column`` (with `row_major`, to
    ``column + cols * row``). A cell that nobody holds shows a dot.
    """
    lanes, slots = (layout[0].size, layout[1].size) if layout.rank == 2 else (layout.size, 1)
    cells: list[list[str]] = [[] for _ in range(rows * cols)]
    for at, value in enumerate(layout.indices()):
        if value >= len(cells):
            raise UsageError(
                f"{layout} on {rows} x {cols}", f"value {value} is outside the matrix",
                legal=f"0 to {rows * cols - 1}", where="mmalab.layouts.show",
            )
        cells[value].append(f"{at % lanes}:{at // lanes}" if slots > 1 else str(at))
    names = np.array([",".join(holders) or "." for holders in cells])
    order = (rows, cols) if row_major else (cols, rows)
    return _table(names.reshape(order) if row_major else names.reshape(order).T)


def _table(cells: NDArray[np.str_]) -> str:
    rows, cols = cells.shape
    if cells.size > _MAX_CELLS:
        raise UsageError(
            f"a picture of {rows} x {cols}", "too many cells to read", legal=f"{_MAX_CELLS} cells",
            where="CuTe, Layout",
        )
    width = max(int(np.char.str_len(cells).max()), len(str(cols - 1))) + 2
    margin = len(str(rows - 1))
    head = " " * (margin + 1) + "".join(f"{c:>{width}}" for c in range(cols))
    rule = " " * margin + "+" + "-" * (width * cols)
    body = (
        f"{r:>{margin}}|" + "".join(f"{cell:>{width}}" for cell in row)
        for r, row in enumerate(cells)
    )
    return "\n".join((head, rule, *body))
