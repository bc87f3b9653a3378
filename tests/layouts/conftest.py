"""Random layouts for the tests of the algebra: fresh in every run, the seed in the output."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate
from operator import mul

import pytest

from mmalab.layouts import Layout
from mmalab.layouts.inttuple import IntTuple, flatten, unflatten

_EXTENTS = (1, 2, 2, 3, 4, 4, 6)
_STRIDES = (0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24)


def _shape(rng: random.Random, depth: int = 0) -> IntTuple:
    if depth < 2 and rng.random() < 0.4:
        return tuple(_shape(rng, depth + 1) for _ in range(rng.randint(1, 3)))
    return rng.choice(_EXTENTS)


def _layout(rng: random.Random) -> Layout:
    """Compact, compact in another order, with gaps, or with arbitrary (overlapping) strides."""
    shape = _shape(rng)
    extents = flatten(shape)
    kind = rng.random()
    if kind < 0.3:
        return Layout(shape)
    if kind < 0.65:
        order = rng.sample(range(len(extents)), len(extents))
        gaps = [rng.choice((1, 1, 1, 1, 2, 3)) for _ in extents]
        steps = accumulate((extents[i] * gaps[i] for i in order), mul, initial=1)
        strides = dict(zip(order, steps, strict=False))
        return Layout(shape, unflatten(iter([strides[i] for i in range(len(extents))]), shape))
    return Layout(shape, unflatten(iter([rng.choice(_STRIDES) for _ in extents]), shape))


@pytest.fixture
def draw() -> Callable[[], Layout]:
    """A function that returns another random layout of at most 600 values each time."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"random layouts from seed {seed}")
    rng = random.Random(seed)  # noqa: S311

    def small() -> Layout:
        while (layout := _layout(rng)).size > 600:
            pass
        return layout

    return small
