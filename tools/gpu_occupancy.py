"""Record how many CTAs of a kernel the CUDA driver counts on an SM.

    python tools/gpu_occupancy.py --out records/h200/occupancy.json

`cuOccupancyMaxActiveBlocksPerMultiprocessor` answers for kernels of many register counts, block
sizes and amounts of dynamic shared memory: at round numbers, at the limits, one beyond, and at
seeded random points. tests/plan replays the record: our occupancy must give the driver's numbers.
Needs libcuda alone (no mmalab): the kernels are compiled by the driver and never run.

A row is ``[registers, threads, dynamic shared bytes, CTAs]``; registers are what the driver says
that it used.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import json
import random
import sys
from pathlib import Path
from typing import Any

#: Attributes of a function in the driver's enumeration.
NUM_REGS, MAX_DYNAMIC_SHARED = 4, 8
#: Attributes of a device.
CAPABILITY_MAJOR, CAPABILITY_MINOR, OPT_IN_SHARED = 75, 76, 97


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--random", type=int, default=600, help="random points")
    options = parser.parse_args()
    try:
        cuda = _started()
    except OSError as failed:
        print(f"the CUDA driver: cannot be used: {failed}", file=sys.stderr)
        return 2
    kernels = {registers: function for live in range(4, 252, 6)
               for registers, function in [_kernel(cuda, live)]}
    largest = _device(cuda, OPT_IN_SHARED)
    rows = [[*point, _ctas(cuda, kernels[point[0]], *point[1:])]
            for point in _points(sorted(kernels), largest, options.seed, options.random)]
    name = ctypes.create_string_buffer(128)
    version = ctypes.c_int()
    cuda.cuDeviceGetName(name, 128, 0)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    record: dict[str, Any] = {
        "device": name.value.decode(), "driver_api": version.value, "seed": options.seed,
        "capability": [_device(cuda, CAPABILITY_MAJOR), _device(cuda, CAPABILITY_MINOR)],
        "command": "python tools/gpu_occupancy.py",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps(record)[:-1]
    options.out.write_text(f'{head}, "rows": [\n{text}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} rows, registers {sorted(kernels)}")
    return 0


def _started() -> Any:
    """The driver with a current context."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    _must(cuda.cuInit(0))
    _must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    _must(cuda.cuCtxSetCurrent(context))
    return cuda


def _must(status: int) -> None:
    if status:
        raise OSError(f"the driver answers {status}")


def _device(cuda: Any, attribute: int) -> int:
    value = ctypes.c_int()
    _must(cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0))
    return value.value


def _kernel(cuda: Any, live: int) -> tuple[int, ctypes.c_void_p]:
    """A kernel with `live` values at the same time: (registers that it got, function)."""
    loads = "\n".join(f"ld.volatile.global.u32 %r{i}, [%rd0+{4 * i}];" for i in range(live))
    stores = "\n".join(f"st.volatile.global.u32 [%rd0+{4 * i}], %r{i};" for i in range(live))
    text = (".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
            f".reg .b64 %rd<1>;\n.reg .b32 %r<{live}>;\nld.param.u64 %rd0, [p];\n"
            f"{loads}\n{stores}\nret;\n}}\n")
    module, function, registers = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    _must(cuda.cuModuleLoadData(ctypes.byref(module), text.encode()))
    _must(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
    _must(cuda.cuFuncGetAttribute(ctypes.byref(registers), NUM_REGS, function))
    return registers.value, function


def _ctas(cuda: Any, function: ctypes.c_void_p, threads: int, shared: int) -> int:
    """CTAs per SM; 0 when the request cannot be launched."""
    if cuda.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared):
        return 0
    found = ctypes.c_int()
    _must(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(found), function, threads, ctypes.c_size_t(shared)))
    return found.value


def _points(registers: list[int], largest: int, seed: int, count: int
            ) -> list[tuple[int, int, int]]:
    """(registers, threads, shared bytes)."""
    points = [(value, threads, 0) for value in registers
              for threads in (32, 64, 96, 128, 160, 192, 256, 288, 384, 512, 640, 768, 1024)]
    edges = [0, 1, 127, 128, 1024, 6272, 6273, 28160, 28161, 49152, 56320, 57344, 74752, 115712,
             115713, largest - 1, largest, largest + 1]
    points += [(registers[2], threads, shared) for threads in (32, 128, 384, 1024)
               for shared in edges]
    dice = random.Random(seed)  # noqa: S311
    points += [(dice.choice(registers), dice.randrange(1, 1025), dice.randrange(largest + 1))
               for _ in range(count)]
    return points


if __name__ == "__main__":
    sys.exit(main())
