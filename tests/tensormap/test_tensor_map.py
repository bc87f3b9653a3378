"""Tensor maps as values: defaults from arrays, every limit with its words, bytes and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mmalab
from mmalab.errors import UsageError
from mmalab.tensormap import ELEMENTS, MAP_BYTES, SWIZZLES, Im2col, TensorMap, arrange, cut
from mmalab.tensormap.encoding import TABLE, read, write
from mmalab.tensormap.rules import check_map

A = np.zeros((64, 128), np.float16)
N = np.zeros((4, 10, 20, 64), np.float16)


def test_defaults_come_from_the_array() -> None:
    """Shape and strides reversed, the type by its dtype; a view has its own strides."""
    made = mmalab.TensorMap.tiled(A, box=(64, 8), swizzle="128B")
    assert (made.dtype, made.dims, made.strides) == ("f16", (128, 64), (256,))
    assert made.box_bytes == 1024
    view = TensorMap.tiled(A[::2, 32:96], box=(64, 8))
    assert (view.dims, view.strides) == ((64, 32), (512,))
    assert view.buffer is not None
    assert view.buffer.nbytes == A.nbytes - 256 - 2 * 64
    assert view.buffer.ctypes.data == A[::2, 32:96].ctypes.data
    deep = TensorMap.tiled(np.zeros((2, 3, 4, 5, 16), np.uint32), box=(4, 1, 1, 1, 1))
    assert deep.strides == (64, 320, 1280, 3840)
    packed = TensorMap.tiled(np.zeros((8, 64), np.uint8), box=(128, 1), dtype="b4x16")
    assert packed.dims == (128, 8)


@pytest.mark.parametrize(("dtype", "name"), [
    (np.uint8, "u8"), (np.int8, "u8"), (np.int16, "u16"), (np.int32, "s32"), (np.int64, "s64"),
    (np.float64, "f64"), (ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float8_e4m3fn, "u8"),
])
def test_types_of_arrays(dtype: Any, name: str) -> None:
    """Each NumPy or ml_dtypes type has the element type of its words."""
    made = TensorMap.tiled(np.zeros((8, 64), dtype), box=(32,), dims=(64,))
    assert made.dtype == name
    assert made.element.bits == 8 * np.dtype(dtype).itemsize


LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "box": ({"box": (64, 257)}, "257 is not a box size"), "box 0": ({"box": (0, 8)}, "box size"),
    "rank of box": ({"box": (64,)}, "a tensor of rank 2 has 2"),
    "inner box": ({"box": (4, 8)}, "8 inner bytes"),
    "span": ({"box": (64, 8), "swizzle": "64B"}, "more than the swizzle's 64"),
    "swizzle": ({"swizzle": "16B"}, "is not known"), "fill": ({"fill": "inf"}, "is not known"),
    "promotion": ({"l2_promotion": "512B"}, "is not known"),
    "interleave": ({"interleave": "8B"}, "is not known"),
    "rank": ({"interleave": "16B", "dims": (16, 8), "strides": (256,)}, "not a rank"),
    "dims": ({"dims": (0, 8), "strides": (256,)}, "0 is not a size"),
    "six": ({"dims": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "not a rank"),
    "steps": ({"element_strides": (1, 9)}, "traversal stride"),
    "stride": ({"dims": (64, 8), "strides": (200,)}, "multiple of 16"),
    "long stride": ({"dims": (64, 1), "strides": (1 << 40,)}, "below 2^40"),
    "nan": ({"dtype": "u16", "fill": "nan"}, "floating"),
    "outside": ({"dims": (128, 65), "strides": (256,)}, "of an array of 16384"),
    "before": ({"offset": -16}, "of an array of 16384"),
    "type": ({"dtype": "f8"}, "is no element type"), "no number": ({"box": ("a", 8)}, "integers"),
    "large": ({"box": (256, 256, 4), "dims": (256, 4, 4), "strides": (512, 2048)}, "an SM has"),
    "packed size": ({"dtype": "b4x16", "dims": (33, 2), "strides": (32,), "box": (32, 1)}, "even"),
    "padded box": ({"dtype": "b6x16_p32", "dims": (128, 2), "strides": (96,), "box": (64, 1)},
                   "must be 128"),
    "padded size": ({"dtype": "b6x16_p32", "dims": (96, 2), "strides": (96,), "box": (128, 1)},
                    "multiple of 128"),
    "padded stride": ({"dtype": "b4x16_p64", "dims": (128, 2), "strides": (80,), "box": (128, 1)},
                      "multiple of 32"),
    "padded swizzle": ({"dtype": "b4x16_p64", "dims": (128, 2), "strides": (64,), "box": (128, 1),
                        "swizzle": "128B_ATOM_64B"}, "is not supported"),
    "96B": ({"dtype": "b4x16_p64", "dims": (128, 2), "strides": (64,), "box": (128, 1),
             "swizzle": "96B"}, "more than the swizzle's 96"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_tiled_maps(name: str) -> None:
    """Each limit is an error that says what would be legal."""
    options, words = LIMITS[name]
    with pytest.raises(UsageError, match=words.replace("^", r"\^")) as caught:
        TensorMap.tiled(A, **({"box": (64, 8)} | options))
    assert caught.value.legal or caught.value.where


CORNERS: dict[str, tuple[dict[str, Any], str]] = {
    "channels": ({"channels": 257}, "channels 257"), "pixels": ({"pixels": 1025}, "pixels 1025"),
    "count": ({"lower": (0,)}, "has 2 corner offsets"), "range": ({"lower": (-129, 0)}, "8 bits"),
    "empty": ({"lower": (10, 0), "upper": (-10, 0)}, "leave no pixel"),
    "mode": ({"wide": "h"}, "is not a mode"), "inner": ({"channels": 4}, "8 inner bytes"),
    "wide corners": ({"wide": "w"}, "has 1 corner"),
    "wide swizzle": ({"wide": "w", "lower": (0,), "upper": (0,)}, "not supported"),
}


@pytest.mark.parametrize("name", CORNERS)
def test_limits_of_im2col_maps(name: str) -> None:
    """Corners, channels and pixels have theirs."""
    options, words = CORNERS[name]
    legal = {"lower": (-1, -1), "upper": (1, 1), "channels": 32, "pixels": 64}
    with pytest.raises(UsageError, match=words):
        TensorMap.im2col(N, **(legal | options))
    TensorMap.im2col(N, **legal)


@pytest.mark.parametrize("strides", ["reversed", "columns"])
def test_arrays_that_no_map_can_describe(strides: str) -> None:
    """The innermost elements lie next to each other, in rising order."""
    array = A[::-1] if strides == "reversed" else A.T
    with pytest.raises(UsageError, match="must be contiguous"):
        TensorMap.tiled(array, box=(8, 8))


def test_alignment_of_the_address() -> None:
    """16 bytes, 32 for padded types; never beyond 57 bits."""
    made = TensorMap.tiled(A, box=(64, 8), dims=(128, 63), offset=256)
    assert read(made.encode(1 << 40))["global_address"] == (1 << 40) + 256
    for address in (8, 1 << 57):
        with pytest.raises(UsageError):
            made.encode(address)
    padded = TensorMap.tiled(A, box=(128, 1), dims=(128, 2), strides=(64,), dtype="b4x16_p64")
    with pytest.raises(UsageError, match="32-byte"):
        padded.encode(16)


def test_bytes_that_are_no_map() -> None:
    """Wrong lengths and codes."""
    good = TensorMap.tiled(A, box=(64, 8)).encode(0)
    for data, words in ((good[:-1], "127 bytes"), (write(good, {"elemtype": 14}), "element type"),
                        (write(good, {"rank": 6}), "rank 6")):
        with pytest.raises(UsageError, match=words):
            TensorMap.decode(data)
    with pytest.raises(UsageError, match="no field of a tensor map"):
        write(good, {"colour": 1})
    assert set(read(bytes(MAP_BYTES))) == set(TABLE)


@st.composite
def maps(draw: st.DrawFn) -> TensorMap:
    """Legal maps of all kinds, without an array."""
    kind = draw(st.sampled_from([n for n, e in ELEMENTS.items() if not e.pads]))
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.sampled_from([*SWIZZLES]))
    bits, span = ELEMENTS[kind].bits, min(SWIZZLES[swizzle].span, 256)
    inner = draw(st.integers(1, span // 16)) * 128 // bits
    box = (min(inner, 256), *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    dims = tuple(2 * draw(st.integers(1, 1 << 31)) for _ in range(rank))
    strides = tuple(16 * draw(st.integers(0, (1 << 36) - 1)) for _ in range(rank - 1))
    steps = tuple(draw(st.integers(1, 8)) for _ in range(rank))
    corner = None
    if rank >= 3 and draw(st.booleans()):
        low = {3: 15, 4: 7, 5: 4}[rank]
        corner = Im2col(*(tuple(draw(st.integers(-2, min(2, low))) for _ in range(rank - 2))
                          for _ in range(2)), box[0], draw(st.integers(1, 64)))
        dims = (dims[0], *(n % 1000 + 10 for n in dims[1:]))
        box = (corner.channels, corner.pixels)
    fill = draw(st.sampled_from(["zero", "nan"])) if ELEMENTS[kind].floating else "zero"
    promotion = draw(st.sampled_from(["none", "64B", "128B", "256B"]))
    return TensorMap(None, kind, dims, strides, box, steps, swizzle, "none", promotion, fill,
                     16 * draw(st.integers(0, (1 << 53) - 1)), corner)


@given(maps())
@settings(max_examples=150, deadline=None)
def test_bytes_and_back(made: TensorMap) -> None:
    """Decoding what was encoded gives the map again; its address is the offset."""
    check_map(made)
    assert TensorMap.decode(made.encode(0)) == made


@given(maps(), st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=5, max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_box_lies_where_its_coordinates_say(made: TensorMap, where: list[int]) -> None:
    """Blocks are inside the tensor and the image, never negative, and of the counted size."""
    unit = 128 // made.element.bits
    at = [where[0] // unit * unit, *where[1 : made.rank]]
    if made.im2col_box is not None:
        at[1:] = [c % 10 for c in at[1:]]
    found = cut(made, at, load="tile" if made.im2col_box is None else "im2col",
                offsets=[0] * (made.rank - 2))
    image = np.zeros(found.shape, np.uint8)
    last = sum((n - 1) * s for n, s in zip(made.dims[1:], made.strides, strict=True))
    for block in found.blocks:
        assert image[block.at].shape == block.shape
        image[block.at] += 1
        assert block.start >= 0
        assert block.end <= last + made.element.global_bytes(made.dims[0])
        assert len(block.rows()) == np.prod(block.shape[:-1])
    assert image.size == made.box_bytes
    assert image.max(initial=0) <= 1
    assert found.whole == bool(image.all())


@pytest.mark.parametrize("name", SWIZZLES)
@pytest.mark.parametrize("phase", [0, 128, 640])
def test_arrangements_put_and_take(name: str, phase: int) -> None:
    """What is put is taken again; units never meet, and stay in their 1024 bytes."""
    rng, mode = np.random.default_rng(), SWIZZLES[name]
    width = min(mode.span, 128)
    how = arrange(7, width, name, ELEMENTS["u8"], 4096 + phase)
    memory = rng.integers(0, 256, 8192, dtype=np.uint8)
    before, image = memory.copy(), rng.integers(0, 256, 7 * width, dtype=np.uint8)
    how.put(memory, 4096 + phase, image)
    np.testing.assert_array_equal(how.take(memory, 4096 + phase), image)
    touched = how.places(4096 + phase)
    assert len(np.unique(touched)) == image.size
    before[touched] = image
    np.testing.assert_array_equal(memory, before)
    assert how.low + phase >= phase // 128 * 128


def test_coordinates_have_their_own_rules() -> None:
    """The chip copies 16 bytes at least; packed types count pairs, padded ones 128."""
    made = TensorMap.tiled(A, box=(64, 8))
    for at, words in (((4, 0), "multiple of 8"), ((0,), "rank 2"), ((0, 0, 0), "rank 2")):
        with pytest.raises(UsageError, match=words):
            cut(made, at)
    with pytest.raises(UsageError, match=r"one by one"):
        cut(made, (0, 0, 0, 0, 0), load="tile::gather4")
    with pytest.raises(UsageError, match="one for tile copies"):
        cut(TensorMap.tiled(N, box=(8, 1, 1, 1)), (0, 0, 0, 0), load="im2col")
    padded = TensorMap.tiled(A, box=(128, 1), dims=(256, 2), strides=(128,), dtype="b4x16_p64")
    with pytest.raises(UsageError, match="multiple of 128"):
        cut(padded, (64, 0))


@pytest.mark.parametrize(("first", "offset", "given"), [
    (1, 0, "a view that begins 4 bytes into its array"),
    (2, 4, "a view that begins 8 bytes into its array, offset 4"),
    (0, 4, "offset 4"),
])
def test_a_tensor_that_begins_between_16_bytes(first: int, offset: int, given: str) -> None:
    """Where a view begins in its array decides, not where the allocator put that array."""
    array = np.zeros((8, 64), np.float32)
    with pytest.raises(UsageError) as caught:
        TensorMap.tiled(array[:, first:], box=(32, 8), dims=(32, 8), strides=(256,), offset=offset)
    assert caught.value.given == given
    assert caught.value.rule == "the tensor's first byte is not 16-byte aligned"
    assert "a multiple of 16 bytes (4 f32)" in str(caught.value)
    assert TensorMap.tiled(array[:, 4:], box=(32, 8)).dims == (60, 8)
    assert TensorMap.tiled(array[:, 1:], box=(32, 8), dims=(32, 8), strides=(256,), offset=12)


def test_a_view_of_interleaved_slices_begins_at_32_bytes() -> None:
    """The unit of the address is the map's."""
    array = np.zeros((1, 4, 8, 8, 16), np.float16)
    assert TensorMap.tiled(array[:, :, 1:], box=(8, 8, 1, 1), interleave="32B")
    half = np.zeros((1, 4, 8, 8, 24), np.float16)[..., 8:]
    with pytest.raises(UsageError, match="32"):
        TensorMap.tiled(half, box=(8, 8, 1, 1), interleave="32B", dims=(8, 8, 4, 1),
                        strides=(32, 384, 3072))
