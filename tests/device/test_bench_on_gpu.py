"""The harness on a real GPU: right results pass, wrong ones are found, numbers are plausible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmalab.bench import Plan, Problem, Row, causes, measure
from mmalab.bench.arena import arena
from mmalab.bench.bed import bed
from mmalab.bench.causes import Case, build
from mmalab.bench.scales import PLAIN
from mmalab.bench.subject import KernelSubject
from mmalab.bench.verify import verify
from mmalab.device.gpu import open_gpu
from mmalab.errors import MmalabError
from mmalab.kernels.sm80_mma import gemm

pytestmark = pytest.mark.gpu


def has_cublaslt() -> bool:
    from mmalab.bench.cublaslt import open_cublaslt

    try:
        open_cublaslt()
    except MmalabError:
        return False
    return True


@pytest.mark.parametrize("dtype", ["bf16", "f16", "tf32", "e4m3", "s8"])
def test_a_row_of_each_type(dtype: str) -> None:
    """Checked, timed in a burst, and against every algorithm where cublasLt is there."""
    row = Row(dtype, 512, 384, 256, "sm80_mma.gemm", ({"dtype": dtype},),
              baseline="cublasLt" if has_cublaslt() else "none")
    found = measure(row, plan=Plan(burst=2, sustained=0))
    assert "problem" not in found, found["problem"]
    assert all(check["problem"] == "" for check in found["checks"])
    ours = found["burst"]["ours"]
    assert found["checks"][0]["bits_equal"] is True
    assert ours["kernels"] == [ours["facts"]["kernel"]]
    assert 300 < ours["mhz"] < 3000
    assert 0 < ours["share"] < 1
    if has_cublaslt():
        assert len(found["baseline_candidates"]) >= 1
        assert 0 < found["burst"]["ratio"]["median"] < 20


def test_a_row_with_scales_of_blocks() -> None:
    """Right bit for bit with scales of each block; the baseline has them too, or says that not."""
    row = Row("scaled", 512, 384, 512, "sm90_wgmma.gemm",
              ({"dtype": "e4m3", "out": "bf16", "scaled": True},),
              baseline="cublasLt" if has_cublaslt() else "none")
    if open_gpu(0).chip != "sm_90":
        pytest.skip(f"wgmma is Hopper's, this is {open_gpu(0).chip}")
    found = measure(row, plan=Plan(burst=2, sustained=0))
    assert "problem" not in found, found["problem"]
    assert found["checks"][0]["bits_equal"] is True
    if has_cublaslt():
        scales = found["burst"]["baseline"]["facts"]["scales"]
        print(scales, found.get("baseline_instead"))
        assert (scales == PLAIN) is ("baseline_instead" in found)


def test_a_wrong_kernel_is_found() -> None:
    """A kernel for half of K leaves nothing unwritten, and is wrong."""
    gpu = open_gpu(0)
    problem = Problem(256, 128, 512, "bf16", out="f32")
    right = gemm(256, 128, 512)
    text = gemm(256, 128, 256).ptx.replace("256x128x256", "256x128x512")
    with arena(gpu, problem, seed=1) as operands, bed(gpu, operands) as table:
        good, bad = (KernelSubject(kernel, operands)
                     for kernel in (right, replace(right, ptx=text)))
        assert verify(operands, good, seed=2).problem == ""
        check = verify(operands, bad, seed=2)
        assert "samples are wrong" in check.problem
        assert check.unwritten == 0
        assert table.warm_up(good) > 0


def test_what_nobody_writes_is_found() -> None:
    """Half of the grid: the rest of the output keeps its poison."""
    gpu = open_gpu(0)
    right = gemm(512, 128, 64)
    with arena(gpu, Problem(512, 128, 64, "bf16", out="f32"), seed=1) as operands:
        half = KernelSubject(replace(right, grid=(1, 2, 1)), operands)
        check = verify(operands, half, seed=2)
        assert check.unwritten == 256 * 128
        assert "never written" in check.problem


@pytest.mark.parametrize("case", [
    Case("sm80_mma.gemm", 1024, 1024, 1024, {"copy": "tma", "stages": 4}),
    Case("sm80_mma.gemm", 1024, 1024, 1024, {"copy": "tma", "stages": 4, "waves": "even",
                                             "sms": 24}),
    Case("sm90_wgmma.gemm", 1024, 1024, 1024, {"tile": (128, 256), "cluster": (2, 1)}),
], ids=["mma", "mma even", "wgmma"])
def test_what_limits_a_kernel(case: Case) -> None:
    """Every variant ends, the kernel whose clocks are read gives the same bits, in about the same
    time, and has seen every slice of the blocks that it was asked about."""
    if (chip := open_gpu(0).chip) != "sm_90":
        pytest.skip(f"TMA's kernels are Hopper's, this is {chip}")
    (built,) = build([case], chip)
    found = causes.measure(built, rounds=1)
    assert "problem" not in found, found["problem"]
    assert all(row["tflops"] > 0 for row in found["rows"])
    trace = found["trace"]
    assert trace["lost"] == 0
    assert trace["begins_ns"]["count"] == trace["leaves_ns"]["count"] == trace["warps"]
    assert trace["slice"]["median"] >= trace["slice_of_products"] / 2
    assert 0.5 < trace["over_plain"]["median"] < 2
