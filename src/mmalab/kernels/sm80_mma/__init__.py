"""Kernels of the mma.sync generation: sm_80 and every later chip."""

from mmalab.kernels.sm80_mma.gemm import gemm

__all__ = ["gemm"]
