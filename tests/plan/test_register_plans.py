"""Registers: accumulators against 255, the drain, setmaxnreg's pool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab import toolchain
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


@pytest.mark.parametrize(("columns", "registers"), [(1, 8), (16, 22), (64, 70), (128, 134)])
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


def wgmma_text(count: int) -> str:
    """A kernel with `count` live m64n256 accumulators, all stored at the end."""
    def names(at: int) -> str:
        return ", ".join(f"%f{at * 128 + i}" for i in range(128))

    products = "\n".join(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        f"{{{names(at)}}}, %rd2, %rd2, %p1, 1, 1, 0, 0;" for at in range(count))
    stores = "\n".join(f"st.global.f32 [%rd1+{4 * i}], %f{i};" for i in range(128 * count))
    return (".version 8.0\n.target sm_90a\n.address_size 64\n"
            ".visible .entry k(.param .u64 p) .maxntid 128, 1, 1\n{\n"
            f".reg .f32 %f<{128 * count}>;\n.reg .b64 %rd<3>;\n.reg .pred %p<2>;\n"
            "ld.param.u64 %rd1, [p];\nmov.b64 %rd2, 64;\nsetp.ne.b64 %p1, %rd1, %rd1;\n"
            f"wgmma.fence.sync.aligned;\n{products}\nwgmma.commit_group.sync.aligned;\n"
            f"wgmma.wait_group.sync.aligned 0;\n{stores}\nret;\n}}\n")


@pytest.mark.toolkit
@pytest.mark.parametrize("count", [1, 2])
def test_f02_the_assembler_agrees(count: int) -> None:
    """What does not fit by arithmetic is serialised when it is compiled (C7511), what fits is
    not (F02)."""
    compiled = toolchain.assemble(wgmma_text(count), "sm_90a")
    serialised = any("C7511" in warning.message for warning in compiled.warnings)
    assert serialised is not accumulators(64, 256, count=count).fits


@pytest.mark.toolkit
@pytest.mark.parametrize("columns", [1, 2, 4, 8, 16, 32, 64, 128])
def test_the_drain_is_what_the_assembler_allocates(columns: int) -> None:
    """N + 6 registers (8 at least) for a kernel that drains N columns and stores them all."""
    names = [f"%r{i}" for i in range(columns)]
    stores = "\n".join(f"st.global.b32 [%rd1+{4 * i}], %r{i};" for i in range(columns))
    text = (".version 8.6\n.target sm_100a\n.address_size 64\n"
            ".visible .entry k(.param .u64 p, .param .u32 t)\n{\n"
            f".reg .b32 %r<{columns}>;\n.reg .b32 %t<2>;\n.reg .b64 %rd<2>;\n"
            "ld.param.u64 %rd1, [p];\nld.param.u32 %t1, [t];\n"
            f"tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{', '.join(names)}}}, [%t1];\n"
            f"tcgen05.wait::ld.sync.aligned;\n{stores}\nret;\n}}\n")
    compiled = toolchain.assemble(text, "sm_100a").resources.only
    assert compiled.registers == drain(columns).registers


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
