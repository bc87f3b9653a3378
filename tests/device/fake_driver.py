"""A CUDA driver of our own making: a machine with one H200 whose answers are told beforehand."""

from __future__ import annotations

import ctypes
import importlib
import sys
import types
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from mmalab.device.gpu import Code, Gpu

__all__ = ["NAMES", "fake_gpu"]

#: What errors are called, by number.
NAMES = {0: "SUCCESS", 1: "INVALID_VALUE", 600: "NOT_READY", 700: "ILLEGAL_ADDRESS",
         701: "LAUNCH_OUT_OF_RESOURCES", 715: "ILLEGAL_INSTRUCTION", 716: "MISALIGNED_ADDRESS",
         719: "LAUNCH_FAILED"}


class Driver(types.ModuleType):
    """The calls that a launch makes. `query` is what the stream answers, `start` the launch."""

    def __init__(self, query: int, start: int) -> None:
        super().__init__("cuda.bindings.driver")
        self.made: list[str] = []
        self.attributes: list[tuple[Any, ...]] = []
        self._kept: list[Any] = []
        answers = {"cuLaunchKernelEx": (start,), "cuStreamQuery": (query,),
                   "cuEventCreate": (0, 1), "cuEventElapsedTime": (0, 1.5)}
        for name in ("cuLaunchKernelEx", "cuStreamQuery", "cuEventCreate", "cuEventElapsedTime",
                     "cuEventRecord", "cuEventDestroy", "cuMemFree", "cuMemcpyHtoD",
                     "cuMemcpyDtoH"):
            setattr(self, name, self._call(name, answers.get(name, (0,))))
        self.cuMemAlloc = self._alloc
        self.cuKernelSetAttribute = self._attribute
        self.cuGetErrorName = lambda error: (0, f"CUDA_ERROR_{NAMES[error]}".encode())
        self.cuGetErrorString = lambda error: (0, NAMES[error].lower().encode())
        self.CUresult = SimpleNamespace(CUDA_ERROR_NOT_READY=600)
        self.CUlaunchConfig = SimpleNamespace
        self.CUlaunchAttribute = lambda: SimpleNamespace(
            value=SimpleNamespace(clusterDim=SimpleNamespace()))
        self.CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4)
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14)

    def _call(self, name: str, answer: tuple[Any, ...]) -> Any:
        def called(*_: Any) -> tuple[Any, ...]:
            self.made.append(name)
            return answer
        called.__name__ = name
        return called

    def _alloc(self, size: int) -> tuple[int, int]:
        self._kept.append(ctypes.create_string_buffer(size))
        return 0, ctypes.addressof(self._kept[-1])

    def _attribute(self, *given: Any) -> tuple[int]:
        self.attributes.append(given)
        return (0,)


def fake_gpu(patch: pytest.MonkeyPatch, query: int = 0, start: int = 0) -> Gpu:
    """The one GPU of the machine; `query` is what its stream answers, `start` a launch."""
    module = importlib.import_module("mmalab.device.launch")  # mmalab.device.launch is its function
    driver = Driver(query, start)
    for name in ("cuda", "cuda.bindings"):
        patch.setitem(sys.modules, name, types.ModuleType(name))
    patch.setitem(sys.modules, "cuda.bindings.driver", driver)
    gpu = object.__new__(Gpu)
    gpu.driver, gpu.index, gpu.chip, gpu.name = driver, 0, "sm_90", "NVIDIA H200"
    gpu.stream = SimpleNamespace(handle=0)
    gpu.device = SimpleNamespace(set_current=lambda: None)
    patch.setattr(Gpu, "load", lambda _gpu, _image, entry, **_: Code(1, None, entry))
    patch.setattr(module, "open_gpu", lambda index: gpu)
    patch.setattr(module, "assemble", lambda *_: SimpleNamespace(
        bytes=b"", toolkit="13.5", resources=defaultdict(
            lambda: SimpleNamespace(registers=32, shared=64, barriers=0))))
    patch.setattr(module, "tools", lambda name: [name])
    patch.setattr(Gpu.wait, "__defaults__", (0.0, 0.01))
    return gpu
