"""Speed of emulation: a matmul of ours and Triton's, sanitized and not, and a kernel's first run.

    python bench/emulate.py [--size 1024] [--json FILE]

Our kernel's words are compared with its reference, Triton's results with a product in float64.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from frame import Rows, options

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
start, used = time.perf_counter(), time.process_time()
mmalab.emulate(kernel, [a, a.copy(), c], sanitize=False)
print(time.perf_counter() - start, time.process_time() - used)
"""


def clean(run: mmalab.emulator.Run) -> None:
    """A benchmark of a run that went wrong would be none."""
    assert not run.findings, run.findings


def ours(rows: Rows, name: str, size: int, *, sanitize: bool) -> None:
    """The swizzled BF16 kernel, exact."""
    kernel = sm80_mma.gemm(size, size, size, dtype="bf16")
    rng = np.random.default_rng()
    a, b = (rng.normal(size=(size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.full((size, size), np.nan, np.float32)
    rows.add(name, lambda: clean(mmalab.emulate(kernel, [a, b, c], sanitize=sanitize)))
    assert kernel.reference is not None
    want = np.asarray(kernel.reference([a, b, c], kernel.target)[0])
    assert want.tobytes() == c.tobytes()


def triton(rows: Rows, name: str, size: int, *, sanitize: bool) -> None:
    """Triton's own PTX for a float16 product, exact."""
    module = ptx.parse(TRITON.read_text())
    rng = np.random.default_rng()
    a, b = (rng.normal(size=(size, size)).astype(np.float16) for _ in range(2))
    d = np.full((size, size), np.nan, np.float32)
    rows.add(name, lambda: clean(mmalab.emulate(
        module, [a, b, d, size, size, 0, 0], entry="matmul_whole",
        grid=(size // 64, size // 64), block=128, dynamic_shared=16384, sanitize=sanitize)))
    assert np.allclose(d, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-2)


def main() -> None:
    """Measure and print."""
    given = options(__doc__)
    rows = Rows("emulation speed", "bench/emulate.py", size=given.size)
    for name, measure in (("bf16 mma.sync, exact", ours), ("Triton f16 sm_80, exact", triton)):
        measure(rows, name, given.size, sanitize=False)
        measure(rows, f"{name}, sanitized", given.size, sanitize=True)
    rows.add_first_runs("first run", FIRST)
    rows.finish(given.json)


if __name__ == "__main__":
    main()
