"""A from registers: its lines are loaded from where they lie, B's are shifted."""

from __future__ import annotations

from typing import Any

import pytest
from hopper import found_in, multiplied, right_and_clean

import mmalab
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm

SMALL = {"tile": (128, 64), "stages": 3, "copy": "shifted", "left": "registers"}


def loaded(m: int, n: int, k: int, dtype: str = "bf16", **plan: Any) -> Any:
    return gemm(m, n, k, dtype, plan=Plan(**{**SMALL, **plan}))


@pytest.mark.parametrize(("sizes", "choices"), [
    ((136, 97, 100), {"store": "direct"}),                   # a block of each phase for each group
    ((264, 96, 36), {"tile": (256, 64), "sms": 1}),          # less than a slice, two blocks
    ((520, 96, 98), {"tile": (256, 64)}),                    # four phases: one for each block
    ((264, 96, 127), {"tile": (256, 96), "sms": 1}),         # eight: two in each block
    ((264, 128, 190), {"tile": (256, 64), "cluster": (1, 2), "sms": 2, "store": "direct"}),
    ((136, 64, 129), {"tile": (128, 32)}),                   # a slice that nobody multiplies
    ((264, 64, 57), {"tile": (128, 32), "sms": 1}),          # ends where what travels ends
    ((136, 96, 138), {"dtype": "s8", "tile": (128, 32)}),
    ((136, 96, 35), {"dtype": "tf32"}),
])
def test_result_is_the_reference_bit_for_bit(sizes, choices):
    """Every alignment of even rows; nothing for sanitizer or checker to find."""
    right_and_clean(loaded(*sizes, **choices), "shifted")


@pytest.mark.parametrize("schedule", ["lazy", 5])
def test_no_schedule_changes_the_result(schedule):
    """TMA, moving, loading and products may each be as late as they can."""
    kernel = loaded(264, 128, 127, tile=(256, 64), cluster=(1, 2), sms=2, store="direct")
    assert multiplied(kernel, schedule=schedule).findings == []


def test_specials_behind_a_row_do_not_reach_its_sums():
    """The next row's first values, NaN and Inf among them, are cleared behind the last slice."""
    multiplied(loaded(136, 64, 127, tile=(128, 32)), mix="bits", sanitize=False)


@pytest.mark.parametrize(("old", "new", "codes"), [
    # words of A are loaded into registers that a product under way still reads
    (r"wait_group\.sync\.aligned 1;", "wait_group.sync.aligned 3;", {"missing-wgmma-wait"}),
    # a warp's release without waiting for its lanes' loads
    (r"    bar\.warp\.sync -1;\n(?=    @%p\d+ mbarrier)", "", {"missing-proxy-fence"}),
])
def test_every_wait_is_needed(old, new, codes):
    """Registers of A under way, and loads that TMA may overtake."""
    assert codes <= found_in(loaded(136, 96, 252, store="direct", sms=1), old, new)


@pytest.mark.toolkit
@pytest.mark.parametrize("k", [4092, 4090, 4095])
def test_large_tiles_assemble_without_advice(k):
    """ptxas serialises products where registers are short; a spilled pair outside is no harm."""
    cubin = mmalab.assemble(loaded(8192, 8192, k, tile=(256, 192), stages=4, cluster=(1, 2),
                                   store="permuted"))
    assert cubin.diagnostics == ()
    assert cubin.resources.spills <= (16 if k % 2 else 0)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: loaded(137, 64, 36), "left 'registers', m=137, store 'permuted'"),
    (lambda: loaded(136, 64, 36, store="staged"), "rows of C are found by phase"),
    (lambda: loaded(136, 64, 127, tile=(64, 32), groups=1), "warps take 16 rows of one of 8"),
    (lambda: Plan(left="global"), "left 'global': is not known"),
])
def test_what_cannot_be_loaded(make, words):
    """Rows beside the phases, and ways out that count rows."""
    with pytest.raises(UsageError, match=words):
        make()
