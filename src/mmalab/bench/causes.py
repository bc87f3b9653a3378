"""What limits a kernel: what it gains by each part that is left out, and where its clocks go.

Two means, one record. The variants of :mod:`mmalab.bench.without` are timed against each other, in
turn forwards and backwards, each a share of what its class of instructions reaches at the clock
that the SMs counted; every share counts all products, also those that are left out. And the kernel
of :mod:`mmalab.bench.trace` tells how long its warps waited for what::

    all of it             89.3 %        slice            1,620 clocks (its products: 1,536)
    C not written         92.3 %        end of a tile    3,160
    products only         98.3 %        phase              810: half a slice

So the end of a tile costs about 3 %, and of the 1,620 clocks no wait is a part worth naming: what
remains are reads among the products.

    >>> case = Case("sm80_mma.gemm", 3072, 5632, 4096, {"copy": "tma", "stages": 4})
    >>> case.kernel().grid
    (132, 1, 1)
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.bench.anatomy import anatomy
from mmalab.bench.arena import Arena, arena
from mmalab.bench.bed import BURST, Bed, Block, Regime, bed
from mmalab.bench.ceilings import class_per_clock, per_clock
from mmalab.bench.row import make_kernel
from mmalab.bench.statistics import ratio
from mmalab.bench.subject import KernelSubject, Subject, problem_of
from mmalab.bench.summary import summary
from mmalab.bench.trace import Traced, traced
from mmalab.bench.trace import summary as told
from mmalab.bench.verify import verify
from mmalab.bench.without import Variant, variants
from mmalab.device.driver import call
from mmalab.device.gpu import open_gpu
from mmalab.device.launch import code_target
from mmalab.errors import MmalabError, ToolError
from mmalab.ptx.kernel import Kernel
from mmalab.toolchain import Cubin, assemble

__all__ = ["Built", "Case", "Made", "build", "measure", "timed"]

#: The burst regime with less rest: so many variants take turns that each has it.
_REGIME = replace(BURST, rest=0.1)
#: Blocks that are traced, and launches before the one that counts.
_BLOCKS, _BEFORE = 16, 3
_TRACED = "with its clocks read"
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel: ``family.factory`` under mmalab.kernels, sizes, and what else it takes."""

    factory: str
    m: int
    n: int
    k: int
    choices: Mapping[str, Any]

    def kernel(self) -> Kernel:
        """The kernel.

        Raises:
            UsageError: there is none.
        """
        return make_kernel(self.factory, self.m, self.n, self.k, self.choices)


@dataclass(frozen=True, slots=True)
class Made:
    """One kernel of a case: a variant, or the one whose clocks are read; `products` are in its
    text."""

    name: str
    left_out: tuple[str, ...]
    kernel: Kernel
    products: int
    cubin: Cubin

    @property
    def spilled(self) -> int:
        """Bytes that are stored to local memory for want of registers."""
        return self.cubin.resources.spill_stores


@dataclass(frozen=True, slots=True)
class Built:
    """All kernels of a case, assembled; the traced one comes last."""

    case: Case
    plan: Traced
    made: tuple[Made, ...]


def build(cases: Sequence[Case], chip: str | None = None) -> list[Built]:
    """Write and assemble all kernels of all cases, for `chip` or the target they name.

    Raises:
        UsageError: a kernel that no ring feeds.
        ToolError: ptxas refuses one.
    """
    plans = []
    for case in cases:
        kernel = case.kernel()
        plan = traced(kernel, _BLOCKS)
        plans.append((case, plan, [*variants(kernel), Variant(_TRACED, (), plan.kernel)]))

    def made(variant: Variant) -> Made:
        kernel = variant.kernel
        target = kernel.target if chip is None else code_target(kernel.target, chip, None)
        return Made(variant.name, variant.left_out, kernel, len(anatomy(kernel).products),
                    assemble(kernel.ptx, target))

    with ThreadPoolExecutor() as threads:  # ptxas is a process of its own
        done = iter(list(threads.map(made, [each for _, _, some in plans for each in some])))
    return [Built(case, plan, tuple(next(done) for _ in some)) for case, plan, some in plans]


# --- on a GPU -------------------------------------------------------------------------------------

def measure(built: Built, gpu: int = 0, rounds: int = 4, seed: int | None = None) -> dict[str, Any]:
    """One case as plain data; a failure is told under "problem".

    Raises:
        ToolError: there is no GPU to measure on.
    """
    device = open_gpu(gpu)
    device.enter()
    plain, last = built.made[0].kernel, built.made[-1]
    seed = secrets.randbits(32) if seed is None else seed
    found: dict[str, Any] = {"case": asdict(built.case), "kernel": plain.name, "seed": seed}
    try:
        problem = problem_of(plain)
        with arena(device, problem, seed) as operands, bed(device, operands) as table:
            place = operands.allocate(4 * int(np.prod(built.plan.shape)))
            subjects: list[KernelSubject] = [
                KernelSubject(each.kernel, operands, each.name,
                              {"trace": place} if each is last else None) for each in built.made]
            _check(operands, subjects[0], subjects[-1], seed)
            blocks = timed(table, subjects, rounds)
            found["rows"] = [_row(table, subject, made, blocks[made.name])
                             for subject, made in zip(subjects, built.made, strict=True)]
            seconds = [[block.seconds for block in blocks[each.name]]
                       for each in (last, built.made[0])]
            found["trace"] = {"over_plain": asdict(ratio(*seconds, seed=seed)),
                              "slice_of_products": _slice_clocks(plain, table),
                              **told(built.plan, _trace(operands, built.plan, subjects[-1], place))}
    except MmalabError as failed:
        found["problem"] = str(failed)
    return found


def timed(table: Bed, subjects: Sequence[Subject], rounds: int,
          regime: Regime = _REGIME) -> dict[str, list[Block]]:
    """Blocks of every subject by its name, all of them in turn, forwards and then backwards."""
    graphs = [table.fitting(subject, regime.graph, table.warm_up(subject)) for subject in subjects]
    found: dict[str, list[Block]] = {graph.subject: [] for graph in graphs}
    table.run(graphs[0], 1)  # nobody is the first after the warm-up
    for number in range(rounds):
        for graph in graphs if number % 2 == 0 else reversed(graphs):
            found[graph.subject].append(table.block(graph, regime))
    return found


def _row(table: Bed, subject: Subject, made: Made, blocks: Sequence[Block]) -> dict[str, Any]:
    """A variant's medians, and the blocks behind them."""
    seen = summary(table.arena.problem, table.gpu.chip, table.sms, (), blocks,
                   str(made.kernel.facts["unit"]), table.gpu.name)
    share = seen["share"] if seen["class_share"] is None else seen["class_share"]
    return {
        "variant": subject.name, "left_out": made.left_out,
        "share_percent": None if share is None else round(100 * share, 2),
        "mhz": None if seen["mhz"] is None else round(seen["mhz"]), "tflops": round(seen["tflops"]),
        "spread_percent": round(100 * seen["spread"], 2),
        "registers": made.cubin.resources.registers, "spilled": made.spilled,
        "blocks": [[round(1e6 * block.seconds, 2), block.mhz and round(block.mhz, 1)]
                   for block in blocks],
    }


def _slice_clocks(kernel: Kernel, table: Bed) -> float | None:
    """Clocks of a slice's products, at the rate that shares are of."""
    problem, chip = table.arena.problem, table.gpu.chip
    rate = (class_per_clock(problem, chip, str(kernel.facts["unit"]))
            or per_clock(problem, chip))
    return round(2 * math.prod(kernel.facts["tile"]) / rate, 1) if rate else None


def _check(operands: Arena, plain: KernelSubject, other: KernelSubject, seed: int) -> None:
    """Refuse a kernel that is wrong, or that gives other bits when its clocks are read.

    Raises:
        ToolError: saying which.
    """
    check = verify(operands, plain, seed)
    if check.problem:
        raise ToolError(plain.name, check.problem, where="mmalab.bench.verify",
                        legal="a result that is right before it is timed")
    results = [_result(operands, subject) for subject in (plain, other)]
    differ = int(np.count_nonzero(results[0] != results[1]))
    if differ:
        raise ToolError(other.name, f"gives {differ} other bytes than the plain kernel",
                        legal="the same bits", where="mmalab.bench.trace")


def _result(operands: Arena, subject: KernelSubject) -> NDArray[np.uint8]:
    """All bytes of the first C, by this subject."""
    operands.poison()
    subject.enqueue(0)
    operands.gpu.wait(subject.name, patience=_PATIENCE_S)
    return np.ascontiguousarray(operands.result(0)).view(np.uint8)


def _trace(operands: Arena, plan: Traced, subject: KernelSubject,
           place: int) -> NDArray[np.uint32]:
    """The events of one launch behind others."""
    trace = np.zeros(plan.shape, np.uint32)
    driver = operands.gpu.driver
    call(driver.cuMemcpyHtoD, place, trace.ctypes.data, trace.nbytes)
    for at in range(_BEFORE + 1):  # each writes the same events of its own
        subject.enqueue(at % len(operands.sets))
    operands.gpu.wait(subject.name, patience=_PATIENCE_S)
    call(driver.cuMemcpyDtoH, trace.ctypes.data, place, trace.nbytes)
    return trace
