"""Products of the wgmma generation, for sm_90a: TMA, warpgroups, clusters.

========= ==========================================================================================
gemm      any M, N, K; bf16, f16, tf32, e4m3, e5m2, s8; promotion and block scales
skinny    few rows (256 at most): B is read once, at the speed of DRAM; K can be split
========= ==========================================================================================
"""

from mmalab.kernels.sm90_wgmma.gemm import gemm
from mmalab.kernels.sm90_wgmma.plan import Plan
from mmalab.kernels.sm90_wgmma.skinny import skinny

__all__ = ["Plan", "gemm", "skinny"]
