"""References of the sources that are whole programs, control flow, memory spaces and integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from corpus.rounding import fma
from numpy.typing import NDArray

__all__ = [
    "bit_operations", "bitonic_sort", "cache_operators", "collatz", "complex_powers", "divide64",
    "dynamic_shared", "fft256", "function_table", "generic_pointers", "interpreter", "jump_table",
    "life", "local_sort", "mandelbrot", "n_body", "polynomial", "recursion", "sha256_block",
    "sparse_product", "struct_calls", "tables", "transpose_bytes", "unaligned_bytes",
    "wide_integers",
]

Array = NDArray[Any]
Args = dict[str, Any]
Result = dict[str, Array]
MASK, MASK64 = 0xFFFFFFFF, (1 << 64) - 1


def s32(x: int) -> int:
    """The low 32 bits as a signed integer."""
    return ((x & MASK) ^ 0x80000000) - 0x80000000


def quotient(a: int, b: int) -> int:
    """Division towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# --- calls and control flow -----------------------------------------------------------------------

def complex_powers(x: Args) -> Result:
    v = x["x"][:, 0].astype(np.complex128) + 1j * x["x"][:, 1]
    powers = v ** 0
    for k in range(1, 4):
        powers = np.where(np.arange(len(v)) % 4 >= k, powers * v, powers)
    return {"y": np.stack([powers.real, powers.imag], 1).astype(np.float32) + np.float32(0)}


def struct_calls(x: Args) -> Result:
    constant = np.frombuffer(x["constant"], np.uint32)
    out = x["x"].copy()
    for i, row in enumerate(x["x"]):
        out[i, :6] = (np.roll(row[:6], -(i % 6)) + np.arange(6, dtype=np.uint32)) ^ constant[:6]
        out[i, 6:] = (row[6:].view(np.float64) * 2 + constant[6:].view(np.float64)).view(np.uint32)
    return {"y": out}


def _recursive(n: int, depth: int) -> int:
    if n < 2 or depth > 12:
        return n + depth
    return _recursive(n // 2, depth + 1) + 3 * _recursive(n // 3, depth + 1)


def recursion(x: Args) -> Result:
    return {"y": np.array([_recursive(int(v), 0) & MASK for v in x["x"]], np.uint32)}


def function_table(x: Args) -> Result:
    a, b = x["a"], x["b"]
    return {"out": np.choose(x["which"] & 3, [a + b, a - b, a * b, a | b])}


_STEPS: list[Callable[[int, int], tuple[int, int]]] = [
    lambda a, b: (a + b, b), lambda a, b: (a ^ b << 3, b), lambda a, b: (a, a - b),
    lambda a, b: (a * 17 + 1, b), lambda a, b: (a, b >> 2 | a << 30), lambda a, b: (min(a, b), b),
    lambda a, b: (a, max(a, b)), lambda a, b: ((a & MASK).bit_count(), b), lambda a, b: (a, ~b),
    lambda a, b: (a & 0xFFFF, b), lambda a, b: (b, a), lambda a, b: (a, b + (a >> 1)),
]


def interpreter(x: Args) -> Result:
    results = []
    for i, start in enumerate(x["x"]):
        a, b = int(start), i
        for code in x["program"]:
            a, b = map(s32, _STEPS[(int(code) + i) % 12](a, b))
        results.append(s32(a * 31 + b))
    return {"y": np.array(results, np.int32)}


def collatz(x: Args) -> Result:
    return {"steps": np.array([_collatz_as_written(int(v), int(x["limit"])) for v in x["x"]],
                              np.int32)}


def _collatz_as_written(v: int, limit: int) -> int:
    """An odd step onto a multiple of 16 takes the four halvings with it: five steps at once."""
    if v == 0:
        return -1
    count = 0
    while v != 1:
        if count == limit:
            return -2
        odd = v % 2 == 1
        v = 3 * v + 1 if odd else v // 2
        fast = odd and v % 16 == 0
        v, count = (v // 16, count + 5) if fast else (v, count + 1)
    return count


def local_sort(x: Args) -> Result:
    ordered = np.sort(x["x"], axis=1)
    turned = (np.arange(16)[None, :] + np.arange(64)[:, None]) & 15
    return {"y": np.take_along_axis(ordered, turned, 1)}


def _jump(operations: list[int], i: int, a: int, y: int) -> int:
    b = 1
    for code in operations:
        case = code + i % 3
        if case == 0:
            for _ in range(i % 5):
                a = s32(a * 5 + b)
        elif case == 1:
            y, b = a, s32(a + 1)
        elif case == 2 and a > 3:
            b, a = y, a - 2
        elif case == 3:
            a, y = s32((a >> 1) + b), s32(y + 1)
        elif case == 4:
            while a > 100:
                a //= 4
        elif case == 5:
            y = a - quotient(a, b | 1) * (b | 1)
        elif case == 6:
            y = s32(y + 7)
        elif case == 7:
            b = max(b, y)
        elif case == 8:
            a = s32(-a)
        elif case == 9:
            return s32(a ^ b)
        elif case == 10:
            b = 3
    return s32(a + b * 3)


def jump_table(x: Args) -> Result:
    operations = [int(o) for o in x["operations"]]
    results = [_jump(operations, i, int(a), int(y))
               for i, (a, y) in enumerate(zip(x["x"], x["y"], strict=True))]
    return {"y": np.array(results, np.int32)}


# --- memory spaces --------------------------------------------------------------------------------

def polynomial(x: Args) -> Result:
    total = np.zeros_like(x["x"])
    for c in (-1.0, 3.0, 0.125, -4.0, 2.0, 0.25, -0.5, 1.0):
        total = fma(total, x["x"], np.full_like(total, c), np.float32)
    return {"y": total}


def tables(x: Args) -> Result:
    seeds = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 42)
    table = (0, 1, 2, 3, 7, 6, 5, 4, 8, 11, 10, 9, 12, 15, 13, 14)
    offsets = (-3, 1, 4, -1, 5)
    words = [((seeds[v % 3] ^ v << 17) + table[v % 4 * 4 + (v >> 2) % 4] + offsets[v % 5]) & MASK64
             for v in x["x"].view(np.uint32).tolist()]
    return {"y": np.array(words, np.uint64).view(np.int64)}


def dynamic_shared(x: Args) -> Result:
    values, shift = x["x"].reshape(2, 96), x["shift"].reshape(2, 96)
    at = (np.arange(96) + shift[:, ::-1]) % 96
    picked = np.take_along_axis(values, at, 1)
    return {"y": (picked + (at % 32 * 0.5).astype(np.float32)).ravel()}


def cache_operators(x: Args) -> Result:
    v, s, d = x["x"], x["s"], x["d"]
    y = np.stack([v[:, 0] + v[:, 3], -v[:, 2], v[:, 2], v[:, 3]], 1)
    return {"y": y, "t": s[:, 0] - s[:, 1], "e": np.stack([d[:, 0] * d[:, 1], d[:, 1]], 1)}


def transpose_bytes(x: Args) -> Result:
    return {"y": np.ascontiguousarray(x["x"].T).astype(np.int32) * 3}


def _weighed(values: Array) -> Array:
    total = np.zeros(values.shape[:-1], np.int32)
    for k in range(values.shape[-1]):
        total = total * 5 + values[..., k]
    return total


def generic_pointers(x: Args) -> Result:
    start = x["x"].reshape(2, 64, 4)
    t = np.arange(64)
    local, tile = start ^ np.arange(4, dtype=np.int32), start + np.arange(4, dtype=np.int32)
    mixed = _weighed(np.where((t % 3 == 0)[None, :, None], local, tile[:, t ^ 1]))
    after, tile = start.copy(), tile.copy()
    after[:, ::2, 0] = 1000 + t[::2]
    tile[:, 1::2, 0] = 1000 + t[1::2]
    constants = np.broadcast_to(_weighed(np.array([3, -1, 4, 1], np.int32)), (2, 64))
    spaces = np.full((2, 64), 1 + 2 + 4 + 8, np.int32)
    columns = [mixed, _weighed(after), _weighed(tile), constants, spaces]
    return {"x": after.reshape(128, 4), "y": np.stack(columns, -1).reshape(128, 5).astype(np.int32)}


def unaligned_bytes(x: Args) -> Result:
    t = np.arange(64)[:, None]
    tile = np.empty_like(x["x"])
    for k in range(7):
        tile[:, t[:, 0], (k + t[:, 0]) % 7] = x["x"][:, :, k]
    sums = np.zeros((2, 64), np.uint32)
    for k in range(7):
        sums = sums * np.uint32(257) + tile[:, :, k]
    return {"y": tile[:, ::-1].copy(), "sums": sums}


# --- integers -------------------------------------------------------------------------------------

def divide64(x: Args) -> Result:
    rows = []
    for a, b in zip(x["a"].tolist(), x["b"].tolist(), strict=True):
        q, ua, ub = quotient(a, b), a & MASK64, b & MASK64
        rows.append([q, a - q * b, ua // ub, ua % ub, a * b >> 64, ua * ub >> 64])
    return {"out": np.array([[w & MASK64 for w in r] for r in rows], np.uint64).view(np.int64)}


def _signed_bytes(x: int) -> list[int]:
    return [(b ^ 0x80) - 0x80 for b in x.to_bytes(4, "little")]


def _halves(x: int) -> list[int]:
    return [((h & 0xFFFF) ^ 0x8000) - 0x8000 for h in (x, x >> 16)]


def _join(parts: list[int], bits: int) -> int:
    return sum((p & (1 << bits) - 1) << i * bits for i, p in enumerate(parts))


def _bit_row(x: int, y: int) -> list[int]:
    sx, sy, both = s32(x), s32(y), y << 32 | x
    bx, by = x.to_bytes(4, "little"), y.to_bytes(4, "little")
    signed_x, signed_y = _signed_bytes(x), _signed_bytes(y)
    lowest = (x & -x).bit_length()
    s24 = [((v & 0xFFFFFF) ^ 0x800000) - 0x800000 for v in (x, y)]
    divisor = s32(y | 1)
    return [
        x.bit_count() * 64 + 32 - x.bit_length(), int(f"{x:032b}"[::-1], 2),
        lowest + (lowest + 20 if x else 0),
        int.from_bytes(bytes([by[1], bx[1], by[3], bx[3]]), "little"),
        both << (y & 31) >> 32, both >> min(y & 63, 32), x * y >> 32, sx * sy >> 32,
        sum(a * b for a, b in zip(signed_x, signed_y, strict=True)) + 1000,
        sum(a * b for a, b in zip(bx, by, strict=True)) + 1000,
        sum(a * b for a, b in zip(_halves(x), signed_y[:2], strict=True)) - 7,
        abs(sx - sy) + 5, abs(x - y) + 9, s24[0] * s24[1], (x & 0xFFFFFF) * (y & 0xFFFFFF),
        (sx + sy) >> 1, (x + y + 1) >> 1,
        _join([a + b for a, b in zip(bx, by, strict=True)], 8),
        _join([abs(a - b) for a, b in zip(bx, by, strict=True)], 8),
        _join([max(p) for p in zip(_halves(x), _halves(y), strict=True)], 16),
        quotient(sx, divisor), x % (y | 1),
        (sx >> (y & 31)) ^ (x >> (y & 31)) ^ (x << (y & 31)), abs(sx) + (sx < sy) + 2 * (x < y),
    ]


def bit_operations(x: Args) -> Result:
    rows = [[w & MASK for w in _bit_row(a, b)]
            for a, b in zip(x["a"].tolist(), x["b"].tolist(), strict=True)]
    return {"out": np.array(rows, np.uint32)}


def wide_integers(x: Args) -> Result:
    rows = []
    for a, b in zip(x["a"].tolist(), x["b"].tolist(), strict=True):
        u, v = a << 64 | b, b << 64 | (a ^ MASK64)
        reversed_a = int(f"{a:064b}"[::-1], 2)
        counts = (64 - a.bit_length()) * 1000 + b.bit_count() + (reversed_a & 0xFF00)
        wide = [u + v, u - v, u * v]
        rows.append([*(w >> s & MASK64 for w in wide for s in (0, 64)), u >> (a & 127) & MASK64,
                     counts])
    return {"out": np.array(rows, np.uint64)}


# --- programs -------------------------------------------------------------------------------------

def bitonic_sort(x: Args) -> Result:
    return {"y": np.sort(x["x"], axis=1)}


def sparse_product(x: Args) -> Result:
    starts, terms = x["starts"], x["values"].astype(np.float64) * x["x"][x["columns"]]
    sums = [terms[a:b].sum() for a, b in pairwise(starts)]
    return {"y": np.array(sums, np.float32)}


def _escape(cx: int, cy: int, limit: int) -> int:
    zx = zy = 0
    for count in range(limit):
        xx, yy = zx * zx >> 24, zy * zy >> 24
        if xx + yy > 4 << 24:
            return count
        zx, zy = xx - yy + cx, (zx * zy >> 23) + cy
    return limit


def mandelbrot(x: Args) -> Result:
    width, height, limit = int(x["width"]), int(x["height"]), int(x["limit"])
    columns = [(c * 3 << 24) // width - (2 << 24) for c in range(width)]
    rows = [(r * 2 << 24) // height - (1 << 24) for r in range(height)]
    counts = [[_escape(cx, cy, limit) for cx in columns] for cy in rows]
    return {"counts": np.array(counts, np.int32)}


def n_body(x: Args) -> Result:
    bodies = x["bodies"].astype(np.float64)
    apart = bodies[None, :, :3] - bodies[:, None, :3]
    cubes = ((apart ** 2).sum(2) + 0.01) ** -1.5
    return {"forces": (apart * (bodies[None, :, 3] * cubes)[:, :, None]).sum(1).astype(np.float32)}


def life(x: Args) -> Result:
    cells = x["x"] & 1
    for _ in range(int(x["steps"])):
        around = sum(np.roll(cells, (r, c), (0, 1)) for r in (-1, 0, 1) for c in (-1, 0, 1)) - cells
        cells = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.uint8)
    return {"y": cells}


def _primes(count: int) -> list[int]:
    found: list[int] = []
    n = 2
    while len(found) < count:
        if all(n % p for p in found):
            found.append(n)
        n += 1
    return found


def _root_bits(n: int, power: int) -> int:
    """The first 32 fraction bits of the power-th root of n: how SHA-256 chose its constants."""
    wanted = n << 32 * power
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle ** power <= wanted else (low, middle)
    return low & MASK


def _turned(x: Array, by: int) -> Array:
    return x >> np.uint32(by) | x << np.uint32(32 - by)


def sha256_block(x: Args) -> Result:
    w = list(x["messages"].view(">u4").astype(np.uint32).T)
    for k in range(16, 64):
        a, b = w[k - 15], w[k - 2]
        w.append(w[k - 16] + (_turned(a, 7) ^ _turned(a, 18) ^ a >> np.uint32(3)) + w[k - 7]
                 + (_turned(b, 17) ^ _turned(b, 19) ^ b >> np.uint32(10)))
    start = [np.full(len(w[0]), _root_bits(p, 2), np.uint32) for p in _primes(8)]
    a, b, c, d, e, f, g, h = start
    for word, prime in zip(w, _primes(64), strict=True):
        t1 = h + (_turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)) + ((e & f) ^ (~e & g)) \
            + np.uint32(_root_bits(prime, 3)) + word
        t2 = (_turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        a, b, c, d, e, f, g, h = t1 + t2, a, b, c, d + t1, e, f, g
    digests = [s + t for s, t in zip(start, (a, b, c, d, e, f, g, h), strict=True)]
    return {"digests": np.stack(digests, 1)}


def fft256(x: Args) -> Result:
    turned = np.fft.fft(x["x"][..., 0].astype(np.float64) + 1j * x["x"][..., 1], axis=1)
    return {"y": np.stack([turned.real, turned.imag], -1).astype(np.float32)}
