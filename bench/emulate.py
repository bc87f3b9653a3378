"""Speed of emulation: a matmul of ours and Triton's, sanitized and not, and a kernel's first run.

    python bench/emulate.py [--size 1024] [--json FILE]

Every row is the best of several runs in one process, with the ratio to NumPy's own float32 product
of the same size in the same process, which carries from machine to machine better than seconds do.
"first run" starts new processes: with an empty cache of compiled primitives, then with a full one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

import mmalab
from mmalab import ptx
from mmalab.kernels import sm80_mma

TRITON = Path(__file__).resolve().parent.parent / (
    "tests/corpus/ptx/matmul_whole_f16_stages3.sm_80.triton3.9.0.ptx")
FIRST = """
import time, numpy as np, ml_dtypes, mmalab
from mmalab.kernels import sm80_mma
kernel = sm80_mma.gemm(128, 128, 64)
a = np.ones((128, 64), ml_dtypes.bfloat16)
c = np.zeros((128, 128), np.float32)
mmalab.emulate
start = time.perf_counter()
mmalab.emulate(kernel, [a, a.copy(), c], sanitize=False)
print(time.perf_counter() - start)
"""


def best(run: Callable[[], object], times: int = 5) -> float:
    """Shortest of several runs, in seconds."""
    found = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - start)
    return found


def clean(run: mmalab.emulator.Run) -> None:
    """A benchmark of a run that went wrong would be none."""
    assert not run.findings, run.findings


def ours(size: int, *, sanitize: bool) -> float:
    """The swizzled BF16 kernel, exact."""
    kernel = sm80_mma.gemm(size, size, size, dtype="bf16")
    rng = np.random.default_rng()
    a, b = (rng.normal(size=(size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.full((size, size), np.nan, np.float32)
    found = best(lambda: clean(mmalab.emulate(kernel, [a, b, c], sanitize=sanitize)))
    assert kernel.reference is not None
    want = np.asarray(kernel.reference([a, b, c], kernel.target)[0])
    assert want.tobytes() == c.tobytes()
    return found


def triton(size: int, *, sanitize: bool) -> float:
    """Triton's own PTX for a float16 product, exact."""
    module = ptx.parse(TRITON.read_text())
    rng = np.random.default_rng()
    a, b = (rng.normal(size=(size, size)).astype(np.float16) for _ in range(2))
    d = np.full((size, size), np.nan, np.float32)
    found = best(lambda: clean(mmalab.emulate(
        module, [a, b, d, size, size, 0, 0], entry="matmul_whole",
        grid=(size // 64, size // 64), block=128, dynamic_shared=16384, sanitize=sanitize)))
    assert np.allclose(d, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-2)
    return found


def first_run(cache: str) -> float:
    """Seconds of a kernel's first run in a new process, imports not counted."""
    environment = {**os.environ, "MMALAB_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", FIRST], env=environment, check=True,
                          capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    size = options.size
    x = np.random.default_rng().normal(size=(size, size)).astype(np.float32)
    product = best(lambda: x @ x)
    rows = {"numpy float32 product": product}
    for name, run in (("bf16 mma.sync, exact", ours), ("Triton f16 sm_80, exact", triton)):
        rows[name] = run(size, sanitize=False)
        rows[f"{name}, sanitized"] = run(size, sanitize=True)
    with tempfile.TemporaryDirectory() as cache:
        rows["first run, empty cache"] = first_run(cache)
        rows["first run, from cache"] = min(first_run(cache) for _ in range(3))
    for name, seconds in rows.items():
        print(f"{name:36s} {seconds:8.3f} s   {seconds / product:7.1f} x NumPy's product")
    record = {"what": "emulation speed", "command": f"python bench/emulate.py --size {size}",
              "size": size, "processors": len(os.sched_getaffinity(0)),
              "load": os.getloadavg()[0], "machine": platform.processor() or platform.machine(),
              "seconds": rows}
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
