"""References of the sources about one chip's instructions and of the rare instructions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from corpus.rounding import fma, round_f32
from numpy.typing import NDArray

__all__ = [
    "bulk_copies", "bulk_reduce", "bulk_ring", "cluster_histogram", "cluster_rotate", "f6f4",
    "float_pairs", "fp4_conversions", "half_functions", "matrix_moves", "mma_b1_and", "mma_b1_xor",
    "mma_s4", "mma_u4s4", "mxf4", "mxf8", "nvf4", "odd_floats", "odd_integers", "odd_memory",
    "store_matrices", "tma_multicast", "tma_tiles", "wgmma", "wgmma_negated", "wide_accesses",
    "wmma_b1", "wmma_f64",
]

Array = NDArray[Any]
Args = dict[str, Any]
Result = dict[str, Array]
MASK = 0xFFFFFFFF


# --- matrix instructions --------------------------------------------------------------------------

def _nibbles(x: Array) -> Array:
    """Bytes [rows, n] to unsigned 4-bit values [rows, 2 n], low nibble first."""
    return np.stack([x & 15, x >> 4], -1).reshape(len(x), -1).astype(np.int64)


def _signed(nibbles: Array) -> Array:
    return (nibbles ^ 8) - 8


def mma_s4(x: Args) -> Result:
    a, b = _signed(_nibbles(x["a"])), _signed(_nibbles(x["b"]))
    return {"d": (a @ b.T).astype(np.int32)}


def mma_u4s4(x: Args) -> Result:
    return {"d": (_nibbles(x["a"]) @ _signed(_nibbles(x["b"])).T).astype(np.int32)}


def _bit_counts(a: Array, b: Array, operation: Any) -> Array:
    both = operation(a[:, None, :], b[None, :, :])
    return np.unpackbits(both, axis=-1).sum(-1, dtype=np.int32)


def mma_b1_xor(x: Args) -> Result:
    return {"d": _bit_counts(x["a"], x["b"], np.bitwise_xor)}


def mma_b1_and(x: Args) -> Result:
    return {"d": _bit_counts(x["a"], x["b"], np.bitwise_and)}


def wmma_b1(x: Args) -> Result:
    return {"different": mma_b1_xor(x)["d"], "shared": mma_b1_and(x)["d"]}


def wmma_f64(x: Args) -> Result:
    return {"d": x["a"] @ x["b"] + x["c"]}


def matrix_moves(x: Args) -> Result:
    first, second = x["x"][:8], x["x"][8:]

    def words(matrix: Array) -> Array:
        return np.ascontiguousarray(matrix).view(np.uint32).ravel()

    return {"out": np.stack([words(first), words(first), words(second), words(first.T),
                             words(second.T), words(second.T)])}


def store_matrices(x: Args) -> Result:
    first, second = (w.view(np.uint16).reshape(8, 8) for w in x["x"])
    return {"y": np.concatenate([first.T, second[::-1]])}


def _block_scaled(a: Array, b: Array, sa: Array, sb: Array) -> Result:
    """Rows times columns with one scale per row and block; the accumulator starts as 1 to 4."""
    blocks = sa.shape[1]
    scaled_a = a.reshape(16, blocks, -1) * sa[:, :, None]
    scaled_b = b.reshape(8, blocks, -1) * sb[:, :, None]
    start = 1 + np.arange(8)[None, :] % 2 + 2 * (np.arange(16)[:, None] >= 8)
    return {"d": (np.einsum("mbk,nbk->mn", scaled_a, scaled_b) + start).astype(np.float32)}


def _ue8m0(x: Array) -> Array:
    return np.exp2(x.astype(np.float64) - 127)


#: E2M1 by code.
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxf8(x: Args) -> Result:
    a, b = x["a"].astype(np.float64), x["b"].astype(np.float64)
    return _block_scaled(a, b, _ue8m0(x["sa"][:, :1]), _ue8m0(x["sb"][:, :1]))


def mxf4(x: Args) -> Result:
    a, b = _E2M1[_nibbles(x["a"])], _E2M1[_nibbles(x["b"])]
    return _block_scaled(a, b, _ue8m0(x["sa"][:, :2]), _ue8m0(x["sb"][:, :2]))


def nvf4(x: Args) -> Result:
    a, b = _E2M1[_nibbles(x["a"])], _E2M1[_nibbles(x["b"])]
    sa, sb = (x[n].view(ml_dtypes.float8_e4m3fn).astype(np.float64) for n in ("sa", "sb"))
    return _block_scaled(a, b, sa, sb)


def f6f4(x: Args) -> Result:
    """E3M2 has bias 3, no infinities and no NaN."""
    codes = x["a"].astype(np.int64)
    exponent, fraction = codes >> 2 & 7, codes & 3
    value = np.where(exponent == 0, fraction / 4 * 2.0 ** -2,
                     (1 + fraction / 4) * np.exp2(exponent - 3.0))
    a = np.where(codes & 32, -value, value)
    return {"d": (a @ _E2M1[x["b"] >> 2].T).astype(np.float32)}


def fp4_conversions(x: Args) -> Result:
    near = np.clip(x["x"], -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
    magnitude = np.searchsorted(_E2M1[:8], np.abs(near)).astype(np.uint8)
    code = magnitude | (np.signbit(near).astype(np.uint8) << 3)
    return {"packed": code[:, 0] | code[:, 1] << 4,
            "halves": _E2M1[_nibbles(x["codes"][:, None])].astype(np.float16)}


# --- Hopper ---------------------------------------------------------------------------------------

def cluster_histogram(x: Args) -> Result:
    return {"bins": np.bincount(x["x"] % 128, minlength=128).astype(np.uint32)}


def cluster_rotate(x: Args) -> Result:
    held = (x["x"] + np.arange(8)[:, None] % 4).reshape(2, 4, 64)
    return {"y": (np.roll(held, -1, axis=1)[:, :, ::-1] * 10 + 4).reshape(8, 64).astype(np.int32)}


def bulk_copies(x: Args) -> Result:
    return {"y": x["x"] * 3 + 1}


def bulk_ring(x: Args) -> Result:
    weights = np.arange(1, len(x["x"]) + 1)[:, None]
    return {"sums": (x["x"][:, :64] * weights - x["x"][:, 64:]).sum(0).astype(np.float32)}


def wgmma(x: Args) -> Result:
    wide = np.int64 if x["out"].dtype == np.int32 else np.float64
    return {"out": (x["a"].astype(wide) @ x["b"].astype(wide).T).astype(x["out"].dtype)}


def wgmma_negated(x: Args) -> Result:
    return {"out": -wgmma(x)["out"]}


def tma_tiles(x: Args) -> Result:
    padded = np.zeros((64, 96), np.float32)
    padded[:50, :72] = x["x"]
    return {"y": 3 * x["x"] + 1, "sums": padded.reshape(4, 16, 3, 32).sum(1)}


def tma_multicast(x: Args) -> Result:
    """Blocks 0 and 1 get the first sixteen rows, 2 and 3 the others, plus their rank."""
    tiles = x["x"].reshape(2, 1, 16, 64)
    return {"y": (tiles + np.arange(2, dtype=np.int32)[None, :, None, None]).reshape(4, 16, 64)}


def bulk_reduce(x: Args) -> Result:
    return {"sums": x["sums"] + (x["x"] + 1).sum(0, dtype=np.int32),
            "totals": x["totals"] + 2 * x["y"].sum(0),
            "least": np.minimum(x["least"], x["x"][:, ::-1].min(0))}


# --- Blackwell ------------------------------------------------------------------------------------

def float_pairs(x: Args) -> Result:
    a, b, c = x["x"], x["y"], x["z"]
    cut = [[_fma_rz(*(float(v[i, j]) for v in (a, b, c))) for j in (0, 1)] for i in range(len(a))]
    return {"out": np.stack([fma(a, b, c, np.float32), a + b, a * b,
                             np.array(cut).astype(np.float32)], 1)}


def wide_accesses(x: Args) -> Result:
    v = x["x"].reshape(4, 32, 8)
    largest = np.abs(v[..., :3].max(-1)).max(1, keepdims=True)
    least = v[..., 3:6].min(-1).min(1, keepdims=True)
    extremes = np.stack(np.broadcast_arrays(largest, least), -1)
    return {"y": x["x"][:, ::-1].copy(),
            "extremes": np.repeat(extremes, 32, 1).reshape(128, 2)}


# --- rare integer instructions --------------------------------------------------------------------

def _s(x: int) -> int:
    return (x & MASK) - (1 << 32) if x & 0x80000000 else x & MASK


def _s24(x: int) -> int:
    return ((x & 0xFFFFFF) ^ 0x800000) - 0x800000


def _lop3(x: int, y: int, z: int, table: int) -> int:
    return sum((table >> ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)) & 1) << i
               for i in range(32))


def _field(x: int, y: int, z: int, signed: bool) -> int:
    position, length = y & 0xFF, z & 0xFF
    sign = x >> min(position + length - 1, 31) & 1 if signed and length else 0
    return sum((x >> position + i & 1 if i < length and position + i < 32 else sign) << i
               for i in range(32))


def _permuted(x: int, y: int, selectors: list[int]) -> int:
    """`selectors` from the highest byte down, as the ISA's tables are written."""
    source = (y << 32 | x).to_bytes(8, "little")
    return int.from_bytes(bytes(source[s] for s in reversed(selectors)), "little")


def _clamped(x: int) -> int:
    return min(max(x, -(1 << 31)), (1 << 31) - 1)


def _nth_set(mask: int, base: int, offset: int) -> int:
    """fns with a positive offset: the offset-th set bit from `base` up."""
    found = [i for i in range(base, 32) if mask >> i & 1]
    return found[offset - 1] if len(found) >= offset else MASK


def _mask_of_width(start: int, width: int) -> int:
    """bmsk.clamp: `width` ones from bit `start`; a start past the word leaves nothing."""
    return 0 if start >= 32 else (1 << min(start + width, 32)) - (1 << start)


def _odd(x: int, y: int, z: int) -> list[int]:
    mode, shift = z & 3, min(z, 32)
    extended = (x & (1 << (y & 31)) - 1) if y & 31 else x
    sign = x >> ((y & 31) - 1) & 1 if y & 31 else 0
    inverted = x ^ MASK if x >> 31 else x
    return [
        _lop3(x, y, z, 0x96), _lop3(x, y, z, 0xD8), _field(x, y, z, False), _field(x, y, z, True),
        (y & ~(0x7FF << 5)) | (x & 0x7FF) << 5, x.bit_length() - 1,
        32 - inverted.bit_length() if inverted else MASK, int(x == 0), x if _s(z) >= 0 else y,
        _permuted(x, y, [mode + 3, mode + 2, mode + 1, mode]), _permuted(x, y, [mode] * 4),
        _permuted(x, y, [max(i, mode) for i in (3, 2, 1, 0)]),
        (_s(x) * _s(y) >> 32) + z, (x & 0xFFFFFF) * (y & 0xFFFFFF) + z, _s24(x) * _s24(y) >> 16,
        _clamped(_s(x) + _s(y)), _clamped(_s(x) - _s(y)),
        (y << 32 | x) << shift >> 32, (y << 32 | x) >> (z & 31),
        (x & 0xFFFF) * (y >> 16 & 0xFF) + (x >> 16) * (y >> 24) + z,
        extended - (sign << (y & 31)) if y & 31 else extended,
        _mask_of_width(x, y), MASK if _s(x) <= _s(y) and z % 2 == 1 else 0, _nth_set(x, 3, 2),
    ]


def odd_integers(x: Args) -> Result:
    rows = [[word & MASK for word in _odd(*map(int, triple))]
            for triple in zip(x["a"], x["b"], x["c"], strict=True)]
    return {"out": np.array(rows, np.uint32)}


# --- rare float instructions ----------------------------------------------------------------------

NAN = math.nan
TINY = 2.0 ** -126


def _flush(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < TINY else x


def _special_or(value: float, exact: Fraction | None, mode: str) -> float:
    """`value` is right for specials and zeros; everything else is rounded from `exact`."""
    if exact is None or exact == 0:
        return value
    return round_f32(exact, mode)


def _finite(*values: float) -> bool:
    return all(math.isfinite(v) for v in values)


def _sum(x: float, y: float, mode: str) -> float:
    if not _finite(x, y):
        return x + y
    total = Fraction(x) + Fraction(y)
    cancelled = total == 0 and (x != 0 or math.copysign(1, x) != math.copysign(1, y))
    return -0.0 if cancelled and mode == "rm" else _special_or(x + y, total, mode)


def _times(x: float, y: float, mode: str) -> float:
    return _special_or(x * y, Fraction(x) * Fraction(y) if _finite(x, y) else None, mode)


def _fma_rz(x: float, y: float, z: float) -> float:
    if not _finite(x, y, z):
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    zero = math.copysign(0.0, x) * math.copysign(1.0, y) + math.copysign(0.0, z)
    return round_f32(exact, "rz") if exact else (zero if z == 0 else 0.0)


def _divided(x: float, y: float) -> float:
    sign = math.copysign(1.0, x) * math.copysign(1.0, y)
    if math.isnan(x) or math.isnan(y) or (x == y == 0) or (math.isinf(x) and math.isinf(y)):
        return NAN
    if y == 0 or math.isinf(x):
        return sign * math.inf
    return sign * 0.0 if x == 0 or math.isinf(y) else round_f32(Fraction(x) / Fraction(y), "rz")


def _root_rm(x: float) -> float:
    if math.isnan(x) or x < 0:
        return NAN
    if x == 0 or math.isinf(x):
        return x
    near = np.float32(math.sqrt(x))
    above = Fraction(float(near)) ** 2 > Fraction(x)
    return float(np.nextafter(near, np.float32(0)) if above else near)


def _xorsign_max(x: float, y: float) -> float:
    largest = abs(y) if math.isnan(x) else abs(x) if math.isnan(y) else max(abs(x), abs(y))
    return math.copysign(largest, math.copysign(1, x) * math.copysign(1, y))


def _least_nan(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return NAN
    return math.copysign(x, -1 if math.copysign(1, x) < 0 or math.copysign(1, y) < 0 else 1) \
        if x == y else min(x, y)


def _odd_float_row(x: float, y: float) -> list[float]:
    saturated = _flush(_times(_flush(x), _flush(y), "rn"))
    trunc = float(np.trunc(np.float32(x)))
    return [
        _sum(x, y, "rz"), _flush(_sum(_flush(x), _flush(y), "rm")), _times(x, y, "rp"),
        0.0 if math.isnan(saturated) or saturated <= 0 else min(saturated, 1.0), _fma_rz(x, y, x),
        math.copysign(y, x), _least_nan(x, y), _xorsign_max(x, y), _flush(-x), trunc,
        _divided(x, y), _root_rm(x),
    ]


def _tests(x: float) -> int:
    number, finite = not math.isnan(x), math.isfinite(x)
    subnormal = 0 < abs(x) < TINY
    flags = [finite, math.isinf(x), number, not number, finite and not subnormal, subnormal]
    return sum(bool(f) << (5 - i) for i, f in enumerate(flags))


def odd_floats(x: Args) -> Result:
    pairs = [(float(a), float(b)) for a, b in zip(x["a"], x["b"], strict=True)]
    with np.errstate(all="ignore"):
        out = np.array([_odd_float_row(*p) for p in pairs]).astype(np.float32)
    words = [[_tests(a), 5 if a < b else 109] for a, b in pairs]
    return {"out": out, "words": np.array(words, np.uint32)}


def odd_memory(x: Args) -> Result:
    padded = np.zeros(256, np.float32)
    padded[:x["n"]] = x["x"]
    padded[::4] += x["x"][0]
    return {"y": padded}


def half_functions(x: Args) -> Result:
    v = x["x"].astype(np.float64)
    shifted = (np.abs(x["x"]) + np.float16(0.25)).astype(np.float64)
    rows = [np.exp(v), np.log(shifted), 1 / np.sqrt(shifted), np.sin(v), np.tanh(v), np.exp2(v)]
    return {"out": np.stack(rows, 1).astype(np.float16),
            "tangents": np.tanh(v[:, 0]).astype(np.float32)}
