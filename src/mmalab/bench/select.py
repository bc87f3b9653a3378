"""Many contestants, one winner per regime: algorithms of cublasLt, or configurations of ours.

Everybody runs back to back first, forward and then backward; whoever is within reach of the fastest
runs again in both regimes, in alternating order, and the smallest time of each regime wins. Every
time is recorded. Under the power cap such short looks repeat within 1 or 2 %: a choice among equals
may fall either way there, and so may a ratio that lies within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mmalab.bench.bed import Bed, Graph, Regime
from mmalab.bench.subject import Refused, Subject
from mmalab.errors import ToolError

__all__ = ["Selection", "select"]

S = TypeVar("S", bound=Subject)

#: Seconds of work in one look of the first round; of the rest before a burst, of the lead-in and of
#: the work under load in the second.
_LOOK_S, _REST_S, _LEAD_S, _SUSTAINED_S = 0.002, 0.1, 0.05, 0.35
_LOOKS = 2
#: What comes before the first look, or whoever looks first finds the only cool chip.
_WARM = Regime("look", rest=0.0, lead=0.0, work=0.0, graph=0.0, warm=0.25)


@dataclass(frozen=True)
class Selection(Generic[S]):
    """The winners by regime, and every contestant's seconds."""

    winners: dict[str, S]
    rows: list[dict[str, Any]] = field(default_factory=list)


def select(bed: Bed, subjects: Sequence[S], regimes: Sequence[Regime], *, keep: int = 4,
           reach: float = 1.04) -> Selection[S]:
    """The fastest subject of each regime.

    Args:
        bed: where they run.
        subjects: who runs.
        regimes: which are wanted.
        keep: how many reach the second round at most.
        reach: how much slower than the fastest of the first round they may be.

    Raises:
        ToolError: nobody could be run.
    """
    rows: dict[str, dict[str, Any]] = {}
    running: list[tuple[S, Graph]] = []
    for subject in subjects:
        rows[subject.name] = {"name": subject.name}
        try:
            each = bed.warm_up(subject)
            running.append((subject, bed.fitting(subject, _LOOK_S, each)))
        except Refused as failed:
            rows[subject.name]["problem"] = str(failed)
    if not running:
        raise ToolError("the contestants", "none could be run",
                        output="\n".join(str(row.get("problem")) for row in rows.values()))
    first = _first_round(bed, running)
    for name, seconds in first.items():
        rows[name]["look_seconds"] = seconds
    fastest = min(first.values())
    left = sorted(running, key=lambda pair: first[pair[0].name])[:keep]
    left = [pair for pair in left if first[pair[0].name] <= reach * fastest]
    winners = {}
    for regime in regimes:
        times = _second_round(bed, left, first, regime)
        for name, seconds in times.items():
            rows[name][f"{regime.name}_seconds"] = seconds
        best = min(times, key=times.__getitem__)
        winners[regime.name] = next(subject for subject, _ in left if subject.name == best)
    return Selection(winners, list(rows.values()))


def _first_round(bed: Bed, running: Sequence[tuple[S, Graph]]) -> dict[str, float]:
    seen: dict[str, float] = {}
    bed.heat(running[0][1], _WARM)
    for look in range(_LOOKS):
        for subject, graph in running if look % 2 == 0 else reversed(running):
            seconds, _ = bed.run(graph, 1)
            seen[subject.name] = min(seconds, seen.get(subject.name, seconds))
    return seen


def _second_round(bed: Bed, left: Sequence[tuple[S, Graph]], first: dict[str, float],
                  regime: Regime) -> dict[str, float]:
    """Burst: the smallest of some; sustained: the mean, since it is what lasts that counts."""
    short = Regime(regime.name, min(regime.rest, _REST_S), min(regime.lead, _LEAD_S),
                   min(regime.work, _SUSTAINED_S), regime.graph)
    graphs = [bed.fitting(subject, regime.graph, first[subject.name]) for subject, _ in left]
    seen: dict[str, list[float]] = {graph.subject: [] for graph in graphs}
    bed.heat(graphs[0], regime)  # or whoever comes first has the coolest chip
    for look in range(_LOOKS):
        for graph in graphs if look % 2 == 0 else reversed(graphs):
            seen[graph.subject].append(bed.block(graph, short).seconds)
    return {name: min(times) if regime.rest else sum(times) / len(times)
            for name, times in seen.items()}
