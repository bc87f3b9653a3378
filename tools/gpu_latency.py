"""Measure the clocks of wgmma on a GPU: from one instruction to its result, and one after another.

    PYTHONPATH=src python tools/gpu_latency.py --out records/h200/latency.json

One warpgroup on one SM. For every chain length L (0, 1, 2, 4, ... products into the same
accumulators) it reads its clock, issues ``wgmma.fence``, L products, commit and wait, and reads the
clock again; 16 rounds, the first ones not counted, the median of the rest::

    single = clocks(L = 1) - clocks(L = 0)           what the product adds to waiting for nothing
    each   = (clocks(L = 32) - clocks(L = 8)) / 24   in a chain

A comes from shared memory (SS) or registers (RS); operands are random bits without NaN and lie in
tiles with the 128-byte swizzle. `--check` runs nothing: it assembles all kernels.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import mmalab
from mmalab import isa
from mmalab.kernels.image import THREADS, fill
from mmalab.kernels.sm90_wgmma.mainloop import swizzled_descriptor
from mmalab.kernels.sm90_wgmma.recipe import Recipe, recipe
from mmalab.plan.rates import tensor_clocks
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256)
#: Widths of the types other than bf16.
FEWER = (64, 128, 256)
CHAINS = (0, 1, 2, 4, 8, 16, 32)
ROUNDS, FIRST = 16, 4
#: Bytes of a slice: 64 lines of A, then up to 256 lines of B, of 128 bytes each.
_B_AT = 64 * 128
_IMAGE = _B_AT + 256 * 128


@dataclass(frozen=True)
class Setup:
    """One instruction."""

    recipe: Recipe
    n: int
    registers: bool

    def kernel(self) -> Kernel:
        """The kernel: image, clocks[rounds, chains, warps], and sums so that nothing is dead."""
        name = f"clocks_{self.recipe.dtype}_n{self.n}_{'rs' if self.registers else 'ss'}"
        return Kernel(
            name, _Writer(self, name).text(), name, (1, 1, 1), (THREADS, 1, 1),
            (Param("image", "in", "u8", (_IMAGE,)),
             Param("clocks", "out", "u32", (ROUNDS, len(CHAINS), 4)),
             Param("sums", "out", "u32", (THREADS,))), "sm_90a", dynamic_shared=_IMAGE + 1024)


class _Writer:
    """Writes the kernel of one instruction."""

    def __init__(self, setup: Setup, name: str) -> None:
        self.setup, self.row = setup, setup.recipe
        self.b = KernelBuilder(name, target="sm_90a", version=(8, 0), arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b = self.b
        image, clocks, sums = (b.cvta("to.global.u64", b.load_param(b.param(name, "u64")))
                               for name in ("image", "clocks", "sums"))
        b.reqntid(THREADS)
        base = b.mov("u32", b.dynamic_shared(align=1024))
        base = b.and_("b32", b.add("u32", base, 1023), 0xFFFFFC00)
        thread = b.mov("u32", b.tid.x)
        fill(b, image, base, thread, _IMAGE)
        self.place = b.or_("b64", b.cvt("u64.u32", b.shr("u32", base, 4)), swizzled_descriptor())
        self.b_place = b.add("u64", self.place, _B_AT >> 4)
        self.d = b.regs(self.row.register, self.row.form(self.setup.n).fragments["D"].registers)
        for register in self.d:
            b.mov(self.row.register, 0.0 if self.row.register == "f32" else 0, out=register)
        self.a = [b.ld("shared.b32", b.at(b.add("u32", base, b.mul_lo("u32", thread, 16)), 4 * at))
                  for at in range(4)] if self.setup.registers else []
        again = b.setp("ne", "u32", b.mov("u32", 1), 0)
        leads = b.setp("eq", "u32", b.and_("b32", thread, 31), 0)
        to = b.add("u64", clocks, b.mul_wide("u32", b.shr("u32", thread, 5), 4))
        with b.loop(ROUNDS, dtype="u32", unroll=False):
            for at, length in enumerate(CHAINS):
                passed = self._chain(length, again)
                with b.guard(leads):
                    b.st("global.u32", b.at(to, 16 * at), passed)
            b.add("u64", to, 16 * len(CHAINS), out=to)
        own = b.add("u64", sums, b.mul_wide("u32", thread, 4))
        for register in self.d:
            b.st(f"global.{self.row.register}", b.at(own), register)
        b.emit("ret")
        return b.text()

    def _chain(self, length: int, again: Register) -> Register:
        """So many products into the same accumulators; the clocks until the last is there."""
        b = self.b
        before, after, passed = b.reg("b64"), b.reg("b64"), b.reg("b64")
        form = self.row.form(self.setup.n)
        specs = form.others[0] if self.setup.registers else form.operands
        values = {"d": self.d, "a": self.a or self.place, "scale_d": again, "ia": 1, "ib": 1,
                  "ta": 0, "tb": 0, "b": self.b_place}
        b.emit("bar.sync", 0)
        b.emit("mov.u64", before, b.clock64)
        b.emit("wgmma.fence.sync.aligned")
        for _ in range(length):
            b.emit(form.key, *(values[spec.name] for spec in specs))
        if length:  # ptxas makes a product of an empty group
            b.emit("wgmma.commit_group.sync.aligned")
        b.emit("wgmma.wait_group.sync.aligned", 0)
        b.emit("mov.u64", after, b.clock64)
        b.emit("sub.u64", passed, after, before)
        return b.cvt("u32.u64", passed)


# --- running --------------------------------------------------------------------------------------

def setups() -> list[Setup]:
    """All instructions."""
    rows = [(recipe("bf16"), n) for n in WIDTHS]
    rows += [(recipe(dtype), n) for dtype, n in product(("f16", "tf32", "e4m3", "s8"), FEWER)]
    rows += [(recipe("f16", "f16"), n) for n in FEWER]
    return [Setup(row, n, registers) for row, n in rows for registers in (False, True)]


def measured(setup: Setup, image: Any) -> dict[str, Any]:
    """One instruction's clocks."""
    clocks = np.zeros((ROUNDS, len(CHAINS), 4), np.uint32)
    kernel = setup.kernel()
    done = mmalab.launch(kernel, [image, clocks, np.zeros(THREADS, np.uint32)])
    # the last of the four warps, in the median round
    by_chain = {length: statistics.median(clocks[FIRST:, at].max(axis=1).tolist())
                for at, length in enumerate(CHAINS)}
    row = setup.recipe
    return {
        "instruction": row.key(setup.n).removeprefix("wgmma.mma_async.sync.aligned."),
        "a": "registers" if setup.registers else "shared", "n": setup.n, "dtype": row.dtype,
        "accumulator": row.accumulator,
        "clocks": {str(length): clocks for length, clocks in by_chain.items()},
        "single": by_chain[1] - by_chain[0],
        "each": round((by_chain[CHAINS[-1]] - by_chain[8]) / (CHAINS[-1] - 8), 2),
        "rate": tensor_clocks(1, 2 * 64 * setup.n * row.k, row.dtype, "H200"),
        "compiler": done.compiler,
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the JSON record goes")
    parser.add_argument("--seed", type=int, help="of the operands; fresh if not given")
    parser.add_argument("--check", action="store_true", help="assemble only; needs no GPU")
    options = parser.parse_args()
    found = setups()
    with ThreadPoolExecutor() as pool:
        cubins = list(pool.map(lambda setup: mmalab.assemble(setup.kernel()), found))
    said = [line for cubin in cubins for line in cubin.diagnostics]
    print(f"{len(found)} kernels, {len(said)} words of ptxas {said[:2]}", flush=True)
    if options.check:
        return 1 if said else 0
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    # below 2 in magnitude in every floating type of whole bytes: no NaN, no Inf
    image = np.random.default_rng(seed).integers(0, 256, _IMAGE, np.uint8) & 0xBF
    start = time.monotonic()
    rows = [measured(setup, image) for setup in found]
    record = {
        "what": "clocks of one wgmma and of chains of them, by one warpgroup",
        "evidence": "measured", "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        "command": "PYTHONPATH=src python tools/gpu_latency.py --out records/h200/latency.json",
        "device": mmalab.device.info(0), "mmalab": mmalab.__version__, "seed": seed,
        "method": f"clocks around fence, chain, commit and wait; the slowest warp; medians of "
                  f"{ROUNDS - FIRST} rounds; rate: 2 M N K over the chip's operations per clock",
        "seconds": round(time.monotonic() - start, 1), "rows": rows,
    }
    for row in rows:
        print(f"{row['instruction']:32} A {row['a']:9} single {row['single']:6.1f} "
              f"each {row['each']:6.2f} rate {row['rate']:6.1f}")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
