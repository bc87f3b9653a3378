"""Matrix products in Triton: plain, grouped, split along K, integer, FP8, with an epilogue."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, d, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           ACC: tl.constexpr):
    """D = A B for any m, n, k; A is m x k, B is k x n, D is m x n, all row-major."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=ACC)
    for start in range(0, k, BK):
        at = start + inner
        x = tl.load(a + rows[:, None] * k + at[None, :],
                    mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        y = tl.load(b + at[:, None] * n + columns[None, :],
                    mask=(at[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(x, y, total, out_dtype=ACC)
    tl.store(d + rows[:, None] * n + columns[None, :], total.to(d.dtype.element_ty),
             mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_whole(a, b, d, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 ACC: tl.constexpr):
    """D = A B where all sizes are multiples of the tile, so copies are whole (cp.async)."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + rows[:, None] * k + inner[None, :]
    pb = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), dtype=ACC)
    for _ in range(k // BK):
        total = tl.dot(tl.load(pa), tl.load(pb), total, out_dtype=ACC)
        pa += BK
        pb += BK * n
    tl.store(d + rows[:, None] * n + columns[None, :], total.to(d.dtype.element_ty))


@triton.jit
def matmul_transposed(a, b, d, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      ACC: tl.constexpr):
    """D = A B^T: B is n x k, the layout of weights (and the one that FP8 wants)."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + rows[:, None] * k + inner[None, :]
    pb = b + columns[None, :] * k + inner[:, None]
    total = tl.zeros((BM, BN), dtype=ACC)
    for _ in range(k // BK):
        total = tl.dot(tl.load(pa), tl.load(pb), total, out_dtype=ACC)
        pa += BK
        pb += BK
    tl.store(d + rows[:, None] * n + columns[None, :], total.to(d.dtype.element_ty))


@triton.jit
def split_k(a, b, d, n, k, part, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The third grid axis takes `part` of K each and adds its product atomically."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.program_id(2) * part + tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, part, BK):
        at = inner + step
        x = tl.load(a + rows[:, None] * k + at[None, :])
        y = tl.load(b + at[:, None] * n + columns[None, :])
        total += tl.dot(x, y)
    tl.atomic_add(d + rows[:, None] * n + columns[None, :], total)


@triton.jit
def linear_gelu(a, b, bias, d, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                GROUP: tl.constexpr):
    """gelu(A B + bias) in BF16, programs in groups of rows for the cache's sake."""
    tiles_n = n // BN
    program = tl.program_id(0)
    group = program // (GROUP * tiles_n)
    row_tile = group * GROUP + program % GROUP
    column_tile = program % (GROUP * tiles_n) // GROUP
    rows = row_tile * BM + tl.arange(0, BM)
    columns = column_tile * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + inner[None, :])
        y = tl.load(b + inner[:, None] * n + columns[None, :])
        total = tl.dot(x, y, total)
    total += tl.load(bias + columns)[None, :]
    total = 0.5 * total * (1 + tl.erf(total * 0.70710678))
    tl.store(d + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16))


@triton.jit
def batched_f64(a, b, d, N: tl.constexpr):
    """A batch of N x N products in double precision."""
    i = tl.arange(0, N)
    at = tl.program_id(0) * N * N + i[:, None] * N + i[None, :]
    tl.store(d + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def matmul_descriptors(a, b, d, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """D = A B^T through tensor descriptors that the kernel itself builds in global memory."""
    da = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    dd = tl.make_tensor_descriptor(d, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        total = tl.dot(da.load([row, at]), db.load([column, at]).T, total)
    dd.store([row, column], total.to(tl.float16))
