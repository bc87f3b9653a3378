"""References of the general CUDA sources: products, groups, atomics, copies, mathematics."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from corpus.rounding import directed, fma, narrow, tf32
from numpy.typing import NDArray

__all__ = [
    "atomic_halves", "atomic_kinds", "atomic_product", "barrier_copy", "barrier_reductions",
    "bf162_arithmetic", "block_scan", "block_sum", "butterflies", "compact_positive", "dot_f64",
    "double_functions", "float_functions", "fp8_decode", "fp8_encode", "gelu", "group_copy",
    "half2_arithmetic", "half_conversions", "histogram", "lane_chain", "last_block_sum",
    "layer_norm", "look_back_scan", "matmul", "matmul_tf32", "matmul_transposed", "named_barriers",
    "softmax", "ticket_lock", "tile_pipeline", "tile_reduce", "tile_scan", "tiled_matmul", "votes",
    "wmma_m32n8k16", "wmma_tails",
]

Array = NDArray[Any]
Args = dict[str, Any]
Result = dict[str, Array]


# --- products -------------------------------------------------------------------------------------

def product(a: Array, b: Array, like: Array) -> Array:
    """A B in float64 or int64, in the type of `like` (integers wrap)."""
    wide = np.int64 if like.dtype.kind in "iu" else np.float64
    return (a.astype(wide) @ b.astype(wide)).astype(like.dtype)


def matmul(x: Args) -> Result:
    return {"d": product(x["a"], x["b"], x["d"])}


tiled_matmul = matmul


def matmul_transposed(x: Args) -> Result:
    return {"d": product(x["a"], x["b"].T, x["d"])}


def matmul_tf32(x: Args) -> Result:
    return {"d": product(tf32(x["a"]), tf32(x["b"]), x["d"])}


def wmma_tails(x: Args) -> Result:
    exact = x["a"].astype(np.float64) @ x["b"].astype(np.float64)
    return {"d": (float(x["alpha"]) * exact + float(x["beta"]) * x["c"]).astype(np.float32)}


def wmma_m32n8k16(x: Args) -> Result:
    """`a` is stored K x M, `b` N x K, `d` N x M."""
    return {"d": product(x["b"], x["a"], x["d"])}


# --- groups and warps -----------------------------------------------------------------------------

def tile_reduce(x: Args) -> Result:
    padded = np.zeros(192, np.int32)
    padded[:x["n"]] = x["x"]
    tiles = padded.reshape(24, 8)
    return {"sums": tiles.sum(1, dtype=np.int32), "largest": tiles.max(1)}


def compact_positive(x: Args) -> Result:
    kept = x["x"][x["x"] > 0]
    x["out"][:len(kept)] = kept
    return {"out": x["out"], "count": np.array([len(kept)], np.uint32)}


def block_sum(x: Args) -> Result:
    blocks, threads = x["row"]["grid"][0], x["row"]["block"][0]
    owner = np.arange(len(x["x"])) // threads % blocks
    return {"sums": np.array([x["x"][owner == b].astype(np.float64).sum() for b in range(blocks)],
                             np.float32)}


def tile_scan(x: Args) -> Result:
    tiles = x["x"].reshape(-1, 16)
    label = tiles & 3
    same = label[:, :, None] == label[:, None, :]
    before = np.tril(same, -1).sum(2)
    ranks = same.sum(2) * 100 + before
    return {"scan": tiles.cumsum(1, dtype=np.uint32).ravel(),
            "ranks": ranks.astype(np.uint32).ravel()}


def block_scan(x: Args) -> Result:
    padded = np.zeros(256, np.int32)
    padded[:x["n"]] = x["x"]
    return {"scan": padded.reshape(2, 128).cumsum(1, dtype=np.int32).ravel()[:x["n"]]}


def butterflies(x: Args) -> Result:
    z = x["z"].reshape(4, 32)
    lane = np.arange(32)
    down = np.where(lane % 16 + 3 < 16, lane + 3, lane)
    folded = [np.add.reduce(z, 1, dtype=np.uint32), z.max(1), np.bitwise_and.reduce(z | 3, 1),
              np.bitwise_xor.reduce(z, 1), z.view(np.int32).min(1).view(np.uint32)]
    words = np.stack([z[:, (lane * 7 + 3) % 32], z[:, lane // 8 * 8 + 5], z[:, down],
                      np.repeat(np.bitwise_xor.reduce(folded, 0)[:, None], 32, 1)], -1)
    return {"sums": x["x"].reshape(4, 32).sum(1, dtype=np.float32),
            "tops": x["y"].reshape(4, 32).max(1), "words": words.reshape(128, 4)}


def _mask(bits: Array) -> Array:
    """Booleans [..., 32] to words: lane i is bit i."""
    return (bits.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(-1).astype(np.uint32)


def votes(x: Args) -> Result:
    v = x["x"].reshape(4, 32)
    lane = np.arange(32)
    odd = np.tile(lane % 2 == 1, (4, 1))
    out = np.zeros((4, 32, 8), np.uint32)
    positive = _mask(v > 0)
    out[..., 0] = positive[:, None]
    out[..., 1] = ((v == 7).any(1) * 2 + (v > -100).all(1))[:, None]
    out[..., 2] = _mask((v & 7)[:, :, None] == (v & 7)[:, None, :])
    # Block 0 multiplies by zero, so all its lanes agree; -1 and 0 do not.
    high = (v >> 20) * np.array([[0], [0], [1], [1]])
    agree = (high == high[:, :1]).all(1)
    out[..., 3] = np.where(agree, np.uint32(4), np.uint32(0))[:, None]
    out[..., 4] = _mask((v & 3)[:, :, None] == (v & 3)[:, None, :])
    low = np.array([int(w).bit_count() + 1000 for w in _mask((v & 2 != 0) & ~odd)], np.uint32)
    out[..., 5] = np.where(odd, _mask((v & 1 != 0) & odd)[:, None], low[:, None])
    out[..., 6] = np.where(odd, np.uint32(0xAAAAAAAA), np.uint32(0x55555555))
    out[..., 7] = (v > 0).cumsum(1) - (v > 0)
    return {"out": out.reshape(128, 8)}


# --- atomics --------------------------------------------------------------------------------------

def histogram(x: Args) -> Result:
    return {"bins": np.bincount(x["x"], minlength=256).astype(np.uint32)}


def atomic_product(x: Args) -> Result:
    products = x["products"]
    for value, group in zip(x["x"], x["group"], strict=True):
        products[group] = int(products[group]) * int(value) & 0xFFFFFFFF
    return {"products": products}


def atomic_kinds(x: Args) -> Result:
    v, words, count = x["x"], x["words"], len(x["x"])
    words[0], words[1] = v.min(), v.max()
    words[2] = np.bitwise_and.reduce(v | 0xFF)
    words[3] = np.bitwise_or.reduce(v & 0xF0F0)
    words[4] = np.bitwise_xor.reduce(v)
    words[5] = count % 1001
    words[6] = (-count) % 701
    words[7] = -(v & 7).sum()
    words[8:10].view(np.uint32)[:] = v.view(np.uint32).min(), v.view(np.uint32).max()
    words[10] = v[5]
    unsigned = v.view(np.uint32).astype(np.uint64)
    longs = np.array([(unsigned << np.uint64(8)).sum(dtype=np.uint64), unsigned.max() * 3,
                      0x123456789ABCDEF, np.bitwise_xor.reduce(v.astype(np.int64).view(np.uint64))],
                     np.uint64)
    floats = np.array([(v & 1023).sum(), v.max() * 0.5], np.float32)
    return {"words": words, "floats": floats, "longs": longs,
            "doubles": np.array([v.sum(dtype=np.int64) * 0.25])}


def atomic_halves(x: Args) -> Result:
    at = np.arange(int(x["n"]))
    results = {}
    for name, values, slots in (("sums", x["x"], 4), ("bf_sums", x["y"], 8)):
        sums = [values[at % slots == s].astype(np.float64).sum(0) for s in range(slots)]
        results[name] = np.array(sums).astype(values.dtype)
    low = x["x"][:, 0].astype(np.float64)
    results["single"] = np.array([low[at % 2 == s].sum() for s in (0, 1)], np.float16)
    return results


# --- copies and barriers --------------------------------------------------------------------------

def tile_pipeline(x: Args) -> Result:
    return {"out": 3 * x["x"] + np.roll(x["x"], -1, axis=1)}


def barrier_copy(x: Args) -> Result:
    return {"out": x["x"][:, ::-1].copy()}


def group_copy(x: Args) -> Result:
    return {"out": x["x"][1:].reshape(2, 256)[:, np.arange(256) ^ 21]}


def barrier_reductions(x: Args) -> Result:
    v = x["x"]
    each = (v > 0).sum(1) * 4 + (v > -90).all(1) * 2 + (v == 77).any(1)
    return {"out": np.repeat(each.astype(np.int32)[:, None], v.shape[1], 1)}


def named_barriers(x: Args) -> Result:
    rounds = np.arange(1, len(x["x"]) + 1, dtype=np.int32)[:, None]
    return {"y": x["x"][:, ::-1] * rounds}


def ticket_lock(x: Args) -> Result:
    blocks, rounds = x["row"]["grid"][0], int(x["rounds"])
    taken = blocks * rounds
    return {"lock": np.array([taken, taken], np.uint32),
            "state": np.array([taken, sum(range(blocks)) * rounds], np.uint32)}


def lane_chain(x: Args) -> Result:
    sums, total = [], 0
    for value in x["x"]:
        total = (total * 3 + int(value)) & 0xFFFFFFFF
        sums.append(total)
    return {"y": np.array(sums, np.uint32).view(np.int32)}


def last_block_sum(x: Args) -> Result:
    partial = block_sum(x)["sums"]
    return {"partial": partial, "total": np.array([x["x"].astype(np.float64).sum()], np.float32)}


def look_back_scan(x: Args) -> Result:
    scan = x["x"].cumsum(dtype=np.uint32)
    ends = scan.reshape(-1, 128)[:, -1].astype(np.uint64)
    return {"y": scan, "state": ends | np.uint64(2 << 32),
            "counter": np.array([len(ends)], np.uint32)}


# --- mathematics ----------------------------------------------------------------------------------

def softmax(x: Args) -> Result:
    v = x["x"].astype(np.float64)
    e = np.exp(v - v.max(1, keepdims=True))
    return {"y": (e / e.sum(1, keepdims=True)).astype(np.float32)}


def layer_norm(x: Args) -> Result:
    v = x["x"].astype(np.float64)
    centred = v - v.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred ** 2).mean(1, keepdims=True) + float(x["epsilon"]))
    return {"y": (centred * scale * x["gain"] + x["bias"]).astype(np.float32)}


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: Args) -> Result:
    v = x["x"].astype(np.float64)
    tangent = np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3))
    return {"exact": (0.5 * v * (1 + _erf(v / math.sqrt(2)))).astype(np.float32),
            "approximate": (0.5 * v * (1 + tangent)).astype(np.float32)}


def float_functions(x: Args) -> Result:
    v = x["x"].astype(np.float64)
    p = (np.abs(x["x"]) + np.float32(0.125)).astype(np.float64)
    steps = np.rint(v) + np.floor(v) * 16 + np.ceil(v) * 256 + np.trunc(v) * 4096
    columns = [np.sin(v), np.cos(v), np.log(p), np.log2(p), np.exp2(v), p ** v, np.sqrt(p), 1 / p,
               np.cbrt(v), np.arctan2(v, p), v / p, np.exp(v), np.sin(v), np.fmod(v, 0.75), steps,
               v / p]
    return {"out": np.stack(columns, 1).astype(np.float32)}


def double_functions(x: Args) -> Result:
    v = x["x"]
    p = np.abs(v) + 0.125
    columns = [np.exp(v), np.log(p), np.sqrt(p), v / p, np.sin(v), 1 / np.sqrt(p)]
    return {"out": np.stack(columns, 1)}


def dot_f64(x: Args) -> Result:
    blocks, threads = x["row"]["grid"][0], x["row"]["block"][0]
    owner = np.arange(len(x["x"])) // threads % blocks
    terms = x["x"] * x["y"]
    return {"partial": np.array([math.fsum(terms[owner == b]) for b in range(blocks)])}


# --- narrow formats -------------------------------------------------------------------------------

def _least(a: Array, b: Array, largest: bool = False) -> Array:
    """min.f16x2 and max.f16x2: a number beats NaN, -0 is below +0."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    below = (a64 < b64) | ((a64 == b64) & np.signbit(a64))
    pick_a = ~below if largest else below
    pick_a = np.where(np.isnan(a64), False, np.where(np.isnan(b64), True, pick_a))
    return np.where(pick_a, a, b)


def _arithmetic(x: Args) -> tuple[Array, Array, Array, dict[str, Array]]:
    a, b, c = x["x"], x["y"], x["z"]
    one, zero = np.ones_like(a), np.full_like(a, -0.0)
    return a, b, c, {
        "add": fma(a, one, b, a.dtype), "sub": fma(a, one, -b, a.dtype),
        "mul": narrow(_quiet_product(a, b), a.dtype), "fma": fma(a, b, c, a.dtype),
        "min": _least(a, b), "max": _least(a, b, largest=True), "zero": zero,
    }


def _quiet_product(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return a.astype(np.float64) * b.astype(np.float64)


def half2_arithmetic(x: Args) -> Result:
    a, b, _, r = _arithmetic(x)
    with np.errstate(invalid="ignore"):
        total = np.where(np.isnan(r["add"]), 0, np.clip(r["add"], 0, 1)).astype(np.float16)
        total = np.where(total == 0, np.float16(0), total)
        relu = np.where(r["fma"] > 0, r["fma"], np.where(np.isnan(r["fma"]), r["fma"], 0))
        less = (a < b).astype(np.float16)
    lows = np.stack([a[:, 0], b[:, 0]], 1)
    numbers = ~np.isnan(a).any(1)
    equal = np.repeat(numbers.astype(np.float16)[:, None], 2, 1)
    rows = [r["add"], r["sub"], r["mul"], r["fma"], r["min"], r["max"], np.abs(a), total,
            relu.astype(np.float16), less, lows, equal]
    return {"out": np.stack(rows, 1)}


def bf162_arithmetic(x: Args) -> Result:
    a, b, _, r = _arithmetic(x)
    greater = (a.astype(np.float32) > b.astype(np.float32)).astype(a.dtype)
    rows = [r["add"], r["mul"], r["fma"], r["min"], r["max"], -np.abs(a), greater, r["sub"]]
    return {"out": np.stack(rows, 1)}


def _wrapped(x: Array) -> Array:
    return (x.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def half_conversions(x: Args) -> Result:
    v, f16, bf16 = x["x"], np.float16, ml_dtypes.bfloat16
    halves = [narrow(v.astype(np.float64), f16), directed(v, f16, "rz"), directed(v, f16, "rm"),
              directed(v, f16, "rp")]
    cut = (v.view(np.uint32) >> 16).astype(np.uint16)
    words = [*(h.view(np.uint16) for h in halves),
             narrow(v.astype(np.float64), bf16).view(np.uint16), cut]
    product = _wrapped(np.trunc(v).astype(np.int64) * 16777259)
    limited = np.clip(np.rint(halves[0].astype(np.float64)), -(2.0 ** 31), 2.0 ** 31 - 1)
    integers = [np.rint(v), np.trunc(v), np.floor(v), np.ceil(v), limited]
    columns = [*(i.astype(np.int64).astype(np.int32) for i in integers),
               product.astype(np.float32).view(np.int32)]
    return {"words": np.stack(words, 1), "integers": np.stack(columns, 1)}


def fp8_encode(x: Args) -> Result:
    v = x["x"]
    return {"e4m3": np.clip(v, -448, 448).astype(ml_dtypes.float8_e4m3fn),
            "e5m2": np.clip(v, -57344, 57344).astype(ml_dtypes.float8_e5m2)}


def fp8_decode(x: Args) -> Result:
    return {"a": x["e4m3"].astype(np.float16), "b": x["e5m2"].astype(np.float16)}
