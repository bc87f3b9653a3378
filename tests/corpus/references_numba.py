"""References of the Numba kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["axpy_floor", "byte_histogram", "complex_escape", "local_medians", "special_functions",
           "warp_maximum"]

Array = NDArray[Any]
Args = dict[str, Any]
Result = dict[str, Array]


def axpy_floor(x: Args) -> Result:
    """Small integers times 1.5: everything is exact, also the floor and the remainder."""
    v = float(x["a"]) * x["x"].astype(np.float64) + x["y"]
    return {"out": (v // 0.75 + v % 0.5).astype(np.float32)}


def byte_histogram(x: Args) -> Result:
    return {"bins": np.bincount(x["x"] & 63, minlength=64).astype(np.int32)}


def complex_escape(x: Args) -> Result:
    counts = []
    for re, im in x["z"].tolist():
        c, w, count = complex(re, im), 0j, 0
        while count < int(x["limit"]) and w.real * w.real + w.imag * w.imag < 4.0:
            w, count = w * w + c, count + 1
        counts.append(count)
    return {"counts": np.array(counts, np.int32)}


def warp_maximum(x: Args) -> Result:
    warps = x["x"].reshape(-1, 32)
    return {"tops": warps.max(1), "sums": warps.sum(1)}


def local_medians(x: Args) -> Result:
    return {"out": np.median(x["x"], axis=1).astype(np.int32)}


def special_functions(x: Args) -> Result:
    rows = [[math.lgamma(abs(v) + 1.5), math.asinh(v), math.hypot(v, 2.0), math.expm1(v),
             math.log1p(abs(v)), math.erfc(v), math.atan(v), math.copysign(math.ceil(v), v)]
            for v in x["x"].tolist()]
    return {"out": np.array(rows)}
