"""Tensor maps for the device: the driver encodes them, and what we would have encoded is compared.

    >>> at_address(driver(), TensorMap.tiled(a, box=(64, 64)), 0x7F00_0000_0000)  # doctest: +SKIP

The first 64 bytes are what the chip reads; behind them the driver keeps notes of its own, and those
may change between drivers. A difference in what the chip reads is an error, never a silent choice.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mmalab.device.driver import DriverError, call
from mmalab.errors import ToolError, UsageError
from mmalab.tensormap import MAP_BYTES, TensorMap
from mmalab.tensormap.rules import FILLS, INTERLEAVES, L2_PROMOTIONS

__all__ = ["at_address"]

#: Bytes that the chip reads.
_READ = 64
_WHERE = "CUDA driver API, tensor map object management"


def at_address(cuda: Any, made: TensorMap, address: int) -> bytes:
    """The 128 bytes of a map over an array whose first byte has this device address.

    Args:
        cuda: ``cuda.bindings.driver``.
        made: the map.
        address: of the array (the map's own offset is added).

    Raises:
        UsageError: the map breaks a rule, or the driver refuses it for this device.
        ToolError: the driver encodes other bytes than :meth:`TensorMap.encode`.
    """
    ours = made.encode(address)
    try:
        theirs = _driver_bytes(cuda, made, address + made.offset)
    except DriverError as failed:
        raise UsageError(f"a tensor map of {made.dtype}, box {made.box}, swizzle {made.swizzle}",
                         f"the driver refuses it for this device ({failed.name})",
                         legal="types and swizzles that the device has", where=_WHERE) from failed
    if ours[:_READ] != theirs[:_READ]:
        at = next(i for i in range(_READ) if ours[i] != theirs[i])
        raise ToolError("a tensor map", f"the driver encodes byte {at:#x} as {theirs[at]:#04x}, "
                        f"mmalab as {ours[at]:#04x}", where=_WHERE,
                        output=f"driver {theirs[:_READ].hex()}\nmmalab {ours[:_READ].hex()}")
    return theirs


def _driver_bytes(cuda: Any, made: TensorMap, address: int) -> bytes:
    head = (cuda.CUtensorMapDataType(made.element.driver), made.rank, address,
            # a tensor of rank 1 has no strides, but the driver wants a pointer
            _wide(cuda, made.dims), _wide(cuda, made.strides or (16,)))
    steps = [cuda.cuuint32_t(step) for step in made.element_strides]
    tail = (cuda.CUtensorMapInterleave(INTERLEAVES.index(made.interleave)),
            cuda.CUtensorMapSwizzle(made.swizzle_mode.driver),
            cuda.CUtensorMapL2promotion(L2_PROMOTIONS.index(made.l2_promotion)),
            cuda.CUtensorMapFloatOOBfill(FILLS.index(made.fill)))
    corner = made.im2col_box
    if corner is None:
        box = [cuda.cuuint32_t(size) for size in made.box]
        found = call(cuda.cuTensorMapEncodeTiled, *head, box, steps, *tail)
    elif not corner.wide:
        found = call(cuda.cuTensorMapEncodeIm2col, *head, list(corner.lower), list(corner.upper),
                     corner.channels, corner.pixels, steps, *tail)
    else:
        raise UsageError(f"an im2col map of mode {corner.wide}", "is not launched from here",
                         legal="tiled or plain im2col maps", where=_WHERE)
    return ctypes.string_at(found.getPtr(), MAP_BYTES)


def _wide(cuda: Any, values: Sequence[int]) -> list[Any]:
    return [cuda.cuuint64_t(value) for value in values]
