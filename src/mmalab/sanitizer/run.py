"""`emulate` with the sanitizer listening: what `mmalab.emulate` is.

The machine reports what it sees by itself (addresses, masks, counts, deadlock), the model what is
not ordered. Both may notice the same fault: then the model's finding stays, because it carries a
witness and a repair. An early read that a race explains is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mmalab.emulator import Run
from mmalab.emulator import emulate as run_machine
from mmalab.emulator.events import Event, Listener
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.machine import Machine
from mmalab.emulator.program import Program, Site
from mmalab.emulator.state import LaunchShape
from mmalab.findings import Finding
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module
from mmalab.sanitizer.families import folded
from mmalab.sanitizer.model import HappensBefore

__all__ = ["emulate", "resident"]

Extent = int | Sequence[int]
#: Faults of an address: nothing else about such an access is worth telling.
_WILD = ("out-of-bounds", "misaligned-access")
_RANK = {"error": 0, "warning": 1, "note": 2}
#: CTAs that run together, and memory that no other CTA (or cluster) writes.
_TOGETHER = 16
_OWN = ("shared", "param", "local", "const")


@dataclass(frozen=True, slots=True)
class _Ear:
    """Passes events on to the model, whose findings are fetched and merged here."""

    models: Sequence[HappensBefore]

    def on(self, event: Event) -> None:
        for model in self.models:
            model.on(event)


def emulate(kernel: Kernel | Module | str, args: Sequence[Any], *, entry: str | None = None,
            grid: Extent | None = None, block: Extent | None = None,
            cluster: Extent | None = None, dynamic_shared: int | None = None,
            target: str | None = None, numerics: str = "exact",
            schedule: str | int = "eager", sanitize: bool = True, max_steps: int | None = None,
            listeners: Sequence[Callable[[Program, LaunchShape], Listener]] = (),
            executor: Callable[[Machine, int | None], None] | None = None,
            models: list[HappensBefore] | None = None) -> Run:
    """Execute a kernel on the CPU; arrays among `args` are read and written in place.

    Args:
        kernel: a Kernel value, a parsed module, or PTX text.
        args: one value per parameter: arrays for pointers, numbers and bytes by declared type.
        entry, grid, block, cluster, dynamic_shared: the launch; a Kernel brings its own.
        target: whose tensor-core arithmetic, "sm_90" ...; the module's own target if not given.
        numerics: "exact" or "fast".
        schedule: when asynchronous operations complete: "eager", "lazy", or a seed.
        sanitize: check order and protocols; findings are sorted by severity, then by place.
        max_steps: warp instructions after which LimitExceeded is raised.
        listeners: factories of further listeners.
        executor: runs the machine; the NumPy interpreter if not given.
        models: the models that listened are added to it.

    Raises:
        UsageError: arguments or launch that do not fit the kernel.
        UnsupportedInstruction: a form that this emulator does not execute, by name.
        LimitExceeded: the step or memory budget ran out.
    """
    models = [] if models is None else models

    def listen(program: Program, launch: LaunchShape) -> Listener:
        models.append(HappensBefore(program, launch))
        if any(_for_shared_memory(site) for site in program.sites):
            models.append(HappensBefore(program, launch, restricted=False))
        return _Ear(models)

    run = run_machine(
        kernel, args, entry=entry, grid=grid, block=block, cluster=cluster,
        dynamic_shared=dynamic_shared, target=target, numerics=numerics, schedule=schedule,
        sanitize=sanitize, max_steps=max_steps, executor=executor or _execute,
        listeners=(listen, *listeners) if sanitize else listeners)
    own = models[0].findings() if models else []
    known = {(f.code, f.where.line) for f in own}
    own += [f for model in models[1:] for f in model.findings()
            if _about_global(f) and (f.code, f.where.line) not in known]
    early = frozenset[int]().union(*(model.lines_in_races() for model in models))
    return replace(run, findings=folded(merged(run.findings, own, early)))


def _execute(machine: Machine, max_steps: int | None) -> None:
    Interpreter(machine, max_steps=max_steps, resident=resident(machine.program)).run()


def resident(program: Program) -> int | None:
    """Few CTAs at a time, where none can wait for another: clocks take megabytes for each."""
    return None if any(_reads_global(site) for site in program.sites) else _TOGETHER


def _reads_global(site: Site) -> bool:
    """Whether the instruction may see what a thread of another CTA has written."""
    space = site.form.modifiers.get("space", "")
    return site.form.family in ("ld", "atom") and not space.startswith(_OWN)


def _for_shared_memory(site: Site) -> bool:
    """Whether the instruction is a fence that orders accesses to shared memory alone."""
    modifiers = site.form.modifiers
    return "sync_restrict" in modifiers and "proxykind" not in modifiers


def _about_global(finding: Finding) -> bool:
    """Whether the finding is about two accesses to global memory."""
    later = (finding.witness or {}).get("later")
    return isinstance(later, dict) and later.get("space") == "global"


def merged(machine: Sequence[Finding], model: Sequence[Finding], early: frozenset[int],
           ) -> list[Finding]:
    """Findings of both, each fault once, by severity and place."""
    known = {(finding.code, finding.where.line) for finding in model}
    # An arrival too many is one of the next phase if copies hold this one open.
    known |= {("mbarrier-count", line) for code, line in known if code == "mbarrier-phase"}
    wild = {finding.where.line for finding in machine if finding.code in _WILD}
    counted = {_address(finding) for finding in model if finding.code == "tx-mismatch"}
    kept = [finding for finding in machine
            if (finding.code, finding.where.line) not in known and not _explained(finding, early)
            and not (finding.code == "tx-mismatch" and _address(finding) in counted)]
    masks = {(f.where.cta, f.where.warp) for f in machine if f.code == "warp-sync-mask"}
    own = [finding for finding in model if not (
        (finding.code == "uninitialised-read" and finding.where.line in wild)
        or (finding.code == "warp-sync-missing"
            and (finding.where.cta, finding.where.warp) in masks))]
    return sorted([*kept, *own], key=_place)


def _address(finding: Finding) -> Any:
    return (finding.witness or {}).get("address", -1)


def _explained(finding: Finding, early: frozenset[int]) -> bool:
    """Whether memory was read before it was written only because nothing ordered the two."""
    return (finding.code == "uninitialised-read" and finding.where.line in early
            and "address" in (finding.witness or {}))


def _place(finding: Finding) -> tuple[Any, ...]:
    where = finding.where
    numbers = (where.line, where.warp, where.lane)
    return (_RANK[finding.severity], *(-1 if n is None else n for n in numbers),
            where.cta or (0, 0, 0))
