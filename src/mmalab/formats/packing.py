"""Sub-byte words in bytes: dense in memory, and one to a byte as the tensor core reads them.

In memory the element of lower index has the lower bits: two `e2m1` share a byte, the even one in
the low nibble; four 6-bit elements fill three bytes.

    >>> pack([0x1, 0x2, 0x3, 0x4], "e2m1")
    array([33, 67], dtype=uint8)

Under ``kind::f8f6f4`` every element has a byte of its own: 6-bit formats in bits 0 to 5, `e2m1` in
bits 2 to 5. Source: PTX ISA 9.7.14.5 (fragments of 4- and 6-bit types).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.formats.parts import as_words
from mmalab.formats.table import Format, get

__all__ = ["from_containers", "pack", "to_containers", "unpack"]


def pack(words: ArrayLike, fmt: str | Format) -> NDArray[np.uint8]:
    """Words (..., n) as dense bytes (..., n * bits / 8), little endian; n must fill whole bytes."""
    fmt = get(fmt)
    raw = as_words(words, fmt)
    count = raw.shape[-1] if raw.ndim else 0
    if not raw.ndim or count * fmt.bits % 8:
        raise UsageError(
            f"{count} elements of {fmt}", f"{count * fmt.bits} bits do not fill whole bytes",
            legal=f"a multiple of {8 // np.gcd(fmt.bits, 8)} elements in the last axis",
            where="mmalab.formats",
        )
    if fmt.bits >= 8:
        little = np.ascontiguousarray(raw.astype(fmt.dtype.newbyteorder("<")))
        return little.view(np.uint8).reshape(*raw.shape[:-1], -1)
    bits = np.unpackbits(raw[..., None], axis=-1, bitorder="little", count=fmt.bits)
    return np.packbits(bits.reshape(*raw.shape[:-1], -1), axis=-1, bitorder="little")


def unpack(data: ArrayLike, fmt: str | Format) -> NDArray[Any]:
    """Dense bytes (..., b) as words (..., b * 8 / bits)."""
    fmt = get(fmt)
    raw = np.ascontiguousarray(data, np.uint8)
    count = raw.shape[-1] if raw.ndim else 0
    if not raw.ndim or count * 8 % fmt.bits:
        raise UsageError(
            f"{count} bytes", f"not a whole number of {fmt.bits}-bit elements",
            legal=f"a multiple of {fmt.bits // np.gcd(fmt.bits, 8)} bytes in the last axis",
            where="mmalab.formats",
        )
    if fmt.bits >= 8:
        return raw.view(fmt.dtype.newbyteorder("<")).astype(fmt.dtype)
    bits = np.unpackbits(raw, axis=-1, bitorder="little").reshape(*raw.shape[:-1], -1, fmt.bits)
    return np.packbits(bits, axis=-1, bitorder="little")[..., 0]


def to_containers(words: ArrayLike, fmt: str | Format) -> NDArray[np.uint8]:
    """Words of 8 bits or fewer as the bytes that ``kind::f8f6f4`` reads, same shape."""
    fmt = _narrow(get(fmt))
    return (as_words(words, fmt) << np.uint8(fmt.container_lsb)).astype(np.uint8)


def from_containers(data: ArrayLike, fmt: str | Format) -> NDArray[np.uint8]:
    """The words in bytes of ``kind::f8f6f4``; the other bits are ignored, as the chip does."""
    fmt = _narrow(get(fmt))
    mask = np.uint8((1 << fmt.bits) - 1)
    return np.asarray(data, np.uint8) >> np.uint8(fmt.container_lsb) & mask


def _narrow(fmt: Format) -> Format:
    if fmt.bits > 8:
        raise UsageError(
            f"{fmt} in a byte", f"the format has {fmt.bits} bits",
            legal="e4m3, e5m2, e3m2, e2m3, e2m1", where="PTX ISA, kind::f8f6f4",
        )
    return fmt
