"""Text pictures of layouts."""

from __future__ import annotations

import pytest

from mmalab.errors import UsageError
from mmalab.layouts import Layout, Swizzle, compose
from mmalab.layouts.show import fragment, grid


def test_a_grid_lists_rows_and_columns():
    """Rows down, columns across, values aligned."""
    assert grid(Layout.row_major(2, 12)).splitlines() == [
        "    0   1   2   3   4   5   6   7   8   9  10  11".rjust(50),
        " +" + "-" * 48,
        "0|   0   1   2   3   4   5   6   7   8   9  10  11",
        "1|  12  13  14  15  16  17  18  19  20  21  22  23",
    ]


def test_a_grid_of_a_swizzled_layout_shows_the_swizzled_values():
    """Row 1 of a 2 x 2 tile under Swizzle<1,0,1> is exchanged."""
    swizzled = compose(Swizzle(1, 0, 1), Layout.row_major(2, 2))
    assert grid(swizzled).splitlines()[2:] == ["0|  0  1", "1|  3  2"]


def test_a_fragment_shows_who_holds_each_element():
    """D of m16n8k16: element (9, 5) is lane 6, slot 3; broadcasts list all holders."""
    d = Layout.parse("((4,8),(2,2)):((32,1),(16,8))")
    row = fragment(d, 16, 8).splitlines()[2 + 9]
    assert row.split("|")[1].split()[5] == "6:3"
    shared = fragment(Layout((2, 1), (0, 1)), 1, 2).splitlines()[-1]
    assert shared.split() == ["0|", "0,1", "."]


def test_a_row_major_fragment_counts_columns_first():
    """With row_major the value is column + cols * row."""
    assert fragment(Layout(6), 2, 3, row_major=True).splitlines()[2:] == ["0|  0  1  2",
                                                                       "1|  3  4  5"]


def test_pictures_that_make_no_sense_are_refused():
    """Three modes, values outside the matrix, and pictures too large to read."""
    with pytest.raises(UsageError, match="rank 3"):
        grid(Layout((2, 2, 2)))
    with pytest.raises(UsageError, match="outside the matrix"):
        fragment(Layout(8), 2, 2)
    with pytest.raises(UsageError, match="too many cells"):
        grid(Layout((1024, 1024)))
