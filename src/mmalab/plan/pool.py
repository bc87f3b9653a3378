"""The allocator of Tensor Memory with several CTAs on one SM: who waits, who never gets on.

``tcgen05.alloc`` takes an aligned run of free columns or waits for one. A kernel that holds columns
while it waits for more can block another for ever::

    >>> half = Script.parse("alloc 256; alloc 256; work 10; free 1; free 0")
    >>> print(simulate([half, half]).deadlock)
    CTA 0 holds 256 columns and waits for 256; CTA 1 holds 256 columns and waits for 256; 0 are free

Steps of a script: ``alloc N``, ``free I`` (the I-th allocation of the CTA), ``work T`` (ticks),
``relinquish``. A script runs on SM 0, behind ``sm1:`` on SM 1, behind ``pair:`` on both: the two
CTAs of a pair (cta_group::2) get the same columns of both pools or wait::

    >>> odd = Script.parse("alloc 32; alloc 32; free 0; work 9; free 1")
    >>> found = simulate([odd, Script.parse("sm1: alloc 32; work 9; free 0"),
    ...                   Script.parse("pair: work 1; alloc 512; free 0")])
    >>> found.waited
    (0, 0, 8)

The pool is first fit, an allocation aligned to its size, as the code that ptxas
emits shows (UTCATOMSWS.FIND_AND_SET.ALIGN on a mask of 16 granules); "first" is inferred. Waiting
CTAs try again whenever columns come free, the one with the lowest number first; the chip's order
among several is not known.

``permit=True`` is another reading of the manual: the right to allocate belongs to one CTA at a time
until it relinquishes it or exits. Then nobody can hold and wait against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mmalab.errors import LimitExceeded, UsageError
from mmalab.findings import Finding, Where
from mmalab.isa.tensor_memory import COLUMNS, GRANULE
from mmalab.plan.packing import legal_size

__all__ = ["Event", "Pool", "Script", "Simulation", "Span", "Step", "simulate"]

Action = Literal["alloc", "free", "work", "relinquish"]
_ACTIONS: dict[str, Action] = {
    "alloc": "alloc", "free": "free", "work": "work", "relinquish": "relinquish",
}


#: Where a script runs, by its prefix.
_PLACES: dict[str, tuple[int, ...]] = {"sm0": (0,), "sm1": (1,), "pair": (0, 1)}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a CTA; `amount` is columns, the number of an allocation, or ticks."""

    action: Action
    amount: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """What one CTA (or a pair of them) does, in order, on which SMs."""

    steps: tuple[Step, ...]
    sms: tuple[int, ...] = (0,)

    @classmethod
    def parse(cls, text: str) -> Script:
        """A script from ``alloc 256; work 10; free 0``, behind ``sm1:`` or ``pair:`` or neither.

        Raises:
            UsageError: a word that is no step.
        """
        steps = []
        place, colon, rest = text.partition(":")
        sms = _PLACES.get(place.strip()) if colon else (0,)
        if sms is None:
            raise UsageError(f"script on {place.strip()!r}", "is nowhere", legal=list(_PLACES),
                             where="mmalab.plan.pool")
        text = rest if colon else text
        for part in filter(None, (part.strip() for part in text.split(";"))):
            word, _, number = part.partition(" ")
            action, number = _ACTIONS.get(word), number.strip()
            if action is None or bool(number) == (action == "relinquish") or (
                    number and not number.isdigit()):
                raise UsageError(f"step {part!r}", "is not understood",
                                 legal=["alloc 256", "work 10", "free 0", "relinquish"],
                                 where="mmalab.plan.pool")
            steps.append(Step(action, int(number or 0)))
        return cls(tuple(steps), sms)

    @classmethod
    def plain(cls, allocations: Sequence[int], work: int = 10, sms: tuple[int, ...] = (0,)
              ) -> Script:
        """Allocate all, relinquish, work, free all: what a well-behaved kernel does."""
        steps = [Step("alloc", columns) for columns in allocations]
        frees = [Step("free", number) for number in reversed(range(len(allocations)))]
        return cls((*steps, Step("relinquish"), Step("work", work), *frees), sms)


@dataclass(frozen=True, slots=True)
class Event:
    """What happened at `tick`: `columns` from `column` on were taken, freed or asked for (on each
    SM of a pair). `free` is how many columns were free after it, on all SMs together."""

    tick: int
    cta: int
    action: Literal["alloc", "wait", "free", "relinquish", "exit", "stop"]
    columns: int = 0
    column: int | None = None
    free: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One allocation over time; `end` is None where nobody freed it."""

    cta: int
    sms: tuple[int, ...]
    column: int
    columns: int
    start: int
    end: int | None


@dataclass(frozen=True)
class Simulation:
    """The run. `waited` is ticks spent waiting by CTA, `peak` the most columns in use at once,
    `leaked` the columns of CTAs that exited without freeing them; `capacity` and these count all
    SMs together."""

    capacity: int
    events: tuple[Event, ...]
    spans: tuple[Span, ...]
    ticks: int
    waited: tuple[int, ...]
    peak: int
    leaked: int
    findings: tuple[Finding, ...]
    deadlock: str | None

    def table(self) -> str:
        """Events in order, then the summary."""
        lines = [" tick  CTA  what"]
        for event in self.events:
            what = f"{event.action} {event.columns or ''}".rstrip()
            if event.column is not None:
                what += f" at {event.column}"
            lines.append(f"{event.tick:>5}  {event.cta:>3}  {what:<18}  {event.free:>3} free")
        lines.append(f"{self.ticks} ticks, peak {self.peak} of {self.capacity} columns, waited "
                     + ", ".join(f"CTA {cta}: {ticks}" for cta, ticks in enumerate(self.waited)))
        if self.deadlock:
            lines.append(f"deadlock: {self.deadlock}")
        return "\n".join([*lines, *map(str, self.findings)])

    def __str__(self) -> str:
        return self.table()


class Pool:
    """The columns of an SM (or of several) as masks of 32-column granules.

    Raises:
        UsageError: a capacity that is no whole number of granules.
    """

    def __init__(self, capacity: int = COLUMNS, sms: int = 1) -> None:
        if capacity < GRANULE or capacity % GRANULE:
            raise UsageError(f"a pool of {capacity} columns", f"is no multiple of {GRANULE}",
                             legal=str(COLUMNS), where="PTX ISA, tcgen05.alloc")
        self.capacity = capacity
        self._taken = [0] * sms

    @property
    def free(self) -> int:
        """Columns that nobody holds, of all SMs."""
        return len(self._taken) * self.capacity - GRANULE * sum(
            taken.bit_count() for taken in self._taken)

    def take(self, columns: int, sms: Sequence[int] = (0,)) -> int | None:
        """The first aligned run of `columns` columns that is free on all of `sms`, None when there
        is none now."""
        size = columns // GRANULE
        run = (1 << size) - 1
        for granule in range(0, self.capacity // GRANULE - size + 1, size):
            if not any(self._taken[sm] >> granule & run for sm in sms):
                for sm in sms:
                    self._taken[sm] |= run << granule
                return granule * GRANULE
        return None

    def give(self, column: int, columns: int, sms: Sequence[int] = (0,)) -> None:
        """Make columns free that :meth:`take` returned."""
        for sm in sms:
            self._taken[sm] &= ~(((1 << columns // GRANULE) - 1) << column // GRANULE)


@dataclass(slots=True)
class _Cta:
    number: int
    steps: tuple[Step, ...]
    sms: tuple[int, ...] = (0,)
    at: int = 0
    ready: int = 0
    waiting_since: int | None = None
    relinquished: bool = False
    smallest: int = 1 << 30
    held: list[tuple[int, int, int] | None] = field(default_factory=list)

    @property
    def columns(self) -> int:
        return sum(hold[1] for hold in self.held if hold)

    @property
    def wants(self) -> int:
        return self.steps[self.at].amount

    @property
    def where(self) -> Where:
        return Where(cta=(self.number, 0, 0))


def simulate(scripts: Sequence[Script], *, capacity: int = COLUMNS, resident: int | None = None,
             permit: bool = False, max_ticks: int = 1_000_000) -> Simulation:
    """Run the CTAs' scripts, `resident` at a time (all when None), in order of number. `capacity`
    is that of one SM.

    Broken rules are findings with the codes of the sanitizer (``tmem-size``, ``tmem-alloc-order``,
    ``tmem-alloc-after-relinquish``, ``tmem-dealloc``, ``tmem-leak``, ``deadlock``). A CTA that
    traps stops there and keeps its columns.

    Raises:
        UsageError: no script, or an impossible pool.
        LimitExceeded: the run is longer than `max_ticks`.
    """
    if not scripts or (resident is not None and resident < 1):
        raise UsageError(f"{len(scripts)} CTAs, {resident} resident", "nobody can run",
                         legal="one script and one resident CTA at least", where="mmalab.plan.pool")
    sms = 1 + max(max(script.sms) for script in scripts)
    ctas = [_Cta(number, script.steps, script.sms) for number, script in enumerate(scripts)]
    run = _Run(ctas, Pool(capacity, sms), resident or len(scripts), sms, permit=permit)
    while run.step():
        if run.tick > max_ticks:
            raise LimitExceeded(f"{run.tick} ticks", "more than max_ticks",
                                legal=f"up to {max_ticks}", where="mmalab.plan.pool")
    return run.result()


class _Run:
    def __init__(self, ctas: list[_Cta], pool: Pool, resident: int, sms: int, *, permit: bool
                 ) -> None:
        self.ctas, self.pool, self.permit = ctas, pool, permit
        self.capacity = sms * pool.capacity
        self.queue = ctas[resident:]
        self.active = ctas[:resident]
        #: Who may allocate on each SM, under the reading with a permit.
        self.owners: dict[int, int] = {}
        self.tick = self.peak = self.leaked = 0
        self.events: list[Event] = []
        self.spans: dict[int, Span] = {}
        self.waited = [0] * len(ctas)
        self.findings: list[Finding] = []
        self.deadlock: str | None = None

    def step(self) -> bool:
        """Everything that can happen at this tick, then the next tick; False at the end.

        CTAs take turns, a step each: that is what lets two of them hold and wait.
        """
        moved = True
        while moved:
            moved = False
            for cta in list(self.active):
                if cta.ready <= self.tick and self._advance(cta):
                    moved = True
        if not self.active:
            return False
        later = [cta.ready for cta in self.active if cta.ready > self.tick]
        if not later:
            self._stuck()
            return False
        self.tick = min(later)
        return True

    def result(self) -> Simulation:
        for cta in self.active:
            if cta.waiting_since is not None:
                self.waited[cta.number] += self.tick - cta.waiting_since
        return Simulation(self.capacity, tuple(self.events), tuple(self.spans.values()),
                          self.tick, tuple(self.waited), self.peak, self.leaked,
                          tuple(self.findings), self.deadlock)

    def _note(self, cta: _Cta, action: Any, columns: int = 0, column: int | None = None) -> None:
        self.events.append(Event(self.tick, cta.number, action, columns, column, self.pool.free))

    def _find(self, cta: _Cta, code: str, message: str) -> None:
        self.findings.append(Finding(code, "error", message, cta.where))

    def _advance(self, cta: _Cta) -> bool:
        """One step of a CTA; False when it has to wait."""
        if cta.at == len(cta.steps):
            self._leave(cta, "exit")
            return True
        step = cta.steps[cta.at]
        if step.action == "alloc":
            return self._alloc(cta, step.amount)
        if step.action == "free":
            return self._free(cta, step.amount)
        if step.action == "relinquish":
            cta.relinquished = True
            self._release_permit(cta)
            self._note(cta, "relinquish")
        else:
            cta.ready = self.tick + step.amount
        cta.at += 1
        return True

    def _alloc(self, cta: _Cta, columns: int) -> bool:
        problem = self._alloc_problem(cta, columns)
        if problem:
            self._find(cta, *problem)
            self._leave(cta, "stop")
            return True
        if cta.waiting_since is None and columns > cta.smallest:
            self._find(cta, "tmem-alloc-order",
                       f"allocates {columns} columns after an allocation of {cta.smallest}")
        column = None
        if not self.permit or all(self.owners.get(sm, cta.number) == cta.number
                                  for sm in cta.sms):
            self.owners.update(dict.fromkeys(cta.sms, cta.number))
            column = self.pool.take(columns, cta.sms)
        if column is None:
            if cta.waiting_since is None:
                cta.waiting_since = self.tick
                self._note(cta, "wait", columns)
            return False
        if cta.waiting_since is not None:
            self.waited[cta.number] += self.tick - cta.waiting_since
            cta.waiting_since = None
        span = len(self.spans)
        self.spans[span] = Span(cta.number, cta.sms, column, columns, self.tick, None)
        cta.held.append((column, columns, span))
        cta.smallest = min(cta.smallest, columns)
        self.peak = max(self.peak, self.capacity - self.pool.free)
        self._note(cta, "alloc", columns, column)
        cta.at += 1
        return True

    def _alloc_problem(self, cta: _Cta, columns: int) -> tuple[str, str] | None:
        if legal_size(columns) != columns or columns > self.pool.capacity:
            return "tmem-size", f"allocates {columns} columns: no power of two from 32 to 512"
        if cta.relinquished:
            return ("tmem-alloc-after-relinquish",
                    f"allocates {columns} columns after relinquish_alloc_permit")
        return None

    def _free(self, cta: _Cta, number: int) -> bool:
        hold = cta.held[number] if number < len(cta.held) else None
        if hold is None:
            self._find(cta, "tmem-dealloc", f"frees allocation {number}, which it does not hold")
            self._leave(cta, "stop")
            return True
        column, columns, span = hold
        self.pool.give(column, columns, cta.sms)
        cta.held[number] = None
        start = self.spans[span].start
        self.spans[span] = Span(cta.number, cta.sms, column, columns, start, self.tick)
        self._note(cta, "free", columns, column)
        cta.at += 1
        return True

    def _leave(self, cta: _Cta, action: Literal["exit", "stop"]) -> None:
        if cta.columns:
            self.leaked += cta.columns * len(cta.sms)
            self._find(cta, "tmem-leak", f"leaves with {cta.columns} columns allocated")
        self._release_permit(cta)
        self._note(cta, action)
        self.active.remove(cta)
        if self.queue:
            self.active.append(self.queue.pop(0))
            self.active[-1].ready = self.tick

    def _release_permit(self, cta: _Cta) -> None:
        self.owners = {sm: owner for sm, owner in self.owners.items() if owner != cta.number}

    def _stuck(self) -> None:
        waits = [
            f"CTA {cta.number} holds {cta.columns} columns and waits for {cta.wants}"
            for cta in self.active
        ]
        leaks = f", {self.leaked} of the others leaked" if self.leaked else ""
        permit = "".join(f"; CTA {owner} has the permit of SM {sm}"
                         for sm, owner in self.owners.items() if self.permit)
        self.deadlock = "; ".join(waits) + f"; {self.pool.free} are free{leaks}{permit}"
        self.findings.append(Finding("deadlock", "error", self.deadlock))
