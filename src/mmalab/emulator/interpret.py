"""The NumPy scheduler: all lanes that stand at the lowest site run together, in turns.

Within a turn every lane may execute `quantum` blocks. Of the lanes with turns left, those at the
lowest site run, with every other lane that stands there (of any warp of any resident CTA); lanes
that used up their turns let others run until nobody has turns left. So lanes reconverge where code
joins, and a loop that waits for a higher block cannot starve it.

A failed wait parks its lanes. When nobody else can run they get another try, after something moved
or an asynchronous copy was finished; when nothing moved and nothing is in flight, and the registers
repeat, the run ends with an explained deadlock.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.deadlock import explain_deadlock
from mmalab.emulator.machine import Machine
from mmalab.emulator.state import LaunchShape, Status, any_lane
from mmalab.errors import LimitExceeded

__all__ = ["Idle", "Interpreter", "cta_order", "window_size"]

_FAR = np.int32(2**31 - 1)
#: Families after which lanes may stand at different places, or stand still.
_BREAKING = frozenset({
    "bra", "brx.idx", "call", "ret", "exit", "trap", "bar.sync", "bar.arrive", "bar.red",
    "bar.warp.sync", "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync",
    "mbarrier.test_wait", "mbarrier.try_wait", "mma.sync", "mma.sp", "wmma.load", "wmma.mma",
    "wmma.store", "ldmatrix", "stmatrix", "movmatrix", "nanosleep",
    "barrier.cluster.arrive", "barrier.cluster.wait", "call.jump", "call.return",
    "tensormap.cp_fenceproxy",
    "wgmma.fence", "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group", "setmaxnreg",
})
_MAX_INSTRUCTIONS = 1 << 28
#: The limit of a small grid, per warp: what loops for ever there ends in seconds.
_MAX_PER_WARP = 1 << 25
#: A NumPy operation takes about as long as this many compiled instructions: a loop of atomics has
#: to end as soon as one of additions.
_WORK_SHIFT = 8
_MAX_CTAS = 1 << 22
_WINDOW_BYTES = 1 << 28
_WINDOW_WARPS = 2048


def window_size(machine: Machine) -> int:
    """How many CTAs are resident together: all of the grid where memory allows."""
    program, shape = machine.program, machine.shape
    warp = 128 * program.slots.get("r", 0) + 256 * program.slots.get("q", 0) + 1024
    warp += 32 * 2 * program.local_bytes
    cta = shape.warps * warp + 2 * (max(program.dynamic_offset, 1024) + shape.dynamic_shared)
    cluster = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
    count = min(shape.ctas, max(1, _WINDOW_BYTES // cta), max(1, _WINDOW_WARPS // shape.warps))
    return max(cluster, count // cluster * cluster)


def cta_order(shape: LaunchShape) -> NDArray[np.int64]:
    """Linear CTA numbers, the CTAs of a cluster next to each other.

    Raises:
        LimitExceeded: the grid has too many.
    """
    if shape.ctas > _MAX_CTAS:
        raise LimitExceeded(f"grid {shape.grid}: {shape.ctas} CTAs",
                            f"the emulator runs at most {_MAX_CTAS}",
                            legal="a part of the grid", where="mmalab.emulate")
    x, y, z = (np.arange(n) for n in shape.grid)
    grid = x + shape.grid[0] * (y[:, None] + shape.grid[1] * z[:, None, None])
    cx, cy, cz = shape.cluster
    split = grid.reshape(shape.grid[2] // cz, cz, shape.grid[1] // cy, cy,
                         shape.grid[0] // cx, cx)
    return split.transpose(0, 2, 4, 1, 3, 5).reshape(-1).astype(np.int64)


class Interpreter:
    """Runs a machine to its end."""

    #: NumPy operations that any run may do, a minute or two of them.
    least_work = 1 << 20

    def __init__(self, machine: Machine, *, quantum: int = 64, max_steps: int | None = None,
                 resident: int | None = None) -> None:
        self.machine, self.quantum = machine, quantum
        #: CTAs that are resident together at most, in whole clusters.
        self._resident = resident
        warps = machine.shape.ctas * machine.shape.warps
        self.max_steps = (max_steps if max_steps is not None
                          else min(_MAX_INSTRUCTIONS, _MAX_PER_WARP * warps))
        self._turns = 0
        self.max_work = max(self.least_work, self.max_steps >> _WORK_SHIFT)
        self._block_end = np.zeros(len(machine.program.sites) + 1, np.int64)
        for block in machine.program.blocks:
            self._block_end[block.start : block.stop] = block.stop
        self._breaking = [s.form.family in _BREAKING for s in machine.program.sites]

    def run(self) -> None:
        """All CTAs, one window after the other."""
        machine = self.machine
        order = self._cta_order()
        count = window_size(machine)
        if self._resident is not None:
            size = machine.shape.cluster[0] * machine.shape.cluster[1] * machine.shape.cluster[2]
            count = min(count, -(-self._resident // size) * size)
        for start in range(0, len(order), count):
            machine.begin(order[start : start + count])
            self._run_window()
            if machine.stopped or machine.deadlock:
                break
            machine.engine.finish_all()

    def _cta_order(self) -> NDArray[np.int64]:
        return cta_order(self.machine.shape)

    # --- one window ---------------------------------------------------------------------------

    def _run_window(self) -> None:
        machine = self.machine
        state = machine.state
        self._spent = np.zeros(state.pc.shape, np.int32)
        self._idle = Idle()
        while not machine.stopped:
            able = state.status == Status.RUNNING
            fresh = able & (self._spent < self.quantum)
            if fresh.any():
                self._run_lowest(fresh)
                continue
            self._spent[:] = 0
            if able.any():
                self._unpark(only_if_moved=True)
                # Lanes that spin do not keep copies from being done: nothing else may move them.
                if self._idle.repeats(machine) and not machine.engine.drain():
                    machine.deadlock = explain_deadlock(machine, spinning=True)
                    return
            elif (state.status == Status.EXITED).all() or not self._wake():
                return

    def _run_lowest(self, fresh: NDArray[np.bool_]) -> None:
        machine, state = self.machine, self.machine.state
        start = int(np.where(fresh, state.pc, _FAR).min())
        if start >= len(machine.program.sites):
            self._fall_off(state.pc >= start)
            return
        standing = (state.pc == start) & (state.status <= Status.GATHERING)
        rows = np.nonzero(any_lane(standing & fresh))[0]
        standing = standing[rows]
        self._spent[rows] += standing
        if machine.observed and not machine.gatherer.collects(machine.program.sites[start]):
            machine.convergence.before(start, rows, standing)
        self._straight(start, rows, standing)
        machine.engine.tick()
        self._turns += 1
        self.check_budget(machine.instructions)

    def check_budget(self, instructions: int) -> None:
        """End a run that takes too long.

        Raises:
            LimitExceeded: more instructions or NumPy operations than it may take.
        """
        if instructions > self.max_steps:
            raise LimitExceeded(f"{instructions} warp instructions",
                                f"the limit of this run is {self.max_steps} (max_steps)",
                                legal="a larger max_steps", where=self._place())
        if self.machine.work > self.max_work:
            raise LimitExceeded(f"{self.machine.work} NumPy operations",
                                f"the limit of this run is {self.max_work}, for"
                                f" {instructions} warp instructions so far",
                                legal=f"max_steps of {self.max_work << _WORK_SHIFT + 1} or more",
                                where=self._place())

    def _place(self) -> str:
        """Where the first lanes stand that still run."""
        machine, state = self.machine, self.machine.state
        running = np.argwhere(state.status != Status.EXITED)
        if not len(running):
            return ""
        row, lane = running[0].tolist()
        pc = int(state.pc[row, lane])
        site = machine.program.sites[pc] if pc < len(machine.program.sites) else None
        return str(machine.where(row, lane, site))

    def _straight(self, start: int, rows: NDArray[np.int64],
                  standing: NDArray[np.bool_]) -> None:
        """Execute from `start` to the end of its block, or to where lanes may part."""
        machine = self.machine
        sites, stop = machine.program.sites, int(self._block_end[start])
        index = start
        while index < stop and not machine.stopped:
            if self._breaking[index]:
                self._move(rows, standing, index)
                machine.step(index, rows, standing | self._gathering(index, rows))
                return
            site = sites[index]
            machine.execute(site, rows, machine.guarded(site, rows, standing))
            index += 1
        self._move(rows, standing, index)

    def _gathering(self, index: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Lanes of these warps that came to a collective before, by another block or turn."""
        state = self.machine.state
        return np.asarray((state.status[rows] == Status.GATHERING) & (state.pc[rows] == index))

    def _move(self, rows: NDArray[np.int64], standing: NDArray[np.bool_], index: int) -> None:
        pc = self.machine.state.pc
        pc[rows] = np.where(standing, np.int32(index), pc[rows])

    def _fall_off(self, lanes: NDArray[np.bool_]) -> None:
        """The end of the text is an exit."""
        rows = np.nonzero(any_lane(lanes))[0]
        self.machine.end(rows, lanes[rows])

    # --- when nobody can run ------------------------------------------------------------------

    def _unpark(self, *, only_if_moved: bool) -> bool:
        machine, state = self.machine, self.machine.state
        parked = state.status == Status.PARKED
        if only_if_moved:
            for row in np.nonzero(parked.any(axis=1))[0].tolist():
                if machine.waits[row]["version"] == machine.version:
                    parked[row] = False
        state.status[parked] = Status.RUNNING
        return bool(parked.any())

    def _wake(self) -> bool:
        """Give parked lanes another try, finish a copy, force a collective; else deadlock."""
        machine = self.machine
        if self._unpark(only_if_moved=True) or machine.engine.drain():
            return True
        # Lanes may count their failed tries: only a state that repeats is a deadlock.
        if (machine.state.status == Status.PARKED).any() and not self._idle.repeats(machine):
            self._unpark(only_if_moved=False)
            return True
        if self._force():
            return True
        machine.deadlock = explain_deadlock(machine)
        return False

    def _force(self) -> bool:
        """Let the collective with the most lanes of the first stuck warp run without the rest."""
        machine, state = self.machine, self.machine.state
        stuck = state.status == Status.GATHERING
        waits = (state.status == Status.BARRIER) | (state.status == Status.PARKED)
        rows = np.nonzero(stuck.any(axis=1) & ~waits.any(axis=1))[0][:1]
        if not len(rows):
            return False
        places, counts = np.unique(state.pc[rows][stuck[rows]], return_counts=True)
        site = int(places[counts.argmax()])
        machine.step(site, rows, stuck[rows] & (state.pc[rows] == site), force=True)
        return True


class Idle:
    """Notices that nothing changes any more: the same registers again, and no memory touched."""

    def __init__(self) -> None:
        self._version = -1
        self._saved = b""
        self._count = self._next = 0

    def repeats(self, machine: Machine) -> bool:
        """Whether the state of an earlier call is back with no version in between (Brent)."""
        if machine.version != self._version:
            self._version, self._count, self._next, self._saved = machine.version, 0, 1, b""
        digest = _digest(machine)
        if digest == self._saved:
            return True
        self._count += 1
        if self._count >= self._next:
            self._saved, self._next = digest, self._next * 2
        return False


def _digest(machine: Machine) -> bytes:
    state = machine.state
    total = hashlib.blake2b(digest_size=16)
    arrays: tuple[NDArray[Any], ...] = (state.r, state.q, state.p, state.carry, state.pc,
                                        state.status)
    for array in arrays:
        total.update(array.tobytes())
    return total.digest()
