"""Layouts as values: notation, evaluation by ints, tuples and arrays, and what is refused."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.errors import LimitExceeded, UsageError
from mmalab.layouts import Layout, make_layout
from mmalab.layouts.inttuple import flatten

D_FRAGMENT = "((4,8),(2,2)):((32,1),(16,8))"

shapes = st.recursive(
    st.integers(1, 5), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5
)


def brute_force(layout: Layout) -> list[int]:
    """Values of all coordinates, first leaf fastest, by the definition of a layout."""
    extents, strides = flatten(layout.shape), flatten(layout.stride)
    spaces = [range(extent) for extent in reversed(extents)]
    return [
        sum(c * d for c, d in zip(reversed(coord), strides, strict=True))
        for coord in itertools.product(*spaces)
    ]


@given(shapes)
def test_the_text_of_a_layout_reads_back_as_the_same_layout(shape):
    """parse(str(layout)) and eval(repr(layout)) are the layout."""
    layout = Layout(shape)
    assert Layout.parse(str(layout)) == layout
    assert eval(repr(layout), {"Layout": Layout}) == layout  # noqa: S307


def test_notation_is_the_one_of_the_papers():
    """str has no spaces and writes a one-tuple without a comma."""
    assert str(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))) == D_FRAGMENT
    assert str(Layout((4,), (1,))) == "(4):(1)"
    assert str(Layout(8, 2)) == "8:2"
    assert repr(Layout([4, 8])) == "Layout((4, 8), (1, 4))"


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("(4, 8) : (8, 1)", Layout((4, 8), (8, 1))),
        ("(_4,_8):(_1,_4)", Layout((4, 8))),
        ("(4,(2,3))", Layout((4, (2, 3)), (1, (4, 8)))),
        ("(4,)", Layout((4,), (1,))),
        ("()", Layout(())),
        ("(2,2):(-1,0)", Layout((2, 2), (-1, 0))),
    ],
)
def test_parse_takes_spaces_underscores_and_shapes_alone(text, layout):
    """Spellings that people copy from CuTe's printer and from Python are understood."""
    assert Layout.parse(text) == layout


@pytest.mark.parametrize(
    "text", ["", "(4", "4)", "(4 8)", "(4,8):(1,4", "(a,8)", "4:1:2", "((4,8):(1,4)", "--4", "4.0"]
)
def test_parse_refuses_what_is_no_layout(text):
    """A malformed text is an error, never part of a layout."""
    with pytest.raises(UsageError, match="legal"):
        Layout.parse(text)


def test_size_cosize_rank_and_depth():
    """The four numbers of a nested layout with a gap."""
    layout = Layout(((2, 4), 3), ((1, 4), 32))
    assert (layout.size, layout.cosize, layout.rank, layout.depth) == (24, 1 + 1 + 12 + 64, 2, 2)
    assert (Layout(()).size, Layout(()).cosize, Layout(()).rank) == (1, 1, 0)
    assert (Layout(4).rank, Layout(4).depth) == (1, 0)


def test_a_mode_is_a_layout_of_its_own():
    """layout[i] keeps the shape and strides of mode i; layout[0] of an integer shape is itself."""
    layout = Layout.parse(D_FRAGMENT)
    assert layout[0] == Layout((4, 8), (32, 1))
    assert layout[-1][0] == Layout(2, 16)
    assert Layout(8, 2)[0] == Layout(8, 2)
    assert make_layout(*layout) == layout
    with pytest.raises(UsageError, match=r"^mode 2 of .*: the layout has rank 2\n  legal: 0, 1\n"
                                         r"  see:   CuTe, Layout$"):
        layout[2]


def test_indices_are_the_definition(draw):
    """indices() equals the sum of coordinate times stride over all coordinates, 500 layouts."""
    for _ in range(500):
        layout = draw()
        assert layout.indices().tolist() == brute_force(layout), layout


def test_every_way_to_evaluate_agrees(draw):
    """One int, nested tuples, arguments and arrays give what indices() gives, 200 layouts."""
    for _ in range(200):
        layout = draw()
        expected = layout.indices()
        assert [layout(i) for i in range(layout.size)] == expected.tolist()
        assert layout(np.arange(layout.size)).tolist() == expected.tolist()
        sizes = [mode.size for mode in layout]
        grids = np.meshgrid(*map(np.arange, sizes), indexing="ij")
        by_mode = layout(tuple(grids)) if not isinstance(layout.shape, int) else layout(grids[0])
        assert np.array_equal(by_mode, layout.array()), layout


def test_the_fragment_of_an_accumulator():
    """Lane 6 holds (9, 4) and (9, 5) of the m16n8 accumulator, as the article found."""
    d = Layout.parse(D_FRAGMENT)
    assert d(6, 2) == d((6, 2)) == d(((2, 1), (0, 1))) == d(6 + 32 * 2) == 9 + 16 * 4
    assert d(6, 3) == 9 + 16 * 5
    assert d.is_bijective


def test_integers_past_the_end_continue_the_last_leaf():
    """As in CuTe, (4,8):(1,4) at 40 is 40: composition relies on it."""
    assert Layout((4, 8))(40) == 40
    assert Layout((4, 8))(np.array([40])).tolist() == [40]


def test_indices_are_cached_and_read_only():
    """The array of a layout cannot be changed under another reader."""
    layout = Layout((4, 8))
    assert layout.indices() is layout.indices()
    with pytest.raises(ValueError, match="read-only"):
        layout.indices()[0] = 7


@pytest.mark.parametrize(
    ("layout", "injective", "bijective"),
    [
        ("(4,8):(8,1)", True, True),
        ("(4,8):(1,5)", True, False),
        ("(4,8):(0,1)", False, False),
        ("(2,2):(1,1)", False, False),
        ("4:-1", True, False),
        ("(2,3):(3,2)", True, False),
        ("1:7", True, True),
    ],
)
def test_injective_and_bijective(layout, injective, bijective):
    """Whether values repeat, and whether they are exactly 0 to size - 1."""
    assert Layout.parse(layout).is_injective is injective
    assert Layout.parse(layout).is_bijective is bijective


def test_row_major_has_the_last_mode_fastest():
    """row_major(128, 32) is the plain shared-memory tile (128,32):(32,1)."""
    assert Layout.row_major(128, 32) == Layout.parse("(128,32):(32,1)")
    assert Layout.row_major(2, 3, 4) == Layout.parse("(2,3,4):(12,4,1)")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Layout((4, 6), (1,)),
            ("(4,6):(1): shape and stride are nested differently\n"
            "  legal: a stride for each extent, such as (1,4)\n  see:   CuTe, Layout"),
        ),
        (
            lambda: Layout((4, 0)),
            "shape (4,0): an extent below 1\n  legal: integers from 1\n  see:   CuTe, Layout",
        ),
        (
            lambda: Layout((4, 8))((1, 2, 3)),
            ("coordinate (1, 2, 3): 3 parts for the shape (4,8)\n"
            "  legal: an integer, or 2 parts\n  see:   CuTe, Layout, coordinates"),
        ),
        (
            lambda: Layout((4, 8))(-1),
            ("coordinate -1: a coordinate is never negative\n"
            "  legal: 0 to 31 in the shape (4,8)\n  see:   CuTe, Layout, coordinates"),
        ),
        (
            lambda: Layout((4, 8))(np.array([0.5])),
            ("coordinates of type float64: not integers\n  legal: int64\n"
            "  see:   CuTe, Layout, coordinates"),
        ),
        (
            lambda: Layout(4.5),
            ("4.5: neither an integer nor a nested tuple of integers\n"
            "  legal: 4, (4, 8), ((4, 8), (2, 2))\n  see:   CuTe, Layout"),
        ),
    ],
)
def test_errors_say_what_is_legal(make, message):
    """Each refusal names what was given, the rule, what is legal, and where it is written."""
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        make()


def test_a_layout_too_large_to_list_is_refused():
    """indices() of 2^40 values ends in an error and not in an exhausted machine."""
    with pytest.raises(LimitExceeded, match="1099511627776 values"):
        Layout((1 << 20, 1 << 20)).indices()
