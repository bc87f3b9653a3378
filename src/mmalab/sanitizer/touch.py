"""One access on its way through the checks into shadow memory: of lanes, or of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.agents import Agent, AgentKind, Proxy
from mmalab.sanitizer.clocks import PROXY_GLOBAL, PROXY_SHARED, lanes_of
from mmalab.sanitizer.lanes import WarpClock

__all__ = ["Sweep", "Touch"]

Space: TypeAlias = Literal["shared", "global"]


@dataclass(frozen=True, slots=True)
class Touch:
    """One access on its way into shadow memory.

    `clock` is the observer: the warp, or the issuer of a copy. `row` and `epoch` say whose access
    it is. `addresses` are [n], for the lanes in `mask` in order; `values` [n, size] are the bytes
    of a write if known. `strength` is 0 for weak accesses, else 1 + the level of the scope.
    `reads`: the bytes should have been written before.
    """

    clock: WarpClock
    row: int
    epoch: int
    site: int
    space: Space
    write: bool
    strength: int
    addresses: NDArray[np.int64]
    mask: int
    size: int
    values: NDArray[np.uint8] | None = None
    reads: bool = False

    @property
    def by(self) -> NDArray[np.int64]:
        """[n] the lanes."""
        return lanes_of(self.mask)

    @property
    def kind(self) -> AgentKind:
        """The thread itself, or its cp.async agent."""
        return AgentKind.COPY if self.row >= self.clock.warps else AgentKind.THREAD

    @property
    def proxy(self) -> Proxy:
        """Loads, stores, atomics and cp.async use the generic proxy."""
        return Proxy.GENERIC

    @property
    def counts(self) -> bool:
        """Whether an asynchronous operation counts bytes on the mbarrier: never."""
        return False


@dataclass(frozen=True, slots=True)
class Sweep:
    """What an agent does to memory: `size` bytes from each of the ascending `starts` [n].

    `clock` and `lane` issue it and are the observer; `agent` does it in its `epoch`.
    """

    clock: WarpClock
    lane: int
    agent: Agent
    epoch: int
    site: int
    space: Space
    write: bool
    starts: NDArray[np.int64]
    size: int
    strength: int = 0
    proxy: Proxy = Proxy.ASYNC
    swizzle: int = 0
    #: The operation counts bytes on the mbarrier there.
    counts: bool = False

    @property
    def kind(self) -> AgentKind:
        """Who does it."""
        return self.agent.kind

    @property
    def fenced(self) -> int:
        """The relation that says what its proxy may see of this space."""
        return PROXY_SHARED if self.space == "shared" else PROXY_GLOBAL
