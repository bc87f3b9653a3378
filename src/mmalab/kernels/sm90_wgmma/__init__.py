"""Products of the wgmma generation, for sm_90a: TMA, warpgroups, clusters."""

from mmalab.kernels.sm90_wgmma.gemm import gemm
from mmalab.kernels.sm90_wgmma.plan import Plan

__all__ = ["Plan", "gemm"]
