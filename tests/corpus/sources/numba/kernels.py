"""CUDA kernels in Python, for Numba. They import nothing at run time but what Numba translates."""

import math

from numba import cuda, float32, int32


def axpy_floor(a, x, y, out):
    """Grid-stride loop over floats, with Python's floor division and modulo of negatives."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        v = a * x[i] + y[i]
        out[i] = v // 0.75 + v % 0.5


def tiled_product(a, b, d):
    """Square tiles of 8 x 8 in shared memory; any size."""
    ta = cuda.shared.array((8, 8), dtype=float32)
    tb = cuda.shared.array((8, 8), dtype=float32)
    r, c = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for start in range(0, a.shape[1], 8):
        ta[i, j] = a[r, start + j] if r < a.shape[0] and start + j < a.shape[1] else float32(0.0)
        tb[i, j] = b[start + i, c] if start + i < b.shape[0] and c < b.shape[1] else float32(0.0)
        cuda.syncthreads()
        for k in range(8):
            total += ta[i, k] * tb[k, j]
        cuda.syncthreads()
    if r < d.shape[0] and c < d.shape[1]:
        d[r, c] = total


def byte_histogram(x, bins):
    """Shared bins, then global ones."""
    local = cuda.shared.array(64, dtype=int32)
    for i in range(cuda.threadIdx.x, 64, cuda.blockDim.x):
        local[i] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(local, x[i] & 63, 1)
    cuda.syncthreads()
    for i in range(cuda.threadIdx.x, 64, cuda.blockDim.x):
        cuda.atomic.add(bins, i, local[i])


def complex_escape(z, counts, limit):
    """Complex arithmetic in double precision, a loop with an early exit."""
    i = cuda.grid(1)
    if i >= z.size:
        return
    c = z[i]
    w = complex(0.0, 0.0)
    count = 0
    while count < limit and w.real * w.real + w.imag * w.imag < 4.0:
        w = w * w + c
        count += 1
    counts[i] = count


def warp_maximum(x, tops, sums):
    """Shuffles by Numba's intrinsics; every block is whole warps."""
    i = cuda.grid(1)
    top = x[i]
    total = x[i]
    step = 16
    while step > 0:
        top = max(top, cuda.shfl_xor_sync(0xFFFFFFFF, top, step))
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        step //= 2
    if cuda.laneid == 0:
        tops[i // 32] = top
        sums[i // 32] = total


def local_medians(x, out):
    """Selection sort of nine values in a local array."""
    i = cuda.grid(1)
    if i >= out.size:
        return
    v = cuda.local.array(9, dtype=int32)
    for k in range(9):
        v[k] = x[i, k]
    for k in range(5):
        least = k
        for j in range(k + 1, 9):
            if v[j] < v[least]:
                least = j
        v[k], v[least] = v[least], v[k]
    out[i] = v[4]


def special_functions(x, out):
    """The mathematics that Numba takes from libdevice."""
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[i, 0] = math.lgamma(abs(v) + 1.5)
        out[i, 1] = math.asinh(v)
        out[i, 2] = math.hypot(v, 2.0)
        out[i, 3] = math.expm1(v)
        out[i, 4] = math.log1p(abs(v))
        out[i, 5] = math.erfc(v)
        out[i, 6] = math.atan(v)
        out[i, 7] = math.copysign(math.ceil(v), v)
