"""Compare exchanges between the CTAs of a cluster on a GPU with the emulator, byte for byte.

    PYTHONPATH=src python tools/gpu_cluster.py --out records/h200/cluster_equality.json
    PYTHONPATH=src python tools/gpu_cluster.py --emulate-only          # needs no GPU

Each kernel is one instruction (:mod:`mmalab.kernels.one_exchange`) that every thread executes on
the shared memory of another CTA, in two clusters of 2, 4, 8 or 16 CTAs (16 is more than every chip
has, so the kernel asks for it), flat and in three dimensions. The families: `st.async` and
`red.async` in every form, generic and ``.shared::cluster``; loads, stores, atomics and reductions
in distributed shared memory; arrivals; bulk copies from one CTA to another; bulk and tensor copies
that are multicast to the CTAs of a mask, everybody to everybody. Routes, places, masks and bytes
are random (the seed is printed and recorded). `crowded` reductions meet at one place, in operations
whose order does not show. Compared are shared memory, what threads received, and whether the
mbarrier counted what the route says. A kernel that faults ends its process, and another goes on.
Exit code 0: all ran, none differs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mmalab
from mmalab import isa
from mmalab.device.apart import each
from mmalab.errors import MmalabError
from mmalab.kernels.image import THREADS
from mmalab.kernels.one_exchange import COPIED, IMAGE, ROUTE, one_exchange
from mmalab.ptx.kernel import Kernel
from mmalab.tensormap import TensorMap

CLUSTERS = 2
#: Clusters that every family runs in, and more shapes for some.
SIZES = ((2, 1, 1), (8, 1, 1), (16, 1, 1))
SHAPES = ((4, 1, 1), (1, 8, 1), (2, 2, 2), (4, 4, 1), (2, 2, 4), (1, 1, 16))
_TX = "mbarrier::complete_tx::bytes"
MULTICAST = f"cp.async.bulk.shared::cluster.global.{_TX}.multicast::cluster"
TENSOR = f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{_TX}.multicast::cluster"
BULK = f"cp.async.bulk.shared::cluster.shared::cta.{_TX}"
#: What reaches into another CTA's shared memory and is done when the cluster meets.
REMOTE = (
    *(f"{op}.shared::cluster.{vector}{kind}" for op in ("ld", "st")
      for vector, kind in (("", "b8"), ("", "b16"), ("", "b32"), ("", "b64"), ("v2.", "b32"),
                           ("v4.", "b32"), ("v2.", "b64"))),
    "ld.relaxed.cluster.b32", "st.relaxed.cluster.b32", "ld.acquire.cluster.b64",
    "st.release.cluster.b64",
    *(f"atom.shared::cluster.{op}" for op in ("add.u32", "min.s32", "max.u64", "inc.u32", "and.b32",
                                              "exch.b64", "add.f32")),
    *(f"red.shared::cluster.{op}" for op in ("add.u32", "xor.b32", "max.s32", "add.u64")),
    "atom.cluster.add.u32", "red.cluster.or.b32",
)
ARRIVALS = ("mbarrier.arrive.release.cluster.shared::cluster.b64",
            "mbarrier.arrive.release.cluster.b64", "mbarrier.arrive.shared::cluster.b64")
#: Operations whose order does not show.
CROWDED = ("add", "min", "max", "and", "or", "xor")


@dataclass(frozen=True)
class Setup:
    """One kernel: an instruction, a cluster, how many threads meet at a place."""

    family: str
    opcode: str
    cluster: tuple[int, int, int]
    crowded: bool = False

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return prod(self.cluster)

    def kernel(self) -> Kernel:
        """The kernel, a launch of two clusters."""
        return one_exchange(self.opcode, cluster=self.cluster, clusters=CLUSTERS)

    def __str__(self) -> str:
        shape = "x".join(map(str, self.cluster))
        return f"{self.family} {self.opcode} in {shape}{' crowded' if self.crowded else ''}"


# --- what runs ------------------------------------------------------------------------------------

@lru_cache(maxsize=1)
def setups() -> tuple[Setup, ...]:
    """All kernels."""
    return tuple(_setups())


def _setups() -> Iterator[Setup]:
    for name in ("st.async", "red.async"):
        for opcode in completing(name):
            for cluster in SIZES:
                yield Setup(name, opcode, cluster)
    for opcode in completing("red.async"):
        if opcode.split(".")[-2] in CROWDED:
            yield Setup("red.async", opcode, (16, 1, 1), crowded=True)
    for family, opcodes in (("remote", REMOTE), ("arrive", ARRIVALS), ("bulk", (BULK,)),
                            ("multicast", (MULTICAST, TENSOR))):
        for opcode in opcodes:
            for cluster in (*SIZES, *(() if family == "remote" else SHAPES)):
                yield Setup(family, opcode, cluster)
    for cluster in SHAPES:
        yield Setup("st.async", f"st.async.shared::cluster.{_TX}.v4.b32", cluster)
        yield Setup("remote", "ld.shared::cluster.v4.b32", cluster)


def completing(name: str) -> tuple[str, ...]:
    """Forms of ``st.async`` or ``red.async`` that complete on an mbarrier, which every toolkit
    since 13.0 assembles for Hopper; the table's representatives of ``.shared::cluster`` in all
    types that the generic ones have."""
    known = [key for key in isa.forms(name) if _TX in key and isa.find(key).ptx <= (9, 0)]
    where = [key for key in known if ".shared::cluster" not in key and ".weak" not in key]
    said = [key.replace(f".{_TX}", f".shared::cluster.{_TX}") for key in where]
    return tuple(dict.fromkeys([*known, *said]))


def arguments(setup: Setup, rng: np.random.Generator) -> list[Any]:
    """Random bytes, routes that fit each other, outputs of 0xCB bytes."""
    ctas = setup.ctas * CLUSTERS
    image = rng.integers(0, 256, (ctas, IMAGE), np.uint8)
    words = rng.integers(0, 1 << 32, (ctas, THREADS, 4), np.uint32)
    if setup.opcode.endswith("f32"):  # numbers near each other, so that sums round
        image = np.ascontiguousarray(rng.standard_normal((ctas, IMAGE // 4)).astype(np.float32)
                                     ).view(np.uint8)
        words = rng.standard_normal(words.shape).astype(np.float32).view(np.uint32)
    routes = np.stack([route for _ in range(CLUSTERS) for route in _routes(setup, rng)])
    found: list[Any] = [
        image, routes, words, np.full((ctas, IMAGE), 0xCB, np.uint8),
        np.full((ctas, THREADS, 4), 0xCBCBCBCB, np.uint32), np.full(ctas, 0xCB, np.uint32)]
    if ".tensor." in setup.opcode:
        rows = rng.integers(0, 256, (16 * 8, COPIED), np.uint8)
        return [TensorMap.tiled(rows, box=(COPIED, 8), swizzle="128B"), *found]
    return found


def _routes(setup: Setup, rng: np.random.Generator) -> NDArray[np.uint32]:
    """The routes of one cluster: [ctas, 128, (rank, place, mask, expected)]."""
    size = setup.ctas
    routes = np.zeros((size, THREADS, ROUTE), np.uint32)
    rank, place, mask, expected = np.moveaxis(routes, -1, 0)
    own = np.arange(size)[:, None]
    if setup.family == "multicast":
        # everybody sends to a random half of the cluster, and to the next, into a slot of his own
        wanted = rng.random((size, size)) < 0.5
        wanted[np.arange(size), (np.arange(size) + 1) % size] = True
        mask[:] = (wanted * (1 << np.arange(size))).sum(axis=1)[:, None]
        tensor = ".tensor." in setup.opcode
        place[:] = (own * 1024) if tensor else own * COPIED
        rank[:] = rng.integers(0, 15 * 8, (size, 1)) if tensor else 0  # the row of the tensor
        expected[:] = wanted.sum(axis=0)[:, None] * (8 * COPIED if tensor else COPIED)
        return routes
    # thread t of every CTA goes as many CTAs further: places that are his alone
    step = rng.integers(1, size, THREADS)
    rank[:] = (own + step) % size
    slot = rng.permutation(THREADS)
    place[:] = (slot % 4 if setup.crowded else slot)[None, :] * 64 + 8192
    if setup.family == "bulk":
        place[:] = 8192 + 16 * int(rng.integers(0, 400))
        expected[:] = COPIED
    elif setup.family == "arrive":
        expected[:] = THREADS
    else:
        expected[:] = THREADS * sent(setup.opcode)
    return routes


def sent(opcode: str) -> int:
    """Bytes that one thread's instruction moves."""
    *_, vector, kind = opcode.split(".")
    return int(kind.lstrip("bfsu")) // 8 * (int(vector[1:]) if vector in ("v2", "v4") else 1)


# --- running and comparing ------------------------------------------------------------------------

_OUTPUTS = ("shared memory", "received", "done")


def run(number: int, *, seed: int, on_device: bool, only: str) -> tuple[list[NDArray[Any]], str]:
    """What comes out of a kernel, and what was said against it."""
    setup = wanted(only)[number]
    args = arguments(setup, np.random.default_rng([seed, setups().index(setup)]))
    try:
        if on_device:
            mmalab.launch(setup.kernel(), args)
            return args[-3:], ""
        done = mmalab.emulate(setup.kernel(), args, sanitize=False)
    except MmalabError as failed:
        return [], str(failed)
    return args[-3:], "; ".join(str(finding) for finding in done.findings[:2])


@lru_cache(maxsize=4)
def wanted(only: str) -> tuple[Setup, ...]:
    """The kernels that are printed with `only`."""
    return tuple(setup for setup in setups() if only in str(setup))


def lost(got: tuple[list[NDArray[Any]], str]) -> bool:
    """Whether the process of this result can launch nothing more."""
    return "fresh process" in got[1]


def compare(setup: Setup, ours: tuple[list[NDArray[Any]], str],
            theirs: tuple[list[NDArray[Any]], str]) -> dict[str, Any]:
    """One kernel's row of the record."""
    row: dict[str, Any] = {"kernel": str(setup), "opcode": setup.opcode, "ctas": setup.ctas}
    for who, (outputs, said) in (("emulator", ours), ("device", theirs)):
        if said or not outputs:
            row[who] = said[:400] or "nothing came back"
    if "emulator" in row or "device" in row:
        return row
    row |= {"bytes": sum(each_.nbytes for each_ in ours[0]), "mismatches": 0}
    for name, mine, its in zip(_OUTPUTS, ours[0], theirs[0], strict=True):
        wrong = np.argwhere(mine != its)
        if len(wrong):
            at = tuple(wrong[0].tolist())
            row["mismatches"] += len(wrong)
            row.setdefault("first", {"where": name, "at": at, "emulator": int(mine[at]),
                                     "device": int(its[at])})
    return row


def main(given: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _options(given)
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    chosen = wanted(options.only)
    print(f"seed {seed}, {len(chosen)} kernels", flush=True)
    start = time.monotonic()
    task = partial(run, seed=seed, only=options.only)
    # The emulator first: what would hang or fault ends there with a finding.
    ours = each(partial(task, on_device=False), len(chosen), workers=options.workers, lost=lost)
    said = [f"{setup}: {text}" for setup, (_, text) in zip(chosen, ours, strict=True) if text]
    print(*said, f"emulated, {time.monotonic() - start:.1f} s", sep="\n", flush=True)
    if options.emulate_only:
        return 1 if said else 0
    theirs = each(partial(task, on_device=True), len(chosen), workers=options.workers, lost=lost)
    rows = [compare(*triple) for triple in zip(chosen, ours, theirs, strict=True)]
    wrong = [row for row in rows if row.get("mismatches") != 0]
    record = {
        "what": "exchanges in clusters, emulator against device, byte for byte",
        "command": " ".join(["tools/gpu_cluster.py", f"--seed {seed}"]), "seed": seed,
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"), "device": mmalab.device.info(0),
        "mmalab": mmalab.__version__,
        "kernels": dict(Counter(setup.family for setup in chosen)),
        "clusters": dict(sorted(Counter(setup.ctas for setup in chosen).items())),
        "opcodes": len({setup.opcode for setup in chosen}),
        "bytes": sum(row.get("bytes", 0) for row in rows),
        "mismatches": sum(row.get("mismatches", 0) for row in rows),
        "not_compared": [row["kernel"] for row in rows if "mismatches" not in row],
        "seconds": round(time.monotonic() - start, 1), "cases": rows}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    for row in wrong[:20]:
        print(json.dumps(row))
    print(f"{record['mismatches']} of {record['bytes']} bytes differ, "
          f"{len(record['not_compared'])} of {len(rows)} kernels not compared, "
          f"{record['seconds']} s")
    return 1 if wrong else 0


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the JSON record goes")
    parser.add_argument("--seed", type=int, help="of everything; a fresh one if not given")
    parser.add_argument("--only", default="", help="part of what a kernel is printed as")
    parser.add_argument("--workers", type=int, default=4, help="processes at a time")
    parser.add_argument("--emulate-only", action="store_true")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
