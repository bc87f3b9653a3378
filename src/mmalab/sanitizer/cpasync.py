"""cp.async: the agent that copies, the groups, and what a wait orders.

The copy is done by the warp's copy agent, not by the thread that issues it. It starts after what
its issuer has done, so it is checked at issue with the issuer's knowledge; it ends some time later,
so its bytes are entered under the agent's own epoch, which nobody knows yet:

    cp.async [tile], [src], 16      tile's cells <- (agent of warp 0, epoch 1, lane l)
    cp.async.commit_group           group 0 ends at epoch 1
    cp.async.wait_group 0           lane l of warp 0 now knows (agent of warp 0, epoch 1, lane l)

Other lanes and warps learn it from lane l like anything else it knows, by a barrier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import CpAsync, CpAsyncCommit, CpAsyncWait
from mmalab.sanitizer.clocks import ORDER, lanes_of, mask_of_lanes
from mmalab.sanitizer.copies import CopyQueues
from mmalab.sanitizer.lanes import COPIES
from mmalab.sanitizer.races import Races
from mmalab.sanitizer.touch import Touch
from mmalab.sanitizer.world import World

__all__ = ["CpAsyncRule"]


class CpAsyncRule:
    """Follows the copies and the waits."""

    def __init__(self, world: World, races: Races, queues: CopyQueues) -> None:
        self._world = world
        self._races = races
        self._queues = queues

    def issue(self, event: CpAsync) -> None:
        """Check the source and the destination, and enter them under the agent's epoch."""
        queue = self._queues.of(event.cta, event.warp)
        lanes = lanes_of(event.mask)
        epochs = queue.epoch[lanes]
        for epoch in sorted(set(epochs.tolist())):
            here = lanes[epochs == epoch]
            sizes = event.read_sizes[here]
            for size in sorted(set(sizes.tolist())):
                if size:
                    readers = here[sizes == size]
                    self._touch(event, readers, epoch, event.sources, int(size), write=False)
            self._touch(event, here, epoch, event.destinations, event.size, write=True)

    def _touch(self, event: CpAsync, lanes: NDArray[np.intp], epoch: int,
               addresses: NDArray[np.uint64], size: int, *, write: bool) -> None:
        cta = self._world.cta(event.cta)
        touch = Touch(
            clock=cta.clocks[event.warp], row=cta.warps + event.warp, epoch=epoch,
            site=event.site, space="shared" if write else "global", write=write, strength=0,
            addresses=addresses[lanes].astype(np.int64), mask=mask_of_lanes(lanes), size=size)
        self._races.touch(touch, cta.shared if write else None)

    def commit(self, event: CpAsyncCommit) -> None:
        """The open copies of these lanes become a group."""
        self._queues.of(event.cta, event.warp).commit(lanes_of(event.mask))

    def wait(self, event: CpAsyncWait) -> None:
        """Each lane learns that its own copies up to the wait's reach are done."""
        lanes = lanes_of(event.mask)
        reach = self._queues.of(event.cta, event.warp).wait(lanes, event.newest, event.site)
        own = self._world.clock(event.cta, event.warp).own
        for relation in ORDER:
            own[relation, COPIES, lanes] = np.maximum(own[relation, COPIES, lanes], reach)
