"""One row measured: ours against the best algorithm of cublasLt, block by block.

What happens, in order: operands on the device; every candidate and every algorithm checked or
ranked (:mod:`mmalab.bench.select`, :mod:`mmalab.bench.verify`); then per regime the winners of
that regime in A B B A order (:mod:`mmalab.bench.statistics`). Everything that was seen goes into
the record: each block with its seconds, clock, power and reasons.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mmalab.bench.arena import Arena, arena
from mmalab.bench.bed import BURST, SUSTAINED, Bed, Block, Graph, Regime, bed
from mmalab.bench.cublaslt import CublasSubject
from mmalab.bench.row import Row, make_kernel
from mmalab.bench.select import Selection, select
from mmalab.bench.statistics import order, ratio
from mmalab.bench.subject import KernelSubject, Subject, problem_of
from mmalab.bench.summary import steady, summary
from mmalab.bench.verify import verify
from mmalab.device.gpu import Gpu, open_gpu
from mmalab.errors import MmalabError, ToolError

__all__ = ["Plan", "duel", "measure"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured: pairs of blocks by regime (0: the regime is left out)."""

    burst: int = 5
    sustained: int = 2
    seed: int | None = None

    def regimes(self) -> list[tuple[Regime, int]]:
        """The regimes that are wanted, with their pairs."""
        return [(regime, pairs) for regime, pairs in ((BURST, self.burst),
                                                      (SUSTAINED, self.sustained)) if pairs]


def measure(row: Row, gpu: int = 0, plan: Plan | None = None) -> dict[str, Any]:
    """One row on one GPU, as the plain data of its record; a failure is told under "problem".

    Raises:
        ToolError: there is no GPU to measure on.
    """
    plan = plan or Plan()
    device = open_gpu(gpu)
    device.enter()
    seed = plan.seed if plan.seed is not None else secrets.randbits(32)
    record: dict[str, Any] = {"row": asdict(row), "seed": seed, "gpu": gpu}
    try:
        kernels = [make_kernel(row.kernel, row.m, row.n, row.k, arguments)
                   for arguments in row.arguments]
        problem = problem_of(kernels[0])
        record["problem_size"] = {**asdict(problem), "flops": problem.flops,
                                  "bytes": problem.bytes, "title": problem.title}
        with arena(device, problem, seed) as operands, bed(device, operands) as table:
            record["sets"], record["sms"] = len(operands.sets), table.sms
            ours = [KernelSubject(kernel, operands, f"{kernel.name} [{at}]")
                    for at, kernel in enumerate(kernels)]
            theirs = _baseline(row, device, operands)
            record |= duel(table, ours, theirs, plan, seed)
            record["meter"] = table.meter.problem
    except MmalabError as failed:
        record["problem"] = str(failed)
    return record


def _baseline(row: Row, device: Gpu, operands: Arena) -> Sequence[Subject]:
    if row.baseline == "none":
        return []
    if row.baseline == "cublasLt":
        return CublasSubject.all(device, operands)
    kernel = make_kernel(row.baseline, row.m, row.n, row.k, row.baseline_arguments or {})
    return [KernelSubject(kernel, operands, f"baseline {kernel.name}")]


def duel(table: Bed, ours: Sequence[Subject], theirs: Sequence[Subject], plan: Plan,
         seed: int) -> dict[str, Any]:
    """Select, check and time; the results by regime as plain data.

    Raises:
        ToolError: a subject that would be timed is wrong.
    """
    regimes = plan.regimes()
    kinds = [regime for regime, _ in regimes]
    sides = {"ours": select(table, ours, kinds)}
    if theirs:
        sides["baseline"] = select(table, theirs, kinds)
    record: dict[str, Any] = {f"{side}_candidates": chosen.rows for side, chosen in sides.items()}
    winners = {subject.name: subject for chosen in sides.values()
               for subject in chosen.winners.values()}
    record["checks"] = [_checked(table, subject, seed) for subject in winners.values()]
    for regime, pairs in regimes:
        record[regime.name] = _regime(table, sides, regime, pairs, seed)
    # Once more on the chip as the timing has left it: a race may need the heat.
    own = {subject.name: subject for subject in sides["ours"].winners.values()}
    record["checks_after"] = [_checked(table, subject, seed + 1) for subject in own.values()]
    return record


def _checked(table: Bed, subject: Subject, seed: int) -> dict[str, Any]:
    """The check of one subject.

    Raises:
        ToolError: it is wrong.
    """
    check = verify(table.arena, subject, seed)
    if check.problem:
        raise ToolError(subject.name, check.problem, legal="a result that is right",
                        where="mmalab.bench.verify")
    return check.as_dict()


def _regime(table: Bed, sides: Mapping[str, Selection[Any]], regime: Regime, pairs: int,
            seed: int) -> dict[str, Any]:
    """Both winners of one regime, A B B A."""
    graphs = {side: _graph(table, chosen, regime) for side, chosen in sides.items()}
    names = list(graphs)
    blocks: dict[str, list[Block]] = {side: [] for side in names}
    table.heat(graphs[names[0]], regime)
    for letter in order(pairs):
        side = names["AB".index(letter) % len(names)]
        blocks[side].append(table.block(graphs[side], regime))
    pairs_that_count = steady(blocks)
    found: dict[str, Any] = {"pairs_left_out": len(blocks[names[0]]) - len(pairs_that_count)}
    for side, every in blocks.items():
        seen = [every[at] for at in pairs_that_count]
        facts = dict(sides[side].winners[regime.name].facts)
        found[side] = summary(table.arena.problem, table.gpu.chip, table.sms, graphs[side].kernels,
                              seen, str(facts.get("unit", ""))) | {
            "facts": facts, "blocks": [block.as_dict() for block in every]}
    if len(names) == 2:
        seconds = [[blocks[side][at].seconds for at in pairs_that_count] for side in names]
        found["ratio"] = asdict(ratio(*seconds, seed=seed))
    return found


def _graph(table: Bed, chosen: Selection[Any], regime: Regime) -> Graph:
    subject = chosen.winners[regime.name]
    key = f"{regime.name}_seconds"
    each = next(row[key] for row in chosen.rows if row["name"] == subject.name)
    return table.fitting(subject, regime.graph, each)
