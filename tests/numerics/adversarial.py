"""Inputs that separate a right adder from a nearly right one, for any operand type."""

from __future__ import annotations

import secrets

import numpy as np

from mmalab import formats

#: Names of the mixes; see `words`.
MIXES = ("normal", "bits", "ladder", "subnormal", "cancel", "ties", "carry", "specials")


def fresh() -> np.random.Generator:
    """A generator with a new seed, which pytest shows where the test fails."""
    seed = secrets.randbits(32)
    print("seed", seed)
    return np.random.default_rng(seed)


def words(kind: str, shape: tuple[int, ...], mix: str, rng: np.random.Generator) -> np.ndarray:
    """Raw words of type `kind`: K is the last axis.

    normal: N(0, 1). bits: uniform patterns, NaN and Inf among them. ladder: powers of two far
    apart, so that the cut decides. subnormal: the lowest exponents. cancel: the second half of K
    negates the first. ties: few values, so that sums fall half way. carry: the largest numbers.
    specials: normal with a few NaN, Inf and signed zeros.
    """
    fmt = formats.get(kind)
    if not fmt.is_float or mix == "bits":
        return rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64).astype(fmt.dtype)
    sign = rng.choice([-1.0, 1.0], shape)
    reach = {11: 20, 8: 12, 5: 7, 4: 5}.get(fmt.exponent_bits, fmt.emax)
    if mix == "ladder":
        values = sign * (1 + rng.integers(0, 4, shape) / 4)
        values *= 2.0 ** rng.integers(-reach, reach, shape)
        return formats.encode(values, fmt)
    if mix == "ties":
        return formats.encode(sign * 2.0 ** rng.integers(-reach, 1, shape), fmt)
    if mix == "carry":
        top = fmt.max_value if fmt.exponent_bits < 8 else 2.0**20 * (2 - 2.0**-fmt.mantissa_bits)
        return formats.encode(np.where(rng.random(shape) < 0.9, top, -top), fmt)
    if mix == "subnormal":
        low = (1 << (fmt.mantissa_bits + fmt.low_padding + 1)) - 1 | 1 << fmt.sign_shift
        raw = rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64) & np.uint64(low)
        return raw.astype(fmt.dtype)
    found = formats.encode(rng.normal(size=shape), fmt)
    if mix == "cancel":
        half = shape[-1] // 2
        found[..., half : 2 * half] = found[..., :half] ^ fmt.dtype.type(1 << fmt.sign_shift)
    if mix == "specials":
        special = [0, 1 << fmt.sign_shift]
        if fmt.has_infinity:
            special += [fmt.inf_word, fmt.inf_word | 1 << fmt.sign_shift]
        if fmt.specials is not formats.Specials.FINITE:
            special += [fmt.nan_word, fmt.nan_word | 1 << fmt.sign_shift]
        where = rng.random(shape) < 0.03
        found = np.where(where, rng.choice(np.array(special, fmt.dtype), shape), found)
    return found


def operands(unit, m: int, n: int, k: int, mix: str, rng: np.random.Generator):
    """A (m, k), B (k, n) and C (m, n) for a unit; under "cancel" only A cancels."""
    a = words(unit.a, (m, k), mix, rng)
    b = words(unit.b, (k, n), "ties" if mix == "cancel" else mix, rng)
    if mix == "cancel":
        half = k // 2
        b[half : 2 * half] = b[:half]
    c_mix = {"bits": "normal", "cancel": "subnormal"}.get(mix, mix)
    c = words(unit.acc, (m, n), c_mix, rng)
    c[::3] = 0
    return a, b, c
