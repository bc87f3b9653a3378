"""One GPU: load code, hold buffers, launch, wait.

cuda-core finds the device, makes its context and stream, and loads code. The driver API itself is
called where cuda-core has no word for it: raw parameter blocks (structs, tensor maps), clusters
next to them, more than 48 KiB of dynamic shared memory, copies between NumPy and the device.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.device.driver import DriverError, Hung, call, check, driver, gpu_library
from mmalab.device.signature import Shape
from mmalab.device.tensor_maps import at_address
from mmalab.errors import ToolError, UsageError
from mmalab.tensormap import TensorMap

__all__ = ["PATIENCE_S", "Buffers", "Code", "Gpu", "buffers", "device_count", "open_gpu"]

#: Seconds after which a kernel that has not returned is given up (it cannot be stopped).
PATIENCE_S = 60.0
#: Dynamic shared memory that needs no opting in.
_PLAIN_SHARED = 48 * 1024
#: CTAs of a cluster that every chip with clusters has.
_PORTABLE_CLUSTER = 8
#: Bytes that a parameter block is aligned to.
_MAP_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel that is loaded; `owner` keeps the library alive."""

    handle: Any
    owner: Any
    name: str


class Gpu:
    """A device whose context is current in this thread."""

    #: Why nothing can be launched on it any more; "" while all is well.
    lost = ""

    def __init__(self, index: int) -> None:
        core = gpu_library("cuda.core")
        self.driver = driver()
        count = call(self.driver.cuDeviceGetCount)
        if not 0 <= index < count:
            raise UsageError(f"gpu {index}", f"the driver sees {count} devices",
                             legal=[str(i) for i in range(count)] or "none", where="mmalab.launch")
        self._core = core
        self.device = core.Device(index)
        self.index = index
        self.enter()
        self.stream = self.device.create_stream()
        major, minor = self.device.compute_capability
        self.chip = f"sm_{major}{minor}"
        self.name = str(self.device.name)

    def enter(self) -> None:
        """Make the device's context current (again).

        Raises:
            ToolError: an earlier kernel of this process faulted or hangs.
        """
        if self.lost:
            raise ToolError(f"a launch on {self.name} ({self.chip})", "this process can launch "
                            f"nothing more: {self.lost}", legal="a fresh process",
                            where="mmalab.launch")
        self.device.set_current()

    def load(self, image: bytes, entry: str, *, ptx: bool = False) -> Code:
        """A kernel of a cubin, or of PTX that the driver compiles itself.

        Raises:
            ToolError: the driver refuses the image, or it has no such kernel.
        """
        make = self._core.ObjectCode.from_ptx if ptx else self._core.ObjectCode.from_cubin
        try:
            library = make(image)
            kernel = library.get_kernel(entry)
        except Exception as failed:
            raise ToolError(f"{entry}: {len(image)} bytes of {'PTX' if ptx else 'machine code'}",
                            f"the driver does not load it on {self.name} ({self.chip})",
                            output=str(failed), where="cuLibraryLoadData") from failed
        return Code(kernel.handle, (library, kernel), entry)

    def run(self, code: Code, shape: Shape, block: bytes, offsets: Sequence[int],
            patience: float = PATIENCE_S) -> float:
        """Launch with a parameter block, wait, and give the milliseconds between two events.

        `patience` is when to give up, in seconds.

        Raises:
            DriverError: the launch is refused, or the kernel faults.
            Hung: it does not return in time.
        """
        start, end = (call(self.driver.cuEventCreate, 0) for _ in range(2))
        try:
            call(self.driver.cuEventRecord, start, self.stream.handle)
            self.enqueue(code, shape, block, offsets)
            call(self.driver.cuEventRecord, end, self.stream.handle)
            self.wait(code.name, patience=patience)
            return float(call(self.driver.cuEventElapsedTime, start, end))
        finally:
            for event in (start, end):
                self.driver.cuEventDestroy(event)

    def enqueue(self, code: Code, shape: Shape, block: bytes, offsets: Sequence[int]) -> None:
        """Launch with a parameter block on the stream (or into its capture), and do not wait.

        Raises:
            DriverError: the launch is refused.
        """
        self._allow_shared(code, shape.dynamic_shared)
        self._allow_cluster(code, shape)
        # A memory of its own: the parameters of tensor maps are read from 64-byte aligned places.
        held = ctypes.create_string_buffer(len(block) + _MAP_ALIGN)
        base = -(-ctypes.addressof(held) // _MAP_ALIGN) * _MAP_ALIGN
        ctypes.memmove(base, block, len(block))
        pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(base + at for at in offsets))
        call(self.driver.cuLaunchKernelEx, self._config(shape), code.handle,
             ctypes.addressof(pointers), 0)

    def _allow_shared(self, code: Code, size: int) -> None:
        if size <= _PLAIN_SHARED:
            return
        kind = self.driver.CUfunction_attribute
        attribute = kind.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        try:
            call(self.driver.cuKernelSetAttribute, attribute, size, code.handle, self.index)
        except DriverError as failed:
            most = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
            raise UsageError(f"{size} bytes of dynamic shared memory",
                             f"more than {self.name} has for one block ({failed.name})",
                             legal=f"0 to {most}, static shared memory taken off",
                             where=code.name) from failed

    def _allow_cluster(self, code: Code, shape: Shape) -> None:
        """Clusters of more CTAs than every chip has are asked for by an attribute of the kernel."""
        if prod(shape.cluster) > _PORTABLE_CLUSTER:
            kind = self.driver.CUfunction_attribute
            call(self.driver.cuKernelSetAttribute,
                 kind.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, code.handle,
                 self.index)

    def attribute(self, name: str) -> int:
        """A device attribute, by the end of its CU_DEVICE_ATTRIBUTE_ name."""
        kind = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call(self.driver.cuDeviceGetAttribute, kind, self.index))

    def _config(self, shape: Shape) -> Any:
        config = self.driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
        config.sharedMemBytes = shape.dynamic_shared
        config.hStream = self.stream.handle
        kinds = self.driver.CUlaunchAttributeID
        attributes = []
        if shape.cluster != (1, 1, 1) or shape.explicit_cluster:
            attribute = self.driver.CUlaunchAttribute()
            attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            extent = attribute.value.clusterDim
            extent.x, extent.y, extent.z = shape.cluster
            attributes.append(attribute)
        if shape.programmatic:
            attribute = self.driver.CUlaunchAttribute()
            attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        if attributes:
            config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def wait(self, name: str, pause: float = 0.0, patience: float = PATIENCE_S) -> None:
        """Until the stream is idle, but not for ever; `name` is what runs there.

        `pause` is the sleep between two looks, `patience` when to give up, in seconds.

        Raises:
            DriverError: a kernel faulted.
            Hung: it does not return in time.
        """
        end = time.monotonic() + patience
        busy = self.driver.CUresult.CUDA_ERROR_NOT_READY
        while True:
            (error,) = self.driver.cuStreamQuery(self.stream.handle)
            if error != busy:
                check("cuStreamQuery", error)
                return
            if time.monotonic() > end:
                self.lost = f"kernel {name} has not returned for {patience:g} s"
                raise Hung(name, f"did not return within {patience:g} s, and a running "
                           "kernel cannot be stopped: this process can launch nothing more",
                           where=f"{self.name} ({self.chip})")
            time.sleep(pause)


def device_count() -> int:
    """How many devices the driver sees.

    Raises:
        ToolError: no driver, or no cuda-bindings.
    """
    return int(call(driver().cuDeviceGetCount))


@lru_cache(maxsize=16)
def open_gpu(index: int) -> Gpu:
    """The device `index`, opened once.

    Raises:
        ToolError: no cuda-core, no driver, no device.
        UsageError: no device of this number.
    """
    return Gpu(index)


class Buffers:
    """Device copies of host arrays, for one launch; the same array given twice is one buffer."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._held: list[tuple[NDArray[Any], int]] = []

    def add(self, array: NDArray[Any], name: str) -> int:
        """Copy `array` over and give its device address.

        Raises:
            DriverError: no memory.
        """
        del name
        for known, address in self._held:
            if _same(known, array):
                return address
        cuda = self.gpu.driver
        address = int(call(cuda.cuMemAlloc, max(array.nbytes, 1)))
        self._held.append((array, address))
        if array.nbytes:
            whole = np.ascontiguousarray(array)
            call(cuda.cuMemcpyHtoD, address, whole.ctypes.data, whole.nbytes)
        return address

    def add_map(self, made: TensorMap, name: str) -> bytes:
        """The 128 bytes of a tensor map over its array, which is copied over.

        Raises:
            UsageError: a map without an array, or one that the device does not take.
            ToolError: the driver encodes it otherwise than mmalab.
        """
        if made.buffer is None:
            raise UsageError(f"{name}: a decoded tensor map", "has no array to copy over",
                             legal="mmalab.TensorMap.tiled(array, ...)", where="mmalab.launch")
        return at_address(self.gpu.driver, made, self.add(made.buffer, name))

    def add_maps(self, maps: Sequence[TensorMap], name: str) -> int:
        """The device address of a buffer that holds tensor maps one behind the other."""
        encoded = b"".join(self.add_map(made, f"{name}, map {i}") for i, made in enumerate(maps))
        return self.add(np.frombuffer(encoded, np.uint8), name)

    def bring_back(self, unchanged: Sequence[NDArray[Any]] = ()) -> None:
        """Copy results into the arrays, except read-only ones and those known as `unchanged`."""
        for array, address in self._held:
            if not array.nbytes or not array.flags.writeable or any(
                    _same(array, other) for other in unchanged):
                continue
            whole = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
            call(self.gpu.driver.cuMemcpyDtoH, whole.ctypes.data, address, array.nbytes)
            if whole is not array:
                array[...] = whole

    def free(self) -> None:
        """Give the memory back; after a fault the driver has taken it already, and a kernel that
        hangs would be waited for."""
        for _, address in self._held if not self.gpu.lost else ():
            self.gpu.driver.cuMemFree(address)
        self._held.clear()


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return (one.ctypes.data == other.ctypes.data and one.shape == other.shape
            and one.strides == other.strides and one.dtype == other.dtype)


@contextmanager
def buffers(gpu: Gpu) -> Iterator[Buffers]:
    """Buffers that are freed at the end."""
    held = Buffers(gpu)
    try:
        yield held
    finally:
        held.free()
