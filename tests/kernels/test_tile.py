"""The shared tile and the code that its layouts become."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mmalab
from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.placement import emit_layout, ldmatrix_lanes, register_origins
from mmalab.kernels.sm80_mma.recipe import RECIPES, recipe
from mmalab.kernels.sm80_mma.tile import LINES, SLICE, tile
from mmalab.layouts import ComposedLayout, Layout, Swizzle, compose
from mmalab.layouts.banks import wavefronts
from mmalab.ptx.builder import KernelBuilder

THREADS = np.arange(256)


def test_swizzled_tile_is_the_articles():
    """Chunk c of row r lies at chunk c XOR ((r >> 1) & 3), for all bytes of the tile."""
    line, byte = np.meshgrid(np.arange(LINES), np.arange(SLICE), indexing="ij")
    chunk = (byte // 16) ^ (line >> 1 & 3)
    want = line * 64 + chunk * 16 + byte % 16
    assert np.array_equal(tile("swizzled").shared(line, byte), want)


@pytest.mark.parametrize(("layout", "groups", "passes"), [
    ("plain", [0, 4, 0, 4, 0, 4, 0, 4], 4),
    ("padded", [0, 5, 2, 7, 4, 1, 6, 3], 1),
    ("swizzled", [0, 4, 1, 5, 2, 6, 3, 7], 1),
])
def test_bank_groups_are_the_articles(layout, groups, passes):
    """Rows 0 to 7 of chunk 0 hit the bank groups that the article lists."""
    at = tile(layout).shared(np.arange(8), np.zeros(8, int))
    assert (at // 16 % 8).tolist() == groups
    assert int(wavefronts(at, 16)[0]) == passes


#: The article's tile, and larger ones.
BLOCKS = [{}, {"block": (256, 128), "warp_tile": (64, 64)},
          {"block": (128, 256), "warp_tile": (64, 64), "span": 128, "target": "sm_90"}]


@pytest.mark.parametrize("layout", ["plain", "padded", "swizzled"])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("operand", ["A", "B"])
@pytest.mark.parametrize("choice", BLOCKS)
def test_tiles_hold_every_byte_once(layout, stages, operand, choice):
    """No two bytes of an operand's tile share a place, and all lie inside it."""
    made = tile(layout, stages, **{"target": "sm_90", **choice})
    places = np.sort(made.shared_of(operand).indices())
    assert len(np.unique(places)) == made.lines(operand) * made.span
    assert places[-1] < made.operand_bytes(operand)
    assert made.shared_bytes == stages * (made.operand_bytes("A") + made.operand_bytes("B"))
    assert made.starts_at("B") - made.starts_at("A") == made.operand_bytes("A")


@pytest.mark.parametrize("unit", [8, 16])
@pytest.mark.parametrize("operand", ["A", "B"])
@pytest.mark.parametrize("choice", [*BLOCKS, {"warp_tile": (64, 64)}])
def test_copies_cover_the_tile_once(unit, operand, choice):
    """The threads' copies, over all passes, write each byte of the tile exactly once."""
    made = tile(**choice)
    lines = made.lines(operand)
    first = made.copies(unit, operand).indices()
    step = made.copy_lines(unit)
    places = (first[:, None, None] + np.arange(0, lines, step)[:, None]
              + lines * np.arange(unit)).ravel()
    assert np.array_equal(np.sort(places), np.arange(lines * made.span))


@pytest.mark.parametrize("layout", ["padded", "swizzled"])
@pytest.mark.parametrize("span", [64, 128])
def test_rows_of_a_matrix_lie_in_different_banks(layout, span):
    """Eight rows at any chunk take one pass, whatever a slice holds."""
    made = tile(layout, 3, (64, 64), (256, 128), span, target="sm_90")
    for first in range(0, 256, 8):
        for chunk in range(0, span, 16):
            at = made.shared(first + np.arange(8), np.full(8, chunk))
            assert int(wavefronts(at, 16)[0]) == 1


@pytest.mark.parametrize("row", RECIPES, ids=lambda row: f"{row.dtype}-{row.accumulator}")
def test_ldmatrix_lanes_are_the_articles(row):
    """Rows (lane & 15), chunk (lane >> 4) for A; (lane & 7) + 8 (lane >> 4), (lane >> 3) & 1 for B,
    for operands of 8, 16 and 32 bits alike."""
    lane = np.arange(32)
    a = ldmatrix_lanes(register_origins(row.form, "A"), LINES)
    assert np.array_equal(a(lane), (lane & 15) + LINES * 16 * (lane >> 4))
    two = register_origins(row.form, "B")
    b = ldmatrix_lanes([*two, *((line + 8, byte) for line, byte in two)], LINES)
    assert np.array_equal(b(lane), (lane & 7) + 8 * (lane >> 4) + LINES * 16 * (lane >> 3 & 1))


@pytest.mark.parametrize("row", RECIPES, ids=lambda row: f"{row.dtype}-{row.accumulator}")
def test_ldmatrix_gives_each_lane_its_fragment(row):
    """What ldmatrix puts into a lane, by its own fragment, is what the product's fragment asks."""
    matrices = isa.find("ldmatrix.sync.aligned.m8n8.x4.shared.b16").fragments["D"]
    lanes = ldmatrix_lanes(register_origins(row.form, "A"), 16)
    place = matrices.coordinates()  # lane, slot -> (row, 16-bit column) of matrix slot // 2
    matrix = np.arange(8) // 2
    base = lanes(8 * matrix + place[..., 0])
    got = base % 16, base // 16 + place[..., 1] * 2
    fragment = row.form.fragments["A"]
    per = 16 // fragment.bits if fragment.bits < 16 else 1
    want = fragment.coordinates()
    if fragment.bits == 32:
        got = got[0][:, ::2], got[1][:, ::2]
    assert np.array_equal(got[0], want[:, ::per, 0])
    assert np.array_equal(got[1], want[:, ::per, 1] * fragment.bits // 8)


def evaluated(layout):
    """What the code of a layout computes for threads 0 to 255."""
    b = KernelBuilder("place", arity=isa.find)
    out = b.param("out", "u64")
    thread = b.mov("u32", b.tid.x)
    address = b.mad_wide("u32", thread, 4, b.load_param(out))
    b.st("global.u32", b.at(address), emit_layout(b, layout, thread))
    b.emit("ret")
    words = np.full(256, 0xFFFFFFFF, np.uint32)
    mmalab.emulate(b.text(), [words], block=256, sanitize=False)
    return words


@st.composite
def thread_layouts(draw):
    """Layouts of 256 threads with power-of-two modes and any strides."""
    sizes, left = [], 256
    while left > 1:
        size = 1 << draw(st.integers(1, left.bit_length() - 1))
        sizes.append(size)
        left //= size
    return Layout(tuple(sizes), tuple(draw(st.integers(0, 5000)) for _ in sizes))


@settings(max_examples=15, deadline=None)
@given(thread_layouts(), st.sampled_from([None, Swizzle(2, 4, 3), Swizzle(3, 4, 3),
                                          Swizzle(1, 5, -2)]), st.integers(0, 64))
def test_emitted_code_is_the_layout(layout, swizzle, offset):
    """Executed for every thread, the instructions give the layout's own values."""
    whole = layout if swizzle is None else ComposedLayout(swizzle, offset, layout)
    assert np.array_equal(evaluated(whole), whole(THREADS))


def test_a_mode_without_bits_is_refused():
    """An extent that is no power of two has no code; the message says which."""
    b = KernelBuilder("place")
    with pytest.raises(UsageError) as refused:
        emit_layout(b, Layout((3, 4), (1, 5)), b.mov("u32", b.tid.x))
    assert str(refused.value) == (
        "mode 3:1 of (3,4):(1,5): cannot be written as bits\n"
        "  legal: extents that are powers of two\n"
        "  see:   emit_layout")


def test_composition_places_the_reads_of_all_warps():
    """Thread -> shared byte of the first ldmatrix equals the article's formula for its warp."""
    made = tile()
    lanes = ldmatrix_lanes(register_origins(recipe("bf16").form, "A"), LINES)
    got = compose(made.shared, made.reads(lanes, "A"))(THREADS)
    warp, lane = THREADS // 32, THREADS % 32
    row = warp % 2 * 64 + (lane & 15)
    assert np.array_equal(got, row * 64 + (((lane >> 4) ^ (row >> 1 & 3)) << 4))
