"""Asynchronous copies: queued when issued, done when the schedule says.

``eager`` copies at once, ``lazy`` as late as the waits allow (when nothing else can run, it does
the oldest copy that somebody waits for), a seed sometimes this and sometimes that. A kernel whose
result depends on the schedule has a race.

cp.async groups belong to single lanes: a copy issued by a warp carries the group number of each of
its lanes, and ``wait_group N`` of a lane finishes its copies of all but the N newest groups.

Everything later than cp.async is a :class:`Task`: steps to do, in a queue with groups of its own. A
bulk store has two steps, and ``wait_group.read`` leaves the second open::

    Task(row, site, ("bulk", row, lane), group, [read the source, write the destination])
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Site
from mmalab.emulator.state import Status

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Arrival", "AsyncEngine", "Copy", "Queue", "Task"]

#: Whose groups a task belongs to: ("bulk", row, lane), ("wgmma", first row of the warpgroup, 0),
#: ("mbarrier", row, lane) for what completes on an mbarrier and has no groups.
Queue: TypeAlias = tuple[str, int, int]

#: Kinds of queues whose tasks are done in the order in which they were issued.
_IN_ORDER = frozenset({"wgmma"})
#: Operations in flight at once: what bounds the memory of a run that never waits.
_MOST = 1 << 17


@dataclass(slots=True)
class Copy:
    """A cp.async in flight, by lane: `pending` lanes have not been copied."""

    row: int
    site: Site
    pending: NDArray[np.bool_]
    destinations: NDArray[np.uint64]
    sources: NDArray[np.uint64]
    size: int
    read_sizes: NDArray[np.uint32]
    group: NDArray[np.int64]
    destination_space: str = "shared"


@dataclass(slots=True)
class Arrival:
    """A cp.async.mbarrier.arrive that fires after the lane's earlier copies."""

    row: int
    site: Site
    pending: NDArray[np.bool_]
    addresses: NDArray[np.uint64]
    noinc: bool


@dataclass(slots=True)
class Task:
    """An operation that is done in steps, in order; `row` is the warp that issued it."""

    row: int
    site: Site
    queue: Queue
    #: The group of its queue, counted from 0: :meth:`AsyncEngine.open_group` when it is issued.
    group: int
    steps: list[Callable[[], None]]
    #: The mbarriers that it tells when it is done: where their words lie in shared memory.
    barriers: tuple[int, ...] = ()


Operation: TypeAlias = Copy | Arrival | Task


class _Flight:
    """Operations in order of issue: all of them, and those of one queue (cp.async: one warp)."""

    def __init__(self) -> None:
        self._all: dict[int, Operation] = {}
        self._of: defaultdict[Queue | int, dict[int, Operation]] = defaultdict(dict)
        #: Those that tell an mbarrier, and by mbarrier (cp.async's arrivals: the first only).
        self._telling: dict[int, Operation] = {}
        self._to: defaultdict[int, dict[int, Operation]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._all.values())

    def add(self, operation: Operation) -> None:
        """Behind all others."""
        self._all[id(operation)] = self._of[_key(operation)][id(operation)] = operation
        barriers = _barriers(operation)
        if barriers is not None:
            self._telling[id(operation)] = operation
            for barrier in barriers:
                self._to[barrier][id(operation)] = operation

    def remove(self, operation: Operation) -> None:
        """It is done; nothing where it is no longer there."""
        key = _key(operation)
        self._all.pop(id(operation), None)
        self._telling.pop(id(operation), None)
        for barrier in _barriers(operation) or ():
            self._to[barrier].pop(id(operation), None)
            if not self._to[barrier]:
                del self._to[barrier]
        self._of[key].pop(id(operation), None)
        if not self._of[key]:
            del self._of[key]

    def of(self, key: Queue | int) -> list[Operation]:
        """Those of a queue, or the cp.async of a row."""
        return list(self._of[key].values()) if key in self._of else []

    def telling(self) -> list[Operation]:
        """Those that tell an mbarrier, or may."""
        return list(self._telling.values())

    def awaited(self, barriers: Iterable[int]) -> Operation:
        """One that tells an mbarrier among these, else any mbarrier, else the oldest."""
        for barrier in barriers:
            if barrier in self._to:
                return next(iter(self._to[barrier].values()))
        return next(iter(self._telling.values()), None) or self.oldest()

    def oldest(self, index: int = 0) -> Operation:
        """The operation with so many older ones."""
        return next(islice(self._all.values(), index, None))


def _key(operation: Operation) -> Queue | int:
    return operation.queue if isinstance(operation, Task) else operation.row


def _barriers(operation: Operation) -> tuple[int, ...] | None:
    """The mbarriers that an operation tells as far as they are known; None: it tells nobody."""
    if isinstance(operation, Task):
        return operation.barriers or None
    return () if isinstance(operation, Arrival) else None


class AsyncEngine:
    """All asynchronous operations in flight."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.queue = _Flight()
        #: Committed groups of each lane.
        self.committed = np.zeros((machine.state.rows, 32), np.int64)
        #: Committed groups of the queues of tasks.
        self._groups: Counter[Queue] = Counter()

    # --- tasks --------------------------------------------------------------------------------

    def open_group(self, queue: Queue) -> int:
        """The group that a task issued now belongs to."""
        return self._groups[queue]

    def issue_task(self, task: Task) -> None:
        """Queue, or do at once if the schedule says so."""
        self._add(task)
        if self._at_once():
            self._advance(task)

    def commit_group(self, queue: Queue) -> None:
        """Close the open group."""
        self._groups[queue] += 1

    def wait_groups(self, queue: Queue, newest: int, *, leave: int = 0) -> None:
        """Do all but the last `leave` steps of the queue's tasks of all but the `newest` groups."""
        closed = self._groups[queue] - newest
        for task in self.queue.of(queue):
            if isinstance(task, Task) and task.group < closed:
                self._do(task, leave)

    def _advance(self, task: Task, leave: int = 0) -> None:
        if task.queue[0] in _IN_ORDER:
            for earlier in self.queue.of(task.queue):
                if earlier is task:
                    break
                if isinstance(earlier, Task):
                    self._do(earlier)
        self._do(task, leave)

    def _do(self, task: Task, leave: int = 0) -> None:
        while len(task.steps) > leave:
            task.steps.pop(0)()
            self._machine.version += 1
        if not task.steps:
            self.queue.remove(task)

    # --- issue --------------------------------------------------------------------------------

    def issue(self, operation: Copy | Arrival) -> None:
        """Queue, or do at once if the schedule says so."""
        self._add(operation)
        if isinstance(operation, Copy):
            self._announce(operation)
        if self._at_once():
            self._finish_lanes(operation, operation.pending.copy())

    def _add(self, operation: Operation) -> None:
        """The oldest is finished where too many are in flight: a kernel may never wait."""
        if len(self.queue) >= _MOST:
            self._drain(self.queue.oldest())
        self.queue.add(operation)

    def _announce(self, copy: Copy) -> None:
        """Bytes on their way are not uninitialised: reading them too early is another fault."""
        space = self._machine.space
        if space.shared.written is None:
            return
        for region, index, inside in space.places(
                copy.destination_space, copy.destinations[None], copy.size, copy.pending[None],
                np.array([copy.row]), []):
            if region.written is not None:
                region.written[index[inside][:, None] + np.arange(copy.size)] = True

    def _at_once(self) -> bool:
        schedule = self._machine.schedule
        if schedule == "lazy":
            return False
        return schedule == "eager" or bool(self._machine.rng.random() < 0.5)

    def commit(self, row: int, lanes: NDArray[np.bool_]) -> None:
        """cp.async.commit_group by `lanes` [32]."""
        self.committed[row] += lanes

    # --- completion ---------------------------------------------------------------------------

    def wait(self, row: int, lanes: NDArray[np.bool_], newest: int) -> None:
        """Finish the lanes' copies of all but the `newest` groups; -1: all, committed or not."""
        for operation in self.queue.of(row):
            if isinstance(operation, Copy):
                due = lanes & operation.pending
                if newest >= 0:
                    due = due & (operation.group < self.committed[row] - newest)
                if due.any():
                    self._finish(operation, due)

    def tick(self) -> None:
        """A moment passes: a seeded schedule may finish something now."""
        machine = self._machine
        if self.queue and isinstance(machine.schedule, int) and machine.rng.random() < 0.25:
            self._drain(self.queue.oldest(int(machine.rng.integers(len(self.queue)))))

    def drain(self) -> bool:
        """Nothing can run: finish an operation that lets somebody run, else the oldest. False
        when there is none."""
        if not self.queue:
            return False
        self._drain(self.queue.awaited(self._awaited()))
        return True

    def _awaited(self) -> list[int]:
        """The mbarriers that parked lanes wait for."""
        machine = self._machine
        parked = (machine.state.status == Status.PARKED).any(axis=1)
        return list(dict.fromkeys(
            wait["index"] for row, wait in machine.waits.items()
            if "index" in wait and parked[row]))

    def drain_each(self) -> bool:
        """Finish the oldest operation of every CTA that tells an mbarrier: they do not wait for
        each other's. Where none does, the oldest of all kinds."""
        warps = self._machine.shape.warps
        oldest: dict[int, Operation] = {}
        for operation in self.queue.telling() or self.queue:
            oldest.setdefault(operation.row // warps, operation)
        for operation in oldest.values():
            self._drain(operation)
        return bool(oldest)

    def finish_all(self) -> None:
        """The kernel ends, and with it everything in flight."""
        while self.queue:
            self._drain(self.queue.oldest())

    def _drain(self, operation: Operation) -> None:
        if isinstance(operation, Task):
            self._advance(operation)
        else:
            self._finish_lanes(operation, operation.pending.copy())

    def _finish_lanes(self, operation: Copy | Arrival, lanes: NDArray[np.bool_]) -> None:
        if isinstance(operation, Arrival):
            # It stands for the copies that the lane issued before.
            for earlier in self.queue.of(operation.row):
                if earlier is operation:
                    break
                if isinstance(earlier, Copy):
                    self._finish(earlier, lanes & earlier.pending)
            self._arrive(operation, lanes)
        else:
            self._finish(operation, lanes)

    def _retire(self, operation: Copy | Arrival, lanes: NDArray[np.bool_]) -> None:
        operation.pending &= ~lanes
        if not operation.pending.any():
            self.queue.remove(operation)
        self._machine.version += 1

    def _finish(self, copy: Copy, lanes: NDArray[np.bool_]) -> None:
        if not lanes.any():
            return
        machine, space = self._machine, self._machine.space
        rows = np.array([copy.row])
        view = Lanes(machine, copy.site, rows, lanes[None])
        unit = min(copy.size, 4)
        words = np.zeros((copy.size // unit, 1, 32), f"u{unit}")
        for bytes_read in np.unique(copy.read_sizes[lanes]).tolist():
            some = lanes & (copy.read_sizes == bytes_read)
            words |= self._read(view, copy, some, bytes_read, unit, rows)
        machine.counters["global.bytes.read"] += int(copy.read_sizes[lanes].sum())
        faults = space.store(copy.destination_space, copy.destinations[None], unit, words,
                             lanes[None], rows)
        machine.report_faults(view, faults, "cp.async to shared memory")
        self._retire(copy, lanes)

    def _read(self, view: Lanes, copy: Copy, some: NDArray[np.bool_], bytes_read: int, unit: int,
              rows: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
        """The source words of lanes that read the same number of bytes, zero behind them."""
        words = np.zeros((copy.size // unit, 1, 32), f"u{unit}")
        if not bytes_read:
            return words
        address = copy.sources[None]
        whole, rest = divmod(bytes_read, unit)
        raw = np.zeros((copy.size, 1, 32), np.uint8)
        space = self._machine.space
        if bytes_read == copy.size:
            got, faults = space.load("global", address, unit, some[None], rows, count=whole)
            self._machine.report_faults(view, faults, "cp.async from global memory")
            return got
        for k in range(whole * unit + rest):
            byte, faults = space.load("global", address + np.uint64(k), 1, some[None], rows)
            raw[k] = byte[0]
            self._machine.report_faults(view, faults, "cp.async from global memory")
        for k in range(copy.size):
            words[k // unit] |= raw[k].astype(words.dtype) << (8 * (k % unit))
        return words

    def _arrive(self, arrival: Arrival, lanes: NDArray[np.bool_]) -> None:
        view = Lanes(self._machine, arrival.site, np.array([arrival.row]), lanes[None])
        self._machine.mbarriers.arrive(view, arrival.addresses[None], np.uint32(1))
        self._retire(arrival, lanes)
