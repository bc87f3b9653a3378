"""Registers: accumulators against 255, the drain, setmaxnreg's pool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.plan.registers import accumulators, drain, setmaxnreg_split


@pytest.mark.parametrize(("m", "n", "threads", "count", "per_thread", "fits"), [
    (64, 256, 128, 1, 128, True),     # wgmma's largest: half of a thread's registers
    (128, 256, 128, 1, 256, False),   # tcgen05's largest: one too many
    (64, 256, 128, 2, 256, False),    # F02
    (128, 256, 256, 1, 128, True),    # F05: two warpgroups
    (64, 32, 32, 1, 64, True),        # article A's warp tile
    (128, 208, 128, 1, 208, True),
])
def test_f02_f05_accumulators(m: int, n: int, threads: int, count: int, per_thread: int,
                              fits: bool) -> None:
    """M x N / threads registers each; 256 is refused before anything is compiled (F02, F05)."""
    found = accumulators(m, n, threads=threads, count=count)
    assert (found.per_thread, found.fits) == (per_thread, fits)
    if found.misfit:
        assert found.misfit.nearest[0] == "2 warpgroups (128 registers each)"


@given(st.integers(1, 4), st.sampled_from([64, 128]), st.integers(1, 32))
def test_offers_fit(count: int, m: int, eighths: int) -> None:
    """The narrower N that is offered fits, and eight columns more do not."""
    found = accumulators(m, 8 * eighths, count=count)
    if found.misfit is None:
        return
    narrow = next(int(text.split()[2]) for text in found.misfit.nearest if text.startswith("N = "))
    assert accumulators(m, narrow, count=count).fits
    assert not accumulators(m, narrow + 8, count=count).fits


@pytest.mark.parametrize(("columns", "registers"), [(1, 7), (16, 22), (64, 70), (128, 134)])
def test_the_epilogue_costs_n_plus_six(columns: int, registers: int) -> None:
    """Article B's curve; 67 KiB, 26.2 % of the register file at x128."""
    found = drain(columns)
    assert found.registers == registers
    if columns == 128:
        assert found.warpgroup_bytes == 67 * 1024
        assert found.share == pytest.approx(0.2617, abs=1e-4)


@pytest.mark.parametrize(("groups", "launch", "pool", "wanted", "fits"), [
    ((40, 232, 232), 168, 64_512, 64_512, True), ((24, 232, 232), 168, 64_512, 62_464, True),
    ((24, 240, 240), 168, 64_512, 64_512, True), ((24, 24, 240, 240), 128, 65_536, 67_584, False),
    ((32, 160, 160, 160), 128, 65_536, 65_536, True), ((48, 248, 248), 168, 64_512, 69_632, False),
])
def test_f03_setmaxnreg(groups: tuple[int, ...], launch: int, pool: int, wanted: int,
                        fits: bool) -> None:
    """The pool is the launch's: 3 x 168 = 504 lanes' worth, 24 + 2 x 232 = 488 of it (F03)."""
    found = setmaxnreg_split(groups, launch=launch)
    assert (found.pool, found.wanted, found.fits) == (pool, wanted, fits)
    assert "runs its decrease before" in found.order[0]


def test_f03_what_hangs_is_said() -> None:
    """488 of 504 fits by arithmetic; that a report has it hanging is named (F03)."""
    found = setmaxnreg_split((24, 232, 232), launch=168)
    assert any("40 + 2 x 232" in note for note in found.notes)
    assert setmaxnreg_split((40, 232, 232), launch=168).notes == ()


@given(st.lists(st.integers(3, 32).map(lambda n: 8 * n), min_size=1, max_size=4),
       st.integers(24, 168))
def test_offered_splits_fit(groups: list[int], launch: int) -> None:
    """What is offered instead of a split that does not fit does."""
    found = setmaxnreg_split(groups, launch=launch)
    if found.misfit is None or "launch" in found.misfit.nearest[0]:
        return
    offered = [int(word) for word in found.misfit.nearest[0].split(",")]
    assert sum(offered) <= launch * len(groups) or max(offered) == 24


def test_a_launch_that_fails_is_told() -> None:
    """168 registers x 512 threads are 86,016 of 65,536."""
    found = setmaxnreg_split((24, 24, 240, 240), launch=168)
    assert found.misfit is not None
    assert found.misfit.nearest == ("launch with 128",)


def test_wrong_use() -> None:
    """Values that setmaxnreg does not take, chips without it, shapes that fill no register."""
    with pytest.raises(UsageError, match="legal: 224, 232"):
        setmaxnreg_split((230,), launch=168)
    with pytest.raises(UsageError, match="legal: 24, 32"):
        setmaxnreg_split((16,), launch=168)
    with pytest.raises(UsageError, match="is not in this target\n  legal: sm_90a"):
        setmaxnreg_split((24,), launch=168, target="sm_90")
    with pytest.raises(UsageError, match="is no launch"):
        setmaxnreg_split((), launch=168)
    with pytest.raises(UsageError, match="does not fill whole registers"):
        accumulators(10, 10)
    with pytest.raises(UsageError, match="legal: x1, x2"):
        drain(3)
