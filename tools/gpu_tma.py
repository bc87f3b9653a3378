"""Compare tensor copies on a GPU with the emulator, byte for byte.

    PYTHONPATH=src python tools/gpu_tma.py --out records/h200/tma_equality.json

Each kernel is one copy (:mod:`mmalab.kernels.one_tensor_copy`) on four cases: boxes inside the
tensor, across its edges, outside. Maps, places in shared memory, coordinates and the tensor's bytes
are random (the seed is printed and recorded): every type, rank, swizzle and traversal stride,
im2col with its offsets, stores, reductions, interleaved layouts. Compared are shared memory, the
tensor, and whether the mbarrier counted the bytes that the map says. What must fault (`faults`) has
to be a finding of the emulator. A copy that faults ends its process, and another goes on.
`--emulate-only` needs no GPU. Exit code 0: all ran, none differs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mmalab
from mmalab.device.apart import each
from mmalab.emulator import emulate
from mmalab.errors import MmalabError
from mmalab.kernels.one_tensor_copy import WORDS, one_tensor_copy
from mmalab.ptx.kernel import Kernel
from mmalab.tensormap import ELEMENTS, TensorMap

CASES, IMAGE, WORKERS = 4, 16384, 6
#: Kernels of a family whose outputs go to --raw.
KEPT = 12
LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group"
REDUCE = "cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.{}.bulk_group"
BULK_REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
TYPES = tuple(name for name, kind in ELEMENTS.items() if kind.bits >= 8)
REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"), "min": ("u32", "s32", "u64", "s64", "f16",
    "bf16"), "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",),
    "and": ("u32", "u64"), "or": ("u32", "u64"), "xor": ("u32", "u64"),
}


@dataclass
class Setup:
    """One kernel with its arguments."""

    family: str
    opcode: str
    map: TensorMap
    words: NDArray[np.int32]
    image: NDArray[np.uint8]

    @property
    def cases(self) -> int:
        """CTAs: one where they would write the same bytes."""
        return len(self.words)

    def kernel(self) -> Kernel:
        """The kernel."""
        return one_tensor_copy(self.opcode, cases=self.cases, image=IMAGE)

    def arguments(self, tensor: NDArray[Any]) -> list[Any]:
        """Fresh outputs, and the map over a copy of the tensor."""
        made = self.map
        if ".tensor." not in self.opcode:
            return [tensor, *self.memory()]
        over = TensorMap(tensor, made.dtype, made.dims, made.strides, made.box,
                         made.element_strides, made.swizzle, made.interleave, made.l2_promotion,
                         made.fill, made.offset, made.im2col_box)
        return [over, *self.memory()]

    def memory(self) -> list[Any]:
        """The image, the words, and fresh outputs."""
        return [self.image, self.words, np.full((self.cases, IMAGE), 0xCB, np.uint8),
                np.full(self.cases, 0xCB, np.uint32)]


class Maker:
    """Random setups."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *values: Any) -> Any:
        """One of the values."""
        return values[int(self.rng.integers(len(values)))]

    def tensor(self, rank: int, size: int, most: int = 1 << 16, *, unit: int = 16,
               ) -> tuple[list[int], list[int], int]:
        """Sizes, strides and bytes of a tensor of elements of `size` bytes."""
        while True:
            dims = [int(self.rng.integers(1, 40 if axis < 2 else 9)) for axis in range(rank)]
            pitch, strides = dims[0] * size, []
            for extent in dims[1:]:
                pitch = -(-pitch // unit) * unit + unit * int(self.rng.integers(3))
                strides.append(pitch)
                pitch *= extent
            total = -(-pitch // 16) * 16
            if total <= most:
                return dims, strides, total

    def bytes(self, kind: str, count: int) -> NDArray[np.uint8]:
        """Random bytes; for floats some numbers near each other, so that sums round."""
        raw = self.rng.integers(0, 256, count, dtype=np.uint8)
        if kind in ("f32", "f16", "tf32", "f32.ftz", "tf32.ftz"):
            dtype = np.float16 if kind == "f16" else np.float32
            near = self.rng.normal(0, 1, count // np.dtype(dtype).itemsize).astype(dtype)
            keep = self.rng.random(len(near)) < 0.5
            words = raw.view(f"u{np.dtype(dtype).itemsize}")
            words[: len(near)][keep] = near.view(words.dtype)[keep]
            if dtype is np.float32:
                self.odd(words)
        return raw

    def odd(self, words: NDArray[np.uint32]) -> None:
        """Subnormals, ties of tf32, infinities and NaN among the words."""
        for share, keep, fixed in ((0.1, 0x807FFFFF, 0), (0.1, 0xFFFFE000, 0x1000),
                                   (0.03, 0x80000000, 0x7F800000), (0.05, 0xFFFFFFFF, 0x7F800000),
                                   (0.05, 0xFF801FFF, 0x007FE000)):
            some = self.rng.random(len(words)) < share
            words[some] = words[some] & np.uint32(keep) | np.uint32(fixed)

    def place(self, made: TensorMap, *, aligned: bool) -> int:
        """Where the box lies in shared memory."""
        inner = made.slice_bytes or made.element.shared_bytes(made.counts[0])
        spread = made.box_bytes // inner * max(inner, made.swizzle_mode.pitch)
        room = (IMAGE - (made.box_bytes if made.swizzle == "none" else spread)) // 128 - 8
        at = int(self.rng.integers(0, max(room, 1)))
        return at // 8 * 1024 if aligned else at * 128

    def words(self, made: TensorMap, where: Callable[[], list[int]], offsets: list[int],
              cases: int = CASES) -> NDArray[np.int32]:
        """The words of all cases."""
        words = np.zeros((cases, WORDS), np.int32)
        for case in range(cases):
            coordinates = where()
            words[case, : len(coordinates)] = coordinates
            words[case, 5 : 5 + len(offsets)] = offsets
            words[case, 8] = self.place(made, aligned=case % 2 == 0)
            words[case, 9] = made.box_bytes
        return words

    # --- families -----------------------------------------------------------------------------

    def box(self, rank: int, size: int, span: int, most: int = 8192) -> list[int]:
        """A box that fits."""
        while True:
            inner = 16 * int(self.rng.integers(1, span // 16 + 1)) // size
            box = [max(inner, 1), *(int(self.rng.integers(1, 24 if a < 1 else 5))
                                    for a in range(rank - 1))]
            if prod(box[1:]) * max(box[0] * size, span if span < 256 else 0) <= most and (
                    inner <= 256):
                return box

    def slices(self, rank: int) -> list[int]:
        """A box of slices of 16 or 32 bytes that fits."""
        while True:
            box = [4 * int(self.rng.integers(1, 4)),
                   *(int(self.rng.integers(1, 8)) for _ in range(rank - 1))]
            if prod(box) * 128 <= 8192:
                return box

    def tiled(self, family: str, kind: str, rank: int, *, swizzle: str = "", full: bool = False,
              opcode: str = "", fill: str = "zero", interleave: str = "none") -> Setup:
        """A copy of boxes; `full`: the inner box is as wide as the swizzle's span."""
        size = ELEMENTS[kind].bits // 8
        unit = 32 if interleave == "32B" else 16
        dims, strides, total = self.tensor(rank, size, unit=unit)
        swizzle = swizzle or self.pick("none", "32B", "64B", "128B")
        span = {"none": 256, "32B": 32, "64B": 64, "128B": 128}[swizzle]
        box = self.box(rank, size, span) if interleave == "none" else self.slices(rank)
        if interleave != "none":
            dims, strides, total = self.tensor(rank, unit, unit=unit)
        if full and swizzle != "none" and interleave == "none":
            box[0] = span // size
        steps = [1] * rank
        if self.rng.random() < 0.3:
            steps = [int(self.pick(1, 1, 2, 3, 8)) for _ in range(rank)]
        made = TensorMap(None, kind, tuple(dims), tuple(strides), tuple(box), tuple(steps), swizzle,
                         interleave, fill=fill)
        self.total = total
        store = "global" in opcode.split(".shared", maxsplit=1)[0]

        def where() -> list[int]:
            low = 0 if store else 1
            found = [int(self.rng.integers(-low * box[a], dims[a] + 2)) for a in range(rank)]
            if interleave != "none":
                return found
            return [found[0] // (16 // size) * (16 // size), *found[1:]]
        return Setup(family, (opcode or LOAD).format(rank, "tile"), made,
                     self.words(made, where, [], 1 if store else CASES),
                     self.image(kind, 1 if store else CASES))

    def bulk(self, op: str, kind: str) -> Setup:
        """A reduction without a map: 1024 bytes."""
        noftz = ".noftz" if op == "add" and kind in ("f16", "bf16") else ""
        made = TensorMap(None, kind, (1024 * 8 // ELEMENTS[kind].bits,), (), (1,), (1,))
        words = np.zeros((1, WORDS), np.int32)
        words[0, 9], self.total = 1024, 1024
        return Setup("bulk reduce", f"{BULK_REDUCE}.{op}{noftz}.{kind}", made, words,
                     self.image(kind, 1))

    def im2col(self, family: str, kind: str, rank: int, *, opcode: str = "") -> Setup:
        """A copy of columns of pixels."""
        size = ELEMENTS[kind].bits // 8
        dims, strides, total = self.tensor(rank, size)
        count = rank - 2
        reach = {3: 40, 4: 12, 5: 5}[rank]
        store = bool(opcode)
        while True:
            lower = [0 if store else int(self.rng.integers(-reach, reach)) for _ in range(count)]
            upper = [0 if store else int(self.rng.integers(-reach, reach)) for _ in range(count)]
            if all(dims[a + 1] + upper[a] - lower[a] >= 1 for a in range(count)):
                break
        swizzle = self.pick("none", "32B", "64B", "128B")
        span = {"none": 128, "32B": 32, "64B": 64, "128B": 128}[swizzle]
        channels = 16 * int(self.rng.integers(1, span // 16 + 1)) // size
        wide = channels * size if swizzle == "none" else span
        pixels = int(self.rng.integers(1, min(8192 // wide, 200)))
        steps = [1] * rank
        if self.rng.random() < 0.4:
            steps[1 : rank - 1] = [int(self.pick(1, 2, 3)) for _ in range(count)]
        made = TensorMap.im2col(np.zeros(total, np.uint8), lower, upper, channels=channels,
                                pixels=pixels, dims=dims, strides=strides, dtype=kind,
                                swizzle=swizzle, element_strides=steps)
        self.total = total

        def where() -> list[int]:
            inner = [int(self.rng.integers(lower[a], dims[a + 1] + upper[a])) for a in range(count)]
            low = 0 if store else 2
            return [int(self.rng.integers(-low, dims[0] * size // 16 + 1)) * (16 // size), *inner,
                    int(self.rng.integers(0, dims[-1]))]
        offsets = [] if store else [int(self.rng.integers(0, 5)) for _ in range(count)]
        word = "im2col_no_offs" if store else "im2col"
        return Setup(family, (opcode or LOAD).format(rank, word), made,
                     self.words(made, where, offsets, 1 if store else CASES),
                     self.image(kind, 1 if store else CASES))

    def image(self, kind: str, cases: int) -> NDArray[np.uint8]:
        """Shared memory before."""
        return self.bytes(kind, cases * IMAGE).reshape(cases, IMAGE)


def faults(maker: Maker) -> Iterator[tuple[Setup, NDArray[np.uint8]]]:
    """First coordinates between multiples of 16 bytes: the chip faults, the emulator says why."""
    for kind, opcode in (("u8", LOAD), ("f16", LOAD), ("u32", STORE), ("f32", LOAD)):
        setup = maker.tiled("faults", kind, 2, opcode=opcode)
        setup.words[:, 0] = int(maker.rng.integers(1, 16 // (ELEMENTS[kind].bits // 8)))
        yield setup, maker.bytes(kind, maker.total)
    setup = maker.im2col("faults", "f16", 4)
    setup.words[:, 0] = 3
    yield setup, maker.bytes("f16", maker.total)


def setups(maker: Maker, times: int) -> Iterator[tuple[Setup, NDArray[np.uint8]]]:
    """All kernels with the bytes of their tensors."""
    def done(setup: Setup) -> tuple[Setup, NDArray[np.uint8]]:
        if setup.family == "interleaved":  # every word says where it lies
            return setup, np.arange(maker.total // 4, dtype=np.uint32).view(np.uint8)
        return setup, maker.bytes(setup.map.dtype, maker.total)

    for _ in range(times):
        for kind in TYPES:
            for rank in range(1, 6):
                yield done(maker.tiled("tiled", kind, rank, full=maker.rng.random() < 0.5))
            if ELEMENTS[kind].floating:
                yield done(maker.tiled("nan", kind, 2, fill="nan"))
        for rank in (3, 4, 5):
            for kind in ("u8", "f16", "f32", "f64"):
                yield done(maker.im2col("im2col", kind, rank))
        for rank in range(1, 6):
            for kind in ("u8", "bf16", "f32", "s64", "tf32", "f32.ftz"):
                yield done(maker.tiled("store", kind, rank, opcode=STORE))
        for rank in (3, 4, 5):
            yield done(maker.im2col("store im2col", maker.pick("u8", "f16", "u32"), rank,
                                    opcode=STORE))
        for op, kinds in REDUCTIONS.items():
            for kind in kinds:
                rank = int(maker.rng.integers(1, 6))
                yield done(maker.tiled("reduce", kind, rank,
                                       opcode=REDUCE.replace("{}.{}.bulk", f"{op}.{{}}.bulk")))
                bits = f"b{ELEMENTS[kind].bits}" if op in ("and", "or", "xor") else kind
                if bits == kind:
                    yield done(maker.bulk(op, kind))
        for rank, interleave, swizzle in (
                *((rank, "16B", swizzle) for rank, swizzle in zip(
                    (3, 4, 5, 3, 4, 5, 3), ("none", "none", "none", "32B", "64B", "128B", "128B"),
                    strict=True)),
                (3, "32B", "32B"), (4, "32B", "32B"), (5, "32B", "32B"), (3, "32B", "none"),
                (4, "32B", "64B"), (3, "32B", "128B")):
            yield done(maker.tiled("interleaved", "u32", rank, interleave=interleave,
                                   swizzle=swizzle))
    yield from faults(maker)


# --- running and comparing ------------------------------------------------------------------------

def run(setup: Setup, tensor: NDArray[np.uint8],
        how: Callable[..., Any]) -> tuple[list[NDArray[Any]], str]:
    """What comes out: shared memory, flags, the tensor; or why nothing did."""
    own = tensor.copy()
    arguments = setup.arguments(own)
    try:
        done = how(setup.kernel(), arguments)
    except MmalabError as error:
        return [], str(error)
    findings = [str(f) for f in getattr(done, "findings", [])]
    return [arguments[3], arguments[4], own], "; ".join(findings[:2])


@lru_cache(maxsize=1)
def listed(seed: int, times: int) -> list[tuple[Setup, NDArray[np.uint8]]]:
    """All setups of a seed."""
    return list(setups(Maker(seed), times))


def numbered(number: int, *, seed: int, times: int, on_device: bool,
             ) -> tuple[list[NDArray[Any]], str]:
    """What comes out of one setup."""
    return run(*listed(seed, times)[number], mmalab.launch if on_device else emulate)


def lost(got: tuple[list[NDArray[Any]], str]) -> bool:
    """Whether its process can launch nothing more."""
    return "fresh process" in got[1]


def compare(setup: Setup, tensor: NDArray[np.uint8], got: tuple[list[NDArray[Any]], str],
            ) -> dict[str, Any] | None:
    """The first difference between emulator and device, None if there is none."""
    want, told = run(setup, tensor, emulate)
    if setup.family == "faults":
        agree = "ILLEGAL_INSTRUCTION" in got[1] and "illegal-value" in told
        return None if agree else describe(setup) | {"device": got[1][:400], "emulator": told}
    if got[1] or told or not want:
        return describe(setup) | {"device": got[1][:400], "emulator": told[:400]}
    for name, ours, theirs in zip(("shared", "done", "tensor"), want, got[0], strict=True):
        wrong = np.argwhere(ours != theirs)
        if len(wrong):
            at = tuple(wrong[0].tolist())
            return describe(setup) | {
                "where": name, "count": len(wrong), "at": at,
                "emulator": int(ours[at]), "device": int(theirs[at])}
    return None


def describe(setup: Setup) -> dict[str, Any]:
    """The setup in words."""
    return {"family": setup.family, "opcode": setup.opcode, "map": str(setup.map),
            "words": setup.words.tolist()}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the JSON record goes")
    parser.add_argument("--seed", type=int, help="of everything; a fresh one if not given")
    parser.add_argument("--times", type=int, default=2, help="rounds through all families")
    parser.add_argument("--raw", type=Path, help="an .npz for what the device made of differences")
    parser.add_argument("--emulate-only", action="store_true")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    start = time.monotonic()
    all_setups = listed(seed, options.times)
    print(f"{len(all_setups)} kernels", flush=True)
    measured = each(partial(numbered, seed=seed, times=options.times,
                            on_device=not options.emulate_only), len(all_setups),
                    workers=WORKERS, lost=lost)
    print(f"ran, {time.monotonic() - start:.1f} s", flush=True)
    ran, differ, raw = Counter[str](), [], {}
    for number, ((setup, tensor), got) in enumerate(zip(all_setups, measured, strict=True)):
        ran[setup.family] += 1
        found = compare(setup, tensor, got)
        if found is not None:
            differ.append(found)
            if got[0] and sum(d["family"] == setup.family for d in differ) <= KEPT:
                raw |= {f"{number}.{name}": array for name, array in
                        zip(("shared", "done", "tensor", "before", "image"),
                            (*got[0], tensor, setup.image), strict=True)}
                raw[f"{number}.setup"] = np.array(json.dumps(describe(setup)))
    record = {"what": "tensor copies, emulator against device", "seed": seed,
              "date": dt.datetime.now(dt.UTC).date().isoformat(), "times": options.times,
              "command": " ".join(["tools/gpu_tma.py", f"--seed {seed} --times {options.times}"]),
              "device": "none" if options.emulate_only else "NVIDIA H200",
              "kernels": dict(ran),
              "opcodes": dict(sorted(Counter(s.opcode for s, _ in all_setups).items())),
              "cases_each": CASES,
              "differ": dict(Counter(d["family"] for d in differ)), "first": differ[:40],
              "seconds": round(time.monotonic() - start, 1)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    if options.raw is not None:
        np.savez_compressed(options.raw, **raw)
    print(json.dumps({k: record[k] for k in ("kernels", "differ", "seconds")}))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
