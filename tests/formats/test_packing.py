"""Sub-byte words in bytes, and arrays of other libraries."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.formats import FORMATS


def test_the_even_fp4_element_is_in_the_low_nibble():
    """Two e2m1 a byte, low nibble first."""
    assert formats.pack([0x1, 0x2, 0xF, 0x0], "e2m1").tolist() == [0x21, 0x0F]
    assert formats.unpack([0x21, 0x0F], "e2m1").tolist() == [1, 2, 15, 0]


def test_four_6_bit_elements_fill_three_bytes():
    """Little endian: element i lies at bits 6i to 6i + 5."""
    words = [0x3F, 0x00, 0x15, 0x2A]
    value = sum(word << (6 * i) for i, word in enumerate(words))
    assert formats.pack(words, "e3m2").tolist() == list(value.to_bytes(3, "little"))


@pytest.mark.parametrize("name", FORMATS)
def test_unpack_undoes_pack(name, rng):
    """Random words of every format, in the last axis of a larger array."""
    fmt = FORMATS[name]
    words = rng.integers(0, 1 << fmt.bits, (3, 24), dtype=np.uint64).astype(fmt.dtype)
    data = formats.pack(words, fmt)
    assert data.shape == (3, 24 * fmt.bits // 8)
    assert np.array_equal(formats.unpack(data, fmt), words)


def test_containers_of_f8f6f4():
    """e2m1 in bits 2 to 5, 6-bit formats in bits 0 to 5; other bits are ignored when read."""
    assert formats.to_containers([0xF, 0x1], "e2m1").tolist() == [0x3C, 0x04]
    assert formats.from_containers([0xFF, 0xC7], "e2m1").tolist() == [0xF, 0x1]
    assert formats.to_containers([0x2A], "e2m3").tolist() == [0x2A]
    assert formats.from_containers([0xEA], "e2m3").tolist() == [0x2A]
    assert formats.to_containers([0xFF], "e5m2").tolist() == [0xFF]


def test_what_does_not_fill_bytes_is_refused():
    """Odd nibbles, wrong byte counts, and wide formats in a byte."""
    with pytest.raises(UsageError, match=r"^3 elements of e2m1: 12 bits do not fill whole bytes\n"
                                         r"  legal: a multiple of 2 elements"):
        formats.pack([1, 2, 3], "e2m1")
    with pytest.raises(UsageError, match="legal: a multiple of 3 bytes"):
        formats.unpack([1, 2], "e3m2")
    with pytest.raises(UsageError, match=r"^f16 in a byte: the format has 16 bits"):
        formats.to_containers([1], "f16")


@pytest.mark.parametrize("name", [n for n in FORMATS if n not in {"tf32", "s2f6", "ue4m3"}])
def test_arrays_of_other_libraries_and_back(name, rng):
    """words -> NumPy or ml_dtypes array -> the same words, and the array has the same values."""
    fmt = FORMATS[name]
    words = rng.integers(0, 1 << fmt.bits, 500, dtype=np.uint64).astype(fmt.dtype)
    array = formats.to_array(words, fmt)
    assert array.dtype == formats.dtype_of(fmt)
    back, found = formats.from_array(array)
    assert found is fmt
    assert np.array_equal(back, words)
    if fmt.bits < 64:
        with np.errstate(invalid="ignore"):
            assert np.array_equal(array.astype(np.float64), formats.decode(words, fmt),
                                  equal_nan=True)


def test_arrays_of_formats_without_a_type_of_their_own():
    """tf32 is float32 with 13 bits cleared, ue4m3 e4m3 without sign, s2f6 float32."""
    assert formats.to_array(np.array([0x3F801FFF], np.uint32), "tf32").tolist() == [1.0]
    unsigned = formats.to_array(np.array([0xB8], np.uint8), "ue4m3")
    assert unsigned.dtype == ml_dtypes.float8_e4m3fn
    assert float(unsigned[0]) == 1.0
    assert formats.to_array(np.array([0xC0], np.uint8), "s2f6").tolist() == [-1.0]


def test_types_that_are_no_format_are_refused():
    """Complex numbers, strings, and float8 variants that the ISA does not have."""
    for dtype in (np.complex64, np.dtype("U4"), ml_dtypes.float8_e4m3b11fnuz):
        with pytest.raises(UsageError, match="not a number format of the PTX ISA"):
            formats.format_of(dtype)
