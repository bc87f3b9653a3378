"""What happened to an mbarrier: enough of it to say later why nobody came.

One log per object, kept from init to inval: who arrived in the open phase, what was announced and
delivered in it, who ever arrived, and the last phase that each warp saw complete::

    log = PhaseLog()
    log.arrive(row=0, count=1, line=12)      # warp 0 arrives in phase 0
    log.close()                              # the phase completes
    log.arrived, log.ever                    # Counter(), Counter({0: 1})
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["PhaseLog"]


@dataclass(slots=True)
class PhaseLog:
    """Warps are rows of the machine's state; lines are those of the PTX text, 0 for none."""

    #: Arrivals of each warp in the open phase, and in the object's life.
    arrived: Counter[int] = field(default_factory=Counter)
    ever: Counter[int] = field(default_factory=Counter)
    #: Bytes of the open phase.
    announced: int = 0
    delivered: int = 0
    announce_line: int = 0
    deliver_line: int = 0
    arrive_line: int = 0
    #: Warps whose copies delivered bytes, in the open phase and ever.
    carriers: set[int] = field(default_factory=set)
    ever_carried: set[int] = field(default_factory=set)
    #: The last phase that a wait of each warp saw complete.
    seen: dict[int, int] = field(default_factory=dict)

    def arrive(self, row: int, count: int, line: int) -> None:
        """`count` arrivals by a warp."""
        self.arrived[row] += count
        self.ever[row] += count
        self.arrive_line = line

    def announce(self, count: int, line: int) -> None:
        """expect_tx of so many bytes."""
        if count:
            self.announced += count
            self.announce_line = line

    def deliver(self, row: int, count: int, line: int) -> None:
        """Bytes of a copy that a warp issued came."""
        self.delivered += count
        self.deliver_line = line
        self.carriers.add(row)
        self.ever_carried.add(row)

    def close(self) -> None:
        """The open phase completes."""
        self.arrived = Counter()
        self.announced = self.delivered = 0
        self.carriers = set()
