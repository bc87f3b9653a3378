"""The check before timing: what rounding explains passes, what it does not is found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mmalab.bench.problem import Problem
from mmalab.bench.verify import compare, limit_of_sums


def exact_product(k: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 48, k))
    return a.astype(ml_dtypes.bfloat16).astype(float), b.astype(ml_dtypes.bfloat16).astype(float)


@pytest.fixture
def product() -> np.ndarray:
    a, b = exact_product(4096)
    return a @ b.T


def test_rounding_passes(product: np.ndarray) -> None:
    """The FP64 product rounded to the output type is right for every type."""
    for out, kind in (("bf16", ml_dtypes.bfloat16), ("f32", np.float32)):
        rms, limit, problem = compare(Problem(64, 64, 4096, "bf16", out=out),
                                      product.astype(kind).astype(float), product)
        assert problem == ""
        assert rms < limit


@pytest.mark.parametrize("wrong", ["one", "swapped", "nan", "biased", "missing slice"])
def test_errors_are_found(product: np.ndarray, wrong: str) -> None:
    got = product.astype(ml_dtypes.bfloat16).astype(float)
    if wrong == "one":
        got[3, 5] *= 1.05
    elif wrong == "swapped":
        got[[0, 1]] = got[[1, 0]]
    elif wrong == "nan":
        got[1, 1] = np.nan
    elif wrong == "biased":
        got *= 1.01
    else:
        a, b = exact_product(4096)
        got = a[:, :-64] @ b[:, :-64].T
    assert compare(Problem(64, 64, 4096, "bf16"), got, product)[2]


def test_integers_are_exact() -> None:
    exact = np.arange(16.0).reshape(4, 4) * 1e6
    problem = Problem(64, 64, 64, "s8")
    assert limit_of_sums(problem) == 0
    assert compare(problem, exact, exact)[2] == ""
    off = exact.copy()
    off[0, 0] += 1
    assert "1 of 16 samples are wrong" in compare(problem, off, exact)[2]


def test_every_accumulator_has_a_limit() -> None:
    for dtype, accumulate in (("bf16", "f32"), ("f16", "f16"), ("tf32", "f32"), ("e4m3", "f32"),
                              ("e5m2", "f32"), ("s8", "s32")):
        p = Problem(8, 8, 8192, dtype, accumulate=accumulate)
        assert limit_of_sums(p) < 0.05
