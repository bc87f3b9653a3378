"""A kernel that faulted or hangs on the GPU, or was refused there, explained by the CPU.

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

from mmalab.device.driver import DriverError, Hung
from mmalab.device.signature import Shape, Signature
from mmalab.emulator import emulate
from mmalab.emulator.arguments import as_array
from mmalab.errors import MmalabError, ToolError
from mmalab.findings import Finding
from mmalab.tensormap import TensorMap

__all__ = ["explanation", "fault", "refused"]

#: Warp instructions after which the emulator stops looking.
_STEPS = 200_000


#: What the driver answers to a launch that never began; the process can go on.
_REFUSALS = frozenset("CUDA_ERROR_" + name for name in (
    "INVALID_VALUE", "LAUNCH_OUT_OF_RESOURCES", "INVALID_CLUSTER_SIZE", "NOT_SUPPORTED",
    "NOT_PERMITTED", "OUT_OF_MEMORY", "INVALID_HANDLE"))


def refused(failed: DriverError | Hung) -> bool:
    """Whether the launch never began."""
    return isinstance(failed, DriverError) and failed.name in _REFUSALS


def fault(failed: DriverError | Hung, device: str, signature: Signature, shape: Shape, text: str,
          args: Sequence[Any]) -> ToolError:
    """The error of a kernel that the driver refused, or that ended badly or not at all there."""
    hung = isinstance(failed, Hung)
    what = failed.rule.partition(",")[0] if isinstance(failed, Hung) else failed.name
    seen = explanation(signature, shape, text, args, hung=hung)
    return ToolError(
        f"kernel {signature.entry} on {device}", f"{what} in a launch with {shape}",
        output=f"{failed.given}: {failed.rule}\n{seen}",
        legal="another launch" if refused(failed)
        else "a fresh process: after a fault this one can launch nothing more",
        where="CUDA driver API")


def explanation(signature: Signature, shape: Shape, text: str, args: Sequence[Any], *,
                hung: bool = False) -> str:
    """What the emulator finds in the same launch, or why it finds nothing: the deadlock of a kernel
    that is `hung`, else the first error."""
    try:
        run = emulate(text, _copies(args), entry=signature.entry, grid=shape.grid,
                      block=shape.block, cluster=shape.cluster,
                      dynamic_shared=shape.dynamic_shared, max_steps=_STEPS)
    except MmalabError as stopped:
        return f"the emulator found nothing before it stopped: {stopped}"
    if not run.findings:
        return "the emulator runs the same launch and finds nothing wrong"
    return f"the emulator finds in the same launch: {_first(run.findings, hung=hung)}"


def _first(findings: Sequence[Finding], *, hung: bool) -> Finding:
    """The finding that explains most."""
    ranked = sorted(findings, key=lambda f: (hung and f.code != "deadlock", f.severity != "error"))
    return ranked[0]


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
