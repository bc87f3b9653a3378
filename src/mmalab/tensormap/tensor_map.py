"""The tensor map as a value: what the 128 bytes of a CUtensorMap say, and the array behind them.

    >>> import numpy as np
    >>> a = np.zeros((256, 128), np.float16)               # row-major, 256 rows of 128
    >>> map = TensorMap.tiled(a, box=(64, 32), swizzle="128B")
    >>> map.dims, map.strides, map.box_bytes               # innermost first
    ((128, 256), (256,), 4096)
    >>> TensorMap.tiled(a, box=(64, 300))
    Traceback (most recent call last):
      ...
    mmalab.errors.UsageError: box (64, 300), dimension 1: 300 is not a box size
      legal: 1 to 256
      see:   CUDA driver API, cuTensorMapEncodeTiled

Sizes are innermost first and in elements, strides in bytes; the innermost dimension has none.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError
from mmalab.tensormap.elements import Element, SwizzleMode, element, element_of, swizzle
from mmalab.tensormap.encoding import decode, encode
from mmalab.tensormap.rules import check_address, check_map, check_span, check_view

__all__ = ["Im2col", "TensorMap"]

_WHERE = "mmalab.TensorMap"


@dataclass(frozen=True, slots=True)
class Im2col:
    """The extra parameters of an im2col map.

    `lower` and `upper` are the corners of the pixel box in W, H, D (as many as the rank less two):
    the filter's base walks from ``lower`` to ``size - 1 + upper``. `channels` are taken of each
    pixel, `pixels` pixels make a column. `wide` is "" or the mode of ``.im2col::w``: "w", "w128".
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    wide: str = ""


@dataclass(frozen=True)
class TensorMap:
    """One tensor map. Build it with :meth:`tiled` or :meth:`im2col`, or decode 128 bytes.

    `array` is what the map lies over (None when decoded); `offset` the bytes from its first one to
    the tensor's, or the global address itself when decoded.
    """

    array: NDArray[Any] | None = field(compare=False, repr=False)
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str = "none"
    interleave: str = "none"
    l2_promotion: str = "none"
    fill: str = "zero"
    offset: int = 0
    im2col_box: Im2col | None = None

    # --- building -----------------------------------------------------------------------------

    @classmethod
    def tiled(cls, array: Any, box: Sequence[int], *, swizzle: str = "none",
              dims: Sequence[int] | None = None, strides: Sequence[int] | None = None,
              dtype: str | None = None, element_strides: Sequence[int] | None = None,
              interleave: str = "none", l2_promotion: str = "none", fill: str = "zero",
              offset: int = 0) -> TensorMap:
        """A map whose copies cut boxes of `box` elements (innermost first).

        `dims` and `strides` default to the array's own shape and strides, reversed.

        Raises:
            UsageError: a limit of cuTensorMapEncodeTiled is not kept.
        """
        given, kind, sizes, steps = _tensor(array, dims, strides, dtype, interleave)
        ones = (1,) * len(sizes)
        made = cls(given, kind.name, sizes, steps, _whole("box", box),
                   ones if element_strides is None else _whole("element_strides", element_strides),
                   swizzle, interleave, l2_promotion, fill, _integer("offset", offset))
        return _checked(made)

    @classmethod
    def im2col(cls, array: Any, lower: Sequence[int], upper: Sequence[int], *, channels: int,
               pixels: int, swizzle: str = "none", wide: str = "",
               dims: Sequence[int] | None = None, strides: Sequence[int] | None = None,
               dtype: str | None = None, element_strides: Sequence[int] | None = None,
               interleave: str = "none", l2_promotion: str = "none", fill: str = "zero",
               offset: int = 0) -> TensorMap:
        """A map whose copies take `channels` of `pixels` pixels of an (N, D, H, W, C) array.

        Raises:
            UsageError: a limit of cuTensorMapEncodeIm2col is not kept.
        """
        given, kind, sizes, steps = _tensor(array, dims, strides, dtype, interleave)
        ones = (1,) * len(sizes)
        corner = Im2col(_whole("lower", lower), _whole("upper", upper),
                        _integer("channels", channels), _integer("pixels", pixels), wide)
        made = cls(given, kind.name, sizes, steps, (corner.channels, corner.pixels),
                   ones if element_strides is None else _whole("element_strides", element_strides),
                   swizzle, interleave, l2_promotion, fill, _integer("offset", offset), corner)
        return _checked(made)

    # --- what follows from the fields ---------------------------------------------------------

    @property
    def rank(self) -> int:
        """Number of dimensions, 1 to 5."""
        return len(self.dims)

    @cached_property
    def element(self) -> Element:
        """The record of the element type."""
        return element(self.dtype)

    @cached_property
    def swizzle_mode(self) -> SwizzleMode:
        """The record of the swizzle."""
        return swizzle(self.swizzle)

    @cached_property
    def slice_bytes(self) -> int:
        """Bytes of the channels that lie next to each other in an interleaved tensor, 0 in others.

        Such a tensor is (N, C / slice, D, H, W, slice): its dimensions begin with W, each pixel of
        which is a slice, and the last but one counts slices (measured on an H200).
        """
        return {"none": 0, "16B": 16, "32B": 32}.get(self.interleave, 0)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy brings, by dimension, innermost first."""
        if self.im2col_box is not None:
            return self.im2col_box.channels, self.im2col_box.pixels
        if self.interleave == "none":
            steps = (1, *self.element_strides[1:])
            return tuple(-(-size // step) for size, step in zip(self.box, steps, strict=True))
        found = [-(-n // step) for n, step in zip(self.box, self.element_strides, strict=True)]
        found[-2] = 1  # whatever the box says, one slice of channels
        return tuple(found)

    @cached_property
    def box_bytes(self) -> int:
        """Bytes of one copy in shared memory, which its mbarrier counts."""
        if self.slice_bytes:
            return self.slice_bytes * prod(self.counts)
        inner, *outer = self.counts
        return self.element.shared_bytes(inner) * prod(outer)

    @property
    def noted_bytes(self) -> int:
        """The size of a box as the driver sees it, for its limit and its notes in the 128 bytes:
        traversal strides divide rounding down, slices count as elements."""
        corner = self.im2col_box
        sizes = (corner.channels, corner.pixels) if corner is not None else tuple(
            size // step for size, step in zip(self.box, self.element_strides, strict=True))
        return self.element.shared_bytes(prod(sizes))

    @property
    def buffer(self) -> NDArray[Any] | None:
        """The array's memory as one contiguous array, whatever its strides."""
        if self.array is None or self.array.flags.c_contiguous:
            return self.array
        low, high = np.lib.array_utils.byte_bounds(self.array)
        first = self.array[(slice(0, 1),) * self.array.ndim].reshape(-1).view(np.uint8)[:1]
        return np.lib.stride_tricks.as_strided(first, (high - low,), (1,),
                                               writeable=self.array.flags.writeable)

    def encode(self, address: int) -> bytes:
        """The 128 bytes of the map over an array whose first byte has this global address.

        Raises:
            UsageError: the tensor's address is not aligned as the map asks.
        """
        check_address(self, address + self.offset)
        return encode(self, address)

    @classmethod
    def decode(cls, data: bytes) -> TensorMap:
        """The map that 128 bytes hold; `offset` is its global address.

        Raises:
            UsageError: not 128 bytes, or fields that no map can have.
        """
        fields = decode(data)
        corner = fields.pop("im2col")
        made = cls(array=None, im2col_box=None if corner is None else Im2col(**corner), **fields)
        check_map(made)
        check_address(made, made.offset)
        return made


def _checked(made: TensorMap) -> TensorMap:
    check_map(made)
    if made.array is not None and made.buffer is not None:
        check_view(made, _ahead(made.array))
        check_span(made, made.buffer.nbytes)
    return made


def _ahead(array: NDArray[Any]) -> int:
    """Bytes of the memory that a view looks into, before its own first byte."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return int(np.lib.array_utils.byte_bounds(array)[0] - np.lib.array_utils.byte_bounds(owner)[0])


# --- from the caller's arguments ------------------------------------------------------------------

def _tensor(array: Any, dims: Sequence[int] | None, strides: Sequence[int] | None,
            dtype: str | None, interleave: str,
            ) -> tuple[NDArray[Any], Element, tuple[int, ...], tuple[int, ...]]:
    """The array, its element type, sizes (innermost first) and strides in bytes."""
    if not isinstance(array, np.ndarray):
        array = np.asarray(array)
    kind = element_of(array.dtype) if dtype is None else element(dtype)
    if dims is None:
        sizes = _own_dims(array, kind)
        steps = tuple(array.strides[::-1][1:]) if strides is None else _whole("strides", strides)
        _check_own_strides(array, strides)
        return (array, kind, *_interleaved(interleave, array, sizes, steps))
    sizes = _whole("dims", dims)
    if strides is not None:
        return array, kind, sizes, _whole("strides", strides)
    unit = {"16B": 16, "32B": 32}.get(interleave)
    pitches = [sizes[0] * unit if unit else kind.global_bytes(sizes[0])]
    for size in sizes[1:]:
        pitches.append(pitches[-1] * size)
    return array, kind, sizes, tuple(pitches[:-1])


def _interleaved(interleave: str, array: NDArray[Any], sizes: tuple[int, ...],
                 steps: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes without the slice of channels, where the array has one as its last axis."""
    unit = {"16B": 16, "32B": 32}.get(interleave)
    if unit is None:
        return sizes, steps
    if array.ndim < 2 or array.shape[-1] * array.itemsize != unit or steps[0] != unit:
        raise UsageError(f"an array of shape {array.shape} with interleave {interleave}",
                         f"the last axis is no slice of {unit} bytes", where=_WHERE,
                         legal=f"(N, C / {unit // array.itemsize}, H, W, {unit // array.itemsize})")
    return sizes[1:], steps[1:]


def _own_dims(array: NDArray[Any], kind: Element) -> tuple[int, ...]:
    inner, *outer = array.shape[::-1] or (1,)
    return (inner * array.itemsize * 8 // kind.bits, *outer)


def _check_own_strides(array: NDArray[Any], strides: Sequence[int] | None) -> None:
    """The innermost elements of a tensor lie next to each other, and all others behind them."""
    if array.size and array.ndim and (
            (array.strides[-1] != array.itemsize and array.shape[-1] > 1)
            or (strides is None and min(array.strides) < 0)):
        raise UsageError(f"an array with strides {array.strides}",
                         "the last axis must be contiguous and no axis reversed",
                         legal="np.ascontiguousarray(array)", where=_WHERE)


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} {value!r}", "is not an integer", legal=f"{name}=0",
                         where=_WHERE) from None


def _whole(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise UsageError(f"{name} {values!r}", "is not a sequence of integers",
                         legal="(64, 32), innermost first", where=_WHERE) from None
