"""What the GPU says of itself, each answer apart, each silence explained.

    >>> info()["problems"]                                        # doctest: +SKIP
    {'cuda': 'cuda.bindings.driver: cannot be imported: ...', 'nvml': 'nvidia-ml-py ...'}
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mmalab.device.driver import call, driver
from mmalab.errors import MmalabError, ToolError

__all__ = ["info", "sm_clock"]

_ATTRIBUTES = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "shared_per_block": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "l2_bytes": "L2_CACHE_SIZE",
}


def info(gpu: int = 0) -> dict[str, Any]:
    """What is known of device `gpu`; ``problems`` says, by probe, why something is missing.

    Never raises: a machine without a GPU has an answer too. Clocks are MHz as NVML reads them
    (on an H200 above what a kernel counts itself), power watts, memory bytes.
    """
    found: dict[str, Any] = {"gpu": gpu, "problems": {}}
    for name, probe in (("cuda", _cuda), ("nvml", _nvml)):
        try:
            found.update(probe(gpu))
        except MmalabError as failed:
            found["problems"][name] = str(failed).splitlines()[0]
        except Exception as failed:  # noqa: BLE001  (a broken installation is an answer)
            found["problems"][name] = f"{type(failed).__name__}: {failed}"
    return found


def _cuda(gpu: int) -> dict[str, Any]:
    cuda = driver()
    device = call(cuda.cuDeviceGet, gpu)
    version = call(cuda.cuDriverGetVersion)
    kinds = cuda.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(call(cuda.cuDeviceGetAttribute, getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"),
                        device))

    return {
        "name": call(cuda.cuDeviceGetName, 256, device).split(b"\0")[0].decode(),
        "capability": f"{attribute('COMPUTE_CAPABILITY_MAJOR')}."
                      f"{attribute('COMPUTE_CAPABILITY_MINOR')}",
        "cuda": f"{version // 1000}.{version % 1000 // 10}",
        "memory": int(call(cuda.cuDeviceTotalMem, device)),
        **{key: attribute(name) for key, name in _ATTRIBUTES.items()},
    }


def _nvml_module() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as failed:
        raise ToolError("nvidia-ml-py", f"cannot be imported: {failed}",
                        legal="pip install 'mmalab[gpu]'", where="mmalab doctor") from None


def _nvml(gpu: int) -> dict[str, Any]:
    nvml = _nvml_module()
    nvml.nvmlInit()
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(gpu)
        asked: dict[str, Callable[[], Any]] = {
            "driver": nvml.nvmlSystemGetDriverVersion,
            "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "sm_clock_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        }
        found: dict[str, Any] = {}
        for key, ask in asked.items():
            try:
                found[key] = ask()
            except nvml.NVMLError as failed:
                found[key] = None
                found.setdefault("not_supported", {})[key] = str(failed)
        return found
    finally:
        nvml.nvmlShutdown()


def sm_clock(gpu: int = 0) -> int | None:
    """The SM clock now, in MHz, None where NVML does not say."""
    answer = info(gpu).get("sm_clock")
    return None if answer is None else int(answer)
