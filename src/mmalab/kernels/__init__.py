"""Kernels as values, written in Python over the same layouts that draw and check them."""

from mmalab.kernels import sm80_mma

__all__ = ["sm80_mma"]
