"""Speed of Hopper kernels on the CPU: TMA and wgmma, exact, with and without the sanitizer.

    python bench/wgmma.py [--size 1024] [--json FILE]

Every row is the best of several runs in one process, with the ratio to NumPy's own float32 product
of the same size in the same process. Results are compared with the kernel's reference, bit for bit.
The sanitized rows are a quarter as large in each direction. "first run" starts new processes: with
an empty cache of compiled code, then with a full one.
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
from typing import Any

import numpy as np

import mmalab
from mmalab import formats
from mmalab.kernels import sm90_wgmma

FIRST = """
import time, numpy as np, ml_dtypes, mmalab
from mmalab.kernels import sm90_wgmma
kernel = sm90_wgmma.gemm(256, 256, 256)
args = [np.ones(p.shape, ml_dtypes.bfloat16) for p in kernel.params]
mmalab.emulate
start = time.perf_counter()
mmalab.emulate(kernel, args, sanitize=False)
print(time.perf_counter() - start)
"""


def best(run: Callable[[], object], times: int) -> float:
    """Shortest of several runs, in seconds."""
    found = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - start)
    return found


def gemm(size: int, dtype: str, *, times: int = 5, **options: Any) -> float:
    """The warp-specialised kernel on fresh normal numbers; its words are the reference's."""
    kernel = sm90_wgmma.gemm(size, size, size, dtype=dtype)
    rng = np.random.default_rng()
    args = [rng.normal(size=p.shape).astype(formats.dtype_of(p.dtype)) if p.role == "in"
            else np.full(p.shape, np.nan, np.float32).astype(formats.dtype_of(p.dtype))
            for p in kernel.params]

    def once() -> None:
        run = mmalab.emulate(kernel, args, **options)
        assert not run.findings, run.findings

    found = best(once, times)
    assert kernel.reference is not None
    want = np.asarray(kernel.reference(args, kernel.target)[0])
    assert want.tobytes() == np.asarray(args[-1]).tobytes()
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
    size, small = options.size, options.size // 4
    x = np.random.default_rng().normal(size=(size, size)).astype(np.float32)
    product = best(lambda: x @ x, 5)
    rows = {"numpy float32 product": product}
    for dtype in ("bf16", "e4m3"):
        rows[f"{dtype} TMA and wgmma, exact"] = gemm(size, dtype, sanitize=False)
    rows["bf16, exact, lazy schedule"] = gemm(size, "bf16", sanitize=False, schedule="lazy")
    rows[f"bf16 {small}^3, exact"] = gemm(small, "bf16", sanitize=False)
    rows[f"bf16 {small}^3, exact, sanitized"] = gemm(small, "bf16", times=3)
    with tempfile.TemporaryDirectory() as cache:
        rows["first run of 256^3, empty cache"] = first_run(cache)
        rows["first run of 256^3, from cache"] = min(first_run(cache) for _ in range(3))
    for name, seconds in rows.items():
        print(f"{name:34s} {seconds:8.3f} s   {seconds / product:7.1f} x NumPy's product")
    record = {"what": "emulation speed of Hopper kernels",
              "command": f"python bench/wgmma.py --size {size}", "size": size,
              "processors": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
              "machine": platform.processor() or platform.machine(), "seconds": rows}
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
