"""Scaled products in the bench: what is drawn, what is right, and that a wrong scale is found."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_gpu import host_gpu, seen

from mmalab.bench.arena import Arena
from mmalab.bench.problem import Problem
from mmalab.bench.row import make_kernel
from mmalab.bench.scales import BLOCKS, PLAIN, draw, scaled_product, shapes
from mmalab.bench.subject import KernelSubject, problem_of
from mmalab.bench.tables import TABLES
from mmalab.bench.verify import verify
from mmalab.errors import UsageError

M, N, K = 200, 272, 384
KERNEL = make_kernel("sm90_wgmma.gemm", M, N, K, {"dtype": "e4m3", "out": "bf16", "scaled": True})


def test_the_problem_of_a_scaled_kernel() -> None:
    """A, B and C as of any product; the scales count among the bytes."""
    problem = problem_of(KERNEL)
    assert (problem.m, problem.n, problem.k, problem.scaled, problem.promote) == (
        M, N, K, True, True)
    assert problem.title == f"e4m3 scaled {M}x{N}x{K}"
    assert problem.scale_bytes == 4 * (M * 3 + 3 * 3)
    assert problem.bytes == M * K + N * K + 2 * M * N + problem.scale_bytes
    with pytest.raises(UsageError, match="scales belong to 128 values of K"):
        Problem(8, 8, 200, "e4m3", scaled=True)
    with pytest.raises(UsageError, match="scales belong to 128 values of K"):
        Problem(8, 8, 256, "bf16", scaled=True)


def test_scales_are_different_numbers() -> None:
    """Positive, spread over octaves, no two alike, no powers of two."""
    a, b = draw(512, 1024, 4096, np.random.default_rng(2))
    assert (a.shape, b.shape) == shapes(512, 1024, 4096) == ((512, 32), (8, 32))
    for scales in (a, b):
        assert (scales > 0).all()
        assert len(np.unique(scales)) > 0.99 * scales.size
        assert (np.frexp(scales)[0] != 0.5).all()
    assert np.log2(a).std() == pytest.approx(1, abs=0.05)


def test_the_exact_product() -> None:
    """Block by block, as the formula says."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 5, 256))
    of_a, of_b = (np.exp2(rng.standard_normal((5, 2))).astype(np.float32) for _ in range(2))
    want = sum(of_a[:, None, j].astype(float) * of_b[None, :, j] * (
        a[:, 128 * j : 128 * j + 128] @ b[:, 128 * j : 128 * j + 128].T) for j in range(2))
    np.testing.assert_allclose(scaled_product(a, b, of_a, of_b), want, rtol=1e-12)


class Multiplies(KernelSubject):
    """Computes on the host what the kernel does, as it is told; `scales` may be spoilt."""

    def __init__(self, arena: Arena, facts: dict[str, Any], spoil: str = "") -> None:
        self.arena, self.spoil, self.kernel, self.name = arena, spoil, KERNEL, "ours"
        self.facts = {"target": "sm_90a", **facts}

    def enqueue(self, at: int) -> None:
        """C of set `at`."""
        each, e4m3 = self.arena.sets[at], ml_dtypes.float8_e4m3fn
        of_a, of_b = (seen(place, shape, np.float32).copy() for place, shape in zip(
            (each.a_scales, each.b_scales), shapes(M, N, K), strict=True))
        if self.spoil == "of a":
            of_a[:, [0, 1]] = of_a[:, [1, 0]]
        elif self.spoil == "of b":
            of_b[-1] = of_b[0]
        elif self.spoil == "all":
            of_a[:], of_b[:] = 1, 1
        a, b = seen(each.a, (M, K), e4m3), seen(each.b, (N, K), e4m3)
        assert KERNEL.reference is not None
        (c,) = KERNEL.reference([a, b, of_a, of_b, None], "sm_90")
        if self.spoil == "a bit":
            c.view(np.uint16)[::7] ^= 1
        seen(each.c, (M, N), ml_dtypes.bfloat16)[:] = c


@pytest.fixture(scope="module")
def arena() -> Arena:
    return Arena(host_gpu(), problem_of(KERNEL), seed=9)


def test_a_scaled_product_is_right(arena: Arena) -> None:
    """The arena's scales are what the device has; samples of rows and columns have their own."""
    assert len(arena.sets) == 2
    for each, scales in zip(arena.sets, arena.scales, strict=True):
        for place, held in zip((each.a_scales, each.b_scales), scales, strict=True):
            np.testing.assert_array_equal(seen(place, held.shape, np.float32), held)
    check = verify(arena, Multiplies(arena, {"scales": BLOCKS}), 5)
    assert check.problem == ""
    assert check.bits_equal is True
    assert 0 < check.relative_rms < check.limit


@pytest.mark.parametrize("spoil", ["of a", "of b", "all", "a bit"])
def test_wrong_scales_are_found(arena: Arena, spoil: str) -> None:
    """Two blocks swapped, a block of columns with another's, none at all, one bit."""
    assert verify(arena, Multiplies(arena, {"scales": BLOCKS}, spoil), 5).problem


def test_a_baseline_without_scales_is_held_to_that(arena: Arena) -> None:
    """It must compute A x B^T, which is no scaled product."""
    plain, scaled = (Multiplies(arena, {"scales": PLAIN}, spoil) for spoil in ("all", ""))
    plain.kernel = scaled.kernel = make_kernel("sm90_wgmma.gemm", M, N, K, {
        "dtype": "e4m3", "out": "bf16", "promote_every": 128})
    assert "samples are wrong" not in verify(arena, plain, 5).problem
    assert "samples are wrong" in verify(arena, scaled, 5).problem


def test_the_table() -> None:
    """Every candidate of the table's rows can be made."""
    for row in TABLES["scaled"]:
        for arguments in row.arguments:
            assert problem_of(make_kernel(row.kernel, row.m, row.n, row.k, arguments)).scaled
