"""``mmalab tour``: the main job in one go, on any machine.

A tour is a list of steps; each does something real, prints what came out, and says whether that is
what should come out. A step that lacks a tool (no assembler installed) is left out, and said so; it
does not fail the tour.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import typer

from mmalab.cli import tour_hopper, tour_report, tour_steps, tour_tensor_memory
from mmalab.cli.output import Json, print_json
from mmalab.errors import MmalabError, ToolError

__all__ = ["STEPS", "Stop", "tour"]

Step = Callable[[], tour_steps.Outcome]

#: The steps in order: what each shows, and the function that does it.
STEPS: tuple[tuple[str, Step], ...] = (
    ("where an element lives", tour_steps.fragment),
    ("bank conflicts, before anything is written", tour_steps.bank_conflicts),
    ("the matmul, on the CPU, bit for bit", tour_steps.matmul),
    ("bank conflicts, counted while it runs", tour_steps.wavefronts),
    ("one kernel as two chips", tour_steps.chips),
    ("compiled for five chips and read back", tour_steps.compiled),
    ("the inner loop, instruction by instruction", tour_steps.inner_loops),
    ("what the name does not say", tour_steps.emulated),
    ("legal or not, and what instead", tour_steps.legality),
    ("a planted bug, caught", tour_steps.planted_bug),
    ("Hopper on the CPU: TMA, mbarriers, wgmma", tour_hopper.matmul),
    ("Hopper's faults, where a GPU hangs or lies", tour_hopper.faults),
    ("Blackwell's Tensor Memory: its allocator and guardrails", tour_tensor_memory.guardrails),
    ("512 columns of Tensor Memory", tour_tensor_memory.columns),
    ("the report", tour_report.page),
)


@dataclass(frozen=True, slots=True)
class Stop:
    """One step as it went."""

    title: str
    verdict: Literal["ok", "failed", "left out"]
    seconds: float
    lines: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)


def tour(*, json: Json = False) -> None:
    """Run every step. Exit 0 when all that was shown went as it should, the caught bug included."""
    stops: list[Stop] = []
    for title, step in STEPS:
        stop = _run(title, step)
        stops.append(stop)
        if not json:
            _print(len(stops), stop)
    if json:
        print_json(stops)
    else:
        _print_end(stops)
    if any(stop.verdict == "failed" for stop in stops):
        raise typer.Exit(1)


def _run(title: str, step: Step) -> Stop:
    start = time.perf_counter()
    try:
        outcome = step()
    except ToolError as missing:
        lines, verdict = tuple(str(missing).splitlines()), "failed"
        if "is not installed" in missing.rule:
            verdict = "left out"
        return Stop(title, verdict, _since(start), lines)  # type: ignore[arg-type]
    except MmalabError as failed:
        return Stop(title, "failed", _since(start), tuple(str(failed).splitlines()))
    return Stop(title, "ok" if outcome.ok else "failed", _since(start), outcome.lines,
                outcome.data)


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 2)


def _print(number: int, stop: Stop) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    colour = {"ok": "green", "failed": "red", "left out": "yellow"}[stop.verdict]
    Console(highlight=False).print(Panel(
        Text("\n".join(stop.lines)), title=f"{number}. {stop.title}", title_align="left",
        subtitle=f"{stop.verdict}, {stop.seconds:.2f} s", subtitle_align="right",
        border_style=colour))


def _print_end(stops: list[Stop]) -> None:
    from rich.console import Console

    counts = {word: sum(stop.verdict == word for stop in stops)
              for word in ("ok", "failed", "left out")}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    total = sum(stop.seconds for stop in stops)
    Console(highlight=False).print(f"{len(stops)} steps: {words}; {total:.1f} s", "",
                                   *_next_steps(), sep="\n", markup=False, soft_wrap=True)


def _next_steps() -> list[str]:
    """What to type next; how to reach the command where this environment is not the shell's."""
    steps = ["mmalab --ask 'which swizzle for 64-byte rows'    finds the command for a question",
             "mmalab run --help                                your own PTX",
             "docs/start.md                                    what to read first"]
    if sys.prefix != sys.base_prefix and shutil.which("mmalab") is None:
        steps.insert(0, f". {Path(sys.prefix) / 'bin' / 'activate'}")
    return ["next:", *(f"  {step}" for step in steps)]
