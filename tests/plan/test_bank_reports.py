"""Bank reports: the article's three layouts, options, and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.layouts import ComposedLayout, Layout, Swizzle, compose
from mmalab.plan import banks

ARTICLE = {
    "none": ({}, [0, 4, 0, 4, 0, 4, 0, 4], 4),
    "pad": ({"pad": 16}, [0, 5, 2, 7, 4, 1, 6, 3], 1),
    "swz": ({"swizzle": Swizzle(2, 3, 3), "dtype": "bf16"}, [0, 4, 1, 5, 2, 6, 3, 7], 1),
}


@pytest.mark.parametrize("name", ARTICLE)
def test_the_articles_three_layouts(name):
    """Rows 0 to 7 of a 64-byte pitch: bank groups and passes, plain, padded and swizzled."""
    options, groups, passes = ARTICLE[name]
    found = banks.ldmatrix(8, 64, **options)
    assert found.line() == (
        f"rows 0-7 -> bank groups {groups}  passes needed: {passes}"
    )
    assert (list(found.groups), found.passes, found.ideal) == (groups, passes, 1)


def test_ldmatrix_x4_takes_16_against_4_wavefronts():
    """32 rows: 16 plain, 4 padded, 4 swizzled; plain 128-byte rows take 32."""
    passes = [banks.ldmatrix(32, 64, **options).passes for options, *_ in ARTICLE.values()]
    assert passes == [16, 4, 4]
    found = banks.ldmatrix(32, 128)
    assert (found.passes, found.ideal, found.phases, found.ways) == (32, 4, (8, 8, 8, 8), 8)


@pytest.mark.parametrize("chunk", range(4))
def test_every_chunk_of_the_swizzled_tile_is_free(chunk):
    """Not only chunk 0: each of the four columns of 16 bytes takes one pass."""
    found = banks.ldmatrix(8, 64, chunk=chunk, swizzle=Swizzle(2, 3, 3), dtype="bf16")
    assert found.passes == 1


@pytest.mark.parametrize(
    ("swizzle", "passes"), [(None, 8), (Swizzle(3, 3, 3), 2), (Swizzle(3, 3, 4), 1)]
)
def test_an_m_major_tile_needs_another_swizzle(swizzle, passes):
    """16-byte rows 256 bytes apart: 8 passes, 2 with <3,3,3>, 1 with <3,3,4> (L01)."""
    assert banks.ldmatrix(8, 256, swizzle=swizzle, dtype="f16").passes == passes


def test_columns_of_words():
    """Other widths: a column of 4-byte words at a 128-byte pitch is a 32-way conflict."""
    found = banks.ldmatrix(32, 128, size=4)
    assert (found.passes, found.ways, set(found.groups)) == (32, 32, {0})
    assert banks.ldmatrix(32, 128, size=4, pad=4).passes == 1
    assert banks.ldmatrix(32, 128, size=8).passes == 32


def test_a_layout_gives_the_same_report_as_its_pitch():
    """Addresses read out of a Layout or a swizzled one are what ldmatrix computes."""
    plain = Layout((128, 32), (64, 2))
    rows = plain(np.arange(8), 0)
    assert banks.access(rows, 16).groups == banks.ldmatrix(8, 64).groups
    swizzled = compose(Swizzle(2, 4, 3), plain)
    assert isinstance(swizzled, ComposedLayout)
    assert banks.access(swizzled(np.arange(8), 0), 16).groups == tuple(ARTICLE["swz"][1])


def test_the_table_lists_rows_addresses_and_banks():
    """One line a row; the passes stand at the first row of a phase."""
    lines = banks.ldmatrix(9, 64, pad=16).table().splitlines()
    assert lines[0].split() == ["row", "address", "group", "banks", "phase", "passes"]
    assert lines[2].split() == ["1", "80", "5", "20-23", "0"]
    assert lines[9].split() == ["8", "640", "0", "0-3", "1", "1"]
    assert lines[-1] == "passes 2, without conflicts 2"


def test_the_report_is_plain_data():
    """as_dict survives JSON and has the derived numbers."""
    data = json.loads(json.dumps(banks.ldmatrix(8, 64, swizzle=Swizzle(2, 3, 3),
                                                dtype="bf16").as_dict()))
    assert data["passes"] == data["ways"] == data["ideal"] == 1
    assert data["groups"] == ARTICLE["swz"][1]
    assert data["swizzle"] == "Swizzle<2,3,3>"


def test_a_base_that_is_no_multiple_of_the_period_only_turns_the_groups():
    """The pattern is relative to the tile: adding a base moves all rows alike."""
    options = ARTICLE["swz"][0]
    assert banks.ldmatrix(8, 64, base=128, **options).groups == tuple(ARTICLE["swz"][1])
    assert banks.ldmatrix(8, 64, base=16, **options).passes == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: banks.ldmatrix(0, 64), "^0 rows, chunk 0, padding 0: negative, or no row at all"),
        (lambda: banks.ldmatrix(8, 64, chunk=4),
         "^chunk 4 of 16 bytes: outside a row of 64 bytes\n  legal: 0 to 3"),
        (lambda: banks.ldmatrix(8, 64, swizzle=Swizzle(2, 3, 3)),
         "^Swizzle<2,3,3> on bytes: it tears accesses of 16 bytes\n  legal: a base of 4 or more"),
        (lambda: banks.ldmatrix(8, 60), "^address 60 for 16 bytes: misaligned or negative"),
        (lambda: banks.ldmatrix(8, 64, size=12), "legal: 1, 2, 4, 8, 16"),
        (lambda: banks.access([], 16), "not one row of lanes"),
    ],
)
def test_refusals(make, message):
    """Rows outside the pitch, torn or misaligned accesses, unknown widths."""
    with pytest.raises(UsageError, match=message):
        make()
