"""Compare every rung of the ladder on a GPU with the emulator, bit for bit.

    PYTHONPATH=src python tools/gpu_equality.py --out records/h200/equality.json

Each kernel runs at each size on two input mixes, on the device and in ``mmalab.emulate`` with the
device's arithmetic: `normal`, and `bits`, random bit patterns. Those of every eighth row of A and B
are any pattern, NaN and Inf included; the others are below 2 in magnitude, with every exponent down
to the subnormals, so that long sums stay numbers. Inputs are fresh (the seed is printed and
recorded), outputs begin as 0xFF bytes. The record names device, driver, clock, compiler and
command, and for each case how many outputs differ; a case that could not run says why. Exit code 0:
every case ran and no output differs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mmalab
from mmalab import formats
from mmalab.device import info, sm_clock
from mmalab.kernels import ladder, sm80_mma
from mmalab.kernels.arguments import words_of
from mmalab.ptx.kernel import Kernel, Param

SIZES = ((256, 256, 256), (264, 136, 72), (1024, 1024, 1024))
MIXES = ("normal", "bits")


def main() -> int:
    """Run the command."""
    options = _options()
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    device = info(options.gpu)
    if "capability" not in device:
        print("\n".join(device["problems"].values()), file=sys.stderr)
        return 2
    chip = "sm_" + device["capability"].replace(".", "")
    print(f"{device['name']} ({chip}), seed {seed}", flush=True)
    start, cases = time.monotonic(), []
    for kernel, mix in _cases(options.only, options.largest):
        if time.monotonic() - start > options.budget:
            case: dict[str, Any] = {"kernel": kernel.name, "mix": mix,
                                    "problem": f"not run: {options.budget} s were over"}
        else:
            rng = np.random.default_rng([seed, len(cases)])
            case = _case(kernel, mix, rng, chip, options.gpu)
        cases.append(case)
        print(json.dumps(case), flush=True)
    wrong = [c for c in cases if c.get("mismatches") != 0]
    record = {
        "what": "ladder of mma.sync kernels on the device and in the emulator, bit for bit",
        "command": " ".join(["tools/gpu_equality.py", *sys.argv[1:]]),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        "device": device, "emulated_target": chip, "mmalab": mmalab.__version__, "seed": seed,
        "outputs": sum(c.get("outputs", 0) for c in cases),
        "mismatches": sum(c.get("mismatches", 0) for c in cases),
        "not_compared": [c["kernel"] for c in cases if "mismatches" not in c],
        "seconds": round(time.monotonic() - start, 1), "cases": cases,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{record['mismatches']} of {record['outputs']} outputs differ, "
          f"{len(record['not_compared'])} cases not compared, {record['seconds']} s")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the JSON record goes")
    parser.add_argument("--seed", type=int, help="of the inputs; a fresh one if not given")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the names of the rungs to run")
    parser.add_argument("--largest", type=int, default=1024, help="leave out larger sizes")
    parser.add_argument("--budget", type=float, default=330,
                        help="seconds after which no further case is begun")
    return parser.parse_args()


def _cases(only: str, largest: int) -> Iterator[tuple[Kernel, str]]:
    """Small sizes of all kernels first."""
    singles = {"one_mma": sm80_mma.one_mma, "one_wmma": sm80_mma.one_wmma}
    yield from ((make(), mix) for name, make in singles.items() if only in name for mix in MIXES)
    for m, n, k in SIZES:
        if max(m, n, k) > largest:
            continue
        for name, factory in ladder().items():
            if only not in name:
                continue
            # The textbook kernel has no edges: its sizes are multiples of 16.
            sizes = (m, n, k) if name != "textbook" else tuple(-(-s // 16) * 16 for s in (m, n, k))
            kernel = factory(*sizes)
            yield from ((kernel, mix) for mix in MIXES)


def _case(kernel: Kernel, mix: str, rng: np.random.Generator, chip: str,
          gpu: int) -> dict[str, Any]:
    args = [_input(param, mix, rng) for param in kernel.params]
    case: dict[str, Any] = {"kernel": kernel.name, "mix": mix}
    on_gpu, on_cpu = ([*args[:2], _poisoned(kernel.params[2])] for _ in range(2))
    try:
        done = mmalab.launch(kernel, on_gpu, gpu=gpu)
        case |= {"target": done.target, "compiler": done.compiler,
                 "milliseconds": round(done.milliseconds, 4), "sm_clock": sm_clock(gpu)}
        start = time.monotonic()
        own = "a" if kernel.target.endswith("a") else ""
        mmalab.emulate(kernel, on_cpu, target=chip + own, sanitize=False)
        case["emulated_seconds"] = round(time.monotonic() - start, 2)
    except Exception as failed:  # noqa: BLE001  (the other cases are worth running)
        return case | {"problem": f"{type(failed).__name__}: {failed}"}
    got, want = words_of(on_gpu[2]), words_of(on_cpu[2])
    differ = np.argwhere(got != want)
    case |= {"outputs": got.size, "mismatches": len(differ)}
    if len(differ):
        at = tuple(int(x) for x in differ[0])
        case["first"] = {"at": at, "gpu": hex(int(got[at])), "emulator": hex(int(want[at]))}
    return case


def _input(param: Param, mix: str, rng: np.random.Generator) -> NDArray[Any]:
    """Normal values rounded to the type (integers: all equally likely), or random bits."""
    dtype = formats.dtype_of(param.dtype)
    words = rng.integers(0, 256, (*param.shape, dtype.itemsize), np.uint8)
    if dtype.kind == "i":
        return words.view(dtype)[..., 0].copy()
    if mix == "normal":
        return rng.standard_normal(param.shape, np.float32).astype(dtype)
    # In every floating type here the top bit of the exponent stands below the sign.
    tame = np.arange(param.shape[0]) % 8 != 0
    words[tame, :, -1] &= 0xBF
    return words.view(dtype)[..., 0].copy()


def _poisoned(param: Param) -> NDArray[Any]:
    """An output that holds 0xFF bytes before the kernel writes it."""
    dtype = formats.dtype_of(param.dtype)
    return np.full((*param.shape, dtype.itemsize), 0xFF, np.uint8).view(dtype)[..., 0].copy()


if __name__ == "__main__":
    sys.exit(main())
