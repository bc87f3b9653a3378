"""Elementwise, gather and scatter kernels in Triton."""

import triton
import triton.language as tl


@triton.jit
def gelu(x, exact, quick, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside)
    tl.store(exact + at, 0.5 * v * (1 + tl.erf(v * 0.70710678)), mask=inside)
    tl.store(quick + at, v * tl.sigmoid(1.702 * v), mask=inside)


@triton.jit
def dropout(x, y, n, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside)
    kept = tl.rand(seed, at) < keep
    tl.store(y + at, tl.where(kept, v / keep, 0.0), mask=inside)


@triton.jit
def random_words(out, seed, BLOCK: tl.constexpr):
    """All four words of the generator."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(out + at * 4, a)
    tl.store(out + at * 4 + 1, b)
    tl.store(out + at * 4 + 2, c)
    tl.store(out + at * 4 + 3, d)


@triton.jit
def transpose(x, y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    v = tl.load(x + rows[:, None] * n + columns[None, :], mask=inside)
    tl.store(y + columns[:, None] * m + rows[None, :], tl.trans(v), mask=tl.trans(inside))


@triton.jit
def embedding(table, tokens, y, WIDTH: tl.constexpr, COUNT: tl.constexpr):
    i = tl.program_id(0) * COUNT + tl.arange(0, COUNT)
    j = tl.arange(0, WIDTH)
    token = tl.load(tokens + i)
    v = tl.load(table + token[:, None] * WIDTH + j[None, :])
    tl.store(y + i[:, None] * WIDTH + j[None, :], v)


@triton.jit
def gather(x, index, y, M: tl.constexpr, N: tl.constexpr):
    """tl.gather along rows, within registers and shared memory."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    tl.store(y + at, tl.gather(tl.load(x + at), tl.load(index + at), 1))


@triton.jit
def histogram(x, bins, BLOCK: tl.constexpr, BINS: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(bins + tl.arange(0, BINS), tl.histogram(v, BINS))


@triton.jit
def atomics(x, slots, top, least, floats, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=0)
    tl.atomic_add(slots + v % 8, 1, mask=inside)
    tl.atomic_max(top, tl.max(tl.where(inside, v, -100000), 0))
    tl.atomic_min(least, tl.min(tl.where(inside, v, 100000), 0))
    tl.atomic_add(floats + v % 4, v.to(tl.float16), mask=inside)


@triton.jit
def lock_update(lock, total, count, x, BLOCK: tl.constexpr):
    """A spin lock by compare-and-swap around an update that is not atomic."""
    v = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    before = tl.load(total)
    # Every thread loads, one stores: without a barrier between, the text would have a race.
    tl.debug_barrier()
    tl.store(total, before + v)
    tl.store(count, seen + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def rotary(x, cosines, sines, y, HALF: tl.constexpr, ROWS: tl.constexpr):
    """Rotary position embedding on interleaved pairs, split and joined again."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, HALF)
    k = tl.arange(0, 2 * HALF)
    v = tl.load(x + i[:, None] * (2 * HALF) + k[None, :]).to(tl.float32)
    even, odd = tl.split(tl.reshape(v, (ROWS, HALF, 2)))
    c = tl.load(cosines + i[:, None] * HALF + j[None, :])
    s = tl.load(sines + i[:, None] * HALF + j[None, :])
    turned = tl.join(even * c - odd * s, even * s + odd * c)
    tl.store(y + i[:, None] * (2 * HALF) + k[None, :],
             tl.reshape(turned, (ROWS, 2 * HALF)).to(tl.bfloat16))


@triton.jit
def quantise(x, y, scales, COLUMNS: tl.constexpr):
    """A row to FP8 E4M3 by its largest magnitude."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    v = tl.load(x + at).to(tl.float32)
    scale = tl.max(tl.abs(v), 0) / 448.0
    tl.store(y + at, (v / scale).to(tl.float8e4nv))
    tl.store(scales + tl.program_id(0), scale)


@triton.jit
def integer_mix(a, b, out, n, BLOCK: tl.constexpr):
    """Division, remainder, shifts, 64-bit products and high words."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(a + at, mask=inside, other=1)
    y = tl.load(b + at, mask=inside, other=1)
    high = tl.umulhi(x.to(tl.uint32, bitcast=True), y.to(tl.uint32, bitcast=True))
    wide = x.to(tl.int64) * y
    r = (x // y) ^ (x % y) ^ (x >> (y & 31)) ^ (wide >> 7).to(tl.int32)
    r ^= high.to(tl.int32, bitcast=True)
    tl.store(out + at, r, mask=inside)


@triton.jit
def adam(w, g, m, v, n, rate, beta1, beta2, epsilon, decay, BLOCK: tl.constexpr):
    """One step of AdamW, in place; moments in FP32, weights in BF16."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    weight = tl.load(w + at, mask=inside).to(tl.float32)
    gradient = tl.load(g + at, mask=inside).to(tl.float32)
    first = beta1 * tl.load(m + at, mask=inside) + (1 - beta1) * gradient
    second = beta2 * tl.load(v + at, mask=inside) + (1 - beta2) * gradient * gradient
    weight = weight - rate * (first / (tl.sqrt(second) + epsilon) + decay * weight)
    tl.store(m + at, first, mask=inside)
    tl.store(v + at, second, mask=inside)
    tl.store(w + at, weight.to(tl.bfloat16), mask=inside)
