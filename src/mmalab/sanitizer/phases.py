"""One mbarrier object: its phases, what they gather, and the bytes of the open one.

Every phase is a join that starts from the last; the agent of the object delivers the copies that
complete on it, its epoch is the number of the phase, counted on over re-initialisations. Example::

    arrive.expect_tx 512    announced 512, gathers what the arriving lane knows
    cp.async.bulk ... 512   bound 512, gathers (agent, epoch 1) and the order in time of the issuer
    phase 0 completes       whoever waits for it knows the stores before the arrive, and the copy

Bytes decide when the phase can end early: once all arrivals are in, fewer bytes announced than the
copies of the phase deliver let it complete before they are there. Where that happens at once, the
other copies are counted in the next phase: by luck, if who issues them cannot know that the phase
has ended (:attr:`Object.late`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from mmalab.sanitizer.agents import Agent
from mmalab.sanitizer.clocks import Knowledge
from mmalab.sanitizer.gathering import Gathering

__all__ = ["Bytes", "Completed", "Object", "Place", "Seen"]

#: Completed phases that are remembered: a wait can name the last two only.
_KEPT = 3


class Seen(NamedTuple):
    """Lanes of a warp that saw a phase complete, at this epoch of theirs."""

    cta: int
    warp: int
    mask: int
    clock: int
    site: int


class Place(NamedTuple):
    """Who did something to the object last."""

    cta: int
    warp: int
    lane: int
    site: int


class Completed(NamedTuple):
    """What the phases up to one gathered; `near` without arrivals of other CTAs, if any came."""

    everything: Knowledge
    near: Knowledge | None


_NOTHING = Completed(Knowledge(), None)


@dataclass(slots=True)
class Bytes:
    """Bytes of a phase, by the instruction that announced them or brings them."""

    announced: Counter[int] = field(default_factory=Counter)
    bound: Counter[int] = field(default_factory=Counter)

    @property
    def short(self) -> bool:
        """Whether copies bring more than was announced."""
        return self.announced.total() < self.bound.total()


@dataclass(slots=True)
class Object:
    """One live mbarrier."""

    owner: int
    address: int
    expected: int
    pending: int
    init_site: int
    agent: Agent
    #: The agent's epoch before phase 0 of this life of the object.
    base: int
    last: Place
    phase: int = 0
    gathered: Gathering = field(default_factory=Gathering)
    near: Gathering | None = None
    #: By phase, each including the ones before.
    complete: dict[int, Completed] = field(default_factory=dict)
    observed: int = -1
    #: A count was wrong: what follows from that is not reported on top.
    broken: bool = False
    seen: dict[int, list[Seen]] = field(default_factory=dict)
    #: The bytes of the open phase, and of the one before.
    bytes: Bytes = field(default_factory=Bytes)
    before: Bytes = field(default_factory=Bytes)
    #: Bytes of copies of the open phase whose issuers do not know that the one before has ended.
    late: Counter[int] = field(default_factory=Counter)
    #: The first copy of the open phase that was more than announced.
    excess: Place | None = None
    #: The copies of each phase, and the last of them.
    copies: dict[int, Place] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """The epoch of copies that are counted in the open phase."""
        return self.base + self.phase + 1

    def saw(self, phase: int, seen: Seen) -> None:
        """Lanes saw a phase complete; that they saw it before as well tells no more."""
        known = self.seen.setdefault(phase, [])
        if known and known[-1][:3] == seen[:3] and known[-1].site == seen.site:
            known.pop()
        known.append(seen)

    def gathering(self, *, remote: bool) -> list[Gathering]:
        """Where an arrival goes: remote ones make a difference to waits at CTA scope only."""
        if remote and self.near is None:
            self.near = Gathering()
            self.near.join(self.gathered.peek())
        if self.near is None or remote:
            return [self.gathered]
        return [self.gathered, self.near]

    def close(self) -> None:
        """The open phase completes."""
        done = Completed(self.gathered.knowledge(),
                         None if self.near is None else self.near.knowledge())
        self.complete[self.phase] = done
        self.gathered = Gathering()
        self.gathered.join(done.everything)
        if done.near is not None:
            self.near = Gathering()
            self.near.join(done.near)
        self.complete.pop(self.phase - _KEPT, None)
        self.phase += 1
        self.pending = self.expected
        self.before, self.bytes = self.bytes, Bytes()
        self.late.clear()
        self.excess = None

    def through(self, phase: int) -> Completed:
        """What arrived in the phases up to `phase`."""
        return self.complete.get(phase, _NOTHING)
