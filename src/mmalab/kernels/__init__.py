"""Kernels as values, written in Python over the same layouts that draw and check them.

    >>> kernel = sm80_mma.gemm(1024, 1024, 1024)               # for emulate, launch and assemble
    >>> list(ladder())[:3]
    ['ffma', 'textbook', 'plain_2']
"""

from mmalab.kernels import sm80_mma, sm90_wgmma
from mmalab.kernels.ladder import ladder

__all__ = ["ladder", "sm80_mma", "sm90_wgmma"]
