"""A test bed without a GPU: contestants with known speeds on a chip that heats up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from mmalab.bench.bed import Block, Graph, Regime
from mmalab.bench.power import Reading
from mmalab.bench.problem import Problem
from mmalab.bench.subject import Refused


@dataclass
class FakeSubject:
    """Takes `seconds` on a cool chip, and `hot` times that on one under its power cap."""

    name: str
    seconds: float
    hot: float = 1.0
    refuses: bool = False
    facts: Mapping[str, Any] = field(default_factory=lambda: {"kind": "fake"})

    def enqueue(self, at: int) -> None:
        """Nothing to do."""


class FakeBed:
    """Answers like :class:`mmalab.bench.bed.Bed`; `log` is what ran, in order."""

    def __init__(self, problem: Problem, noise: float = 0.0, drift: float = 0.0) -> None:
        self.arena = SimpleNamespace(problem=problem, sets=[0, 1])
        self.gpu = SimpleNamespace(chip="sm_90", name="NVIDIA H200")
        self.sms = 132
        self.log: list[tuple[str, str]] = []
        self._rng = np.random.default_rng(0)
        self._noise, self._drift, self._age = noise, drift, 0
        self._subjects: dict[str, FakeSubject] = {}

    def _seconds(self, name: str, *, hot: bool) -> float:
        self._age += 1
        subject = self._subjects[name]
        noise = float(self._rng.lognormal(0, self._noise)) if self._noise else 1.0
        return (subject.seconds * (subject.hot if hot else 1.0) * noise
                * (1 + self._drift) ** self._age)

    def warm_up(self, subject: FakeSubject) -> float:
        """The estimate; a subject that refuses raises as cublasLt does."""
        if subject.refuses:
            raise Refused("cublasLtMatmul", "not supported (status 15)")
        self._subjects[subject.name] = subject
        return subject.seconds

    def fitting(self, subject: FakeSubject, seconds: float, each: float) -> Graph:
        """A graph of about `seconds`."""
        return Graph(None, max(1, round(seconds / each)), subject.name, each, ("kernel",))

    def run(self, graph: Graph, replays: int) -> tuple[float, float | None]:
        """Seconds per launch, and the clock."""
        del replays
        self.log.append(("look", graph.subject))
        return self._seconds(graph.subject, hot=False), 1980.0

    def heat(self, graph: Graph, regime: Regime) -> None:
        """Warm up."""
        self.log.append((f"heat {regime.name}", graph.subject))

    def block(self, graph: Graph, regime: Regime) -> Block:
        """One block."""
        self.log.append((regime.name, graph.subject))
        hot = not regime.rest
        return Block(graph.subject, regime.name, self._seconds(graph.subject, hot=hot),
                     graph.launches, 1400.0 if hot else 1980.0,
                     Reading(700.0, 698.0, 1455.0, ("software power cap",), 9) if hot
                     else Reading())
