"""Hopper matmuls of Triton: descriptors from the host, clusters, FP8, warp specialisation."""

import triton
import triton.language as tl


@triton.jit
def matmul(da, db, dd, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """D = A B^T, through descriptors that are parameters."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        total = tl.dot(da.load([row, at]), db.load([column, at]).T, total)
    dd.store([row, column], total.to(tl.float16))


@triton.jit
def matmul_n_major(da, db, dd, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """D = A B, N of B contiguous."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        total = tl.dot(da.load([row, at]), db.load([at, column]), total)
    dd.store([row, column], total.to(tl.float16))


@triton.jit
def persistent(da, db, dd, m, n, k, CTAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
               BK: tl.constexpr, SPECIALISED: tl.constexpr):
    """D = A B^T by a fixed number of CTAs, tile after tile."""
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), rows * columns, CTAS, flatten=not SPECIALISED,
                         warp_specialize=SPECIALISED):
        row, column = (tile // columns) * BM, (tile % columns) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            total = tl.dot(da.load([row, at]), db.load([column, at]).T, total)
        dd.store([row, column], total.to(tl.float16))
