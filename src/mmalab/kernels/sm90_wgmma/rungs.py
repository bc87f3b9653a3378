"""The ladder of this generation: one idea a rung, each a plan of the same generator.

The groups' roles are apart from the first rung on: who copies does not multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mmalab.kernels.sm90_wgmma.gemm import gemm
from mmalab.kernels.sm90_wgmma.plan import Plan
from mmalab.ptx.kernel import Kernel

__all__ = ["RUNGS"]

_SMALL = Plan((128, 128), 1, flight=0, persistent=False, band=128, store="direct")
_WIDE = Plan((128, 256), 4, persistent=False, band=128, store="direct")
_SHARED = Plan((128, 256), 4, (2, 1), persistent=False, band=256, store="direct")

_PLANS: tuple[tuple[str, str, Plan], ...] = (
    ("wgmma", "wgmma on tiles that threads copy: one stage, copy and multiply in turn",
     Plan((128, 128), 1, copy="threads", flight=0, persistent=False, band=128, store="direct")),
    ("wgmma_tma", "one thread and a tensor map copy instead, swizzled", _SMALL),
    ("wgmma_pipelined", "4 stages, products of two slices in flight",
     Plan((128, 128), 4, persistent=False, band=128, store="direct")),
    ("wgmma_wide", "128 x 256 of C: a quarter less traffic for each product", _WIDE),
    ("wgmma_cluster", "two CTAs share B by multicast", _SHARED),
    ("wgmma_persistent", "one CTA an SM, tiles in bands that share L2",
     Plan((128, 256), 4, (2, 1), store="direct")),
    ("wgmma_staged", "C through stmatrix and TMA, under the next tile's products",
     Plan((128, 256), 3, (2, 1), store="staged")),
    ("wgmma_permuted", "columns dealt out by the tensor map: no staging, a stage more",
     Plan((128, 256), 4, (2, 1))),
    ("wgmma_256x208", "the largest tile that registers and shared memory hold",
     Plan((256, 208), 3, (1, 2))),
    ("wgmma_pingpong", "a tile for each group, in turns: for short K",
     Plan((128, 192), 5, (2, 1), schedule="pingpong", band=4096)),
)
_TYPES: tuple[tuple[str, str, partial[Kernel]], ...] = (
    ("wgmma_f16", "f16 inputs", partial(gemm, dtype="f16")),
    ("wgmma_f16_f16", "f16 accumulation", partial(gemm, dtype="f16", accumulate="f16")),
    ("wgmma_tf32", "tf32 inputs, 32 values of K a slice", partial(gemm, dtype="tf32")),
    ("wgmma_s8", "8-bit integers, 128 values of K a slice", partial(gemm, dtype="s8")),
    ("wgmma_e4m3", "FP8, one chain of 14-bit sums", partial(gemm, dtype="e4m3", out="bf16")),
    ("wgmma_e4m3_promoted", "partial sums of 128 k added in FP32",
     partial(gemm, dtype="e4m3", out="bf16", promote_every=128)),
)


#: (name, what it changes, kernel of (m, n, k)).
RUNGS: tuple[tuple[str, str, Callable[[int, int, int], Kernel]], ...] = (
    *((name, what, partial(gemm, plan=plan)) for name, what, plan in _PLANS),
    *_TYPES,
)
