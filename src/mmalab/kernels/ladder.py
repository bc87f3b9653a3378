"""The rungs by name: each a function from (m, n, k) to a kernel, slowest idea first.

    >>> kernel = ladder()["swizzled_3"](256, 256, 256)
    >>> kernel.facts["layout"], kernel.facts["stages"]
    ('swizzled', 3)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from mmalab.errors import UsageError
from mmalab.kernels.sm80_mma import ffma, gemm, textbook
from mmalab.kernels.sm90_wgmma.rungs import RUNGS
from mmalab.ptx.kernel import Kernel

__all__ = ["WHAT", "ladder"]

Factory = Callable[[int, int, int], Kernel]
_WIDE, _LARGE = (64, 64), (256, 128)

_ROWS: tuple[tuple[str, str, Factory], ...] = (
    ("ffma", "FP32 on CUDA cores, 8 x 8 of C a thread", ffma),
    ("textbook", "WMMA, 16 x 16 of C a warp, fragments from global memory", textbook),
    ("plain_2", "cp.async, ldmatrix, shared tiles, 2 stages", partial(gemm, layout="plain",
                                                                      stages=2)),
    ("plain_3", "3 stages", partial(gemm, layout="plain", stages=3)),
    ("padded_2", "80-byte rows: no bank conflicts", partial(gemm, layout="padded", stages=2)),
    ("padded_3", "3 stages, but 60 KB a block", partial(gemm, layout="padded", stages=3)),
    ("swizzled_2", "XOR instead of padding", partial(gemm, layout="swizzled", stages=2)),
    ("swizzled_3", "3 stages in 48 KB", partial(gemm, layout="swizzled", stages=3)),
    ("swizzled_3_64x64", "64 x 64 of C a warp: fewer ldmatrix", partial(gemm, warp_tile=_WIDE)),
    ("carried_256x128", "256 x 128 of C a block, one an SM: fragments carried across the barrier",
     partial(gemm, tile=_LARGE)),
    ("carried_256x128_128b", "slices of 128 bytes: half as many barriers",
     partial(gemm, tile=_LARGE, span=128)),
    ("carried_128x256", "128 x 256 of C a block", partial(gemm, tile=(128, 256))),
    ("fed_256x128", "TMA instead of cp.async, tiles dealt out to SMs (sm_90a)",
     partial(gemm, tile=_LARGE, copy="tma", stages=4)),
    ("f16", "f16 inputs", partial(gemm, dtype="f16")),
    ("f16_f16", "f16 accumulation", partial(gemm, dtype="f16", accumulate="f16")),
    ("f16_f16_64x64", "and 64 x 64 of C a warp", partial(gemm, dtype="f16", accumulate="f16",
                                                         warp_tile=_WIDE)),
    ("tf32", "tf32 inputs, 16 values of K a slice", partial(gemm, dtype="tf32")),
    ("s8", "8-bit integers, 64 values of K a slice", partial(gemm, dtype="s8")),
    ("e4m3", "FP8, 64 values of K a slice", partial(gemm, dtype="e4m3")),
    ("e4m3_promoted", "partial sums of 64 k added in FP32", partial(gemm, dtype="e4m3",
                                                                   promote_every=64)),
    ("e4m3_f16", "FP8 with f16 accumulation", partial(gemm, dtype="e4m3", accumulate="f16")),
    ("e4m3_f16_64x64", "and 64 x 64 of C a warp", partial(gemm, dtype="e4m3", accumulate="f16",
                                                          warp_tile=_WIDE)),
)

#: The rungs by generation.
_GENERATIONS: Mapping[str, tuple[tuple[str, str, Factory], ...]] = MappingProxyType({
    "sm80_mma": _ROWS,
    "sm90_wgmma": RUNGS,
})

#: What each rung changes, in words.
WHAT: Mapping[str, str] = MappingProxyType({
    name: words for rows in _GENERATIONS.values() for name, words, _ in rows})


def ladder(generation: str | None = None) -> dict[str, Factory]:
    """Every rung that takes sizes, or those of one generation: ``sm80_mma``, ``sm90_wgmma``.

    All store B as N x K and write C row-major.

    Raises:
        UsageError: no such generation.
    """
    if generation is not None and generation not in _GENERATIONS:
        raise UsageError(f"generation {generation!r}", "has no ladder", legal=[*_GENERATIONS],
                         where="mmalab.kernels.ladder")
    return {name: factory for each, rows in _GENERATIONS.items() if generation in (None, each)
            for name, _, factory in rows}
