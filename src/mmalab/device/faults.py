"""A kernel that faulted on the GPU, explained by the CPU.

The driver says "an illegal memory access was encountered" and nothing else. The emulator runs the
same launch on copies of the arguments and says which thread at which line accessed what::

    kernel twice on NVIDIA H200 (sm_90): CUDA_ERROR_ILLEGAL_ADDRESS in a launch with grid ....
      legal: a fresh process: after a fault this one can launch nothing more
      see:   CUDA driver API
      | cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)
      | the emulator finds in the same launch: error[out-of-bounds] CTA (0,0,0), warp 1, lane 0 ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from mmalab.device.driver import DriverError
from mmalab.device.signature import Shape, Signature
from mmalab.emulator import emulate
from mmalab.emulator.arguments import as_array
from mmalab.errors import MmalabError, ToolError
from mmalab.tensormap import TensorMap

__all__ = ["explanation", "fault"]

#: Warp instructions after which the emulator stops looking.
_STEPS = 200_000


def fault(failed: DriverError, device: str, signature: Signature, shape: Shape, text: str,
          args: Sequence[Any]) -> ToolError:
    """The error of a kernel that the driver refused or that ended badly on `device`."""
    return ToolError(
        f"kernel {signature.entry} on {device}", f"{failed.name} in a launch with {shape}",
        output=f"{failed.given}: {failed.rule}\n{explanation(signature, shape, text, args)}",
        legal="a fresh process: after a fault this one can launch nothing more",
        where="CUDA driver API")


def explanation(signature: Signature, shape: Shape, text: str, args: Sequence[Any]) -> str:
    """What the emulator finds first in the same launch, or why it finds nothing."""
    try:
        run = emulate(text, _copies(args), entry=signature.entry, grid=shape.grid,
                      block=shape.block, cluster=shape.cluster,
                      dynamic_shared=shape.dynamic_shared, max_steps=_STEPS)
    except MmalabError as stopped:
        return f"the emulator found nothing before it stopped: {stopped}"
    if not run.findings:
        return "the emulator runs the same launch and finds nothing wrong"
    return f"the emulator finds in the same launch: {run.findings[0]}"


def _copies(args: Sequence[Any]) -> list[Any]:
    """The entry's values, arrays copied (those behind tensor maps too), each of them once."""
    known: dict[tuple[Any, ...], NDArray[Any]] = {}

    def copied(array: NDArray[Any]) -> NDArray[Any]:
        key = array.ctypes.data, array.shape, array.strides, array.dtype.str
        return known[key] if key in known else known.setdefault(key, array.copy())

    return [_copy(value, copied) for value in args]


def _copy(value: Any, copied: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    if isinstance(value, TensorMap):
        return value if value.buffer is None else replace(value, array=copied(value.buffer))
    if isinstance(value, (list, tuple)):
        return [_copy(each, copied) for each in value]
    array = as_array(value)
    return value if array is None else copied(array)
