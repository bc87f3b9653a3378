"""Attention forward in Triton: one head per program column, online softmax, causal or not."""

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, length, scale, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr,
              CAUSAL: tl.constexpr):
    head = tl.program_id(1) * length * WIDTH
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.arange(0, WIDTH)
    queries = tl.load(q + head + rows[:, None] * WIDTH + j[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    mixed = tl.zeros((BM, WIDTH), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else length
    for start in range(0, end, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + head + columns[None, :] * WIDTH + j[:, None])
        s = tl.dot(queries, keys) * (scale * 1.44269504)
        if CAUSAL:
            s = tl.where(rows[:, None] >= columns[None, :], s, -float("inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        values = tl.load(v + head + columns[:, None] * WIDTH + j[None, :])
        mixed = tl.dot(p.to(values.dtype), values, mixed * shrink[:, None])
        top = new_top
    tl.store(o + head + rows[:, None] * WIDTH + j[None, :],
             (mixed / total[:, None]).to(o.dtype.element_ty))
