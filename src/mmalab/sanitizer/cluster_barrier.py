"""barrier.cluster: arrive releases, wait acquires, a generation joins the CTAs of a cluster.

Only what precedes the *arrive* is covered, and a relaxed arrive publishes no more than what a fence
of cluster scope published before::

    st.shared [x]; arrive.release; st.shared [y]; wait.acquire      x is ordered, y is not

Threads that ended count as arrived, with what they had done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from mmalab.emulator.events import ClusterArrive, ClusterWait
from mmalab.sanitizer.clocks import Knowledge, Level, routes
from mmalab.sanitizer.gathering import Gathering
from mmalab.sanitizer.world import World

__all__ = ["ClusterBarriers"]

#: (cluster, generation)
_Key: TypeAlias = tuple[tuple[int, int, int], int]


@dataclass(slots=True)
class _Generation:
    gathering: Gathering = field(default_factory=Gathering)
    #: The join, from the first wait on.
    joined: Knowledge | None = None


class ClusterBarriers:
    """The cluster barriers of all clusters."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generations: dict[_Key, _Generation] = {}

    def arrive(self, event: ClusterArrive) -> None:
        """Lanes release what they know, or what they fenced."""
        clock = self._world.clock(event.cta, event.warp)
        gathering = self._generation(event).gathering
        if event.semantics != "relaxed":
            gathering.add(clock, event.mask)
        else:
            gathering.join(Knowledge().received(clock.released(event.mask), routes(
                releasing=False, acquiring=True, write_level=Level.CLUSTER,
                read_level=Level.CLUSTER, distance=Level.CLUSTER)))
        clock.bump()

    def wait(self, event: ClusterWait) -> None:
        """The generation is complete: the lanes know what all arrivals brought."""
        generation = self._generation(event)
        if generation.joined is None:
            for cta in self._world.peers(event.cta):
                generation.gathering.join(cta.ended.peek())
            generation.joined = generation.gathering.knowledge()
        clock = self._world.clock(event.cta, event.warp)
        if event.semantics == "acquire" and event.mask == clock.live and len(clock.parts) == 1:
            clock.assign(event.mask, clock.parts[0][1].joined(generation.joined))
            return
        clock.receive(event.mask, generation.joined, routes(
            releasing=True, acquiring=event.semantics == "acquire", write_level=Level.CLUSTER,
            read_level=Level.CLUSTER, distance=Level.CLUSTER))

    def retire(self, cta: int) -> None:
        """All threads of the cluster have ended."""
        cluster = self._world.cluster_of(cta)
        for key in [key for key in self._generations if key[0] == cluster]:
            del self._generations[key]

    def _generation(self, event: ClusterArrive | ClusterWait) -> _Generation:
        cluster = self._world.cluster_of(event.cta)
        key = (cluster, event.generation)
        generation = self._generations.get(key)
        if generation is None:
            generation = self._generations[key] = _Generation()
            self._generations.pop((cluster, event.generation - 3), None)
        return generation
