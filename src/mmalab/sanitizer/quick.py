"""`mmalab.emulate`: full speed first, the exact model where it is needed.

A sanitized run takes two passes at most. The first runs compiled code under the race filter
(:mod:`mmalab.emulator.native.watch`): it proves most kernels clean at a small cost. What it cannot
prove, or any finding, leads to the second: the arrays are put back and the kernel runs again under
the happens-before model, which alone reports. Where a whole second pass would take minutes, only
the suspect CTAs go through it, and the run's fidelity says so::

    filter: 64 CTAs, 2 suspect  ->  exact model over CTAs 17 and 18, outputs of the first pass

The filter does not know mbarriers, asynchronous copies and clusters. There the first pass compares
the clusters instead (:mod:`mmalab.emulator.native.twins`): where one stands for others, and the
model finds nothing in it, it would find nothing in them::

    64 clusters, 1 class  ->  exact model over cluster 0: clean, and so is the run
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import Run
from mmalab.emulator import emulate as run_machine
from mmalab.emulator.events import Listener
from mmalab.emulator.interpret import Interpreter, cta_order
from mmalab.emulator.machine import Machine
from mmalab.emulator.native import code_for, run_threaded
from mmalab.emulator.native.twins import TwinScheduler
from mmalab.emulator.native.watch import WatchedScheduler, needs_model
from mmalab.emulator.program import Program
from mmalab.emulator.requests import arguments
from mmalab.emulator.state import LaunchShape
from mmalab.emulator.variance import varying_sites
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module
from mmalab.sanitizer.legality import refuse_ill_formed
from mmalab.sanitizer.model import HappensBefore
from mmalab.sanitizer.run import emulate as exact_run
from mmalab.sanitizer.run import resident
from mmalab.sanitizer.saved import Saved
from mmalab.sanitizer.schedules import Schedule, compare, several
from mmalab.sanitizer.warps import torn

__all__ = ["emulate"]

Extent = int | Sequence[int]
#: Warp instructions above which the exact model sees the suspect CTAs only (about half a minute).
_WHOLE = 500_000
#: Warp instructions of suspect CTAs that the exact model takes on.
_SOME = 1_000_000


def emulate(kernel: Kernel | Module | str, args: Sequence[Any], *, entry: str | None = None,
            grid: Extent | None = None, block: Extent | None = None,
            cluster: Extent | None = None, dynamic_shared: int | None = None,
            target: str | None = None, numerics: str = "exact",
            schedule: Schedule = "eager", sanitize: bool = True, max_steps: int | None = None,
            listeners: Sequence[Callable[[Program, LaunchShape], Listener]] = ()) -> Run:
    """Execute a kernel on the CPU; arrays among `args` are read and written in place.

    Args:
        kernel: a Kernel value, a parsed module, or PTX text.
        args: one value per parameter: arrays for pointers, numbers and bytes by declared type.
        entry, grid, block, cluster, dynamic_shared: the launch; a Kernel brings its own.
        target: whose tensor-core arithmetic, "sm_90" ...; the module's own target if not given.
        numerics: "exact", or "fast" (float32 products and sums, as the fidelity then says).
        schedule: when asynchronous operations complete: "eager", "lazy", or a seed; a list of
            them ("eager,lazy,1") compares the outputs, and those of the first stay.
        sanitize: check order and protocols; findings are sorted by severity, then by place.
        max_steps: warp instructions after which LimitExceeded is raised.
        listeners: factories of further listeners; the run then goes through the exact model.

    Raises:
        UsageError: arguments or launch that do not fit the kernel.
        UnsupportedInstruction: a form that this emulator does not execute, by name.
        LimitExceeded: the step or memory budget ran out.
    """
    refuse_ill_formed(kernel, target, numerics)
    launch: dict[str, Any] = {
        "entry": entry, "grid": grid, "block": block, "cluster": cluster,
        "dynamic_shared": dynamic_shared, "target": target, "numerics": numerics,
        "schedule": schedule, "max_steps": max_steps,
    }
    args = arguments(args)
    schedules = several(schedule)
    if schedules is not None:
        return compare(
            args, schedules,
            lambda one: emulate(kernel, args, **{**launch, "schedule": one}, sanitize=sanitize,
                                listeners=listeners),
            lambda one, **look: run_machine(kernel, args, **{**launch, "schedule": one}, **look))
    if not sanitize:
        return run_machine(kernel, args, **launch, sanitize=False, executor=run_threaded)
    if listeners or schedule != "eager":
        return exact_run(kernel, args, **launch, listeners=listeners)
    return _watched(kernel, args, launch)


def _watched(kernel: Kernel | Module | str, args: Sequence[Any], launch: dict[str, Any]) -> Run:
    """The two passes: at full speed, and the exact model for what that leaves open."""
    saved = Saved(args)
    watch = _Watch()
    first = run_machine(kernel, args, **launch, sanitize=False, executor=watch)
    if not watch.doubts and not first.findings:
        return first
    outputs = Saved(args)
    saved.restore()
    if watch.stand_for_all(first):
        if _clean(kernel, args, launch, watch.twins):
            outputs.restore()
            return first
        saved.restore()
    ctas = watch.closer_look(first)
    if ctas is None:
        return exact_run(kernel, args, **launch)
    second = _exact(kernel, args, launch, ctas)
    outputs.restore()
    return _joined(first, second, ctas)


@dataclass(slots=True)
class _Watch:
    """The first pass, and what it leaves open."""

    #: CTAs in whole clusters, those first that the exact model should see first.
    suspects: list[int] = field(default_factory=list)
    ctas: int = 1
    #: CTAs of a cluster.
    size: int = 1
    doubts: bool = False
    #: CTAs whose clusters stand for all others, if some do.
    twins: list[int] = field(default_factory=list)

    def __call__(self, machine: Machine, max_steps: int | None) -> None:
        self.ctas, self.size = machine.shape.ctas, prod(machine.shape.cluster)
        if needs_model(machine.program) or torn(machine.program, machine.shape.threads):
            self.doubts = True
            leaders = self._compare(machine, max_steps)
            self.suspects = _whole_clusters(machine, leaders, range(self.ctas))
            return
        scheduler = WatchedScheduler(machine, code_for(machine, watched=True),
                                     max_steps=max_steps)
        scheduler.run()
        self.suspects = _whole_clusters(machine, scheduler.suspects)
        self.doubts = bool(self.suspects) or bool(machine.program.maybe_undefined)

    def _compare(self, machine: Machine, max_steps: int | None) -> list[int]:
        """Run, and find clusters that stand for others, where that can be: the CTAs of one cluster
        of each kind."""
        clusters = self.ctas // self.size
        varying = varying_sites(machine.program) if clusters > 1 else None
        if varying is None:
            run_threaded(machine, max_steps)
            return []
        scheduler = TwinScheduler(
            machine, code_for(machine, owners=True, stops=frozenset(varying)), varying,
            plain=lambda: code_for(machine, owners=True), max_steps=max_steps)
        scheduler.run()
        leaders = [cta for ctas in scheduler.classes.values() for cta in ctas]
        if scheduler.apart and 2 * len(scheduler.classes) <= clusters:
            self.twins = leaders
        return leaders

    def stand_for_all(self, first: Run) -> bool:
        """Whether there are twins of a run without findings, and few enough."""
        work = first.counters["instructions"] * len(self.twins) // self.ctas
        return (bool(self.twins) and work <= _SOME and not first.findings
                and first.deadlock is None)

    def closer_look(self, first: Run) -> list[int] | None:
        """The CTAs for the exact model; None for all of them."""
        work = first.counters["instructions"]
        if work <= _WHOLE or not self.suspects:
            return None
        count = max(1, _SOME * self.ctas // (work * self.size)) * self.size
        return None if count >= self.ctas else self.suspects[:count]


def _whole_clusters(machine: Machine, *wanted: Iterable[int]) -> list[int]:
    """The CTAs of all clusters that have a wanted one, cluster by cluster: a CTA without its
    cluster has another rank in it. Clusters wanted earlier come earlier."""
    clusters = cta_order(machine.shape).reshape(-1, prod(machine.shape.cluster))
    found: dict[int, list[int]] = {}
    for ctas in wanted:
        for number in np.flatnonzero(np.isin(clusters, list(ctas)).any(axis=1)).tolist():
            found.setdefault(number, clusters[number].tolist())
    return [cta for cluster in found.values() for cta in cluster]


def _clean(kernel: Kernel | Module | str, args: Sequence[Any], launch: dict[str, Any],
           ctas: Sequence[int]) -> bool:
    """Whether the exact model finds nothing in these CTAs, whatever values are stored."""
    models: list[HappensBefore] = []
    run = _exact(kernel, args, launch, ctas, models)
    return not run.findings and run.deadlock is None and not any(
        model.excused for model in models)


def _exact(kernel: Kernel | Module | str, args: Sequence[Any], launch: dict[str, Any],
           ctas: Sequence[int], models: list[HappensBefore] | None = None) -> Run:
    """The exact model in these CTAs alone; it is told to `models`."""
    return exact_run(kernel, args, **launch, models=models, executor=lambda machine, steps: _Some(
        machine, ctas, max_steps=steps, resident=resident(machine.program)).run())


class _Some(Interpreter):
    """Runs only some CTAs of the grid."""

    def __init__(self, machine: Machine, ctas: Sequence[int], *, max_steps: int | None,
                 resident: int | None) -> None:
        super().__init__(machine, max_steps=max_steps, resident=resident)
        self._ctas = np.array(ctas, np.int64)

    def _cta_order(self) -> NDArray[np.int64]:
        return self._ctas


def _joined(first: Run, second: Run, ctas: Sequence[int]) -> Run:
    """The first pass's results with the findings of both; a CTA alone may wait for the others."""
    own = [f for f in second.findings if f.code != "deadlock"]
    known = {(f.code, f.where.line) for f in own}
    findings = own + [f for f in first.findings if (f.code, f.where.line) not in known]
    shown = ", ".join(map(str, ctas[:8])) + (" ..." if len(ctas) > 8 else "")
    note = f"approximate: order checked exactly in CTAs {shown} only, by the filter elsewhere"
    return replace(first, findings=findings, fidelity={**first.fidelity, "sanitizer": note})
