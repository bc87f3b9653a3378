"""Kernels of the mma.sync generation, for sm_80 and every later chip: a ladder of rungs.

========== =========================================================================================
one_mma    one instruction, fragments loaded by the documented mapping
one_wmma   the same through WMMA
ffma       FP32 on CUDA cores, for comparison
textbook   a tile of 16 x 16 a warp, fragments straight from global memory
gemm       cp.async or TMA, ldmatrix, stages; plain, padded or swizzled; bf16, f16, tf32, e4m3, s8;
           tiles of 128 x 128 to 256 x 128
========== =========================================================================================
"""

from mmalab.kernels.sm80_mma.ffma import ffma
from mmalab.kernels.sm80_mma.gemm import gemm
from mmalab.kernels.sm80_mma.single import one_mma, one_wmma
from mmalab.kernels.sm80_mma.textbook import textbook

__all__ = ["ffma", "gemm", "one_mma", "one_wmma", "textbook"]
