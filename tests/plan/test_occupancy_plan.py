"""Occupancy: the driver's own numbers, Tensor Memory beside them, monotone in every request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.plan.occupancy import every_target, occupancy, of_compiled, of_kernel
from mmalab.ptx.kernel import Kernel
from mmalab.toolchain import Resources

RECORD = Path(__file__).resolve().parents[2] / "records" / "h200" / "occupancy.json"
TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")

requests = st.fixed_dictionaries({
    "registers": st.integers(1, 260), "shared": st.integers(0, 240_000),
    "threads": st.integers(1, 1100)})


def test_the_driver_of_an_h200_counts_the_same() -> None:
    """Hundreds of recorded answers: register counts, block sizes, shared memory, limits."""
    record = json.loads(RECORD.read_text())
    assert record["capability"] == [9, 0]
    wrong = [(row, found) for row in record["rows"]
             if (found := occupancy(registers=row[0], threads=row[1], shared=row[2],
                                    target="sm_90a").ctas) != row[3]]
    assert wrong == []
    assert len(record["rows"]) > 500


def test_article_a_padding_costs_a_block() -> None:
    """48 KiB of stages leave two blocks of an Ada SM, 60 KiB (padded) one."""
    swizzled, padded = (occupancy(registers=128, shared=size * 1024, threads=256, target="sm_89")
                        for size in (48, 60))
    assert (swizzled.ctas, padded.ctas) == (2, 1)
    assert padded.binding == ("shared memory",)


@pytest.mark.parametrize(("columns", "ctas"), [(32, 16), (64, 8), (128, 4), (256, 2), (512, 1)])
def test_tensor_memory_binds_first(columns: int, ctas: int) -> None:
    """A small kernel on a B200: the pool decides before anything else does."""
    found = occupancy(registers=32, shared=1024, threads=64, target="sm_100a", tmem=columns)
    assert (found.ctas, found.binding) == (ctas, ("tensor memory",))


@pytest.mark.parametrize(("shared", "target", "fits", "over"), [
    (102_400, "sm_120a", 0, 1024), (101_376, "sm_120a", 1, 0),   # H01
    (102_400, "sm_90a", 2, 0), (240 * 1024, "sm_90a", 0, 13_312),  # H05
    (232_448, "sm_100a", 1, 0), (166_912, "sm_80", 1, 0), (166_913, "sm_80", 0, 1),
])
def test_h01_h05_shared_memory_limits(shared: int, target: str, fits: int, over: int) -> None:
    """227 KiB on 9.0 and 10.0, 99 KiB on 12.0, 163 KiB on 8.0: told before the launch."""
    found = occupancy(registers=32, shared=shared, threads=128, target=target)
    assert found.ctas == fits
    if over:
        assert found.misfit is not None
        assert f"{over} too many" in found.misfit.rule


@pytest.mark.parametrize(("request_", "rule"), [
    ({"threads": 1056}, "a CTA has 1024"), ({"registers": 256}, "a thread has 255"),
    ({"barriers": 17}, "a CTA has 16"),
    ({"registers": 168, "threads": 512}, "a CTA has 65536 registers"),
    ({"tmem": (512, 512), "target": "sm_100a"}, "Tensor Memory has 512 columns"),
])
def test_what_no_cta_may_have(request_: dict[str, Any], rule: str) -> None:
    """Threads, registers, barriers, columns over the limit: the limit and the nearest fit."""
    full = {"registers": 32, "shared": 0, "threads": 128, "target": "sm_90a", **request_}
    found = occupancy(**full)
    assert found.ctas == 0
    assert found.misfit is not None
    assert rule in found.misfit.rule
    assert found.misfit.nearest


def test_the_offered_registers_fit() -> None:
    """What the misfit names is the most that fits, not less."""
    def ctas(registers: int) -> int:
        return occupancy(registers=registers, shared=0, threads=384, target="sm_90a").ctas

    found = occupancy(registers=200, shared=0, threads=384, target="sm_90a")
    assert found.misfit is not None
    offered = int(found.misfit.nearest[0].split()[0])
    assert (ctas(offered), ctas(offered + 1)) == (1, 0)


@settings(max_examples=80, deadline=None)
@given(requests, requests, st.sampled_from(TARGETS))
def test_more_is_never_easier(one: dict[str, int], two: dict[str, int], target: str) -> None:
    """Asking for more of anything never admits more CTAs."""
    larger = {name: max(one[name], two[name]) for name in one}
    small, large = (occupancy(**request, target=target) for request in (one, larger))
    assert large.ctas <= small.ctas


@settings(max_examples=60, deadline=None)
@given(requests, st.sampled_from(TARGETS))
def test_one_more_is_exact(request: dict[str, int], target: str) -> None:
    """With what is offered one CTA more fits; with a register or a byte more it does not."""
    found = occupancy(**request, target=target)
    if not found.one_more:
        return
    offered = {"registers": found.one_more["registers"], "shared": found.one_more["shared memory"],
               "threads": request["threads"]}
    assert occupancy(**offered, target=target).ctas > found.ctas
    for name in ("registers", "shared"):
        over = occupancy(**{**offered, name: offered[name] + 1}, target=target)
        assert over.ctas <= found.ctas


@settings(max_examples=40, deadline=None)
@given(requests, st.sampled_from(TARGETS))
def test_what_fits_stays_within_the_sm(request: dict[str, int], target: str) -> None:
    """Warps, registers and bytes of the CTAs together are at most the SM's."""
    found = occupancy(**request, target=target)
    assert found.warps <= isa.limits(target).warps
    assert all(share <= 1 + 1e-9 for share in found.used.values())
    assert found.misfit is not None or found.ctas >= 1


def test_every_chip_and_compiled_kernels() -> None:
    """One row a chip; a compiled kernel's resources and a kernel value are requests too."""
    rows = every_target(registers=128, shared=49_152, threads=128, tmem=128)
    by_target = {row.target: row for row in rows}
    assert len(rows) == 13
    assert "tensor memory" in by_target["sm_100a"].limits
    assert "tensor memory" not in by_target["sm_90a"].limits
    compiled = Resources("k", registers=128, shared=1024, barriers=2)
    kernel = Kernel("k", "", "k", (1, 1, 1), (32, 4, 1), (), "sm_90a", dynamic_shared=48_128)
    same = occupancy(registers=128, shared=49_152, threads=128, target="sm_90a")
    assert of_kernel(kernel, compiled).limits == same.limits
    assert of_compiled(compiled, threads=128, target="sm_90a", dynamic_shared=48_128).ctas \
        == same.ctas


def test_wrong_use() -> None:
    """No threads, unknown targets, Tensor Memory where there is none."""
    with pytest.raises(UsageError, match="is no kernel"):
        occupancy(registers=32, shared=0, threads=0, target="sm_90a")
    with pytest.raises(UsageError, match="not a target"):
        occupancy(registers=32, shared=0, threads=32, target="sm_91")
    with pytest.raises(UsageError, match="the chip has none\n  legal: sm_100a"):
        occupancy(registers=32, shared=0, threads=32, target="sm_120a", tmem=32)
    with pytest.raises(UsageError, match="power of two"):
        occupancy(registers=32, shared=0, threads=32, target="sm_100a", tmem=48)
