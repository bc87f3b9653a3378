"""A kernel whose clocks are read: the same bits, all events, and what they are made into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fed_kernels import KERNELS, operands
from numpy.typing import NDArray

import mmalab
from mmalab.bench.trace import KINDS, Traced, summary, traced
from mmalab.errors import UsageError


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_bits_and_every_event(name: str) -> None:
    """As many slices as the warps have multiplied, a tile's end for each tile (or part of one), a
    beginning and a leaving; nothing is lost."""
    kernel = KERNELS[name]()
    plan = traced(kernel, blocks=4)
    plain, args = operands(kernel), [*operands(kernel), np.zeros(plan.shape, np.uint32)]
    mmalab.emulate(kernel, plain, sanitize=False)
    assert mmalab.emulate(plan.kernel, args, sanitize=False).verdict == "clean"
    np.testing.assert_array_equal(plain[-1].view(np.uint8), args[-2].view(np.uint8))
    assert plan.blocks == np.prod(kernel.grid)
    found, warps = summary(plan, args[-1]), plan.multiplying
    rows, columns, _ = kernel.facts["tile"]
    (m, n) = kernel.params[-1].shape
    tiles = m // rows * (n // columns)
    if kernel.facts.get("schedule") == "pingpong":
        warps //= 2  # a tile is one group's
    assert found["slices"] == tiles * kernel.facts["slices"] * warps
    if kernel.facts.get("waves") != "even":
        assert found["tiles"] == tiles * warps
    assert found["lost"] == 0
    assert found["begins_ns"]["count"] == found["leaves_ns"]["count"] == found["warps"]
    assert ("wait_pass" in found) == (name == "wgmma shifted, a slice more")
    assert ("wait_take" in found) == (kernel.facts.get("waves") == "even")
    assert ("wait_turn" in found) == (kernel.facts.get("schedule") == "pingpong")
    assert found["wait_empty"]["count"] > 0


def test_some_blocks_and_some_events() -> None:
    """Blocks spread over the grid; a warp that has no room left writes no more, and is told of."""
    kernel = KERNELS["mma even"]()
    plan = traced(kernel, blocks=2, events=16)
    assert (plan.apart, plan.slots) == (2, 2 * 12)
    args = [*operands(kernel), np.zeros(plan.shape, np.uint32)]
    mmalab.emulate(plan.kernel, args, sanitize=False)
    found = summary(plan, args[-1])
    assert found["warps"] == 16
    assert found["lost"] == 2 * (8 + 1)  # those that multiply, and the one that fills
    with pytest.raises(UsageError, match="is not this kernel's"):
        summary(replace(plan, events=17), args[-1])
    with pytest.raises(UsageError, match="write nothing"):
        traced(kernel, blocks=0)


def made_up(first: int, origin: int = 0) -> list[tuple[int, int, str]]:
    """A warp's events: it begins, waits 100 clocks for each slice, one every 1600, three of two
    tiles each; a tile ends 1500 clocks behind its last slice, the next begins 3000 later."""
    events = [(first - 500, 7, "begin")]
    at = first
    for _ in range(2):
        events += [(at + 1600 * slice_ - 100, 100, "full") for slice_ in range(3)]
        at += 3200 + 1500
        events.append((at, 0, "end"))
        at += 3000
    events.append((at - 2600, 107, "leave"))
    return [(clock + origin, passed, kind) for clock, passed, kind in events]


@pytest.mark.parametrize("origin", [0, 2**32 - 12_000, 2**32 - 700])
def test_numbers(origin: int) -> None:
    """The sums of a made-up trace, wherever the counter of 32 bits turns over."""
    kernel = KERNELS["mma"]()
    plan = traced(kernel, blocks=1, events=16)
    trace = np.zeros(plan.shape, np.uint32)
    for warp in range(8):
        write(plan, trace, warp, made_up(1000 + 700 * (warp // 4), origin))
    found = summary(plan, trace)
    median = {key: value["median"] for key, value in found.items() if isinstance(value, dict)}
    assert median == {"slice": 1600, "wait_full": 100, "end_of_a_tile": 3000, "start": 500,
                      "tail": 400, "phase": 700, "begins_ns": 0, "leaves_ns": 0}
    assert (found["slices"], found["tiles"]) == (8 * 6, 8 * 2)


def write(plan: Traced, trace: NDArray[np.uint32], slot: int, events: list[Any]) -> None:
    """Events into a warp's slot, as the kernel writes them."""
    assert len(events) <= plan.events
    for at, (clock, passed, kind) in enumerate(events):
        trace[at, slot] = clock % 2**32, (16 * passed + KINDS[kind]) % 2**32
