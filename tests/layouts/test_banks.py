"""The bank model: wavefronts of arbitrary accesses, against a slow model that counts sets."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.layouts.banks import wavefronts


def slow(addresses: list[int | None], size: int) -> tuple[int, int]:
    """The model in its words: groups of lanes, the set of words of each bank."""
    together = {16: 8, 8: 16}.get(size, 32)
    passes = ideal = 0
    for first in range(0, len(addresses), together):
        words: dict[int, set[int]] = {}
        for at in addresses[first : first + together]:
            if at is not None:
                for byte in range(at, at + size):
                    words.setdefault(byte // 4 % 32, set()).add(byte // 128)
        passes += max(map(len, words.values()), default=0)
        ideal += bool(words)
    return passes, ideal


def test_random_accesses_against_the_slow_model():
    """3,000 random accesses of all sizes, with inactive lanes and fewer than 32 lanes."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)  # noqa: S311
    for _ in range(3000):
        size = rng.choice((1, 2, 4, 8, 16))
        lanes = rng.choice((32, 32, 32, 1, 8, 20))
        span = rng.choice((64, 256, 4096))
        at = [rng.randrange(span // size) * size for _ in range(lanes)]
        on = [rng.random() < 0.8 for _ in range(lanes)]
        passes, ideal = wavefronts(at, size, on)
        expected = slow([a if o else None for a, o in zip(at, on, strict=True)], size)
        assert (int(passes), int(ideal)) == expected, (size, at, on)


def test_many_accesses_at_once_are_each_alone():
    """Leading axes are independent accesses."""
    rng = np.random.default_rng()
    at = rng.integers(0, 256, (5, 7, 32)) * 8
    passes, ideal = wavefronts(at, 8)
    assert passes.shape == ideal.shape == (5, 7)
    assert all(int(wavefronts(at[i, j], 8)[0]) == passes[i, j] for i in range(5) for j in range(7))


@pytest.mark.parametrize(
    ("addresses", "size", "passes", "ideal"),
    [
        (np.arange(32) * 4, 4, 1, 1),
        (np.zeros(32, int), 4, 1, 1),
        (np.arange(32) * 128, 4, 32, 1),
        (np.arange(32) * 8, 8, 2, 2),
        (np.arange(32) * 16, 16, 4, 4),
        (np.arange(32), 1, 1, 1),
        (np.arange(32) * 64, 16, 16, 4),
        (np.arange(32) * 80, 16, 4, 4),
        (np.arange(32) * 128, 16, 32, 4),
    ],
)
def test_known_patterns(addresses, size, passes, ideal):
    """Consecutive, broadcast, one bank, and ldmatrix.x4 on 64-, 80- and 128-byte rows."""
    found = wavefronts(addresses, size)
    assert (int(found[0]), int(found[1])) == (passes, ideal)


@pytest.mark.parametrize(
    ("k_major", "pitch", "passes"),
    [(False, 32, 8), (False, 36, 1), (False, 40, 2), (True, 32, 4), (True, 36, 2), (True, 40, 1)],
)
def test_tf32_fragments_want_opposite_paddings(k_major, pitch, passes):
    """32-bit loads of A (row = lane / 4) and of k-rows: 8, 1, 2 against 4, 2, 1 passes (L03)."""
    lane = np.arange(32)
    row, col = (lane % 4, lane // 4) if k_major else (lane // 4, lane % 4)
    assert int(wavefronts((row * pitch + col) * 4, 4)[0]) == passes


def test_no_active_lane_takes_no_wavefront():
    """A fully predicated-off access costs nothing."""
    passes, ideal = wavefronts(np.arange(32) * 4, 4, np.zeros(32, bool))
    assert (int(passes), int(ideal)) == (0, 0)


@pytest.mark.parametrize(
    ("addresses", "size", "message"),
    [
        ([2], 4, "^address 2 for 4 bytes: misaligned or negative\n  legal: multiples of 4 from 0"),
        ([-4], 4, "^address -4 for 4 bytes: misaligned or negative"),
        ([0], 12, "^an access of 12 bytes a lane: no such access\n  legal: 1, 2, 4, 8, 16"),
        (np.zeros(33, int), 4, "at most 32 lanes"),
        ([0.5], 4, "not lanes of byte addresses"),
    ],
)
def test_impossible_accesses_are_refused(addresses, size, message):
    """Misaligned, negative, of a wrong size or shape: an error with what is legal."""
    with pytest.raises(UsageError, match=message):
        wavefronts(addresses, size)
