"""The CUDA driver through cuda.bindings: every call checked, every absence explained.

    >>> count = call(driver().cuDeviceGetCount)                   # doctest: +SKIP

A call that fails raises :class:`DriverError`, with the driver's own name and words for the error.
"""

from __future__ import annotations

import importlib
from typing import Any

from mmalab.errors import ToolError

__all__ = ["DriverError", "Hung", "call", "check", "driver", "gpu_library"]

_INSTALL = "pip install 'mmalab[gpu]'"
_WITHOUT = "mmalab.emulate runs the same kernel without a GPU"


class DriverError(ToolError):
    """A call of the CUDA driver failed. `name` is the error's, as CUDA_ERROR_ILLEGAL_ADDRESS."""

    def __init__(self, function: str, name: str, words: str) -> None:
        self.name = name
        super().__init__(function, f"{name} ({words})", where="CUDA driver API")


class Hung(ToolError):
    """A kernel did not return in time. Nothing stops it, so this process can launch nothing more.

    Nor may it wait for the device: even giving memory back does.
    """


def gpu_library(name: str) -> Any:
    """The module `name` of cuda-core or cuda-bindings.

    Raises:
        ToolError: it is not installed, or finds no driver; the message says what to do.
    """
    try:
        return importlib.import_module(name)
    except ImportError as failed:
        raise ToolError(name, f"cannot be imported: {failed}", legal=[_INSTALL, _WITHOUT],
                        where="mmalab doctor") from None
    except RuntimeError as failed:  # cuda-core looks for the driver when it is imported
        raise no_driver(failed) from None


def no_driver(failed: Exception) -> ToolError:
    """What to say on a machine whose driver is missing or refuses to start."""
    said = " ".join(str(failed).split())
    return ToolError("the CUDA driver", f"cannot be used: {said}",
                     legal=["a machine with an NVIDIA GPU and its driver", _WITHOUT],
                     where="mmalab doctor")


def driver() -> Any:
    """``cuda.bindings.driver``, initialised.

    Raises:
        ToolError: cuda-bindings is not installed, or there is no driver.
    """
    module = gpu_library("cuda.bindings.driver")
    try:
        (error,) = module.cuInit(0)
    except RuntimeError as failed:
        raise no_driver(failed) from None
    if int(error):
        raise no_driver(_failure(module, "cuInit", error))
    return module


def call(function: Any, *arguments: Any) -> Any:
    """One driver call: nothing, its result, or the tuple of its results.

    Raises:
        DriverError: the driver returned an error.
    """
    error, *results = function(*arguments)
    check(function.__name__, error)
    return results[0] if len(results) == 1 else tuple(results) or None


def check(function: str, error: Any) -> None:
    """Raise DriverError unless `error`, which `function` returned, is CUDA_SUCCESS."""
    if int(error):
        raise _failure(gpu_library("cuda.bindings.driver"), function, error)


def _failure(module: Any, function: str, error: Any) -> DriverError:
    name, words = (each(error)[1] for each in (module.cuGetErrorName, module.cuGetErrorString))
    return DriverError(function, name.decode() if name else str(error),
                       words.decode() if words else "the driver has no words for it")
