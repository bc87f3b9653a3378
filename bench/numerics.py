"""Speed of exact accumulation: whole matrices, fragments, and what compiling costs.

    python bench/numerics.py [--size 1024] [--json FILE]

Rates are 10^9 multiply-adds a second of the best of several runs, decoding included; the last
column is the ratio to NumPy's own float32 product of the same size in the same process, which is
what carries from machine to machine.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mmalab import formats, isa, numerics
from mmalab.numerics import matrix, native
from mmalab.numerics.fragments import to_registers

MATRICES = ["sm_90.wgmma.e4m3.f32", "sm_89.mma.e4m3.f32", "sm_90.mma.e4m3.f32",
            "sm_100.tcgen05.e4m3.f32", "sm_90.wgmma.bf16.f32", "sm_80.mma.bf16.f32",
            "sm_90.wgmma.f16.f16", "sm_90.wgmma.tf32.f32"]
FRAGMENTS = [("m16n8k16.row.col.f32.bf16.bf16.f32", "sm_90"),
             ("m16n8k16.row.col.f32.bf16.bf16.f32", "sm_80"),
             ("m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89"),
             ("m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90"),
             ("m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90"),
             ("m16n8k32.row.col.s32.s8.s8.s32", "sm_90")]

#: Calls a function many times, so that ctypes does not count.
REPEAT = """declare void @NAME(ptr, ptr, ptr, ptr)
define void @repeat(ptr %d, ptr %a, ptr %b, ptr %c, i64 %n) {
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %j, %next ]
  call void @NAME(ptr %d, ptr %a, ptr %b, ptr %c)
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %next, label %done
done:
  ret void
}"""


def best(run: Callable[[], object], times: int) -> float:
    """Shortest of several runs, in seconds."""
    found = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - start)
    return found


def matrices(size: int, threads: list[int]) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(size, size)).astype(np.float32)
    base = size**3 / best(lambda: plain @ plain, 5) / 1e9
    rows: list[dict[str, object]] = [
        {"what": f"NumPy float32 {size}^3", "GMAC/s": base, "ratio": 1}]
    for name in MATRICES:
        unit = numerics.unit(name)
        a, b = (formats.encode(rng.normal(size=(size, size)), kind) for kind in (unit.a, unit.b))
        c = np.zeros((size, size), formats.get(unit.acc).dtype)
        for count in threads:
            def run(n: int = count) -> object:
                return matrix.multiply(unit, a, b, c, threads=n)  # noqa: B023

            rate = size**3 / best(run, 5) / 1e9
            rows.append({"what": f"{name} {size}^3, {count} threads", "GMAC/s": rate,
                         "ratio": rate / base})
    return rows


def fragments() -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    pointer, rows = ctypes.c_void_p, []
    for opcode, target in FRAGMENTS:
        form = isa.find(f"mma.sync.aligned.{opcode}")
        unit = numerics.unit_for(target, form.family, form.modifiers)
        name, text = numerics.fragment_ir(unit, form)
        code = native.load(text, {name: (None, *[pointer] * 4)})
        again = native.load(REPEAT.replace("NAME", name),
                            {"repeat": (None, *[pointer] * 4, ctypes.c_int64)},
                            {name: code.address(name)})["repeat"]
        registers = []
        for role in "ABC":
            frag = form.fragments[role]
            fmt = formats.get(frag.type)
            values = rng.normal(size=(1, frag.rows, frag.cols)) * (1 if fmt.is_float else 20)
            registers.append(to_registers(frag, formats.encode(np.rint(values * 8) / 8 if
                             fmt.is_float else np.rint(values), fmt)))
        d = np.zeros((form.fragments["D"].registers, 32), registers[2].dtype)
        places = [d.ctypes.data, *(r.ctypes.data for r in registers)]
        seconds = best(lambda: again(*places, 500), 40) / 500  # noqa: B023
        m, n, k = form.shape or (0, 0, 0)
        rows.append({"what": f"fragment {unit.name} m{m}n{n}k{k}, 1 thread",
                     "GMAC/s": m * n * k / seconds / 1e9, "ns": seconds * 1e9})
    return rows


def compiling() -> list[dict[str, object]]:
    unit = numerics.unit("sm_90.wgmma.bf16.f32")
    form = isa.find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    width = native.processor().vector_bits // 32
    texts = {"matrix kernel": matrix.matrix_ir(unit, 16, width),
             "fragment": numerics.fragment_ir(numerics.unit("sm_90.mma.bf16.f32"), form)[1]}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MMALAB_CACHE"] = folder
        for what, text in texts.items():
            cold = best(lambda: native.object_code(text), 1)  # noqa: B023
            warm = best(lambda: native.object_code(text), 5)  # noqa: B023
            rows.append({"what": f"compile {what}", "cold ms": cold * 1e3, "cached ms": warm * 1e3})
        del os.environ["MMALAB_CACHE"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cores = matrix.usable_cores()
    machine = {"processor": native.processor().name, "cores": cores, "load": os.getloadavg()[0],
               "python": platform.python_version(), "vector bits": native.processor().vector_bits}
    print(machine)
    rows = [*matrices(options.size, sorted({1, min(2, cores)})), *fragments(), *compiling()]
    for row in rows:
        rest = "  ".join(f"{key} {value:.3g}" for key, value in row.items() if key != "what")
        print(f"{row['what']:52} {rest}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
