"""Layouts over GF(2): the same values from a basis, and linear algebra on it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.layouts import Layout, LinearLayout, Swizzle, compose


@pytest.mark.parametrize(
    "layout",
    [
        Layout.parse("((4,8),(2,2)):((32,1),(16,8))"),
        Layout.parse("(128,32):(32,1)"),
        Layout.parse("(4,8):(0,1)"),
        Layout(1),
        compose(Swizzle(2, 3, 3), Layout.row_major(128, 32)),
        compose(Swizzle(3, 3, 3), Layout.row_major(8, 64)),
    ],
    ids=str,
)
def test_the_basis_gives_back_all_values(layout):
    """From layout to basis to array is the identity."""
    linear = LinearLayout.of(layout)
    assert np.array_equal(linear.indices(), layout.indices())
    assert [linear(i) for i in range(min(64, layout.size))] == layout.indices()[:64].tolist()
    assert linear.is_injective is layout.is_injective
    assert linear.is_invertible is layout.is_bijective


def test_a_swizzle_is_a_matrix():
    """The 64-byte mode adds one column entry for each of its two source bits."""
    matrix = LinearLayout.of(Swizzle(2, 4, 3), bits=10).matrix()
    extra = matrix - np.eye(10, dtype=np.uint8)
    assert np.argwhere(extra).tolist() == [[4, 7], [5, 8]]


def random_permutation(rng: random.Random, bits: int) -> LinearLayout:
    while True:
        linear = LinearLayout(tuple(rng.randrange(1 << bits) for _ in range(bits)))
        if linear.is_invertible:
            return linear


def test_inverse_and_composition_on_random_bases():
    """inverse(f) o f is the identity, composition is composition, rank counts the values."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)  # noqa: S311
    for _ in range(300):
        bits = rng.randint(1, 9)
        f, g = random_permutation(rng, bits), random_permutation(rng, bits)
        assert f.inverse().compose(f) == LinearLayout(tuple(1 << i for i in range(bits)))
        assert np.array_equal(f.compose(g).indices(), f.indices()[g.indices()])
        any_map = LinearLayout(tuple(rng.randrange(1 << 6) for _ in range(rng.randint(0, 9))))
        assert len(set(any_map.indices().tolist())) == 1 << any_map.rank


@pytest.mark.parametrize("text", ["(4,8):(1,5)", "(16,2):(1,8)"])
def test_layouts_that_carry_are_not_linear(text):
    """Padded rows and overlapping strides add with carries, and are refused with the place."""
    with pytest.raises(UsageError, match="legal: layouts whose values add without carries"):
        LinearLayout.of(Layout.parse(text))


def test_other_refusals():
    """Sizes that are no power of two, swizzles without a size, maps without an inverse."""
    with pytest.raises(UsageError, match="no power of two"):
        LinearLayout.of(Layout(24))
    with pytest.raises(UsageError, match="a swizzle has no size"):
        LinearLayout.of(Swizzle(2, 3, 3))
    with pytest.raises(UsageError, match="no permutation"):
        LinearLayout((1, 1)).inverse()
    with pytest.raises(UsageError, match="do not fit"):
        LinearLayout((1,)).compose(LinearLayout((2,)))
    with pytest.raises(UsageError, match="legal: 0 to 3"):
        LinearLayout((1, 2))(4)
