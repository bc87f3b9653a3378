"""Canonical layouts: the layout objects, the addresses and the closed formula agree."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mmalab.descriptors import (
    WGMMA,
    SmemDescriptor,
    byte_addresses,
    canonical_layout,
    chunk_addresses,
    packed,
)
from mmalab.errors import UsageError

ROW = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
CASES = list(product(("K", "MN"), ROW, (8, 16, 32)))
#: What an operand of wgmma spans of K, in bytes where K is contiguous: dense, sparse; whole tiles.
DEPTHS = (32, 64, 128, 256)


def formula(one: SmemDescriptor, mn: int, k: int, bits: int, major: str) -> int:
    """The address by hand: which core, which row of it, which byte; then the XOR."""
    size, row = bits // 8, ROW[one.swizzle]
    along, across = (k, mn) if major == "K" else (mn, k)
    core, inside = divmod(along * size, row)
    if major == "K" or one.swizzle != "none":
        far, near = (one.lbo, one.sbo)
    else:
        far, near = (one.sbo, one.lbo)
    plain = one.start + core * far + across // 8 * near + across % 8 * row + inside
    phase = (plain - 128 * one.base_offset >> 7) % (row // 16)
    return plain ^ phase << 4


@pytest.mark.parametrize(("major", "swizzle", "bits"), CASES)
def test_addresses_follow_the_formula(major: str, swizzle: str, bits: int) -> None:
    """Dense tiles, tiles with gaps, every phase with and without its base offset."""
    for phase, corrected, gap in product(range(8), (0, 1), (0, 1024)):
        dense = packed(major, swizzle, 72, 32, bits)
        one = SmemDescriptor(
            0x2400 + 128 * phase, dense.lbo + gap, dense.sbo + 3 * gap, swizzle,
            phase * corrected if swizzle != "none" else 0)
        got = byte_addresses(one, 72, 32, bits, major)
        want = [[formula(one, mn, k, bits, major) for k in range(32)] for mn in range(72)]
        assert (got == want).all(), one


@pytest.mark.parametrize(("major", "swizzle", "bits"), CASES)
def test_layout_objects_give_the_same_addresses(major: str, swizzle: str, bits: int) -> None:
    """The CuTe layout, in elements, is the address without a base offset."""
    one = packed(major, swizzle, 64, 16, bits, start=0x1C80)
    layout = canonical_layout(one, 64, 16, bits, major)
    tile = layout.array()[:64, :16]
    assert (tile * bits // 8 == byte_addresses(one, 64, 16, bits, major)).all()


@pytest.mark.parametrize(("major", "swizzle", "bits"), CASES)
@pytest.mark.parametrize("depth", DEPTHS)
def test_packed_tiles_have_no_gaps(major: str, swizzle: str, bits: int, depth: int) -> None:
    """Every byte of a tile that fills its atoms is one element's, exactly once: of one row of the
    swizzle and of several, wide and deep."""
    row = ROW[swizzle]
    k = max(depth, row) * 8 // bits
    for mn in (8, 72, 128) if major == "K" else (row * 8 // bits, 5 * row * 8 // bits):
        one = packed(major, swizzle, mn, k, bits, start=0x800)
        used = np.sort(byte_addresses(one, mn, k, bits, major).reshape(-1))
        assert (used == 0x800 + bits // 8 * np.arange(mn * k)).all(), one


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("mn", [8, 40, 256])
def test_halves_of_a_packed_sparse_b_do_not_overlap(bits: int, mn: int) -> None:
    """64 bytes of K in rows of 32: LBO is what the tile's rows take, of every type; one half alone
    leaves it at 16, which nobody reads."""
    deep = packed("K", "32B", mn, 512 // bits, bits)
    assert (deep.lbo, deep.sbo) == (32 * mn, 256)
    chunks = chunk_addresses(deep, mn, 512 // bits, bits, "K")
    assert (chunks[:, 2:] == chunks[:, :2] + 32 * mn).all()
    assert len(np.unique(chunks)) == 4 * mn
    assert packed("K", "32B", mn, 256 // bits, bits).lbo == 16


def test_known_layouts_are_cutlass_ones() -> None:
    """The strings of CUTLASS's comments, for bf16 (T is 8)."""
    expected = {
        ("K", "none"): "Swizzle<0,3,3> o 0 o ((8,8),(8,2)):((8,128),(1,64))",
        ("K", "128B"): "Swizzle<3,3,3> o 0 o ((8,8),(8,2)):((64,512),(1,8))",
        ("MN", "64B"): "Swizzle<2,3,3> o 0 o ((32,2),(8,2)):((1,256),(32,512))",
    }
    for (major, swizzle), text in expected.items():
        one = packed(major, swizzle, 64, 16, 16)
        assert str(canonical_layout(one, 64, 16, 16, major)) == text


def test_step_through_k_is_32_bytes() -> None:
    """Case B02: bf16, K-major, 128B: SBO 1024, and k + 16 adds 2 to the address field."""
    one = packed("K", "128B", 64, 64, 16, start=0x400)
    assert WGMMA.raw(WGMMA.encode(start=0x400, sbo=one.sbo, swizzle="128B"))["sbo"] == 64
    whole = byte_addresses(one, 64, 64, 16, "K")
    for step in range(4):
        word = WGMMA.encode(start=0x400, sbo=one.sbo, swizzle="128B") + 2 * step
        part = byte_addresses(WGMMA.decode(word), 64, 16, 16, "K")
        assert (part == whole[:, 16 * step : 16 * step + 16]).all()


@pytest.mark.parametrize(("swizzle", "pattern"), [("128B", 1024), ("64B", 512), ("32B", 256)])
def test_absolute_and_relative_pattern(swizzle: str, pattern: int) -> None:
    """Case B05: equal to the tile's own pattern only at multiples of it, or with base offset."""
    zero = byte_addresses(packed("K", swizzle, 64, 16, 16), 64, 16, 16, "K")
    for base in range(0, 4096, 128):
        plain = packed("K", swizzle, 64, 16, 16, start=base)
        moved = byte_addresses(plain, 64, 16, 16, "K") - base
        assert (moved == zero).all() == (base % pattern == 0)
        phase = (base >> 7) & 7
        corrected = packed("K", swizzle, 64, 16, 16, start=base, base_offset=phase)
        assert (byte_addresses(corrected, 64, 16, 16, "K") - base == zero).all()
        word = WGMMA.encode(start=base, sbo=plain.sbo, swizzle=swizzle)
        assert bool(WGMMA.remarks(word)) == (base % pattern != 0)


def test_swizzled_sparse_b_goes_on_at_lbo() -> None:
    """64 bytes of K in rows of 32: the other half is LBO away."""
    one = SmemDescriptor(0, 0x1000, 256, "32B")
    chunks = chunk_addresses(one, 8, 32, 16, "K")
    assert (chunks[:, 2:] == chunks[:, :2] + 0x1000).all()


@pytest.mark.parametrize("wrong", [
    {"swizzle": "96B"}, {"major": "M"},
])
def test_what_is_no_layout(wrong: dict[str, str]) -> None:
    """Unknown swizzles and majors name the legal ones."""
    given = {"major": "K", "swizzle": "128B"} | wrong
    with pytest.raises(UsageError, match="legal"):
        packed(given["major"], given["swizzle"], 64, 16, 16)
    with pytest.raises(UsageError, match="legal"):
        byte_addresses(SmemDescriptor(0, 16, 16, given["swizzle"]), 64, 16, 16, given["major"])


def test_elements_that_tear_a_chunk() -> None:
    """Six-bit elements have no canonical layout."""
    with pytest.raises(UsageError, match="6 bits"):
        chunk_addresses(packed("K", "none", 64, 16, 16), 64, 16, 6, "K")
