"""B through a window: blocks of its columns copied just before their products, A loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hopper import found_in, multiplied, right_and_clean
from products import arguments, differing

import mmalab
from mmalab.device.launch import check_resident
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.run import emulate
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm

SMALL = {"tile": (128, 64), "stages": 3, "copy": "streamed", "left": "registers", "flight": 0}


def streamed(m: int, n: int, k: int, dtype: str = "bf16", **plan: Any) -> Any:
    return gemm(m, n, k, dtype, plan=Plan(**{**SMALL, **plan}))


@pytest.mark.parametrize(("sizes", "choices"), [
    ((136, 64, 100), {"sms": 1}),                                       # one step of two tiles
    ((136, 384, 100), {"sms": 2, "band": 128}),                         # six blocks, five places
    ((264, 170, 100), {"sms": 2, "band": 256, "store": "direct"}),      # a band of one row, edges
    ((264, 256, 98), {"tile": (256, 64), "cluster": (1, 2), "sms": 4}),  # four phases
    ((264, 128, 100), {"cluster": (2, 1), "sms": 4, "band": 256}),      # B by multicast
    ((264, 192, 127), {"tile": (256, 96), "sms": 2, "band": 256}),      # half words
    ((136, 64, 57), {"tile": (128, 32), "sms": 1}),                     # less than a slice
    ((136, 160, 138), {"dtype": "s8", "tile": (128, 32), "sms": 3}),
    ((136, 96, 35), {"dtype": "tf32", "sms": 1}),
])
def test_result_is_the_reference_bit_for_bit(sizes, choices):
    """Every alignment of even rows, windows that come round; nothing for anybody to find."""
    kernel = streamed(*sizes, **choices)
    right_and_clean(kernel, "streamed")
    assert kernel.facts["maps"]["b"].strides[0] % 16 == 0


def test_the_window_holds_a_part_of_b():
    """Of 8192 columns 3072 at a time: five blocks under way, three ahead."""
    kernel = gemm(8192, 8192, 4092, plan=Plan((256, 192), 4, (1, 2), copy="streamed", flight=0,
                                              left="registers", band=4096))
    assert kernel.facts["window"] == 8 * 384
    window, counters = kernel.prepare([np.zeros((8192, 4092), np.uint16)] * 3)[-2:]
    assert window.shape == (3072, 4096)
    assert counters.shape == (1 + 2 * 2 * 22,)


@pytest.mark.parametrize("schedule", ["lazy", 5])
def test_no_schedule_changes_the_result(schedule):
    """Copies, TMA, loads and products may each be as late as they can."""
    kernel = streamed(264, 256, 127, tile=(256, 64), cluster=(1, 2), sms=4, store="direct")
    assert multiplied(kernel, schedule=schedule).findings == []


def test_lanes_that_poll_do_not_keep_copies_from_being_done():
    """Copies as late as they can be, while others poll: the NumPy interpreter sees no deadlock."""
    kernel = streamed(136, 128, 100, sms=2, band=128)
    args = arguments(kernel)
    run = emulate(kernel, args, target="sm_90a", sanitize=False, schedule="lazy",
                  executor=lambda machine, most: Interpreter(machine, max_steps=most).run())
    assert run.findings == []
    assert differing(kernel, args, "sm_90") == 0


def test_counters_are_zero_again():
    """One set serves launch after launch, over the same window."""
    kernel = streamed(136, 384, 100, sms=2, band=128)
    args = arguments(kernel)
    values = kernel.values(args)
    again = replace(kernel, prepare=lambda _: values)
    for _ in range(2):
        args[-1].view(np.uint8)[:] = 0xFF
        mmalab.emulate(again, args, target="sm_90a", sanitize=False)
        assert differing(kernel, args, "sm_90") == 0
        assert not values[-1].any()


def test_waiting_for_others_costs_the_emulator_little():
    """Flags that many CTAs poll: warps that wait do not run on while others need Python."""
    kernel = streamed(520, 512, 100, cluster=(2, 1), sms=4, band=256)
    run = mmalab.emulate(kernel, arguments(kernel), target="sm_90a", sanitize=False)
    assert run.counters["instructions"] < 3e6  # 268 million were not enough


@pytest.mark.parametrize(("old", "new", "codes"), [
    # TMA reads what threads of other CTAs have written
    (r"    fence\.proxy\.async\.global;\n", "", {"missing-proxy-fence"}),
    (r"ld\.acquire\.gpu", "ld.relaxed.gpu", {"missing-acquire"}),
    (r"red\.release\.gpu", "red.relaxed.gpu", {"missing-release"}),
])
def test_every_part_of_the_handing_over_is_needed(old, new, codes):
    """Without a fence, an acquire or a release the sanitizer says what is missing."""
    assert codes <= found_in(streamed(136, 384, 100, sms=2, band=128), old, new)


def test_ctas_that_wait_for_each_other_must_all_be_there():
    """A chip with fewer SMs than CTAs is refused, for it would never end."""
    kernel = streamed(136, 512, 100, sms=8)
    assert kernel.facts["meets"]
    check_resident(kernel, 8)
    with pytest.raises(UsageError, match="wait for each other, one an SM, and the device has 7"):
        check_resident(kernel, 7)


@pytest.mark.toolkit
@pytest.mark.parametrize("k", [4092, 4090, 4095])
def test_large_tiles_assemble_without_advice(k):
    """The warps that copy have 24 registers; nothing is spilled, no product serialised."""
    cubin = mmalab.assemble(streamed(8192, 8192, k, tile=(256, 192), stages=4, cluster=(1, 2),
                                     band=4096))
    assert cubin.diagnostics == ()
    assert cubin.resources.spills == 0


@pytest.mark.parametrize(("make", "words"), [
    (lambda: streamed(136, 64, 100, left="shared"), "loads A and must all be resident|load A"),
    (lambda: streamed(136, 64, 100, persistent=False), "must all be resident"),
    (lambda: streamed(137, 64, 100), "rows of C are found by phase"),
    (lambda: streamed(136, 64, 75, dtype="s8"), "rows of odd bytes"),
])
def test_what_cannot_be_streamed(make, words):
    """Plans and sizes that have no window, and what has."""
    with pytest.raises(UsageError, match=words):
        make()
