"""Values that find rounding faults, and a slow exact reference."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from mmalab import formats
from mmalab.formats import Format


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fresh seed, which stands in the output of a failing test."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def _near(fmt: Format) -> np.ndarray:
    """All finite values of a narrow format, midpoints between them, and both with neighbours."""
    codes = np.arange(1 << fmt.bits, dtype=fmt.dtype)
    values = formats.decode(codes, fmt)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    beyond = values[-1] + (values[-1] - values[-2]) * np.array([0.25, 0.5, 0.75, 1.0])
    points = np.concatenate([values, middles, beyond, -beyond])
    with np.errstate(over="ignore"):
        around = [np.nextafter(points, -np.inf), points, np.nextafter(points, np.inf)]
    return np.concatenate([*around, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324]])


@pytest.fixture
def values(rng: np.random.Generator) -> Callable[[Format], np.ndarray]:
    """float64 values for a destination: its neighbourhood if narrow, else random of all sizes."""

    def of(fmt: Format) -> np.ndarray:
        scale = np.exp2(rng.integers(-180, 140, 1000))
        spread = rng.standard_normal(1000) * scale
        close = rng.standard_normal(500) * 300
        near = _near(fmt) if fmt.bits <= 8 else np.zeros(0)
        return np.concatenate([near, spread, close])

    return of


def _round_steps(steps: Fraction, mode: str) -> int:
    """A non-negative or negative number of steps rounded to a whole one."""
    floor = steps.numerator // steps.denominator
    rest = steps - floor
    if mode in {"rm", "rz", "rp"}:
        up = {"rm": False, "rp": rest > 0, "rz": steps < 0 and rest > 0}[mode]
    elif mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1)
    else:
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and steps > 0)
    return floor + up


@pytest.fixture(scope="session")
def reference() -> Callable[[Fraction, Format, str], Fraction]:
    """The exactly rounded value with unbounded exponent, by rational arithmetic."""

    def rounded(value: Fraction, fmt: Format, mode: str) -> Fraction:
        if value == 0:
            return Fraction(0)
        if fmt.is_float:
            top = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
            if abs(value) < Fraction(2) ** top:
                top -= 1
            step = Fraction(2) ** (max(top, fmt.emin) - fmt.mantissa_bits)
        else:
            step = Fraction(1, 1 << fmt.fraction_bits)
        return _round_steps(value / step, mode) * step

    return rounded
