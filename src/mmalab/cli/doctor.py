"""``mmalab doctor``: what is installed and usable here.

Every probe ends in a finding or in the reason why it found nothing, and the verb itself never
fails: a machine without a GPU and without a toolkit is a healthy machine for most of mmalab.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import mmalab
from mmalab.cli.output import Json, print_json, say, table

__all__ = ["doctor", "probe_all"]

#: Distributions that mmalab can use, and what for.
_PACKAGES = {
    "numpy": "arrays", "ml_dtypes": "FP8, BF16 arrays", "llvmlite": "compiled emulation",
    "typer": "this command", "rich": "the tour", "cuda-core": "launching on a GPU",
    "cuda-bindings": "launching on a GPU", "nvidia-ml-py": "clocks and power",
}


def doctor(*, json: Json = False) -> None:
    """Print what is installed; exit 0 whatever is missing."""
    found = probe_all()
    if json:
        print_json(found)
        return
    say(f"mmalab {found['mmalab']} on Python {found['python']['version']}, "
        f"{found['python']['platform']}", "")
    say(table([(name, row["version"] or "not installed", row["use"])
               for name, row in found["packages"].items()], indent="  "), "")
    cpu = found["cpu"]
    say("processor: " + (cpu.get("problem") or
                         f"{cpu['name']}, {cpu['cores']} cores, {' '.join(cpu['features'])}"))
    tools = found["tools"]
    say("tools:" if tools["found"] else f"tools: {tools['problem']}")
    if tools["found"]:
        say(table([(tool["name"], tool["version"], tool["ptx"], tool["origin"])
                   for tool in tools["found"]], indent="  "))
        for line in tools["missing"]:
            say(f"  {line}")
    gpu = found["gpu"]
    say("GPU: " + (gpu.get("problem") or "; ".join(
        f"{d['name']}, sm_{d['capability']}, driver {gpu['driver']}" for d in gpu["devices"])))
    say(f"cache: {found['cache'] or 'none can be written: every run starts afresh'}")


def probe_all() -> dict[str, Any]:
    """Every probe's answer, as plain data."""
    return {
        "mmalab": mmalab.__version__,
        "python": {"version": platform.python_version(), "executable": sys.executable,
                   "platform": platform.platform()},
        "packages": {name: {"version": _version(name), "use": use}
                     for name, use in _PACKAGES.items()},
        "cpu": _guarded(_cpu),
        "tools": _guarded(_tools),
        "gpu": _guarded(_gpu),
        "cache": _guarded(_cache),
    }


def _guarded(probe: Callable[[], Any]) -> Any:
    """A probe may meet any broken installation; what it meets is its answer."""
    try:
        return probe()
    except Exception as failed:  # noqa: BLE001
        return {"problem": f"{type(failed).__name__}: {failed}".splitlines()[0], "found": [],
                "devices": []}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    wanted = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "neon", "sve")
    return {"name": llvm.get_host_cpu_name(), "cores": os.cpu_count(),
            "features": [name for name in wanted if features.get(name)],
            "llvm": ".".join(map(str, llvm.llvm_version_info))}


def _tools() -> dict[str, Any]:
    from mmalab.toolchain.locate import TOOLS, supported_ptx, tools

    found = [{
        "name": tool.name, "version": str(tool), "toolkit": tool.toolkit, "path": str(tool.path),
        "origin": tool.origin,
        "ptx": "PTX {}.{}".format(*supported_ptx(tool)) if tool.name == "ptxas" else "",
    } for tool in tools()]
    missing = [f"{name}: not installed (pip install {wheel})"
               for name, wheel in TOOLS.items() if not tools(name)]
    problem = "" if found else "none found; pip install 'mmalab[toolchain]'"
    return {"found": found, "missing": missing, "problem": problem}


def _gpu() -> dict[str, Any]:
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return {"devices": [],
                "problem": "nvidia-ml-py is not installed; pip install 'mmalab[gpu]'"}
    nvml.nvmlInit()
    try:
        devices = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
            devices.append({"name": nvml.nvmlDeviceGetName(handle),
                            "capability": f"{major}{minor}",
                            "memory": nvml.nvmlDeviceGetMemoryInfo(handle).total})
        problem = "" if devices else "the driver is there, but no device"
        return {"devices": devices, "driver": nvml.nvmlSystemGetDriverVersion(),
                "problem": problem}
    finally:
        nvml.nvmlShutdown()


def _cache() -> str | None:
    from mmalab.toolchain.cache import cache_folder

    folder = cache_folder()
    return None if folder is None else str(folder)
