"""One kernel under several schedules: which outputs depend on when its copies and products happen.

The findings do not need this: order is tracked, not tried. What the comparison adds is proof, and
the place where it shows. The kernel starts from the same arrays each time; the outputs of the first
schedule stay::

    emulate(kernel, [x, y], schedule=["eager", "lazy", 1])
    error[schedule-dependent] ... line 31: 512 of 4096 elements of argument 1 depend on the
    schedule, first [0, 8]: 1.5 under eager, 1; 0.0 under lazy ...

For the first element that differs a further run of each of the two schedules looks who wrote it
last. It is an error where something was found unordered, else a warning: reductions that come in
any order give any of their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator import Run
from mmalab.emulator.events import Access, Async, Event
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.machine import Machine
from mmalab.emulator.program import Program
from mmalab.emulator.requests import schedule_of
from mmalab.emulator.state import LaunchShape
from mmalab.errors import UsageError
from mmalab.findings import Finding, Severity, Where
from mmalab.sanitizer.saved import Saved

__all__ = ["Schedule", "compare", "several"]

Schedule: TypeAlias = str | int | Sequence[str | int]
#: Codes that say nothing about order: they explain no difference.
_UNRELATED = frozenset({"emulated-instruction", "slower-form", "schedule-dependent"})
_SHOWN = 4
_RANK = {"error": 0, "warning": 1, "note": 2}


def several(schedule: Schedule) -> list[str | int] | None:
    """The schedules of a list, each once; None where one is meant.

    Raises:
        UsageError: no schedule at all, or one that is none.
    """
    if isinstance(schedule, str) and "," in schedule:
        schedule = schedule.split(",")
    if isinstance(schedule, (str, bytes)) or not isinstance(schedule, Sequence):
        schedule_of(schedule)
        return None
    given = list(dict.fromkeys(schedule_of(one) for one in schedule))
    if not given:
        raise UsageError("schedule []", "names no schedule",
                         legal="eager, lazy, a seed, or several of them", where="mmalab.emulate")
    return given


@dataclass(frozen=True, slots=True)
class _Difference:
    """An array whose contents differ: where first, and its value under each schedule."""

    number: int
    array: NDArray[Any]
    flat: int
    elements: int
    values: dict[str | int, str]

    @property
    def index(self) -> list[int]:
        return [int(at) for at in np.unravel_index(self.flat, self.array.shape)]

    @property
    def sides(self) -> tuple[str | int, str | int]:
        """The first schedule, and the first whose value is another."""
        first, *others = self.values
        return first, next(o for o in others if self.values[o] != self.values[first])


#: Runs the kernel under a schedule; with a listener and an executor, for a closer look.
Runs: TypeAlias = Callable[..., Run]


def compare(args: Sequence[Any], schedules: Sequence[str | int], run: Runs, trace: Runs) -> Run:
    """The run under the first schedule, with what the others found, and what differs."""
    start = Saved(args)
    runs, outputs = [], []
    for schedule in schedules:
        start.restore()
        runs.append(run(schedule))
        outputs.append(Saved(args))
    told = _gathered(schedules, runs)
    unordered = [f for f in told if f.severity == "error" and f.code not in _UNRELATED]
    for difference in _differences(start, schedules, outputs):
        writers = {}
        for schedule in difference.sides:
            start.restore()
            writers[schedule] = _writer(difference, schedule, trace)
        told.append(_finding(difference, writers, unordered))
    outputs[0].restore()
    told.sort(key=lambda f: _RANK[f.severity])
    return replace(runs[0], findings=told)


def _gathered(schedules: Sequence[str | int], runs: Sequence[Run]) -> list[Finding]:
    """Findings of the first run, and those that only others have, with their schedule."""
    told = list(runs[0].findings)
    known = {(f.code, f.where.line) for f in told}
    for schedule, one in zip(schedules[1:], runs[1:], strict=True):
        for finding in one.findings:
            if (finding.code, finding.where.line) not in known:
                known.add((finding.code, finding.where.line))
                told.append(replace(finding, witness={
                    **(finding.witness or {}), "schedule": schedule}))
    return told


# --- what differs ---------------------------------------------------------------------------------

def _differences(start: Saved, schedules: Sequence[str | int],
                 outputs: Sequence[Saved]) -> list[_Difference]:
    found = []
    for at, (number, array) in enumerate(zip(start.numbers, start.arrays, strict=True)):
        copies = [output.copies[at] for output in outputs]
        differs = [_unequal(copies[0], copy) for copy in copies[1:]]
        anywhere = np.logical_or.reduce(differs) if differs else np.zeros(array.size, bool)
        if anywhere.any():
            flat = int(anywhere.argmax())
            values = {schedule: str(copy.reshape(-1)[flat])
                      for schedule, copy in zip(schedules, copies, strict=True)}
            words = [copy.reshape(-1)[flat].tobytes().hex() for copy in copies]
            if len(set(values.values())) < len(set(words)):  # NaNs, zeroes: show the bits
                values = {schedule: f"{values[schedule]} (bytes {word})"
                          for schedule, word in zip(schedules, words, strict=True)}
            found.append(_Difference(number, array, flat, int(anywhere.sum()), values))
    return found


def _unequal(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements differ in any bit."""
    a, b = (array.reshape(-1, 1).view(np.uint8) for array in (one, other))
    return np.asarray((a != b).any(axis=1), np.bool_)


class _Last:
    """Hears who writes global bytes last; the address is known only after the run began."""

    def __init__(self) -> None:
        self.at, self.size = -1, 0
        self.event: Access | Async | None = None
        self.lanes: list[int] = []

    def on(self, event: Event) -> None:
        if isinstance(event, Access) and event.space == "global" and event.kind != "read":
            start = event.addresses.astype(np.int64)
            hit = (start < self.at + self.size) & (start + event.size > self.at)
            lanes = [lane for lane in np.nonzero(hit)[0].tolist() if event.mask >> lane & 1]
            if lanes:
                self.event, self.lanes = event, lanes
        elif isinstance(event, Async) and any(
                span.space == "global" and span.kind != "read" and (
                    (span.starts < self.at + self.size) & (span.starts + span.size > self.at)).any()
                for span in event.spans):
            self.event, self.lanes = event, [event.lane]


def _writer(difference: _Difference, schedule: str | int, trace: Runs) -> dict[str, Any] | None:
    """Who wrote the element last under a schedule: a place and its text."""
    last, machines = _Last(), list[Machine]()

    def listen(_program: Program, _launch: LaunchShape) -> _Last:
        return last

    def execute(machine: Machine, max_steps: int | None) -> None:
        array = difference.array
        base = machine.space.add(array, f"argument {difference.number}")
        last.at, last.size = base + difference.flat * array.itemsize, array.itemsize
        machines.append(machine)
        Interpreter(machine, max_steps=max_steps).run()

    trace(schedule, listeners=[listen], executor=execute)
    if last.event is None:
        return None
    site = machines[0].program.sites[last.event.site]
    return {"text": site.shown, "line": site.line, "warp": last.event.warp, "lanes": last.lanes,
            "cta": machines[0].shape.cta_coordinates(last.event.cta)}


# --- words ----------------------------------------------------------------------------------------

def _finding(difference: _Difference, writers: dict[str | int, dict[str, Any] | None],
             unordered: Sequence[Finding]) -> Finding:
    severity: Severity = "error" if unordered else "warning"
    shown = "; ".join(f"{value} under {', '.join(map(str, which))}"
                      for value, which in _by_value(difference.values).items())
    places = {schedule: f"line {writer['line']} wrote it last" if writer else "nobody wrote it"
              for schedule, writer in writers.items()}
    written = "; ".join(f"{place} under {' and '.join(map(str, which))}"
                        for place, which in _by_value(places).items())
    last = next((w for w in reversed(list(writers.values())) if w), None)
    where = Where(last["cta"], last["warp"], last["lanes"][0], last["line"]) if last else Where()
    return Finding(
        "schedule-dependent", severity,
        f"{difference.elements} of {difference.array.size} elements of argument "
        f"{difference.number} depend on the schedule, first {difference.index}: {shown}; {written}."
        f" {_reason(unordered)}", where,
        {"argument": difference.number, "index": difference.index,
         "elements": difference.elements,
         "values": {str(key): value for key, value in difference.values.items()},
         "written": {str(key): value for key, value in writers.items()}})


def _by_value(values: dict[str | int, str]) -> dict[str, list[str | int]]:
    found: dict[str, list[str | int]] = {}
    for schedule, value in values.items():
        found.setdefault(value, []).append(schedule)
    return found


def _reason(unordered: Sequence[Finding]) -> str:
    if not unordered:
        return ("Nothing was found unordered: what may come in any order (atomics, reductions, who"
                " is first) decides it")
    first: dict[str, int | None] = {}
    for finding in sorted(unordered, key=lambda f: not f.code.startswith("missing-")):
        first.setdefault(finding.code, finding.where.line)
    shown = ", ".join(f"{code} (line {line})" for code, line in list(first.items())[:_SHOWN])
    return f"Repair: what {shown}{' ...' if len(first) > _SHOWN else ''} asks for"
