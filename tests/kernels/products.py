"""Helpers of the kernel tests: inputs, poisoned outputs, and a run compared with the reference.

    emulated(gemm(136, 72, 40), "sm_90")          # fresh normal values; prints the seed
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

import mmalab
from mmalab import formats
from mmalab.kernels.arguments import words_of


def arguments(kernel: Any, mix: str = "normal", seed: int | None = None) -> list[Any]:
    """Inputs (normal values, or random bit patterns) and outputs that hold 0xFF bytes."""
    seed = secrets.randbits(32) if seed is None else seed
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    return [_array(param, mix, rng) for param in kernel.params]


def _array(param: Any, mix: str, rng: np.random.Generator) -> Any:
    dtype = formats.dtype_of(param.dtype)
    if param.role == "out":
        words = np.full((*param.shape, dtype.itemsize), 0xFF, np.uint8)
        return words.view(dtype)[..., 0].copy()
    if mix == "normal" and dtype.kind != "i":
        return rng.standard_normal(param.shape, np.float32).astype(dtype)
    words = rng.integers(0, 256, (*param.shape, dtype.itemsize), np.uint8)
    if dtype.kind != "i":  # but in every eighth row below 2 in magnitude, so that sums are numbers
        words[np.arange(param.shape[0]) % 8 != 0, :, -1] &= 0xBF
    return words.view(dtype)[..., 0].copy()


def differing(kernel: Any, args: list[Any], target: str) -> int:
    """How many outputs are not those of the reference, by their bits."""
    (want,) = kernel.reference(args, target)
    return int((words_of(want) != words_of(args[-1])).sum())


def emulated(kernel: Any, target: str, mix: str = "normal", **options: Any) -> Any:
    """Run a kernel on the CPU; the Run, after its output was compared with the reference."""
    args = arguments(kernel, mix)
    args = [np.ascontiguousarray(a) for a in args]
    own = "a" if kernel.target.endswith("a") else ""  # the same chip, with its own instructions
    run = mmalab.emulate(kernel, args, target=target + own, **options)
    assert differing(kernel, args, target) == 0
    return run
