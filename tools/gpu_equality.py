"""Compare whole products on a GPU with the emulator, bit for bit, in two steps.

    PYTHONPATH=src python tools/gpu_equality.py launch vectors/h200/products.npz   # has the GPU
    PYTHONPATH=src python tools/gpu_equality.py compare vectors/h200/products.npz \
        --out records/h200/equality.json                                           # needs none

The first step runs every rung of both ladders, and kernels that no rung is like (few rows, batches,
experts, scales, rows of any alignment, many tiles for one CTA), and keeps for each case what the
chip wrote: the SHA-256 of all words, and 64 of them. The second step makes the same inputs again,
emulates with the chip's arithmetic, and writes the record: for each case how many outputs there
are, and whether any differs. The vectors stay, and a test replays them.

Inputs are a function of the seed and the case's name, in four mixes: `normal`; `bits`, random bit
patterns, where every eighth row of A and B is any pattern, NaN and Inf included, and the others are
below 2 in magnitude with every exponent down to the subnormals, so that long sums stay numbers;
`far`, exponents 40 apart; `cancel`, one magnitude with both signs. Outputs begin as 0xFF bytes.
Exit code 0: every case ran, and none differs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import secrets
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mmalab
from mmalab import formats
from mmalab.device import info
from mmalab.device.gpu import open_gpu
from mmalab.errors import MmalabError
from mmalab.kernels import ladder, sm80_mma, sm90_wgmma
from mmalab.kernels.arguments import words_of
from mmalab.kernels.sm90_wgmma import Plan
from mmalab.ptx.kernel import Kernel, Param

MIXES = ("normal", "bits", "far", "cancel")
#: Sizes of a rung with the mixes of each: inside one tile, edges everywhere, many tiles.
SIZES = {
    "sm80_mma": {(256, 256, 256): MIXES[:2], (264, 136, 72): MIXES, (1024, 1024, 1024): MIXES[:2]},
    "sm90_wgmma": {(96, 80, 1616): MIXES[:2], (400, 464, 400): MIXES,
                   (1024, 1024, 1024): MIXES[:2]},
}
#: The textbook kernel has no edges, and the emulator needs minutes for its largest.
_TEXTBOOK, _LARGEST_TEXTBOOK = 16, 512
#: Words of each case that are kept beside the digest.
SAMPLES = 64
_gemm, _skinny, _mma = sm90_wgmma.gemm, sm90_wgmma.skinny, sm80_mma.gemm
_FEW = {"sms": 4}

#: Kernels that no rung is like, by name.
OTHERS: dict[str, Callable[[], Kernel]] = {
    "one mma": sm80_mma.one_mma, "one wmma": sm80_mma.one_wmma,
    **{f"mma, {name}": partial(_mma, 520, 400, 456, **given) for name, given in {
        "carried 256x128": {"tile": (256, 128), "stages": 4},
        "carried 128x256 in 128 bytes": {"tile": (128, 256), "span": 128},
        "fed": {"copy": "tma", "stages": 4, "sms": 2},
        "fed 128x128": {"copy": "tma", "tile": (128, 128), "sms": 2},
        "fed in 64 bytes": {"copy": "tma", "tile": (128, 256), "span": 64, "stages": 8, "sms": 2},
    }.items()},
    **{f"mma, fed, even {rows}x{columns}": partial(
        _mma, 776, 416, 512, copy="tma", tile=(rows, columns), stages=stages, waves="even", sms=5)
       for rows, columns, stages in ((256, 128, 4), (128, 256, 4), (128, 128, 3))},
    **{f"few rows, M={m} {dtype}{' split ' + str(split) if split > 1 else ''}":
       partial(_skinny, m, 1000, k, dtype, split=split)
       for dtype, k in (("bf16", 2056), ("e4m3", 2064)) for m, split in ((1, 1), (4, 2), (16, 4),
                                                                        (64, 8))},
    **{f"few rows, M=33 {dtype} to {out}": partial(_skinny, 33, 1001, 1040, dtype, out, split=2)
       for dtype, out in (("f16", "f32"), ("tf32", "f32"), ("s8", "s32"), ("e5m2", "f16"))},
    "few rows, weights read early": partial(_skinny, 5, 1000, 4104, overlap="weights",
                                            stages=8),
    "batch of 5": partial(_gemm, 200, 144, 256, batch=5),
    "batch of 3, e5m2": partial(_gemm, 129, 200, 272, "e5m2", out="f16", batch=3),
    "5 experts": partial(_gemm, 1024, 272, 320, experts=5),
    "4 experts, e4m3": partial(_gemm, 640, 256, 512, "e4m3", out="bf16", experts=4),
    **{f"promoted every {every}": partial(_gemm, 300, 272, 528, "e4m3", promote_every=every)
       for every in (32, 64, 128)},
    "promoted, two sets": partial(_gemm, 300, 192, 512, "e4m3", promote_every=64, plan=Plan(
        (128, 192), 5, (2, 1), part=96, parts=2)),
    "scaled": partial(_gemm, 300, 272, 512, "e4m3", out="bf16", scaled=True),
    "scaled, e5m2": partial(_gemm, 256, 384, 640, "e5m2", out="bf16", scaled=True),
    **{f"{how}, K={k} {dtype}": partial(_gemm, 304, 200, k, dtype, plan=plan)
       for how, plan in {
           "gathered": Plan((128, 64), 4, store="direct", copy="threads"),
           "shifted": Plan((256, 64), 3, (1, 2), store="direct", flight=0, copy="shifted"),
           "loaded": Plan((256, 64), 3, (1, 2), store="direct", copy="shifted", left="registers"),
           "windowed": Plan((64, 32), 3, groups=1, store="direct", copy="windowed", band=64,
                            sms=2),
       }.items()
       for dtype, k in (("bf16", 836), ("bf16", 838), ("bf16", 837), ("bf16", 833), ("f16", 413),
                        ("e4m3", 1030), ("s8", 1028), ("tf32", 301))},
    **{f"shifted, M=301, N=203, K={k}": partial(_gemm, 301, 203, k, plan=Plan(
        (128, 64), 3, store="direct", copy="shifted")) for k in (836, 838, 837)},
    **{f"padded, K={k}": partial(_gemm, 300, 208, k, plan=Plan(
        (128, 208), 4, (2, 1), store="staged", copy="padded")) for k in (836, 838, 837)},
    **{f"windowed {rows}x{columns}, K={k}": partial(
        _gemm, 1000, 1456 - columns % 32, k, plan=Plan((rows, columns), stages, cluster, band=256,
                                                       copy="windowed", **_FEW))
       for rows, columns, stages, cluster in ((256, 192, 4, (1, 2)), (128, 256, 4, (2, 1)),
                                              (256, 208, 3, (1, 2))) for k in (836, 838, 837)},
    # whole deals of columns: rows that begin at multiples of 16 bytes are read where they lie
    **{f"windowed in place {rows}x{columns}, K={k}": partial(
        _gemm, 1000, 1440, k, plan=Plan((rows, columns), 4, cluster, band=256, flight=flight,
                                        copy="windowed", **_FEW))
       for rows, columns, cluster, flight in ((256, 192, (1, 2), 0), (128, 256, (2, 1), 1))
       for k in (836, 838)},
    "f16 sums, odd N": partial(_gemm, 301, 203, 832, "f16", accumulate="f16"),
    "any columns": partial(_gemm, 301, 203, 832),
    "e5m2": partial(_gemm, 300, 256, 1040, "e5m2", out="bf16"),
    "bf16 to f32": partial(_gemm, 300, 256, 520, out="f32"),
    **{f"16 tiles a CTA, {name}": partial(_gemm, 1024, 2048, 320, plan=plan)
       for name, plan in {
           "256x208": Plan((256, 208), 3, (1, 2), **_FEW),
           "in turns": Plan((128, 192), 5, (2, 1), schedule="pingpong", band=4096, **_FEW),
           "staged": Plan((128, 256), 3, (2, 1), store="staged", **_FEW),
           "permuted": Plan((128, 256), 4, (2, 1), **_FEW)}.items()},
    **{f"16 tiles a CTA, {dtype} to words, {store}": partial(
        _gemm, 1024, 2048, 320, dtype, "s32" if dtype == "s8" else "f32", plan=plan)
       for dtype in ("bf16", "s8", "tf32") for store, plan in {
           "staged": Plan((128, 256), 3, (2, 1), store="staged", panels=2, **_FEW),
           "in turns": Plan((128, 192), 4, (2, 1), schedule="pingpong", store="staged", panels=1,
                            **_FEW)}.items()},
}


@dataclass(frozen=True)
class Case:
    """One kernel on inputs of one mix."""

    name: str
    mix: str
    make: Callable[[], Kernel]

    def arguments(self, kernel: Kernel, seed: int) -> list[NDArray[Any]]:
        """Inputs, and an output of 0xFF bytes."""
        rng = np.random.default_rng([seed, zlib.crc32(f"{self.name}, {self.mix}".encode())])
        return [_poisoned(param) if param.role == "out" else _input(param, self.mix, rng, kernel)
                for param in kernel.params]


def cases() -> Iterator[Case]:
    """All cases."""
    for generation, sizes in SIZES.items():
        for name, factory in ladder(generation).items():
            for given, mixes in sizes.items():
                size = given
                if name == "textbook":
                    size = tuple(-(-s // _TEXTBOOK) * _TEXTBOOK for s in given)
                    if max(size) > _LARGEST_TEXTBOOK:
                        continue
                title = f"{name} {'x'.join(map(str, size))}"
                yield from (Case(title, mix, partial(factory, *size)) for mix in mixes)
    for name, make in OTHERS.items():
        yield from (Case(name, mix, make) for mix in MIXES)


# --- inputs ---------------------------------------------------------------------------------------

def _input(param: Param, mix: str, rng: np.random.Generator, kernel: Kernel) -> NDArray[Any]:
    """Values of the mix, rounded to the type; integers are all equally likely."""
    dtype = formats.dtype_of(param.dtype)
    if param.name == "experts":
        count = next(p.shape[0] for p in kernel.params if p.name == "b")
        return np.sort(rng.integers(0, count, param.shape)).astype(dtype)
    if param.name.endswith("scales"):
        return (rng.standard_normal(param.shape) * 2.0 ** rng.integers(-8, 9, param.shape)
                ).astype(dtype)
    words = rng.integers(0, 256, (*param.shape, dtype.itemsize), np.uint8)
    if dtype.kind == "i":
        return np.ascontiguousarray(words.view(dtype)[..., 0])
    if mix == "bits":
        # In every floating type here the top bit of the exponent stands below the sign.
        tame = np.arange(param.shape[-2]) % 8 != 0
        words[..., tame, :, -1] &= 0xBF
        return np.ascontiguousarray(words.view(dtype)[..., 0])
    values = rng.standard_normal(param.shape)
    if mix == "far":
        values *= 2.0 ** rng.integers(-20, 21, param.shape)
    elif mix == "cancel":
        values = rng.choice((-1.0, 1.0), param.shape) * (
            1 + rng.integers(0, 4, param.shape) / 1024)
    most = {"e4m3": 448.0, "e5m2": 57344.0, "f16": 65504.0}.get(param.dtype, 3e38)
    return np.clip(values, -most, most).astype(np.float32).astype(dtype)


def _poisoned(param: Param) -> NDArray[Any]:
    """An output that holds 0xFF bytes before the kernel writes it."""
    dtype = formats.dtype_of(param.dtype)
    words = np.full((*param.shape, dtype.itemsize), 0xFF, np.uint8)
    return np.ascontiguousarray(words.view(dtype)[..., 0])


def digest(*arrays: NDArray[Any]) -> bytes:
    """SHA-256 of the bytes of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).view(np.uint8).tobytes())
    return found.digest()


def kept(output: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """What is kept of an output: the digest of its words, and some of them from all over."""
    words = np.ascontiguousarray(words_of(output)).ravel()
    places = np.linspace(0, words.size - 1, SAMPLES).astype(np.int64)
    return np.frombuffer(digest(words), np.uint8), words[places].astype(np.uint32)


# --- on the device --------------------------------------------------------------------------------

def launch(options: argparse.Namespace) -> int:
    """Run everything on the device and keep what it wrote."""
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    device = info(options.gpu)
    if "capability" not in device:
        print("\n".join(device["problems"].values()), file=sys.stderr)
        return 2
    wanted = [case for case in cases() if options.only in case.name]
    print(f"{device['name']}, seed {seed}, {len(wanted)} cases", flush=True)
    open_gpu(options.gpu)  # once, before threads share it
    start = time.monotonic()
    with ThreadPoolExecutor(options.threads) as pool:
        ran = list(pool.map(partial(_launched, seed=seed, options=options, start=start), wanted))
    rows = [row for row, _ in ran]
    facts = {
        "what": "products on the device: digests and samples of what it wrote", "seed": seed,
        "command": " ".join(["tools/gpu_equality.py", *sys.argv[1:]]),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"), "device": device,
        "mmalab": mmalab.__version__, "seconds": round(time.monotonic() - start, 1)}
    found = [output for _, output in ran]
    options.vectors.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        options.vectors, facts=np.array(json.dumps(facts)), index=np.array(json.dumps(rows)),
        digests=np.stack([d for d, _ in found]), samples=np.stack([s for _, s in found]))
    problems = [row for row in rows if "problem" in row]
    for row in problems:
        print(row["name"], row["mix"], row["problem"], flush=True)
    print(f"{len(rows)} cases, {len(problems)} did not run, {facts['seconds']} s")
    return 1 if problems else 0


def _launched(case: Case, *, seed: int, options: argparse.Namespace, start: float,
              ) -> tuple[dict[str, Any], tuple[NDArray[Any], NDArray[Any]]]:
    row: dict[str, Any] = {"name": case.name, "mix": case.mix}
    nothing = np.zeros(32, np.uint8), np.zeros(SAMPLES, np.uint32)
    if time.monotonic() - start > options.budget:
        return row | {"problem": f"{options.budget} s were over"}, nothing
    try:
        kernel = case.make()
        args = case.arguments(kernel, seed)
        row |= {"kernel": kernel.name, "inputs": digest(*args[:-1]).hex()[:16]}
        done = mmalab.launch(kernel, args, gpu=options.gpu)
    except MmalabError as failed:
        return row | {"problem": f"{type(failed).__name__}: {failed}"}, nothing
    return row | {"target": done.target, "compiler": done.compiler}, kept(args[-1])


# --- anywhere -------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Vectors:
    """What a device wrote."""

    facts: dict[str, Any]
    index: list[dict[str, Any]]
    digests: NDArray[np.uint8]
    samples: NDArray[np.uint32]

    @classmethod
    def load(cls, path: Path) -> Vectors:
        """From the file that `launch` made."""
        with np.load(path) as file:
            return cls(json.loads(str(file["facts"])), json.loads(str(file["index"])),
                       file["digests"], file["samples"])

    def replay(self, case: Case) -> dict[str, Any]:
        """Emulate a case and compare: its row of the record."""
        at = next((at for at, row in enumerate(self.index)
                   if (row["name"], row["mix"]) == (case.name, case.mix)), None)
        kernel = case.make()
        told: dict[str, Any] = {"kernel": kernel.name, "case": case.name, "mix": case.mix}
        if at is None or "problem" in self.index[at]:
            return told | {"problem": "not run" if at is None else self.index[at]["problem"]}
        row = self.index[at]
        args = case.arguments(kernel, self.facts["seed"])
        if digest(*args[:-1]).hex()[:16] != row["inputs"]:
            return told | {"problem": "these are not the inputs that the device had"}
        start = time.monotonic()
        run = mmalab.emulate(kernel, args, target=row["target"], sanitize=False)
        told |= {"outputs": args[-1].size, "target": row["target"], "compiler": row["compiler"],
                 "fidelity": sorted(set(map(str, run.fidelity.values()))),
                 "emulated_seconds": round(time.monotonic() - start, 2)}
        ours, some = kept(args[-1])
        if (ours == self.digests[at]).all():
            return told | {"mismatches": 0}
        wrong = np.flatnonzero(some != self.samples[at])
        return told | {"mismatches": max(1, len(wrong)), "samples": SAMPLES, "first": [
            {"sample": int(w), "gpu": hex(int(self.samples[at][w])), "emulator": hex(int(some[w]))}
            for w in wrong[:1]]}


def compare(options: argparse.Namespace) -> int:
    """Emulate every case of the vectors, and write the record."""
    held, start, rows = Vectors.load(options.vectors), time.monotonic(), []
    for case in cases():
        if options.only in case.name:
            rows.append(held.replay(case))
            if options.verbose or rows[-1].get("mismatches") != 0:
                print(json.dumps(rows[-1]), flush=True)
    wrong = [row for row in rows if row.get("mismatches") != 0]
    facts = held.facts
    record = {
        "what": "both ladders and other products on the device and in the emulator, bit for bit",
        "command": "PYTHONPATH=src python tools/gpu_equality.py launch vectors/h200/products.npz; "
                   "PYTHONPATH=src python tools/gpu_equality.py compare vectors/h200/products.npz "
                   "--out records/h200/equality.json",
        "date": facts["date"], "device": facts["device"], "mmalab": facts["mmalab"],
        "seed": facts["seed"], "kernels": len({row["case"] for row in rows}),
        "rungs": sum(len(ladder(generation)) for generation in SIZES),
        "outputs": sum(row.get("outputs", 0) for row in rows),
        "mismatches": sum(row.get("mismatches", 0) for row in rows),
        "not_compared": [row["case"] for row in rows if "mismatches" not in row],
        "seconds": round(time.monotonic() - start, 1), "cases": rows,
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{record['mismatches']} of {record['outputs']} outputs differ, "
          f"{len(wrong)} cases wrong or not compared, {record['seconds']} s")
    return 1 if wrong else 0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("launch", "compare"))
    parser.add_argument("vectors", type=Path, help="the .npz of what the device wrote")
    parser.add_argument("--out", type=Path, help="compare: where the JSON record goes")
    parser.add_argument("--seed", type=int, help="launch: of the inputs; fresh if not given")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    parser.add_argument("--threads", type=int, default=12, help="kernels assembled at once")
    parser.add_argument("--budget", type=float, default=120,
                        help="launch: seconds after which no further case is begun")
    parser.add_argument("--verbose", action="store_true", help="compare: tell every case")
    options = parser.parse_args()
    return launch(options) if options.step == "launch" else compare(options)


if __name__ == "__main__":
    sys.exit(main())
