"""The cp.async groups of a warp: which copy is in which group, and which wait covers it.

Each lane's copies have an *epoch*, a counter of the warp's copy agent. It moves at every commit,
``wait_all`` and asynchronous arrive, so that one number separates what these cover from what comes
later. Example: copy, commit, copy, commit, ``wait_group 1``: the copies have the epochs 1 and 2,
the groups end at the epochs [1, 2], and the wait reaches group 0, that is epoch 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.clocks import LANES

__all__ = ["CopyQueue", "CopyQueues"]

Line = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class _Step:
    """A wait or a barrier of the warp, remembered for the words of a witness."""

    kind: str
    site: int
    #: [32] wait: the epoch it reached; barrier: the epoch that was open.
    reach: NDArray[np.int64]
    #: Groups that `wait_group` may leave pending; -1 for wait_all.
    newest: int = -1
    #: [32] groups that were committed then.
    committed: NDArray[np.int64] | None = None


class CopyQueue:
    """The copies of one warp, lane by lane."""

    def __init__(self) -> None:
        #: [32] epoch of the copies that a lane issues now.
        self.epoch = np.ones(LANES, np.int64)
        self._ends = np.zeros((8, LANES), np.int64)
        self._count = np.zeros(LANES, np.int64)
        self._steps: deque[_Step] = deque(maxlen=16)

    def commit(self, lanes: NDArray[np.intp]) -> None:
        """cp.async.commit_group: the open copies of `lanes` become a group, empty or not."""
        if self._count.max() == len(self._ends):
            self._ends = np.concatenate((self._ends, np.zeros_like(self._ends)))
        self._ends[self._count[lanes], lanes] = self.epoch[lanes]
        self._count[lanes] += 1
        self.epoch[lanes] += 1

    def wait(self, lanes: NDArray[np.intp], newest: int, site: int) -> NDArray[np.int64]:
        """[lanes] epochs that wait_group `newest`, or wait_all (-1), makes complete."""
        if newest < 0:
            reach = self.close(lanes)
        else:
            group = self._count[lanes] - 1 - newest
            reach = np.where(group >= 0, self._ends[np.maximum(group, 0), lanes], 0)
        self._remember("wait", site, lanes, reach, newest)
        return reach

    def close(self, lanes: NDArray[np.intp]) -> NDArray[np.int64]:
        """[lanes] the open epoch, which ends here: later copies are not covered with it."""
        reach = self.epoch[lanes].copy()
        self.epoch[lanes] += 1
        return reach

    def barrier(self, site: int) -> None:
        """The warp arrived at a barrier."""
        lanes = np.arange(LANES)
        self._remember("barrier", site, lanes, self.epoch, -1)

    def _remember(self, kind: str, site: int, lanes: NDArray[np.intp], reach: NDArray[np.int64],
                  newest: int) -> None:
        full = np.zeros(LANES, np.int64)
        full[lanes] = reach
        self._steps.append(_Step(kind, site, full, newest, self._count.copy()))

    # -- words -----------------------------------------------------------------------------------

    def wait_words(self, lane: int, epoch: int, line: Line) -> str:
        """What would wait for the copy: a commit, a smaller count, or a wait at all."""
        waits = [step for step in self._steps if step.kind == "wait"]
        ends = self._ends[: self._count[lane], lane]
        group = int(np.searchsorted(ends, epoch))
        if group == len(ends):
            if waits:
                return f"cp.async.commit_group before the wait in line {line(waits[-1].site)}"
            return "cp.async.commit_group and cp.async.wait_group 0 before the data is used"
        newer = len(ends) - 1 - group
        last = waits[-1] if waits else None
        if last is not None and last.newest > newer:
            return (f"cp.async.wait_group {newer} instead of {last.newest} in line "
                    f"{line(last.site)}, or {last.newest - newer} more cp.async.commit_group "
                    "(empty ones count) before it")
        then = newer if last is None or last.committed is None else (
            int(last.committed[lane]) - 1 - group)
        if last is not None and last.newest > then >= 0:
            return (f"the cp.async.commit_group behind the wait in line {line(last.site)} before "
                    f"it, or cp.async.wait_group {then} there")
        return f"cp.async.wait_group {newer} in the issuing thread, then a barrier"

    def barrier_words(self, lane: int, epoch: int, line: Line) -> str:
        """The copy was waited for, but the barrier is missing or stands before the wait."""
        steps = list(self._steps)
        waited = next((at for at, step in enumerate(steps)
                       if step.kind == "wait" and step.reach[lane] >= epoch), None)
        if waited is None:
            return "bar.sync after the wait"
        early = [step for step in steps[:waited]
                 if step.kind == "barrier" and step.reach[lane] > epoch]
        wait = line(steps[waited].site)
        if early:
            return f"swap the barrier in line {line(early[-1].site)} and the wait in line {wait}"
        return f"bar.sync after the wait in line {wait}"


class CopyQueues:
    """The queues of all warps."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, int], CopyQueue] = {}

    def of(self, cta: int, warp: int) -> CopyQueue:
        """The queue of one warp."""
        queue = self._queues.get((cta, warp))
        if queue is None:
            queue = self._queues[cta, warp] = CopyQueue()
        return queue

    def issued(self, cta: int, warp: int) -> CopyQueue | None:
        """The queue of one warp, if it ever issued a copy."""
        return self._queues.get((cta, warp))
