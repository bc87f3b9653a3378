"""Order of blocks, ratios of pairs, and an interval that means what it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.bench.statistics import median, order, paired, ratio, spread
from mmalab.errors import UsageError

SECONDS = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12)


@pytest.mark.parametrize("pairs", range(1, 9))
def test_order_alternates(pairs: int) -> None:
    """Both run once in every pair, and whoever was first is second in the next."""
    letters = order(pairs)
    couples = [letters[2 * at : 2 * at + 2] for at in range(pairs)]
    assert all(sorted(couple) == ["A", "B"] for couple in couples)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(couples))


@given(SECONDS)
def test_equal_contestants_have_ratio_one(seconds: list[float]) -> None:
    found = ratio(seconds, seconds, seed=3)
    assert (found.median, found.low, found.high) == (1.0, 1.0, 1.0)
    assert not found.decided


@given(SECONDS, st.floats(0.5, 2.0), st.integers(0, 2**32 - 1))
def test_a_constant_factor_is_found(seconds: list[float], factor: float, seed: int) -> None:
    """Whatever the blocks do, a contestant that always needs `factor` times as long does."""
    found = ratio(seconds, [factor * each for each in seconds], seed=seed)
    assert found.median == pytest.approx(factor)
    assert found.low <= found.median * (1 + 1e-12)
    assert found.high >= found.median * (1 - 1e-12)


def test_drift_cancels_in_pairs() -> None:
    """A chip that slows down steadily makes single blocks lie, neighbours do not."""
    letters, clock = order(8), 1.0
    seen: dict[str, list[float]] = {"A": [], "B": []}
    for letter in letters:
        seen[letter].append((1.0 if letter == "A" else 1.05) * clock)
        clock *= 1.02
    found = ratio(seen["A"], seen["B"], seed=0)
    assert found.median == pytest.approx(1.05, abs=0.002)
    naive = median(seen["B"][4:]) / median(seen["A"][:4])
    assert naive > 1.15


def test_the_interval_covers() -> None:
    """Of many noisy experiments with a true ratio of 1.02, most intervals hold it."""
    rng = np.random.default_rng(7)
    held = 0
    for experiment in range(200):
        noise = rng.lognormal(0, 0.02, (2, 15))
        found = ratio(list(noise[0]), list(1.02 * noise[1]), seed=experiment)
        assert found.low <= found.median <= found.high
        held += found.low <= 1.02 <= found.high
    assert 0.85 * 200 <= held < 200


def test_the_seed_repeats_the_interval() -> None:
    a, b = [1.0, 1.1, 0.9, 1.05], [1.2, 1.0, 1.1, 1.15]
    assert ratio(a, b, seed=5) == ratio(a, b, seed=5)
    assert str(ratio([1.0], [1.5], seed=0)) == "1.500 [1.500, 1.500]"


def test_blocks_without_partner_are_refused() -> None:
    for a, b in (([1.0], []), ([], []), ([1.0, 2.0], [1.0])):
        with pytest.raises(UsageError, match="are no pairs"):
            paired(a, b)


def test_spread() -> None:
    assert spread([1.0, 1.0]) == 0.0
    assert spread([0.9, 1.0, 1.1]) == pytest.approx(0.2)
