"""XOR swizzles: the article's rule, TMA's modes, validity as CuTe has it, units."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensor_layouts as oracle
from hypothesis import given
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.layouts import TMA_SWIZZLES, ComposedLayout, Layout, Swizzle, compose

swizzles = st.integers(0, 4).flatmap(
    lambda bits: st.builds(
        Swizzle, st.just(bits), st.integers(0, 5),
        st.integers(bits, 6) | st.integers(-6, -bits),
    )
)


def soff(row: int, chunk: int) -> int:
    """The article's byte offset of a 16-byte chunk in its swizzled tile."""
    return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4)


def test_the_articles_rule_for_all_elements_of_the_tile():
    """Swizzle<2,3,3> of (128,32):(32,1) equals soff for all 4,096 BF16 elements."""
    tile = compose(Swizzle(2, 3, 3), Layout.row_major(128, 32))
    for row in range(128):
        for col in range(32):
            assert 2 * tile(row, col) == soff(row, col // 8) + 2 * (col % 8)
    assert tile.is_bijective


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("32B", ["01234567", "10325476"]),
        ("64B", ["01234567", "10325476", "23016745", "32107654"]),
        ("128B", ["01234567", "10325476", "23016745", "32107654",
                  "45670123", "54761032", "67452301", "76543210"]),
    ],
)
def test_tma_modes_match_the_tables_of_the_ptx_isa(mode, lines):
    """Line r of the table lists which 16-byte cell of the source lies at each place (5.5.7)."""
    swizzle = TMA_SWIZZLES[mode]
    for line, table in enumerate(lines):
        for place, cell in enumerate(table):
            assert swizzle(128 * line + 16 * int(cell)) == 128 * line + 16 * place
    assert swizzle.period == 128 * len(lines)


@pytest.mark.parametrize(
    ("mode", "low", "high", "width"),
    [("32B", 4, 7, 1), ("64B", 4, 7, 2), ("128B", 4, 7, 3), ("96B", 4, 7, 1),
     ("128B_ATOM_32B", 5, 7, 2), ("128B_ATOM_64B", 6, 7, 1)],
)
def test_tma_modes_xor_the_bits_that_the_facts_list(mode, low, high, width):
    """Each mode is address bits [low..] ^= bits [high..] on every byte of 4 KiB."""
    address = np.arange(4096)
    source = address >> high & ((1 << width) - 1)
    assert np.array_equal(TMA_SWIZZLES[mode](address), address ^ source << low)


def test_the_articles_swizzle_is_tmas_64_byte_mode():
    """Swizzle<2,3,3> on BF16 elements is Swizzle<2,4,3> on bytes, the 64-byte mode."""
    assert Swizzle(2, 3, 3).recast(16, 8) == TMA_SWIZZLES["64B"]
    element = np.arange(4096)
    assert np.array_equal(2 * Swizzle(2, 3, 3)(element), TMA_SWIZZLES["64B"](2 * element))


@given(swizzles, st.integers(0, 1 << 20))
def test_a_swizzle_is_its_own_inverse_and_periodic(swizzle, value):
    """Applied twice it is the identity; x + period moves as x does."""
    assert swizzle(swizzle(value)) == value
    assert swizzle(value + swizzle.period) == swizzle(value) + swizzle.period
    assert int(swizzle(np.array([value]))[0]) == swizzle(value)


@given(swizzles, st.integers(0, 1 << 14))
def test_swizzles_agree_with_tensor_layouts(swizzle, value):
    """The same integer from both implementations."""
    theirs = oracle.Swizzle(swizzle.bits, swizzle.base, swizzle.shift)
    assert swizzle(value) == theirs(value)


@given(swizzles)
def test_notation_reads_back(swizzle):
    """parse(str(s)) and eval(repr(s)) are s; the bare numbers are understood too."""
    assert Swizzle.parse(str(swizzle)) == swizzle
    assert Swizzle.parse(f"{swizzle.bits},{swizzle.base},{swizzle.shift}") == swizzle
    assert eval(repr(swizzle), {"Swizzle": Swizzle}) == swizzle  # noqa: S307


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Swizzle(3, 4, 2),
            ("Swizzle<3,4,2>: a shift of 2 makes the two 3-bit fields overlap\n"
            "  legal: a shift of 3 or more, or -3 or less\n  see:   CUTLASS, cute/swizzle.hpp"),
        ),
        (
            lambda: Swizzle(-1, 4, 3),
            ("Swizzle<-1,4,3>: bits is negative\n  legal: 0 or more\n"
            "  see:   CUTLASS, cute/swizzle.hpp"),
        ),
        (
            lambda: Swizzle.parse("2,3"),
            ("swizzle '2,3': not three integers bits,base,shift\n"
            "  legal: 2,3,3 or Swizzle<2,3,3>\n  see:   CUTLASS, cute/swizzle.hpp"),
        ),
        (
            lambda: Swizzle(2, 0, 3).recast(8, 16),
            ("Swizzle<2,0,3> from 8-bit to 16-bit units: the units are no power of two apart, or "
            "one unit would be torn\n  legal: units of at most 8 bits\n"
            "  see:   CUTLASS, cute/swizzle.hpp"),
        ),
    ],
)
def test_invalid_swizzles_are_refused(make, message):
    """CuTe's own conditions, with what would be legal."""
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        make()


def test_a_composed_layout_offsets_before_it_swizzles():
    """value = swizzle(offset + layout(coord)), not swizzle(layout(coord)) + offset."""
    tile = ComposedLayout(Swizzle(1, 0, 1), 2, Layout(4))
    assert str(tile) == "Swizzle<1,0,1> o 2 o 4:1"
    assert tile.indices().tolist() == [3, 2, 4, 5]
    assert [tile(i) for i in range(4)] == [3, 2, 4, 5]
    assert (tile.size, tile.rank, tile.cosize) == (4, 1, 6)
    assert tile.is_injective
    assert not tile.is_bijective
    names = {"ComposedLayout": ComposedLayout, "Swizzle": Swizzle, "Layout": Layout}
    assert eval(repr(tile), names) == tile  # noqa: S307


def test_a_step_added_after_swizzling_is_a_different_address():
    """swizzle(a + d) is not swizzle(a) + d: the step must be added before (issue pattern B14)."""
    tile = compose(Swizzle(3, 3, 3), Layout.row_major(8, 64))
    wrong = [(r, k) for r in range(8) for k in range(0, 64, 16) if tile(r, k) != tile(r, 0) + k]
    assert wrong
    assert not [r for r, _ in wrong if r == 0]
