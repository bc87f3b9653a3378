"""Triton's own Hopper matmuls, unmodified: every bit is the unit's, and nothing is found in them.

``triton_hopper/`` holds the kernels and what Triton 3.9.0 made of them for sm_90a: descriptors that
are parameters, N-major B, FP8, two CTAs of a cluster, persistent CTAs, and warp specialisation. Of
the last one (three warpgroups, ``setmaxnreg``) the values are right too, and one thing is found
which its text shows: both warpgroups that multiply begin at tile ``%ctaid.x`` and step by the grid,
so that each tile is computed and stored twice, and nothing orders the two stores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mmalab
from mmalab import TensorMap, numerics

FOLDER = Path(__file__).parent / "triton_hopper"
LAUNCHES = json.loads((FOLDER / "launches.json").read_text(encoding="utf-8"))
TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
         "e4m3": np.dtype(ml_dtypes.float8_e4m3fn)}
#: Triton's numbers for swizzles, which are the driver's.
SWIZZLES = ("none", "32B", "64B", "128B")
M, N, K = 256, 256, 192


def descriptor(array: Any, facts: dict[str, Any], dtype: str) -> list[Any]:
    """What Triton passes for a descriptor: the map, sizes, strides in elements."""
    made = TensorMap.tiled(array, box=tuple(facts["box"]), swizzle=SWIZZLES[facts["swizzle"]],
                           dtype="u8" if dtype == "e4m3" else None)
    return [made, *array.shape, array.shape[1], 1]


def run(name: str, schedule: str | int) -> tuple[Any, Any, Any]:
    """The run on fresh numbers, D, and what D should be."""
    launch, dtype = LAUNCHES[name], name.rpartition("_")[2]
    rng, kind = np.random.default_rng(), TYPES[dtype]
    n_major = name.startswith("n_major")
    k = 256 if dtype == "e4m3" else K
    a = rng.standard_normal((M, k)).astype(kind)
    b = rng.standard_normal((k, N) if n_major else (N, k)).astype(kind)
    d = np.full((M, N), np.nan, np.float16)
    boxes = launch["descriptors"]
    args = [*descriptor(a, boxes[0], dtype), *descriptor(b, boxes[1], dtype),
            *descriptor(d, boxes[2], "f16")]
    loops = name.startswith(("persistent", "specialised"))
    args += [M, N, k] if loops else [k]
    bm, bn, _ = launch["tile"]
    grid = (2,) if loops else (launch["cluster"] * M // bm, N // bn)
    text = (FOLDER / f"{name}.ptx").read_text(encoding="utf-8")
    done = mmalab.emulate(text, [*args, 0, 0], grid=grid, dynamic_shared=launch["shared"],
                          schedule=schedule)
    sums = numerics.matmul(a, b if n_major else b.T, np.zeros((M, N), np.float32),
                           unit=f"sm_90.wgmma.{dtype}.f32")
    return done, d, sums.astype(np.float16)


@pytest.mark.parametrize("schedule", ["eager", "lazy", 7])
@pytest.mark.parametrize("name", [name for name in LAUNCHES if name != "specialised_f16"])
def test_matmuls_run_and_are_clean(name: str, schedule: str | int) -> None:
    """The chip's sums, rounded, and no finding."""
    done, got, wanted = run(name, schedule)
    assert np.array_equal(got.view(np.uint16), wanted.view(np.uint16))
    assert [str(finding) for finding in done.findings] == []


def test_warp_specialisation_runs_and_stores_twice() -> None:
    """Right, and the two stores of one tile are the only error."""
    done, got, wanted = run("specialised_f16", "eager")
    assert np.array_equal(got.view(np.uint16), wanted.view(np.uint16))
    errors = [finding for finding in done.findings if finding.severity == "error"]
    assert {finding.code for finding in errors} == {"data-race"}
    assert all("bulk store of warp" in finding.message for finding in errors)
    # asking again for the same registers needs no meeting: nothing changes hands
    assert "divergent-collective" not in {finding.code for finding in done.findings}
    text = (FOLDER / "specialised_f16.ptx").read_text(encoding="utf-8")
    assert text.count("setmaxnreg.inc.sync.aligned.u32 \t232") == 2
    assert len({line for line in text.splitlines() if "%ctaid.x" in line}) >= 3


def test_what_the_files_hold() -> None:
    """TMA, wgmma, mbarriers, clusters and register shares are there."""
    texts = {name: (FOLDER / f"{name}.ptx").read_text(encoding="utf-8") for name in LAUNCHES}
    for name, text in texts.items():
        for word in ("wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait", ".maxnreg"):
            assert word in text or (word == ".maxnreg" and name != "specialised_f16"), (name, word)
    assert "barrier.cluster.arrive" in texts["cluster_f16"]
    assert "setmaxnreg" in texts["specialised_f16"]
    assert "e4m3.e4m3" in texts["descriptors_e4m3"]
