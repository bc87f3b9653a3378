"""CTA tiles: the ranking against what one H200 measured, legality, arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.plan import tiles

#: Share of wgmma's rate beside full-chip tensor copies, one H200, 2026-11-29.
MEASURED = {(128, 128): 0.64, (128, 192): 0.81, (128, 256): 0.94, (256, 128): 0.95,
            (256, 160): 0.999, (256, 192): 0.999, (256, 208): 0.999, (192, 256): 0.999,
            (128, 320): 0.999}


@pytest.mark.parametrize("tile", MEASURED, ids=lambda tile: f"{tile[0]}x{tile[1]}")
def test_feeding_agrees_with_the_measurement(tile: tuple[int, int]) -> None:
    """min(1, 43 / fill) is within 7 % of what the tensor cores kept of their rate."""
    fill = tiles.fill_per_clock(*tile, "bf16", "H200")
    share = min(1.0, tiles.FEED_LIMIT["H200"] / fill)
    assert share == pytest.approx(MEASURED[tile], rel=0.07)


def test_multicast_shares_the_common_operand() -> None:
    """Two CTAs along M read B once: 128 x 256 needs 32 bytes per clock instead of 48."""
    assert tiles.fill_per_clock(128, 256, "bf16", "H200") == 48
    assert tiles.fill_per_clock(128, 256, "bf16", "H200", cluster=(2, 1)) == 32
    assert tiles.fill_per_clock(128, 256, "e4m3", "H200") == 48  # half the bytes, twice the rate


def test_the_best_tiles_of_the_measured_shapes() -> None:
    """8192^3: 256 x 208, the best of 62 configurations on an H200; edges and waves of published
    tables: 97.0 % for 128 x 256, and 79.6, 95.5 and 97.9 % for 256 x 208."""
    best = tiles.search(8192, 8192, 8192, "bf16", on="H200")[0]
    assert (best.m, best.n, best.waves) == (256, 208, 10)
    assert best.share == pytest.approx(0.955, abs=0.001)
    for size, expected in ((4096, 0.796), (8192, 0.955), (16384, 0.979)):
        by_size = {(t.m, t.n): t for t in tiles.search(size, size, size, "bf16", on="H200")}
        wide = by_size[256, 208]
        assert wide.edges * wide.wave_share == pytest.approx(expected, abs=0.001)
        if size < 16384:
            assert by_size[128, 256].wave_share == pytest.approx(0.970, abs=0.001)


def test_what_is_legal() -> None:
    """Two warpgroups with 208 registers of accumulators; two stages of columns; three of bytes."""
    hopper = tiles.search(4096, 4096, 4096, "bf16", on="H200")
    assert all(t.accumulators == t.m * t.n // 256 <= 208 for t in hopper)
    assert (256, 256) not in {(t.m, t.n) for t in hopper}
    blackwell = tiles.search(4096, 4096, 4096, "bf16", on="B200")
    assert all(t.accumulators == 2 * t.n <= 512 for t in blackwell)
    assert all(t.stages >= 3 for t in (*hopper, *blackwell))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9000), st.integers(1, 9000), st.sampled_from(["H200", "B200"]))
def test_shares_are_shares(m: int, n: int, on: str) -> None:
    """Every share is above 0 and at most 1; tiles cover the product; the ranking is sorted."""
    found = tiles.search(m, n, 1024, "bf16", on=on)
    for tile in found:
        assert 0 < tile.edges <= 1
        assert 0 < tile.wave_share <= 1
        assert 0 < tile.feed <= 1
        assert tile.tiles * tile.m * tile.n >= m * n
    shares = [round(tile.share, 6) for tile in found]
    assert shares == sorted(shares, reverse=True)


def test_wrong_use() -> None:
    """Chips without wgmma or tcgen05, sizes that are none."""
    with pytest.raises(UsageError, match="are for wgmma and tcgen05"):
        tiles.search(4096, 4096, 4096, "bf16", on="A100")
    with pytest.raises(UsageError, match="is no product"):
        tiles.search(0, 4096, 4096, "bf16")
    with pytest.raises(UsageError, match="is none"):
        tiles.fill_per_clock(0, 256, "bf16", "H200")
