"""Speed of Hopper kernels on the CPU: TMA and wgmma, exact, with and without the sanitizer.

    python bench/wgmma.py [--size 1024] [--json FILE]

Results are compared with the kernel's reference, bit for bit. "one cluster in the model" is what a
run costs whose clusters are all alike; where they are not, the exact model sees all of them, as in
the row "all in the model", a quarter as large in each direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from frame import Rows, options

import mmalab
from mmalab import formats
from mmalab.kernels import sm90_wgmma
from mmalab.sanitizer.run import emulate as exact_model

FIRST = """
import time, numpy as np, ml_dtypes, mmalab
from mmalab.kernels import sm90_wgmma
kernel = sm90_wgmma.gemm(256, 256, 256)
args = [np.ones(p.shape, ml_dtypes.bfloat16) for p in kernel.params]
mmalab.emulate
start, used = time.perf_counter(), time.process_time()
mmalab.emulate(kernel, args, sanitize=SANITIZE)
print(time.perf_counter() - start, time.process_time() - used)
"""


class Gemm:
    """The warp-specialised kernel on fresh normal numbers."""

    def __init__(self, size: int, dtype: str) -> None:
        self.kernel = sm90_wgmma.gemm(size, size, size, dtype=dtype)
        rng = np.random.default_rng()
        self.args = [
            rng.normal(size=p.shape).astype(formats.dtype_of(p.dtype)) if p.role == "in"
            else np.full(p.shape, np.nan, np.float32).astype(formats.dtype_of(p.dtype))
            for p in self.kernel.params]

    def run(self, emulate: Callable[..., Any] = mmalab.emulate, **options: Any) -> None:
        """Once; a benchmark of a run that went wrong would be none."""
        run = emulate(self.kernel, self.args, **options)
        assert not run.findings, run.findings

    def check(self) -> None:
        """The words are the reference's."""
        assert self.kernel.reference is not None
        want = np.asarray(self.kernel.reference(self.args, self.kernel.target)[0])
        assert want.tobytes() == np.asarray(self.args[-1]).tobytes()


def main() -> None:
    """Measure and print."""
    given = options(__doc__)
    size, small = given.size, given.size // 4
    rows = Rows("emulation speed of Hopper kernels", "bench/wgmma.py", size=size)
    for dtype in ("bf16", "e4m3"):
        gemm = Gemm(size, dtype)
        rows.add(f"{dtype} TMA and wgmma, exact", lambda: gemm.run(sanitize=False))  # noqa: B023
        gemm.check()
        rows.add(f"{dtype} TMA and wgmma, exact, sanitized", gemm.run, times=3)
        gemm.check()
    gemm = Gemm(size, "bf16")
    rows.add("bf16, exact, lazy schedule", lambda: gemm.run(sanitize=False, schedule="lazy"))
    gemm.check()
    gemm = Gemm(small, "bf16")
    rows.add(f"bf16 {small}^3, exact", lambda: gemm.run(sanitize=False))
    rows.add(f"bf16 {small}^3, exact, sanitized", gemm.run, times=3)
    rows.add(f"bf16 {small}^3, exact, all in the model", lambda: gemm.run(exact_model), times=3)
    gemm.check()
    rows.add_first_runs("first run of 256^3", FIRST.replace("SANITIZE", "False"))
    rows.add_first_runs("first run of 256^3, sanitized", FIRST.replace("SANITIZE", "True"))
    rows.finish(given.json)


if __name__ == "__main__":
    main()
