"""Launches every corpus kernel on the GPU at hand and compares it with its NumPy reference.

    python tests/corpus/run_on_gpu.py [--seed N] [ID-PREFIX ...]  > results.jsonl

prints one JSON line per manifest row, `{"id", "verdict", "detail"}` with the verdict "right",
"wrong", "skipped", "failed" or "broken", then a summary line. It needs cuda-bindings (which cuda-
core brings), NumPy and ml_dtypes, and nothing of the package. PTX for another family than the
device's is skipped, by name. A kernel that faults ends its CUDA context, and one that does not
return cannot be stopped, so the run then begins anew in a fresh process behind that row.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from corpus import inputs, references

PATIENCE_S = 10.0
GUARD = 256


class Failed(Exception):
    """A driver call failed, before the launch, so that others can still follow."""


class Broken(Failed):
    """A kernel faulted or did not return: this process can launch nothing more."""


def call(function: Any, *arguments: Any) -> Any:
    """One driver call: its results, or Failed with the error's name."""
    error, *results = function(*arguments)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise Failed(f"{function.__name__}: {error.name}")
    return results[0] if len(results) == 1 else results


def fits(target: str, capability: tuple[int, int]) -> bool:
    """Whether the driver can compile this target's PTX: any older one, or exactly an `a` one."""
    number, suffix = re.fullmatch(r"sm_(\d+)([af]?)", target).groups()
    have = capability[0] * 10 + capability[1]
    return int(number) == have if suffix == "a" else int(number) <= have


def launch(row: dict[str, Any], arguments: list[inputs.Argument]) -> None:
    """Copies the arguments over, runs the kernel, copies the outputs back into their arrays."""
    module = call(driver.cuModuleLoadData, loadable(row).encode() + b"\0")
    function = call(driver.cuModuleGetFunction, module, row["entry"].encode())
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call(driver.cuFuncSetAttribute, function, most, row["dynamic_shared"])
    buffers = {a.name: call(driver.cuMemAlloc, a.value.nbytes + GUARD)
               for a in arguments if isinstance(a.value, np.ndarray)}
    for a in arguments:
        if a.name in buffers:
            call(driver.cuMemcpyHtoD, buffers[a.name], a.value.ctypes.data, a.value.nbytes)
    values = [packed(a, buffers) for a in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    call(driver.cuLaunchKernel, function, *row["grid"], *row["block"], row["dynamic_shared"], 0,
         ctypes.addressof(pointers), 0)
    wait()
    for a in arguments:
        if a.name in buffers:
            if a.role != "in":
                call(driver.cuMemcpyDtoH, a.value.ctypes.data, buffers[a.name], a.value.nbytes)
            call(driver.cuMemFree, buffers[a.name])
    call(driver.cuModuleUnload, module)


def loadable(row: dict[str, Any]) -> str:
    """The PTX, its version lowered to what the driver reads: no row needs what came later."""
    text = (inputs.CORPUS / "ptx" / row["ptx"]).read_text()
    newest = divmod(call(driver.cuDriverGetVersion) // 10, 100)
    limit = (newest[0] - 4, newest[1]) if newest[0] >= 13 else (8, newest[1] - 1)
    version = tuple(int(v) for v in row["ptx_version"].split("."))
    lowered = ".".join(map(str, min(version, limit)))
    return re.sub(r"^\.version \S+", f".version {lowered}", text, count=1, flags=re.MULTILINE)


def packed(argument: inputs.Argument, buffers: dict[str, Any]) -> Any:
    """The parameter's bytes: a device address, a tensor map, a scalar or a struct."""
    if argument.tensor_map is not None:
        return encoded(argument, buffers[argument.name])
    if argument.name in buffers:
        return ctypes.c_uint64(int(buffers[argument.name]))
    raw = argument.value if isinstance(argument.value, bytes) else argument.value.tobytes()
    return ctypes.create_string_buffer(raw, len(raw))


def encoded(argument: inputs.Argument, address: Any) -> Any:
    """The driver's tensor map over an array of two dimensions, edges filled with zeros."""
    kind, spec, value = driver.CUtensorMapDataType, argument.tensor_map, argument.value
    dtype = {"float32": kind.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
             "int32": kind.CU_TENSOR_MAP_DATA_TYPE_INT32,
             "bfloat16": kind.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16}[value.dtype.name]
    swizzles = driver.CUtensorMapSwizzle
    swizzle = {"none": swizzles.CU_TENSOR_MAP_SWIZZLE_NONE,
               "128B": swizzles.CU_TENSOR_MAP_SWIZZLE_128B}[spec["swizzle"]]
    made = call(
        driver.cuTensorMapEncodeTiled, dtype, 2, int(address),
        [driver.cuuint64_t(n) for n in reversed(value.shape)],
        [driver.cuuint64_t(value.strides[0])], [driver.cuuint32_t(n) for n in spec["box"]],
        [driver.cuuint32_t(1)] * 2,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return ctypes.create_string_buffer(ctypes.string_at(int(made.getPtr()), 128), 128)


def wait() -> None:
    """Until the default stream is idle, but not for ever."""
    end = time.monotonic() + PATIENCE_S
    while True:
        (error,) = driver.cuStreamQuery(0)
        if error == driver.CUresult.CUDA_SUCCESS:
            return
        if error != driver.CUresult.CUDA_ERROR_NOT_READY:
            raise Broken(f"the kernel ended with {error.name}")
        if time.monotonic() > end:
            raise Broken(f"the kernel did not return within {PATIENCE_S} s")


def judged(row: dict[str, Any], seed: int, capability: tuple[int, int]) -> dict[str, Any]:
    """The result line of one row; "broken" when this process can launch nothing more."""
    if not fits(row["target"], capability):
        return {"id": row["id"], "verdict": "skipped", "detail": f"needs {row['target']}"}
    arguments = inputs.build(row, seed)
    want = references.expected(row, arguments)
    try:
        launch(row, arguments)
    except Failed as failure:
        verdict = "broken" if isinstance(failure, Broken) else "failed"
        return {"id": row["id"], "verdict": verdict, "detail": str(failure)}
    faults = inputs.compare(row, arguments, want)
    return {"id": row["id"], "verdict": "wrong" if faults else "right", "detail": "; ".join(faults)}


def context() -> tuple[int, int]:
    """Makes the first device current; its compute capability."""
    call(driver.cuInit, 0)
    device = call(driver.cuDeviceGet, 0)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
    kind = driver.CUdevice_attribute
    major = call(driver.cuDeviceGetAttribute, kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                 device)
    minor = call(driver.cuDeviceGetAttribute, kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                 device)
    return major, minor


def main() -> None:
    """The command; goes on behind a broken row by starting itself anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the first row's number")
    parser.add_argument("prefixes", nargs="*")
    given = parser.parse_args()
    chosen = [row for id_, row in inputs.rows().items()
              if not given.prefixes or id_.startswith(tuple(given.prefixes))]
    capability = context()
    for number, row in enumerate(chosen[given.start:], given.start):
        result = judged(row, given.seed, capability)
        print(json.dumps(result), flush=True)
        if result["verdict"] == "broken":
            again = [sys.executable, __file__, "--seed", str(given.seed), "--start",
                     str(number + 1), *given.prefixes]
            os.execv(sys.executable, again)  # noqa: S606  (itself, with its own arguments)
    major, minor = capability
    print(json.dumps({"rows": len(chosen), "device": f"sm_{major}{minor}", "seed": given.seed}))


if __name__ == "__main__":
    main()
