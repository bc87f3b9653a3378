"""The search for a conflict-free tile: reads and writes together, smallest first."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.layouts import Swizzle
from mmalab.plan import swizzle_search, swizzle_table
from mmalab.plan.swizzle import Access, column_reads, row_writes


def test_the_articles_tile():
    """128 x 32 BF16: Swizzle<2,3,3> (TMA's 64-byte mode) frees both sides and costs no byte."""
    found = swizzle_search(128, 32, "bf16")
    assert found.swizzle is not None
    assert found.swizzle.swizzle == Swizzle(2, 3, 3)
    assert (found.swizzle.tma, found.swizzle.bytes) == ("64B", 8192)
    assert found.swizzle.free
    assert found.best is found.swizzle
    assert found.plain.by_access == {"reads": (256, 64), "writes": (64, 64)}


def test_padding_costs_memory_and_here_hurts_the_writes():
    """80-byte rows: 25 % more memory, reads free, writes doubled; no padding frees both."""
    padding = swizzle_search(128, 32, "bf16").padding
    assert padding is not None
    assert (padding.pad, padding.bytes) == (16, 10240)
    assert padding.by_access == {"reads": (64, 64), "writes": (128, 64)}
    assert not padding.free


@pytest.mark.parametrize(
    ("cols", "dtype", "mode"),
    [(16, "bf16", "32B"), (32, "bf16", "64B"), (64, "bf16", "128B"), (128, "e4m3", "128B"),
     (32, "f32", "128B"), (16, "f32", "64B"), (64, "e2m1", "32B"), (128, "e2m1", "64B")],
)
def test_rows_of_32_64_and_128_bytes_get_the_modes_of_the_hardware(cols, dtype, mode):
    """The smallest swizzle found is the TMA mode that is as wide as the row."""
    found = swizzle_search(128, cols, dtype)
    assert found.swizzle is not None
    assert (found.swizzle.tma, found.swizzle.free) == (mode, True)


def test_smaller_swizzles_do_not_suffice():
    """Nothing with fewer bits, and no shorter shift, frees the tile of 64-byte rows."""
    found = swizzle_search(128, 32, "bf16")
    assert found.tried >= 5
    table = {a.tma: a for a in swizzle_table(128, 32, "bf16")}
    assert table["32B"].passes > table["32B"].ideal
    assert table["64B"].free


def test_a_write_pattern_can_rule_out_what_the_reads_like():
    """With column-wise writes of 4 bytes the search weighs both and keeps 16 bytes together."""
    lane = np.arange(32)
    scatter = Access("scatter", 4, np.broadcast_to(lane, (32, 32)),
                     np.broadcast_to(2 * np.arange(32)[:, None], (32, 32)))
    reads = column_reads(128, 64, 16)
    found = swizzle_search(128, 64, "bf16", [reads, scatter])
    assert found.swizzle is not None
    assert found.swizzle.byte_swizzle is not None
    assert found.swizzle.byte_swizzle.base >= 4
    assert found.swizzle.by_access["reads"] == found.plain.by_access["reads"][1:] * 2
    assert found.best.passes <= min(found.plain.passes, found.swizzle.passes)


def test_the_swizzled_tile_stays_in_its_bytes():
    """Rows that are no power of two: every candidate permutes the tile's own bytes."""
    found = swizzle_search(48, 24, "bf16")
    if found.swizzle is not None:
        assert found.swizzle.byte_swizzle is not None
        image = found.swizzle.byte_swizzle(np.arange(48 * 48))
        assert sorted(image.tolist()) == list(range(48 * 48))
    assert found.plain.free  # 48-byte rows have no conflict to begin with
    assert found.best is found.plain


def test_patterns_cover_the_tile_once():
    """ldmatrix reads and 16-byte writes touch every chunk exactly once."""
    for access in (column_reads(128, 32, 16), row_writes(128, 32, 16)):
        assert access.row.shape == access.col.shape == (16, 32)
        chunks = (access.row * 4 + access.col // 8).ravel()
        assert sorted(chunks.tolist()) == list(range(512))


def test_results_are_plain_data_and_text():
    """as_dict survives JSON; the text names the arrangement and its counts."""
    found = swizzle_search(128, 32, "bf16")
    data = json.loads(json.dumps(found.as_dict()))
    assert data["swizzle"]["swizzle"] == "Swizzle<2,3,3>"
    assert data["swizzle"]["byte_swizzle"] == "Swizzle<2,4,3>"
    assert data["plain"]["by_access"]["reads"] == {"passes": 256, "ideal": 64}
    assert data["best"] == "Swizzle<2,3,3>"
    assert "Swizzle<2,3,3>   64B  8192   64/64   64/64" in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((128, 20, "bf16"), "^rows of 20 bf16, 40 bytes: 16-byte accesses do not fill a row"),
        ((0, 32, "bf16"), "^a tile of 0 x 32 bf16: empty"),
        ((8, 3, "e2m1"), "its rows are no whole bytes"),
        ((8, 32, "bf17"), "not a format of the PTX ISA"),
    ],
)
def test_refusals(arguments, message):
    """Tiles that the accesses cannot cover, and unknown formats."""
    with pytest.raises(UsageError, match=message):
        swizzle_search(*arguments)
