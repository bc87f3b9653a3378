"""Kernels of pyptx, a Python DSL for PTX: its own examples, traced here and run unmodified.

The examples build their kernels without a GPU; what they import for launching them is replaced by
empty modules. The Hopper GEMM is the fastest kernel that the project publishes. It computes the
right values here, and the sanitizer names five gaps in it, each of which its text shows: no proxy
fence between ``stmatrix`` and the TMA store; one lane waits for the earlier store and tells nobody;
CTAs end with a store still reading, and with peers still arriving. With these mended, nothing is
found.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mmalab
from mmalab import numerics

BF16 = np.dtype(ml_dtypes.bfloat16)
pytest.importorskip("pyptx", reason="pyptx is not installed: pip install pyptx")
#: Its own table of instructions lacks mma, which it says in a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pyptx.spec.validate.UnvalidatedInstructionWarning")


@pytest.fixture(autouse=True)
def launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty modules for the launchers' imports that are missing, while a test runs and no longer:
    other libraries take a module called torch for PyTorch."""
    for missing in ("jax", "jax.numpy", "torch"):
        try:
            importlib.import_module(missing)
        except ImportError:
            monkeypatch.setitem(sys.modules, missing, types.ModuleType(missing))
    if not hasattr(sys.modules["jax"], "numpy"):
        monkeypatch.setattr(sys.modules["jax"], "numpy", sys.modules["jax.numpy"], raising=False)


def example(name: str) -> Any:
    """A module of pyptx's examples."""
    return importlib.import_module(f"pyptx.examples.{name}")


def bf16(*shape: int) -> np.ndarray:
    """Fresh normal operands."""
    return np.random.default_rng().standard_normal(shape).astype(BF16)


# --- the Hopper GEMM ------------------------------------------------------------------------------

_HOPPER = "hopper.gemm_highperf_hopper"


def panel(array: np.ndarray, rows: int, *, padded: bool = False) -> Any:
    """The example's tensor map: 64 columns, all rows, the panels of 64 columns."""
    height, width = array.shape
    return mmalab.TensorMap.tiled(
        array, box=(72 if padded else 64, rows, 1), dims=(64, height, width // 64),
        strides=(2 * width, 128), swizzle="none" if padded else "128B")


def hopper(text: str, m: int, n: int, k: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Run the GEMM on one cluster: the run, C as stored (N x M), and what it should be."""
    a, b = bf16(m, k), bf16(n, k)
    c = np.full((n, m), np.nan, BF16)
    schedule = np.full(64 * 128, -1, np.int32)
    tiles = [(row << 16) | column for row in range(m // 256) for column in range(n // 256)]
    schedule[: len(tiles)] = tiles
    run = mmalab.emulate(text, [a, b, schedule, c, m, n, k, panel(a, 128), panel(b, 256),
                                panel(c, 256, padded=True)],
                         grid=2, block=384, cluster=2,
                         dynamic_shared=example(_HOPPER).SMEM_TOTAL)
    sums = numerics.matmul(a, b.T, np.zeros((m, n), np.float32), unit="sm_90.wgmma.bf16.f32")
    return run, c, sums.astype(BF16).T


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of 16-bit floats agree in every bit."""
    return bool(np.array_equal(np.ascontiguousarray(one).view(np.uint16),
                               np.ascontiguousarray(other).view(np.uint16)))


@pytest.fixture(scope="module")
def hopper_text() -> str:
    """The example's PTX; sizes are arguments of the kernel."""
    kernel = example(_HOPPER).gemm_warp_specialized
    return str(kernel.ptx(M=1024, N=1024, K=512))


def mended(text: str) -> str:
    """The gaps closed, each by the repair that its finding names."""
    lines = text.splitlines()
    stores = [i for i, line in enumerate(lines) if "stmatrix" in line]
    lines[stores[-1]] += "\n\tfence.proxy.async.shared::cta;"
    (wait,) = (i for i, line in enumerate(lines) if "cp.async.bulk.wait_group 0" in line)
    barrier = next(line.strip() for line in lines if re.search(r"bar\.sync %r\d+, 128", line))
    lines[wait] += f"\n\t{barrier}"
    ends = [i for i, line in enumerate(lines) if line.strip() == "ret;"]
    for end in ends:
        lines[end] = ("\tcp.async.bulk.wait_group.read 0;\n\tbarrier.cluster.arrive;\n"
                      "\tbarrier.cluster.wait;\n\tret;")
    return "\n".join(lines)


@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 128), (256, 512, 320), (512, 256, 192)])
def test_the_hopper_gemm_is_right(hopper_text: str, m: int, n: int, k: int) -> None:
    """Every bit is that of the chip's sums, rounded."""
    _, got, wanted = hopper(hopper_text, m, n, k)
    assert same_bits(got, wanted)


def test_what_is_found_in_the_hopper_gemm_is_there(hopper_text: str) -> None:
    """The gaps and no others; one finding each."""
    run, _, _ = hopper(hopper_text, 256, 512, 192)
    codes = sorted({finding.code for finding in run.findings})
    assert codes == ["cluster-lifetime", "missing-barrier", "missing-bulk-wait",
                     "missing-proxy-fence"]
    assert len(run.findings) <= 6, [str(finding) for finding in run.findings]


def test_the_mended_hopper_gemm_is_clean(hopper_text: str) -> None:
    """Following the repairs leaves nothing to find."""
    run, got, wanted = hopper(mended(hopper_text), 256, 512, 192)
    assert same_bits(got, wanted)
    assert [str(finding) for finding in run.findings] == []


# --- the other examples ---------------------------------------------------------------------------

def built(module: str, builder: str, *sizes: int) -> Any:
    """One of the examples that a function builds."""
    return getattr(example(module), builder)(*sizes)


def execute(kernel: Any, args: list[Any]) -> list[str]:
    """Run a traced kernel; what was found, in words."""
    run = mmalab.emulate(kernel.ptx(), args, grid=kernel.grid, block=kernel.block,
                         dynamic_shared=kernel.smem)
    return [str(finding) for finding in run.findings]


@pytest.mark.parametrize(("module", "builder", "m", "n", "k"), [
    ("ampere.gemm", "build_gemm", 64, 64, 64),
    ("ampere.gemm_pipelined", "build_gemm_pipelined", 128, 64, 96),
    ("ampere.gemm_highperf_ampere", "build_gemm_highperf", 128, 128, 128)])
def test_ampere_gemms(module: str, builder: str, m: int, n: int, k: int) -> None:
    """mma.sync GEMMs: every bit, nothing found."""
    a, b = bf16(m, k), bf16(n, k)
    d = np.full((m, n), np.nan, np.float32)
    assert execute(built(module, builder, m, n, k), [a, b, d]) == []
    wanted = numerics.matmul(a, b.T, np.zeros((m, n), np.float32), unit="sm_80.mma.bf16.f32")
    assert np.array_equal(d.view(np.uint32), wanted.view(np.uint32))


def test_hopper_grouped_gemm() -> None:
    """Two products of one shape through TMA and wgmma, B with N contiguous."""
    groups, m, n, k = 2, 128, 64, 128
    a, b = bf16(groups * m, k), bf16(groups * k, n)
    c = np.full((groups * m, n), np.nan, np.float32)
    maps = [mmalab.TensorMap.tiled(array, box=(64, 64), swizzle="128B") for array in (a, b)]
    kernel = built("hopper.grouped_gemm", "build_grouped_gemm", groups, m, n, k)
    assert execute(kernel, [a, b, c, *maps]) == []
    for group in range(groups):
        rows, depth = slice(group * m, (group + 1) * m), slice(group * k, (group + 1) * k)
        wanted = numerics.matmul(a[rows], b[depth], np.zeros((m, n), np.float32),
                                 unit="sm_90.wgmma.bf16.f32")
        assert np.array_equal(c[rows].view(np.uint32), wanted.view(np.uint32))


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred ** 2).mean(axis=1, keepdims=True) + 1e-5)
                      * weight + bias)


def _rms_norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt((x ** 2).mean(axis=1, keepdims=True) + 1e-6) * weight)


def _silu_mul(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    return np.asarray(gate / (1 + np.exp(-gate)) * up)


@pytest.mark.parametrize("chip", ["ampere", "hopper"])
@pytest.mark.parametrize(("name", "builder", "shapes", "reference"), [
    ("softmax", "build_softmax", [(8, 256)], _softmax),
    ("layer_norm", "build_layer_norm", [(8, 256), (256,), (256,)], _layer_norm),
    ("rms_norm", "build_rms_norm", [(8, 256), (256,)], _rms_norm),
    ("swiglu", "build_fused_silu_mul", [(8, 256), (8, 256)], _silu_mul)])
def test_row_kernels(chip: str, name: str, builder: str, shapes: list[tuple[int, ...]],
                     reference: Any) -> None:
    """Reductions and activations against FP64; the chip's ex2 and rsqrt are approximate."""
    rng = np.random.default_rng()
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    out = np.full((8, 256), np.nan, np.float32)
    assert execute(built(f"{chip}.{name}", builder, 8, 256), [*arrays, out]) == []
    wanted = reference(*(array.astype(np.float64) for array in arrays))
    assert np.abs(out - wanted).max() <= 2e-5 * np.abs(wanted).max()
