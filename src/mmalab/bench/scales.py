"""Block scales: how they are drawn, what they multiply, how cublasLt wants them.

A scaled product has one FP32 number for 1 x 128 values of A and one for 128 x 128 of B, which
multiply the partial sums of 128 values of K::

    C[m, n] = sum over j of  a_scales[m, j] b_scales[n // 128, j] sum over k in j of A[m, k] B[n, k]

They are 2^N(0, 1), every one another number with a full significand: no power of two whose
multiplication is free, no constant that could stand for another block's. cublasLt (12.9 and later,
on Hopper) takes the same numbers, those of A with M running fastest, rows of those of B padded to
16 bytes::

    >>> a, b = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((1, 2), np.float32)
    >>> for_cublaslt(a, b)[0].tolist()
    [[0.0, 2.0, 4.0, 6.0], [1.0, 3.0, 5.0, 7.0]]
    >>> for_cublaslt(a, b)[1].shape
    (1, 4)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "BLOCKS", "PLAIN", "Scales", "draw", "for_cublaslt", "scaled_product", "shapes"]

#: Values of K, and rows of B, that share a scale.
BLOCK = 128
#: What a subject's facts say under "scales": it multiplies by them, or computes A x B^T alone.
BLOCKS, PLAIN = "1 x 128 of A, 128 x 128 of B", "none"
#: Those of A and of B.
Scales = tuple[NDArray[np.float32], NDArray[np.float32]]
#: Numbers in 16 bytes.
_ALIGNED = 4


def shapes(m: int, n: int, k: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shapes of the scales of A (M x K / 128) and of B (N / 128, rounded up, x K / 128)."""
    return (m, k // BLOCK), (-(-n // BLOCK), k // BLOCK)


def draw(m: int, n: int, k: int, rng: np.random.Generator) -> Scales:
    """Fresh scales of A and B."""
    a, b = (np.exp2(rng.standard_normal(shape)).astype(np.float32) for shape in shapes(m, n, k))
    return a, b


def scaled_product(a: NDArray[np.float64], b: NDArray[np.float64], of_a: NDArray[np.float32],
                   of_b: NDArray[np.float32]) -> NDArray[np.float64]:
    """Some rows of A (rows x K) times some of B (columns x K) in FP64; scales of each row."""
    wide = (np.repeat(scales.astype(np.float64), BLOCK, axis=1) for scales in (of_a, of_b))
    x, y = (values * each for values, each in zip((a, b), wide, strict=True))
    product: NDArray[np.float64] = x @ y.T
    return product


def for_cublaslt(of_a: NDArray[np.float32], of_b: NDArray[np.float32]) -> Scales:
    """The same scales as cublasLt reads them: ``VEC128_32F`` and ``BLK128x128_32F``.

    Source: cuBLAS, scaling factors layouts; PyTorch's ``_scaled_mm`` asks the same of its callers.
    """
    pad = -of_b.shape[1] % _ALIGNED
    return np.ascontiguousarray(of_a.T), np.pad(of_b, ((0, 0), (0, pad)))
