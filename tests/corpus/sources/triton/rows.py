"""Row kernels in Triton: softmax, norms, reductions, scans, sorting, losses."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + at, e / tl.sum(e, 0), mask=inside)


@triton.jit
def online_softmax(x, y, columns, BLOCK: tl.constexpr):
    """Two passes over blocks of a row: the first keeps a running maximum and sum."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    top = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        v = tl.load(x + row * columns + start + at, mask=inside, other=-float("inf"))
        new_top = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(v - new_top), 0)
        top = new_top
    for start in range(0, columns, BLOCK):
        inside = start + at < columns
        v = tl.load(x + row * columns + start + at, mask=inside, other=0.0)
        tl.store(y + row * columns + start + at, tl.exp(v - top) / total, mask=inside)


@triton.jit
def layer_norm(x, gain, bias, y, mean_out, scale_out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / columns
    centred = tl.where(inside, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + epsilon)
    w = tl.load(gain + at, mask=inside).to(tl.float32)
    b = tl.load(bias + at, mask=inside).to(tl.float32)
    tl.store(y + row * columns + at, (centred * scale * w + b).to(tl.float16), mask=inside)
    tl.store(mean_out + row, mean)
    tl.store(scale_out + row, scale)


@triton.jit
def rms_norm(x, gain, y, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / columns + epsilon)
    w = tl.load(gain + at, mask=inside).to(tl.float32)
    tl.store(y + row * columns + at, (v * scale * w).to(tl.bfloat16), mask=inside)


@triton.jit
def _welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = tl.where(n > 0, n_b / n, 0.0)
    apart = mean_b - mean_a
    return mean_a + apart * share, m2_a + m2_b + apart * apart * n_a * share, n


@triton.jit
def welford(x, means, variances, columns, BLOCK: tl.constexpr):
    """Mean and variance by a reduction with a combine function of three values."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=0.0)
    zero = tl.zeros_like(v)
    mean, m2, n = tl.reduce((v, zero, inside.to(tl.float32)), 0, _welford)
    tl.store(means + row, mean)
    tl.store(variances + row, m2 / n)


@triton.jit
def reductions(x, row_sums, column_sums, row_tops, column_least, M: tl.constexpr, N: tl.constexpr):
    """One tile reduced along both axes, sums and extremes of integers."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(row_sums + i, tl.sum(v, 1))
    tl.store(column_sums + j, tl.sum(v, 0))
    tl.store(row_tops + i, tl.max(v, 1))
    tl.store(column_least + j, tl.min(v, 0))


@triton.jit
def arg_extremes(x, largest, least, N: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * N + tl.arange(0, N))
    tl.store(largest + row, tl.argmax(v, 0))
    tl.store(least + row, tl.argmin(v, 0))


@triton.jit
def _linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scans(x, gates, sums, states, N: tl.constexpr):
    """A cumulative sum, and the recurrence s = g s + x as an associative scan of pairs."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at)
    g = tl.load(gates + at)
    tl.store(sums + at, tl.cumsum(v, 0))
    _, state = tl.associative_scan((g.to(tl.float32), v.to(tl.float32)), 0, _linear)
    tl.store(states + at, state)


@triton.jit
def sorting(x, ordered, flipped, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(ordered + at, tl.sort(v, descending=True))
    tl.store(flipped + at, tl.flip(v))


@triton.jit
def cross_entropy(logits, labels, losses, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(logits + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    label = tl.load(labels + row)
    top = tl.max(v, 0)
    chosen = tl.load(logits + row * columns + label).to(tl.float32)
    tl.store(losses + row, tl.log(tl.sum(tl.exp(v - top), 0)) + top - chosen)
