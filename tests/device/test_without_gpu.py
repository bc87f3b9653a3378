"""What launching says on a machine that cannot: which part is missing, and what would do."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import mmalab
from mmalab.device import info
from mmalab.device.driver import DriverError, call
from mmalab.errors import ToolError, UsageError
from mmalab.kernels.sm80_mma import gemm

KERNEL = gemm(8, 8, 8)


def arguments():
    return [np.zeros((8, 8), np.uint16), np.zeros((8, 8), np.uint16), np.zeros((8, 8), np.float32)]


@pytest.fixture
def no_libraries(monkeypatch):
    """cuda-core and nvidia-ml-py cannot be imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cuda", "pynvml")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)


@pytest.fixture
def no_driver(monkeypatch):
    """cuda-bindings is there, and its first call finds no driver library."""
    def initialise(flags):
        raise RuntimeError('"cuda" is an NVIDIA driver library and\n cannot be found')

    driver = types.ModuleType("cuda.bindings.driver")
    driver.cuInit = initialise
    for name in ("cuda", "cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)


@pytest.mark.usefixtures("no_libraries")
def test_without_cuda_core_the_error_says_what_to_install():
    """A launch names the missing package, its extra, and the way that needs no GPU."""
    with pytest.raises(ToolError) as refused:
        mmalab.launch(KERNEL, arguments(), gpu=11)
    first, *rest = str(refused.value).splitlines()
    assert first.startswith("cuda.core: cannot be imported: ")
    assert rest == [
        "  legal: pip install 'mmalab[gpu]', mmalab.emulate runs the same kernel without a GPU",
        "  see:   mmalab doctor"]


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_the_error_says_so():
    """A launch repeats the library's words on one line and says what would do."""
    with pytest.raises(ToolError) as refused:
        mmalab.launch(KERNEL, arguments(), gpu=11)
    assert str(refused.value) == (
        'the CUDA driver: cannot be used: "cuda" is an NVIDIA driver library and cannot be found\n'
        "  legal: a machine with an NVIDIA GPU and its driver, "
        "mmalab.emulate runs the same kernel without a GPU\n"
        "  see:   mmalab doctor")


@pytest.mark.usefixtures("no_libraries")
def test_info_says_why_each_probe_is_silent():
    """Asking for the device never fails; each silence has a reason."""
    found = info()
    assert set(found) == {"gpu", "problems"}
    assert found["problems"]["cuda"].startswith("cuda.bindings.driver: cannot be imported: ")
    assert found["problems"]["nvml"].startswith("nvidia-ml-py: cannot be imported: ")


def test_arguments_are_checked_before_any_gpu_is_looked_for():
    """Wrong arrays are refused with the kernel's own words, on any machine."""
    a, b, c = arguments()
    with pytest.raises(UsageError, match="argument 0 \\(a\\): shape \\(4, 8\\)"):
        mmalab.launch(KERNEL, [a[:4], b, c])


def test_a_failed_call_has_the_drivers_name_and_words(monkeypatch):
    """An error code becomes the call's name, the error's name, and the driver's sentence."""
    driver = types.ModuleType("cuda.bindings.driver")
    driver.cuGetErrorName = lambda error: (0, b"CUDA_ERROR_OUT_OF_MEMORY")
    driver.cuGetErrorString = lambda error: (0, b"out of memory")
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)

    def cuMemAlloc(size):  # noqa: N802  (the name is part of the message)
        return 2, 0

    with pytest.raises(DriverError) as failed:
        call(cuMemAlloc, 1 << 60)
    assert failed.value.name == "CUDA_ERROR_OUT_OF_MEMORY"
    assert str(failed.value) == (
        "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)\n  see:   CUDA driver API")


@pytest.mark.parametrize(("results", "value"), [((0,), None), ((0, 5), 5), ((0, 5, 6), (5, 6))])
def test_results_of_a_call_come_without_the_error(results, value):
    """A successful call gives nothing, its one result, or the tuple of its results."""
    assert call(lambda: results) == value
