"""A device whose memory is the host's: what an arena asks of a driver; nothing computes."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["host_gpu", "seen"]


def host_gpu(l2: int = 1 << 10) -> Any:
    """The device, with an L2 of `l2` bytes, so that few sets of operands go round."""
    held: list[Any] = []

    def allocate(size: int) -> tuple[int, int]:
        held.append(ctypes.create_string_buffer(size))
        return 0, ctypes.addressof(held[-1])

    def copy(to: int, start: int, size: int, stream: Any = None) -> tuple[int]:
        ctypes.memmove(to, start, size)
        return (0,)

    def fill(place: int, word: int, count: int) -> tuple[int]:
        seen(place, (count,), np.uint16)[:] = word
        return (0,)

    driver = SimpleNamespace(
        cuMemAlloc=allocate, cuMemcpyHtoD=copy, cuMemcpyDtoH=copy, cuMemcpyDtoDAsync=copy,
        cuMemsetD8=None, cuMemsetD16=fill, cuMemsetD32=None, cuCtxSynchronize=lambda: (0,),
        cuMemFree=lambda address: (0,))
    for name, function in vars(driver).items():
        if function is not None:  # outputs of 16 bits are all that is needed
            function.__name__ = name
    return SimpleNamespace(driver=driver, attribute=lambda name: l2, lost="",
                           stream=SimpleNamespace(handle=0), wait=lambda *_, **__: None)


def seen(address: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array over device memory."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape)
