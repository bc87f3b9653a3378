"""Rows copied to a pitch that tensor maps have, by all CTAs, before the products begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hopper import found_in, right_and_clean
from products import arguments, differing

import mmalab
from mmalab.bench.row import make_kernel
from mmalab.bench.tables import TABLES
from mmalab.device.launch import check_resident
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm

SMALL = {"tile": (128, 64), "stages": 2}


def padded(m: int, n: int, k: int, *, dtype: str = "bf16", **plan: Any) -> Any:
    return gemm(m, n, k, dtype, plan=Plan(copy="padded", **{**SMALL, **plan}))


@pytest.mark.parametrize(("sizes", "choices"), [
    ((136, 96, 36), {}),                                       # rows aligned to 8 bytes
    ((136, 144, 70), {"tile": (128, 128)}),                    # to 4
    ((136, 40, 67), {"store": "direct"}),                      # to 2, and C by what a thread has
    ((264, 144, 76), {"tile": (128, 128), "cluster": (2, 1)}),
    ((136, 64, 64), {}),                                       # aligned already
    ((136, 96, 138), {"dtype": "s8"}),
    ((136, 96, 35), {"dtype": "tf32"}),
])
def test_result_is_the_reference_bit_for_bit(sizes, choices):
    """Every alignment that rows can have, edges too; nothing for sanitizer or checker to find."""
    right_and_clean(padded(*sizes, **choices), "padded")


@pytest.mark.parametrize(("old", "new", "codes"), [
    (r"    fence\.proxy\.async\.global;\n", "", {"missing-proxy-fence"}),
    (r"ld\.acquire\.gpu", "ld.relaxed.gpu", {"missing-acquire"}),
    (r"atom\.add\.acq_rel\.gpu", "atom.add.relaxed.gpu", {"missing-release"}),
])
def test_every_part_of_the_meeting_is_needed(old, new, codes):
    """Without a fence, an acquire or a release the sanitizer says what is missing."""
    assert found_in(padded(136, 96, 36), old, new) == codes


def test_the_counter_runs_on_from_launch_to_launch():
    """The second launch over the same copies and counter waits for its own CTAs."""
    kernel = padded(136, 96, 36)
    args = arguments(kernel)
    values = kernel.values(args)
    again = replace(kernel, prepare=lambda _: values)
    for launch in (1, 2, 3):
        args[-1].view(np.uint8)[:] = 0xFF
        mmalab.emulate(again, args, target="sm_90a", sanitize=False)
        assert differing(kernel, args, "sm_90") == 0
        assert values[-1][0] == launch * kernel.grid[0]


def test_ctas_that_wait_for_each_other_must_all_be_there():
    """A chip with fewer SMs than CTAs is refused, for it would never end."""
    kernel = padded(128 * 40, 64, 36)
    assert kernel.facts["meets"]
    check_resident(kernel, 132)
    with pytest.raises(UsageError) as refused:
        check_resident(kernel, 39)
    assert str(refused.value).splitlines() == [
        f"{kernel.name}: 40 CTAs: wait for each other, one an SM, and the device has 39",
        "  legal: a plan with sms=39", "  see:   mmalab.launch"]


@pytest.mark.parametrize(("make", "words"), [
    (lambda: padded(128, 64, 35, dtype="s8"), "k=35: rows of odd bytes cannot be copied by words"),
    (lambda: padded(128, 64, 36, persistent=False), "copies one A and one B, by CTAs that must "),
    (lambda: padded(128, 64, 36, cluster=(4, 1)), "all be resident"),
])
def test_what_cannot_be_padded(make, words):
    """Odd bytes, and CTAs that are not all there at once."""
    with pytest.raises(UsageError, match=words):
        make()


@pytest.mark.toolkit
@pytest.mark.parametrize("row", TABLES["unaligned"], ids=lambda row: row.title)
def test_candidates_assemble_without_spills_or_advice(row):
    """What the bench tries for rows of any pitch. A from registers fills them: of odd K two words
    go to memory, once a tile."""
    refused = 0
    for choice in row.arguments:
        try:
            kernel = make_kernel(row.kernel, row.m, row.n, row.k, choice)
        except UsageError:
            refused += 1
            continue
        cubin = mmalab.assemble(kernel)
        assert cubin.resources.spills <= (16 if kernel.facts["phases"] == 8 else 0)
        assert cubin.diagnostics == ()
    assert refused == 0
