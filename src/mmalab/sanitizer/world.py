"""What all rules share: the launch, the clocks of every CTA, and the reports.

CTAs and their clocks are made when their first event comes. A CTA index is linear with x fastest;
:meth:`World.place` turns it back into coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from mmalab.emulator.program import Program
from mmalab.findings import Finding, Severity, Where
from mmalab.sanitizer.clocks import LANES, Knowledge, Level
from mmalab.sanitizer.gathering import Gathering
from mmalab.sanitizer.lanes import WarpClock
from mmalab.sanitizer.shadow import GlobalShadow, Ledger, Page

__all__ = ["Cta", "LaunchShape", "Reports", "World"]

Dim3 = tuple[int, int, int]


class LaunchShape(Protocol):
    """The part of a launch that the model needs."""

    @property
    def grid(self) -> Dim3:
        """CTAs of the grid."""

    @property
    def block(self) -> Dim3:
        """Threads of a CTA."""

    @property
    def cluster(self) -> Dim3:
        """CTAs of a cluster."""


@dataclass(slots=True)
class _Report:
    finding: Finding
    count: int = 1


@dataclass(frozen=True, slots=True)
class _Breach:
    """A broken protocol: races among these warps of the CTA have the same cause."""

    cta: int
    warps: frozenset[int]


@dataclass(slots=True)
class Reports:
    """Findings, one per pair of places, with a count."""

    _reports: dict[tuple[Any, ...], _Report] = field(default_factory=dict)
    _breaches: set[_Breach] = field(default_factory=set)
    _raced: set[tuple[int, int]] = field(default_factory=set)
    #: Whether something was let pass because of values that were stored, or of the coordinates of
    #: tensor copies.
    excused: bool = False

    def again(self, *key: Any) -> bool:
        """Count another occurrence of something reported before; False: it is new."""
        report = self._reports.get(key)
        if report is None:
            return False
        report.count += 1
        return True

    def add(self, *key: Any, finding: Finding) -> None:
        """Report `finding` under `key`, or count it when the key was reported before."""
        if not self.again(*key):
            self._reports[key] = _Report(finding)

    def amend(self, *key: Any, finding: Finding) -> None:
        """More is known about the object and the phase last reported under `key`."""
        report = self._reports.get(key)
        if report is not None and _subject(report.finding) == _subject(finding):
            report.finding = finding
        else:
            self.add(*key, finding=finding)

    def breach(self, cta: int, warps: frozenset[int]) -> None:
        """From here on, unordered accesses among these warps are consequences."""
        self._breaches.add(_Breach(cta, warps))

    def explained(self, cta: int, *warps: int) -> bool:
        """Whether a breach among these warps was reported, which explains a missing order."""
        return any(b.cta == cta and b.warps.issuperset(warps) for b in self._breaches)

    def raced(self, cta: int, site: int) -> None:
        """The instruction took part in a race, so what it read may be early, not uninitialised."""
        self._raced.add((cta, site))

    def in_race(self, cta: int, site: int) -> bool:
        """Whether the instruction took part in a race of that CTA."""
        return (cta, site) in self._raced

    def lines_in_races(self, line: Callable[[int], int]) -> frozenset[int]:
        """PTX lines of all instructions that took part in a race."""
        return frozenset(line(site) for _, site in self._raced)

    def findings(self) -> list[Finding]:
        """All findings, in the order in which they first appeared.

        What lockstep alone orders between two instructions is no news if other lanes of the same
        two have no order at all.
        """
        wrong = {key[1:] for key, report in self._reports.items()
                 if report.finding.severity == "error"}
        return [_counted(report.finding, report.count) for key, report in self._reports.items()
                if key[0] != "warp-sync-missing" or key[1:] not in wrong]


def _counted(finding: Finding, count: int) -> Finding:
    witness = {**(finding.witness or {}), "count": count}
    return Finding(finding.code, finding.severity, finding.message, finding.where, witness)


def _subject(finding: Finding) -> tuple[Any, ...]:
    witness = finding.witness or {}
    return finding.where.cta, witness.get("address"), witness.get("phase")


class Cta:
    """The clocks and the shared memory of one CTA."""

    def __init__(self, index: int, threads: int) -> None:
        self.index = index
        self.warps = -(-threads // LANES)
        start = Knowledge()
        self.clocks = [
            WarpClock(index, warp, self.warps, _exists(threads - warp * LANES), start)
            for warp in range(self.warps)
        ]
        self.shared = Page(0, 1 << 12, keeps_values=True)
        #: What ended threads had done: they count as arrived at barriers without a count.
        self.ended = Gathering()

    def retire(self) -> None:
        """All threads have ended: free what only they needed."""
        for clock in self.clocks:
            clock.retire()
        self.shared = Page(0, 4)
        self.ended = Gathering()


def _exists(threads: int) -> int:
    return (1 << min(threads, LANES)) - 1


class World:
    """One run: the program, the launch, the CTAs, global memory and the reports."""

    def __init__(self, program: Program, launch: LaunchShape) -> None:
        self.program = program
        self.grid = launch.grid
        self.cluster = launch.cluster
        self.cluster_size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        x, y, z = launch.block
        self.threads = x * y * z
        self.warps = -(-self.threads // LANES)
        self.ledger = Ledger()
        self.memory = GlobalShadow(self.ledger)
        self.reports = Reports()
        self._ctas: dict[int, Cta] = {}
        self._clusters: dict[Dim3, list[Cta]] = {}

    def cta(self, index: int) -> Cta:
        """The CTA with that linear index."""
        cta = self._ctas.get(index)
        if cta is None:
            cta = self._ctas[index] = Cta(index, self.threads)
            self._clusters.setdefault(self.cluster_of(index), []).append(cta)
        return cta

    def clock(self, cta: int, warp: int) -> WarpClock:
        """The clocks of one warp."""
        return self.cta(cta).clocks[warp]

    def place(self, cta: int) -> Dim3:
        """CTA coordinates."""
        x, y, _ = self.grid
        return (cta % x, cta // x % y, cta // (x * y))

    def distance(self, one: int, other: int) -> Level:
        """How wide a scope must be to include two CTAs."""
        if one == other:
            return Level.CTA
        if self.cluster != (1, 1, 1) and self.cluster_of(one) == self.cluster_of(other):
            return Level.CLUSTER
        return Level.GPU

    def peers(self, cta: int) -> list[Cta]:
        """The CTAs of a cluster that have started, the given one included."""
        if self.cluster_size == 1:
            return [self.cta(cta)]
        return self._clusters[self.cluster_of(cta)]

    def cluster_of(self, cta: int) -> Dim3:
        """The coordinates of a CTA's cluster."""
        x, y, z = (at // size for at, size in zip(self.place(cta), self.cluster, strict=True))
        return (x, y, z)

    def line(self, site: int) -> int:
        """The PTX line of an instruction."""
        return self.program.sites[site].line

    def text(self, site: int) -> str:
        """The instruction as written."""
        return self.program.sites[site].text

    def named(self, site: int) -> str:
        """An instruction for a message: its text and line."""
        return f"'{self.program.sites[site].shown}' (line {self.line(site)})"

    def family(self, site: int) -> str:
        """The family of an instruction ("ld", "mbarrier.init" ...)."""
        return self.program.sites[site].form.family

    def report(self, code: str, severity: Severity, message: str, *, cta: int, warp: int,
               site: int, lane: int | None = None, key: tuple[Any, ...] = (),
               cause: int | None = None, witness: dict[str, Any] | None = None,
               amends: bool = False) -> None:
        """Report a finding at an instruction, once per (code, site, key).

        With `cause`, another site, it is told once for that one, wherever it shows. `amends`: the
        same object and phase again are no new occurrence, but told better now.
        """
        where = Where(self.place(cta), warp, lane, self.line(site))
        tell = self.reports.amend if amends else self.reports.add
        tell(code, site if cause is None else -1 - cause, *key,
             finding=Finding(code, severity, message, where, witness))

    def breach(self, code: str, message: str, *, cta: int, warp: int, site: int,
               warps: frozenset[int], lane: int | None = None, key: tuple[Any, ...] = (),
               witness: dict[str, Any] | None = None, amends: bool = False) -> None:
        """Report a broken protocol as an error, and take races among `warps` as explained."""
        self.report(code, "error", message, cta=cta, warp=warp, site=site, lane=lane, key=key,
                    witness=witness, amends=amends)
        self.reports.breach(cta, warps)
