"""Decode: rows filled of rows reserved, speculation, experts, the roofline and its knee."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.cli.output import plain
from mmalab.errors import UsageError
from mmalab.plan import decode, pictures


@pytest.mark.parametrize(("rows", "unit", "arrangement", "reserved"), [
    (1, "tcgen05", "plain", 64), (8, "tcgen05", "plain", 64), (64, "tcgen05", "plain", 64),
    (65, "tcgen05", "plain", 128), (129, "tcgen05", "plain", 192), (200, "tcgen05", "plain", 256),
    (8, "tcgen05.ws", "plain", 32), (33, "tcgen05.ws", "plain", 64), (8, "wgmma", "plain", 64),
    (65, "wgmma", "plain", 128), (8, "mma.sync", "plain", 16), (17, "mma.sync", "plain", 32),
    (1, "tcgen05", "swapped", 8), (17, "wgmma", "swapped", 24), (8, "mma.sync", "swapped", 8),
    (8, "tcgen05.ws", "swapped", 64),
])
def test_rows_reserved(rows: int, unit: str, arrangement: str, reserved: int) -> None:
    """The floor of 64 rows, 32 with .ws, 16 for mma.sync; steps of 8 when tokens are N."""
    assert decode.fill(rows, unit, arrangement=arrangement).reserved == reserved


def test_article_b_figure_9() -> None:
    """8 of 64 rows at batch 8: an eighth; the curve is batch / 64 up to 64."""
    curve = decode.fill_table()
    assert curve[7].filled == 0.125
    assert [item.filled for item in curve[:64]] == [rows / 64 for rows in range(1, 65)]
    assert curve[64].filled == 65 / 128


def test_speculation_fills_reserved_rows() -> None:
    """8 sequences x 4 tokens fill half of the tile that 8 sequences had reserved anyway."""
    found = decode.decode(8, target="sm_100a", speculative=4)
    plain_fill = next(f for f in found.fills if (f.unit, f.arrangement) == ("tcgen05", "plain"))
    assert (plain_fill.reserved, plain_fill.filled) == (64, 0.5)
    assert found.best.filled == 1


@given(st.integers(1, 600), st.sampled_from(sorted(decode.UNITS)))
def test_what_is_reserved_holds_the_rows(rows: int, pair: tuple[str, str]) -> None:
    """Reserved rows are enough, and one row more never takes fewer."""
    unit, arrangement = pair
    found = decode.fill(rows, unit, arrangement=arrangement)
    assert found.reserved >= rows
    assert decode.fill(rows + 1, unit, arrangement=arrangement).reserved >= found.reserved


def test_experts() -> None:
    """A tile for each expert against the worst case for all."""
    found = decode.grouped([3, 0, 17, 70, 1])
    assert (found.reserved, found.worst_case) == (64 + 64 + 128 + 64, 5 * 128)
    assert found.filled == 91 / 320
    swapped = decode.grouped([3, 0, 17, 70, 1], arrangement="swapped")
    assert swapped.reserved == 8 + 24 + 72 + 8


def test_g05_small_batches_are_latency() -> None:
    """2 x 8 x 2048 x 1024: 34 Mflop and 2 to 4 MB: below a microsecond on a B200 (G05)."""
    for weights, megabytes in (("bf16", 4.2), ("fp8", 2.1)):
        found = decode.roofline(8, 2048, 1024, weights, on="B200")
        assert found.flops == pytest.approx(33.55e6, rel=1e-3)
        assert found.weight_bytes / 1e6 == pytest.approx(megabytes, abs=0.01)
        assert found.seconds < 1e-6
        assert found.bound == "memory"


def test_g03_small_problems_stay_in_l2() -> None:
    """Bytes touched against L2: 1024 x 4096 weights fit many times, 8192 x 8192 do not (G03)."""
    small, large = (decode.roofline(64, n, k, "bf16", on="H200")
                    for n, k in ((1024, 4096), (8192, 8192)))
    assert small.l2_share < 0.5
    assert large.l2_share > 1


def test_the_knee_is_where_both_times_meet() -> None:
    """Weights alone: peak x bytes / (2 x bandwidth); 206 rows of bf16 on an H200."""
    knee = decode.knee("H200", "bf16")
    assert knee == pytest.approx(989.4e12 * 2 / (2 * 4.8e12))
    below, above = (decode.roofline(rows, 8192, 8192, "bf16", on="H200")
                    for rows in (int(knee * 0.9), int(knee * 1.2)))
    assert (below.bound, above.bound) == ("memory", "math")


def test_n04_weight_only_or_full_fp8() -> None:
    """On an H200, NVFP4 weights with bf16 products win below about 110 rows, FP8 above (N04)."""
    rows = decode.crossover(8192, 8192, ("nvfp4", "bf16"), ("fp8", "e4m3"), on="H200")
    assert rows is not None
    assert 90 < rows < 130
    for count, first_wins in ((rows - 1, True), (rows, False)):
        one = decode.roofline(count, 8192, 8192, "nvfp4", on="H200", math="bf16").seconds
        two = decode.roofline(count, 8192, 8192, "fp8", on="H200", math="e4m3").seconds
        assert (one <= two) is first_wins
    assert decode.crossover(64, 64, ("nvfp4", "e2m1"), ("bf16", "bf16"), on="B200") is None


@pytest.mark.parametrize(("target", "math"), [
    ("H200", "bf16"), ("B200", "e2m1"), ("RTX 5090", "e2m1"), ("A100", "bf16")])
def test_weights_are_multiplied_natively_or_decoded(target: str, math: str) -> None:
    """NVFP4 weights are FP4 products where the chip has them, bf16 products elsewhere."""
    assert decode.roofline(8, 4096, 4096, "nvfp4", on=target).math == math


def test_text_json_and_picture() -> None:
    """One step as text, as JSON with its curve, and as the figure."""
    found = decode.decode(8, target="sm_90a", n=4096, k=4096)
    data = json.loads(json.dumps(plain(found.as_dict())))
    assert data["curve"][7]["filled"] == 0.125
    assert data["roofline"]["bound"] == "memory"
    assert "12.5 %" in found.table()
    svg = pictures.fill_svg(found.curve, mark=8)
    assert "8 of 64 rows" in svg


def test_wrong_use() -> None:
    """No rows, unknown classes, n without k."""
    with pytest.raises(UsageError, match="is no product"):
        decode.fill(0, "tcgen05")
    with pytest.raises(UsageError, match="legal: tcgen05 plain"):
        decode.fill(8, "umma")
    with pytest.raises(UsageError, match="n and k together"):
        decode.decode(8, target="sm_90a", n=4096)
    with pytest.raises(UsageError, match="are none"):
        decode.grouped([0, 0])
    with pytest.raises(UsageError, match="is no product"):
        decode.roofline(8, 0, 4096, "bf16", on="H200")
