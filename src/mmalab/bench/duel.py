"""One row measured: ours against the best algorithm of cublasLt, block by block.

What happens, in order: operands on the device; every candidate of ours and every algorithm checked
(:mod:`mmalab.bench.verify`), those that are right ranked (:mod:`mmalab.bench.select`); then per
regime the winners of that regime in A B B A order (:mod:`mmalab.bench.statistics`); ours checked
again. Everything that was seen goes into the record: each block with its seconds, clock, power and
reasons.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from mmalab.bench.arena import Arena, arena
from mmalab.bench.bed import BURST, SUSTAINED, Bed, Block, Graph, Regime, bed
from mmalab.bench.cublaslt import CublasSubject
from mmalab.bench.row import Row, make_kernel
from mmalab.bench.select import Selection, select
from mmalab.bench.statistics import order, ratio
from mmalab.bench.subject import KernelSubject, Refused, Subject, problem_of
from mmalab.bench.summary import steady, summary
from mmalab.bench.verify import Check, verify
from mmalab.device.driver import DriverError, Hung
from mmalab.device.gpu import Gpu, open_gpu
from mmalab.device.launch import code_target
from mmalab.errors import MmalabError, ToolError, UsageError
from mmalab.ptx.kernel import Kernel
from mmalab.toolchain import assemble, tools

__all__ = ["Offer", "Plan", "duel", "measure"]

#: Makes contestants, when it is their turn.
Offer = Callable[[], Sequence[Subject]]


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

    def described(self) -> dict[str, Any]:
        """Each regime in words of its record: its pairs, seconds of rest, lead-in, work and of one
        graph, what it shows; one that is left out says so."""
        found: dict[str, Any] = {}
        for regime, pairs in ((BURST, self.burst), (SUSTAINED, self.sustained)):
            found[regime.name] = {"pairs": pairs, "shows": regime.shows} | (
                {f"{key}_seconds": getattr(regime, key)
                 for key in ("rest", "lead", "work", "graph", "warm")} if pairs
                else {"left_out": "no pairs were asked for"})
        return found


def measure(row: Row, gpu: int = 0, plan: Plan | None = None) -> dict[str, Any]:
    """One row on one GPU, as the plain data of its record; a failure is told under "problem".

    Raises:
        ToolError: there is no GPU to measure on.
    """
    plan = plan or Plan()
    device = open_gpu(gpu)
    device.enter()
    seed = plan.seed if plan.seed is not None else secrets.randbits(32)
    record: dict[str, Any] = {"row": asdict(row), "seed": seed, "gpu": gpu, "seconds": {},
                              "regimes": plan.described()}
    watch = _Watch(record["seconds"])
    try:
        kernels, record["refused"] = _made(row, device.chip)
        problem = problem_of(kernels[0][1])
        record["problem_size"] = {**asdict(problem), "flops": problem.flops,
                                  "bytes": problem.bytes, "title": problem.title}
        with arena(device, problem, seed) as operands, bed(device, operands) as table:
            watch("operands")
            record["sets"], record["sms"] = len(operands.sets), table.sms
            ours = [KernelSubject(kernel, operands, f"{kernel.name} [{at}]")
                    for at, kernel in kernels]
            offers = _baselines(row, device, operands)
            watch("load")
            record |= duel(table, ours, offers, plan, seed, watch)
            record["meter"] = table.meter.problem
    except MmalabError as failed:
        record["problem"] = str(failed)
    return record


class _Watch:
    """Notes how long each part of a row took, in seconds."""

    def __init__(self, notes: dict[str, float]) -> None:
        self._notes, self._last = notes, time.monotonic()

    def __call__(self, part: str) -> None:
        now = time.monotonic()
        self._notes[part], self._last = round(now - self._last, 2), now


def _made(row: Row, chip: str) -> tuple[list[tuple[int, Kernel]], dict[int, str]]:
    """The row's candidates by number, assembled for `chip`, and why others are none."""
    made: dict[int, Kernel] = {}
    refused: dict[int, str] = {}

    def attempt(at: int, step: Callable[[], Kernel]) -> None:
        try:
            made[at] = step()
        except MmalabError as failed:
            made.pop(at, None)
            refused[at] = str(failed)

    def assembled(kernel: Kernel) -> Kernel:
        assemble(kernel.ptx, code_target(kernel.target, chip, None))
        return kernel

    for at, arguments in enumerate(row.arguments):
        attempt(at, partial(make_kernel, row.kernel, row.m, row.n, row.k, arguments))
        twin = next((other for other in made if other != at and at in made
                     and made[other].ptx == made[at].ptx), None)
        if twin is not None:
            made.pop(at)
            refused[at] = f"is candidate {twin}, word for word"
    if tools("ptxas"):
        # ptxas is a process of its own, and what it made is kept: all at once.
        with ThreadPoolExecutor() as threads:
            list(threads.map(attempt, list(made),
                             [partial(assembled, each) for each in made.values()]))
    if not made:
        raise UsageError(row.title, "has no kernel: " + next(iter(refused.values())),
                         legal="a row that one of its plans serves", where="mmalab.bench.Row")
    return sorted(made.items()), refused


def _baselines(row: Row, device: Gpu, operands: Arena) -> Sequence[Offer]:
    """Who may be the baseline: the first offer of which somebody is right."""
    if row.baseline == "none":
        return []
    if row.baseline == "cublasLt":
        plain = partial(CublasSubject.all, device, operands)
        return [partial(plain, scaled=True), plain] if operands.problem.scaled else [plain]
    kernel = make_kernel(row.baseline, row.m, row.n, row.k, row.baseline_arguments or {})
    return [lambda: [KernelSubject(kernel, operands, f"baseline {kernel.name}")]]


def duel(table: Bed, ours: Sequence[Subject], offers: Sequence[Offer], plan: Plan, seed: int,
         watch: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Check, select and time; the results by regime as plain data.

    Args:
        table: where they run.
        ours: our candidates.
        offers: who may be the baseline; a later offer stands in where nobody of the one before is
            right, and the record says why (``baseline_instead``). None: we run alone.
        plan: how much is measured.
        seed: of the samples that are checked.
        watch: told after each part.

    Raises:
        ToolError: nobody of a side is right.
    """
    regimes, watch = plan.regimes(), watch or _Watch({})
    record: dict[str, Any] = {"checks": []}
    sides: dict[str, Selection[Subject]] = {}
    for side, choices in (("ours", [lambda: ours]), ("baseline", offers)):
        if choices:
            right = _first_right(table, choices, seed, record)
            watch(f"check {side}")
            sides[side] = select(table, right, [regime for regime, _ in regimes])
            record[f"{side}_candidates"] = sides[side].rows
            watch(f"select {side}")
    for regime, pairs in regimes:
        record[regime.name] = _regime(table, sides, regime, pairs, seed)
        watch(regime.name)
    # Once more on the chip as the timing has left it: a race may need the heat.
    own = {subject.name: subject for subject in sides["ours"].winners.values()}
    record["checks_after"] = [verify(table.arena, subject, seed + 1).as_dict()
                              for subject in own.values()]
    for check in record["checks_after"]:
        if check["problem"]:
            raise ToolError(check["subject"], "was right before it was timed, and is wrong now: "
                            + check["problem"], where="mmalab.bench.verify")
    return record


def _first_right(table: Bed, offers: Sequence[Offer], seed: int,
                 record: dict[str, Any]) -> list[Subject]:
    """The right ones of the first offer that has any.

    Raises:
        ToolError: none has.
    """
    for offer in offers[:-1]:
        try:
            return _right(table, offer(), seed, record["checks"])
        except (DriverError, Hung):
            raise  # the device is lost
        except ToolError as failed:
            record["baseline_instead"] = str(failed)
    return _right(table, offers[-1](), seed, record["checks"])


def _right(table: Bed, subjects: Sequence[Subject], seed: int,
           checks: list[dict[str, Any]]) -> list[Subject]:
    """Those whose results are right; every check is noted.

    Raises:
        ToolError: none is.
    """
    right = []
    for subject in subjects:
        try:
            check = verify(table.arena, subject, seed)
        except Refused as failed:
            check = Check(subject.name, 0.0, 0.0, 0, 0, None, str(failed))
        checks.append(check.as_dict())
        if not check.problem:
            right.append(subject)
    if not right:
        raise ToolError(checks[-1]["subject"], checks[-1]["problem"],
                        legal="a result that is right before it is timed",
                        where="mmalab.bench.verify")
    return right


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
                              seen, str(facts.get("unit", "")), table.gpu.name) | {
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
