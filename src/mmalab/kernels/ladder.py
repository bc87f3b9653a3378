"""The rungs by name: each a function from (m, n, k) to a kernel, slowest idea first.

    >>> kernel = ladder()["swizzled_3"](256, 256, 256)
    >>> kernel.facts["layout"], kernel.facts["stages"]
    ('swizzled', 3)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mmalab.kernels.sm80_mma import ffma, gemm, textbook
from mmalab.ptx.kernel import Kernel

__all__ = ["ladder"]

Factory = Callable[[int, int, int], Kernel]


def ladder() -> dict[str, Factory]:
    """Every rung that takes sizes. All store B as N x K and write C row-major."""
    rungs: dict[str, Factory] = {"ffma": ffma, "textbook": textbook}
    for layout in ("plain", "padded", "swizzled"):
        for stages in (2, 3):
            rungs[f"{layout}_{stages}"] = partial(gemm, layout=layout, stages=stages)
    wide = (64, 64)
    rungs["swizzled_3_64x64"] = partial(gemm, warp_tile=wide)
    rungs["f16"] = partial(gemm, dtype="f16")
    rungs["f16_f16"] = partial(gemm, dtype="f16", accumulate="f16")
    rungs["f16_f16_64x64"] = partial(gemm, dtype="f16", accumulate="f16", warp_tile=wide)
    rungs["tf32"] = partial(gemm, dtype="tf32")
    rungs["s8"] = partial(gemm, dtype="s8")
    rungs["e4m3"] = partial(gemm, dtype="e4m3")
    rungs["e4m3_promoted"] = partial(gemm, dtype="e4m3", promote_every=64)
    rungs["e4m3_f16"] = partial(gemm, dtype="e4m3", accumulate="f16")
    rungs["e4m3_f16_64x64"] = partial(gemm, dtype="e4m3", accumulate="f16", warp_tile=wide)
    return rungs
