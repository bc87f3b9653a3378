"""References of the Triton kernels."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from corpus.rounding import narrow
from numpy.typing import NDArray

__all__ = [
    "adam", "arg_extremes", "atomics", "attention", "attention_causal", "cross_entropy", "dropout",
    "embedding", "gather", "gelu_quick", "histogram_int", "integer_mix", "layer_norm_full",
    "linear_gelu", "lock_update", "quantise", "random_words", "reductions", "rms_norm", "rotary",
    "scans", "sorting", "transpose", "welford",
]

Array = NDArray[Any]
Args = dict[str, Any]
Result = dict[str, Array]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def wide(x: Array) -> Array:
    return x.astype(np.float64)


# --- products -------------------------------------------------------------------------------------

def linear_gelu(x: Args) -> Result:
    v = wide(x["a"]) @ wide(x["b"]) + x["bias"]
    return {"d": narrow(0.5 * v * (1 + _erf(v / math.sqrt(2))), ml_dtypes.bfloat16)}


def _attended(x: Args, causal: bool) -> Result:
    scores = wide(x["q"]) @ wide(x["k"]).swapaxes(1, 2) * float(x["scale"])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ wide(x["v"])
    return {"o": narrow(mixed, x["o"].dtype)}


def attention(x: Args) -> Result:
    return _attended(x, causal=False)


def attention_causal(x: Args) -> Result:
    return _attended(x, causal=True)


# --- rows -----------------------------------------------------------------------------------------

def layer_norm_full(x: Args) -> Result:
    v = wide(x["x"])
    mean = v.mean(1, keepdims=True)
    scale = 1 / np.sqrt(((v - mean) ** 2).mean(1, keepdims=True) + float(x["epsilon"]))
    return {"y": narrow((v - mean) * scale * wide(x["gain"]) + wide(x["bias"]), np.float16),
            "mean_out": mean[:, 0].astype(np.float32), "scale_out": scale[:, 0].astype(np.float32)}


def rms_norm(x: Args) -> Result:
    v = wide(x["x"])
    scale = 1 / np.sqrt((v ** 2).mean(1, keepdims=True) + float(x["epsilon"]))
    return {"y": narrow(v * scale * wide(x["gain"]), ml_dtypes.bfloat16)}


def welford(x: Args) -> Result:
    v = wide(x["x"])
    return {"means": v.mean(1).astype(np.float32), "variances": v.var(1).astype(np.float32)}


def reductions(x: Args) -> Result:
    v = x["x"]
    return {"row_sums": v.sum(1, dtype=np.int32), "column_sums": v.sum(0, dtype=np.int32),
            "row_tops": v.max(1), "column_least": v.min(0)}


def arg_extremes(x: Args) -> Result:
    return {"largest": x["x"].argmax(1).astype(np.int32),
            "least": x["x"].argmin(1).astype(np.int32)}


def scans(x: Args) -> Result:
    states, state = np.empty((2, 128)), np.zeros(2)
    for i in range(128):
        state = wide(x["gates"])[:, i] * state + x["x"][:, i]
        states[:, i] = state
    return {"sums": x["x"].cumsum(1, dtype=np.int32), "states": states.astype(np.float32)}


def sorting(x: Args) -> Result:
    return {"ordered": np.sort(x["x"], axis=1)[:, ::-1].copy(), "flipped": x["x"][:, ::-1].copy()}


def cross_entropy(x: Args) -> Result:
    v = wide(x["logits"])
    top = v.max(1)
    chosen = v[np.arange(len(v)), x["labels"]]
    losses = np.log(np.exp(v - top[:, None]).sum(1)) + top - chosen
    return {"losses": losses.astype(np.float32)}


# --- elements -------------------------------------------------------------------------------------

def gelu_quick(x: Args) -> Result:
    v = wide(x["x"])
    return {"exact": (0.5 * v * (1 + _erf(v / math.sqrt(2)))).astype(np.float32),
            "quick": (v / (1 + np.exp(-1.702 * v))).astype(np.float32)}


def _philox(seed: int, counters: Array) -> list[Array]:
    """Philox4x32-10 (Salmon et al., 2011) with the seed as key and the offset as counter."""
    low = np.uint64(0xFFFFFFFF)
    key = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)]
    c = [counters.astype(np.uint64), *(np.zeros(len(counters), np.uint64) for _ in range(3))]
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [q >> np.uint64(32) ^ c[1] ^ key[0], q & low,
             p >> np.uint64(32) ^ c[3] ^ key[1], p & low]
        key = [key[0] + np.uint64(0x9E3779B9) & low, key[1] + np.uint64(0xBB67AE85) & low]
    return [word.astype(np.uint32).view(np.int32) for word in c]


def random_words(x: Args) -> Result:
    return {"out": np.stack(_philox(int(x["seed"]), np.arange(512)), 1)}


def dropout(x: Args) -> Result:
    word = _philox(int(x["seed"]), np.arange(500))[0]
    uniform = np.where(word < 0, ~word, word).astype(np.float32) * np.float32(4.6566127342e-10)
    return {"y": np.where(uniform < x["keep"], x["x"] / x["keep"], np.float32(0))}


def transpose(x: Args) -> Result:
    return {"y": np.ascontiguousarray(x["x"].T)}


def embedding(x: Args) -> Result:
    return {"y": x["table"][x["tokens"]]}


def gather(x: Args) -> Result:
    return {"y": np.take_along_axis(x["x"], x["index"], 1)}


def histogram_int(x: Args) -> Result:
    return {"bins": np.bincount(x["x"].ravel(), minlength=64).astype(np.int32)}


def atomics(x: Args) -> Result:
    v = x["x"]
    return {"slots": np.bincount(v, minlength=8).astype(np.int32),
            "top": np.array([max(-5, v.max())], np.int32),
            "least": np.array([min(99, v.min())], np.int32),
            "floats": np.array([v[v % 4 == s].sum() for s in range(4)], np.float16)}


def lock_update(x: Args) -> Result:
    return {"lock": np.zeros(1, np.int32), "total": np.array([x["x"].sum()], np.int32),
            "count": np.array([5], np.int32)}


def rotary(x: Args) -> Result:
    v, c, s = wide(x["x"]), wide(x["cosines"]), wide(x["sines"])
    even, odd = v[:, ::2], v[:, 1::2]
    turned = np.stack([even * c - odd * s, even * s + odd * c], -1).reshape(32, 64)
    return {"y": narrow(turned, ml_dtypes.bfloat16)}


def quantise(x: Args) -> Result:
    v = wide(x["x"])
    # Triton makes the division by a constant a product with its reciprocal, rounded to float32;
    # the quotient near a tie between two FP8 values depends on that last bit.
    scales = np.abs(v).max(1).astype(np.float32) * np.float32(1 / 448)
    return {"y": (v / scales[:, None]).astype(np.float32).astype(ml_dtypes.float8_e4m3fn),
            "scales": scales}


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integer_mix(x: Args) -> Result:
    results = []
    for a, b in zip(x["a"].tolist(), x["b"].tolist(), strict=True):
        q = _quotient(a, b)
        high = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) >> 32
        results.append((q ^ (a - q * b) ^ (a >> (b & 31)) ^ high ^ (a * b >> 7)) & 0xFFFFFFFF)
    return {"out": np.array(results, np.uint32).view(np.int32)}


def adam(x: Args) -> Result:
    g, beta1, beta2 = wide(x["g"]), float(x["beta1"]), float(x["beta2"])
    first = beta1 * x["m"] + (1 - beta1) * g
    second = beta2 * x["v"] + (1 - beta2) * g * g
    weight = wide(x["w"])
    step = first / (np.sqrt(second) + float(x["epsilon"])) + float(x["decay"]) * weight
    return {"w": narrow(weight - float(x["rate"]) * step, ml_dtypes.bfloat16),
            "m": first.astype(np.float32), "v": second.astype(np.float32)}
