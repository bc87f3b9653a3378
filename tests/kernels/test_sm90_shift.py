"""Rows that begin behind a multiple of 16 bytes, through TMA and shifted in shared memory."""

from __future__ import annotations

from typing import Any

import pytest
from hopper import found_in, multiplied, right_and_clean

from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm

SMALL = {"tile": (128, 64), "stages": 3, "store": "direct"}


def shifted(m: int, n: int, k: int, dtype: str = "bf16", *, promote: int | None = None,
            **plan: Any) -> Any:
    return gemm(m, n, k, dtype, promote_every=promote, plan=Plan(copy="shifted",
                                                                  **{**SMALL, **plan}))


@pytest.mark.parametrize(("sizes", "choices"), [
    ((136, 96, 100), {}),                                # two phases, 8 bytes apart
    ((136, 96, 60), {"store": "permuted"}),              # one slice and a piece of a second
    ((136, 96, 98), {"store": "permuted"}),              # four phases, leaning by 4 bytes
    ((264, 64, 190), {"cluster": (2, 1), "sms": 2}),     # and by 12
    ((136, 416, 66), {"tile": (256, 192)}),              # a ragged last turn of the warps
    ((136, 72, 67), {"tile": (128, 72)}),                # eight phases, leaning by 6 bytes,
    ((136, 96, 123), {}),                                # 6 in two slices,
    ((136, 96, 125), {"store": "staged"}),               # 10,
    ((136, 96, 127), {"store": "permuted"}),             # 14
    ((136, 96, 129), {"sms": 1}),           # 2, and a slice that nobody multiplies
    ((264, 96, 57), {"tile": (128, 32), "sms": 1}),      # ends where the slices that travel end
    ((136, 104, 138), {"dtype": "s8"}),
    ((136, 96, 35), {"dtype": "tf32"}),
    ((136, 96, 264), {"dtype": "e4m3", "promote": 128}),
    ((136, 96, 100), {"flight": 0, "stages": 2}),
    ((200, 96, 44), {"tile": (192, 64), "groups": 3}),
])
def test_result_is_the_reference_bit_for_bit(sizes, choices):
    """Every alignment of even rows, edges too; nothing for sanitizer or checker to find."""
    right_and_clean(shifted(*sizes, **choices), "shifted")


@pytest.mark.parametrize(("sizes", "choices"), [
    ((137, 97, 100), {}), ((135, 99, 98), {}), ((135, 96, 127), {"sms": 1}),
    ((129, 103, 125), {"tile": (128, 72)}), ((131, 124, 126), {"cluster": (1, 2), "sms": 2}),
    ((135, 101, 138), {"dtype": "s8"}), ((137, 96, 35), {"dtype": "tf32", "store": "permuted"}),
])
def test_rows_that_do_not_fill_the_phases(sizes, choices):
    """The last rows are no tensor map's: a warp writes them, in the tile that has them."""
    assert multiplied(shifted(*sizes, **choices)).findings == []


@pytest.mark.parametrize("schedule", ["lazy", 3])
def test_no_schedule_changes_the_result(schedule):
    """TMA, moving and products may each be as late as they can."""
    kernel = shifted(264, 64, 190, cluster=(2, 1), sms=2)
    assert multiplied(kernel, schedule=schedule).findings == []


@pytest.mark.parametrize("k", [100, 127])
def test_specials_behind_a_row_do_not_reach_its_sums(k):
    """The next row's first values, NaN and Inf among them, are cleared behind the last slice."""
    multiplied(shifted(136, 96, k), mix="bits", sanitize=False)


@pytest.mark.parametrize(("old", "new", "codes"), [
    (r"    fence\.proxy\.async\.shared::cta;\n", "", {"missing-proxy-fence"}),
    (r"(?<=shared::cta;\n)    bar\.warp\.sync -1;\n", "", {"warp-sync-missing"}),
])
def test_every_part_of_the_move_is_needed(old, new, codes):
    """One lane's arrival speaks for 32 lanes' stores, to be read by the asynchronous proxy."""
    assert found_in(shifted(128, 64, 100), old, new) == codes


def test_aligned_rows_stay_where_they_are():
    """Where rows are multiples of 16 bytes there is nothing to shift."""
    assert shifted(136, 96, 104).facts["copy"] == "tma"


@pytest.mark.parametrize(("make", "words"), [
    (lambda: shifted(128, 64, 35, "s8"), "k=35: rows of odd bytes cannot be copied"),
    (lambda: shifted(3, 64, 38), "m=3, n=64, k=38: tensor maps of rows"),
    (lambda: gemm(129, 64, 36, batch=2, plan=Plan(copy="shifted", **SMALL)),
     "count 2 of them at a time"),
    (lambda: shifted(128, 64, 38, tile=(128, 16), cluster=(2, 1), store="permuted"),
     "each CTA copies whole deals of columns"),
    (lambda: shifted(128, 64, 36, stages=2), "stages=2, flight=1, k=36: a line ends in the next"),
    (lambda: shifted(128, 64, 36, schedule="pingpong"), "groups that share tiles"),
])
def test_what_cannot_be_shifted(make, words):
    """Odd bytes, and rows that do not fill the phases."""
    with pytest.raises(UsageError, match=words):
        make()
