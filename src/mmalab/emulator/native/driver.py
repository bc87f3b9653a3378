"""Running a launch with compiled code: CTAs on threads, everything else by the NumPy machine.

Round by round: every resident CTA that can run goes through ``run_cta`` on a thread (the call
releases the interpreter lock); then the sites at which warps stopped are executed, each for all
warps of all resident CTAs that stand there, as one NumPy operation of the machine. Barriers with
counts, deadlocks, parked waits and findings are the machine's, exactly as without compiled code.
"""

from __future__ import annotations

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.deadlock import explain_deadlock
from mmalab.emulator.interpret import Idle, Interpreter
from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import aligned_zeros
from mmalab.emulator.native.abi import Context
from mmalab.emulator.native.compiled import Compiled
from mmalab.emulator.native.schedule import Reason
from mmalab.emulator.state import Status, unpack
from mmalab.errors import LimitExceeded

__all__ = ["CompiledScheduler"]

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32
)
_FUEL = 100_000
_NEEDS_MASKED = 1 << 30


class CompiledScheduler(Interpreter):
    """Runs a machine to its end, with compiled code for what there is code for."""

    def __init__(self, machine: Machine, compiled: Compiled, *, max_steps: int | None = None,
                 threads: int | None = None) -> None:
        super().__init__(machine, max_steps=max_steps)
        self.compiled = compiled
        self.threads = threads or len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._callback = _CALLBACK(self._execute_one)
        self._block_runs: dict[str, NDArray[np.int64]] = {}
        sites = len(machine.program.sites)
        self._site_counts = np.zeros((self.threads, sites, 4), np.int64)

    # --- one window ---------------------------------------------------------------------------

    def _run_window(self) -> None:
        machine, state = self.machine, self.machine.state
        self._idle = Idle()
        self._prepare()
        with ThreadPoolExecutor(self.threads) as pool:
            while not machine.stopped:
                self._run_ctas(pool)
                if self._error is not None:
                    raise self._error
                if machine.stopped:
                    break
                if self._stops():
                    continue
                if (state.status == Status.RUNNING).any():
                    if self._spins():
                        break
                    continue
                if (state.status == Status.EXITED).all() or not self._settle():
                    break
        self._collect()

    def _prepare(self) -> None:
        """Context blocks of the resident CTAs, and the arrays that they point to."""
        machine, state, space = self.machine, self.machine.state, self.machine.space
        shape = machine.shape
        ctas = len(state.ctas)
        self._avoid = aligned_zeros((state.rows,), np.int32)
        self._standing = aligned_zeros((state.rows,), np.int32)
        self._standing[:] = -1
        self._runs = np.zeros((self.threads, self.compiled.regions), np.int64)
        self._tid = self._thread_indices()
        table = space.host_table()
        self._keep = (table,)
        words = np.zeros((ctas, int(Context.WORDS)), np.int64)
        c = Context
        fixed: dict[Context, int] = {
            c.R: _pointer(state.r), c.Q: _pointer(state.q), c.P: _pointer(state.p),
            c.PC: _pointer(state.pc), c.STATUS: _pointer(state.status),
            c.AVOID: _pointer(self._avoid), c.STANDING: _pointer(self._standing),
            c.SHARED_START: space.shared_start, c.SHARED_BYTES: space.shared_bytes,
            c.TAGS: _pointer(table.pointers), c.TAG_BYTES: _pointer(table.sizes),
            c.TAG_WRITABLE: _pointer(table.writable), c.TAG_COUNT: len(table.sizes),
            c.LOCAL: _pointer(space.local.data), c.LOCAL_STRIDE: space.local_stride,
            c.LOCAL_BYTES: space.local_bytes, c.PARAMS: _pointer(space.params.data),
            c.PARAM_BYTES: space.params.data.size, c.TID: _pointer(self._tid),
            c.NTID_X: shape.block[0], c.NTID_Y: shape.block[1], c.NTID_Z: shape.block[2],
            c.NCTAID_X: shape.grid[0], c.NCTAID_Y: shape.grid[1], c.NCTAID_Z: shape.grid[2],
            c.CALLBACK: ctypes.cast(self._callback, ctypes.c_void_p).value or 0,
            c.WARPS: shape.warps,
        }
        for word, value in fixed.items():
            words[:, word] = value
        for row, linear in enumerate(state.ctas.tolist()):
            words[row, c.CTAID_X : c.CTAID_X + 3] = shape.cta_coordinates(linear)
            words[row, c.FIRST_ROW] = row * shape.warps
            words[row, c.SHARED] = _pointer(space.shared.data) + row * space.shared_stride
        self._words = words

    def _thread_indices(self) -> NDArray[np.uint32]:
        """[warps, 3, 32]: %tid of each lane."""
        x, y, _ = self.machine.shape.block
        warps = self.machine.shape.warps
        linear = np.arange(32 * warps, dtype=np.uint32).reshape(warps, 32)
        tid = np.stack((linear % x, linear // x % y, linear // (x * y)), axis=1)
        return np.ascontiguousarray(tid, np.uint32)

    # --- compiled code ------------------------------------------------------------------------

    def _run_ctas(self, pool: ThreadPoolExecutor) -> None:
        state, warps = self.machine.state, self.machine.shape.warps
        able = ((state.status == Status.RUNNING).any(axis=1) & (self._standing < 0))
        todo = np.nonzero(able.reshape(-1, warps).any(axis=1))[0].tolist()
        if not todo:
            return
        pending = iter(todo)
        workers = min(self.threads, len(todo))
        if workers == 1:
            self._work(0, pending)
        else:
            list(pool.map(lambda t: self._work(t, pending), range(workers)))
        versions = self._words[:, Context.VERSION]
        self.machine.version += int(versions.sum())
        versions[:] = 0
        if self.compiled.masked is None and (self._standing == _NEEDS_MASKED).any():
            self.compiled.compile_masked()
        self._standing[self._standing == _NEEDS_MASKED] = -1

    def _work(self, thread: int, pending: Any) -> None:
        """Take CTAs from `pending` until none is left."""
        words, run = self._words, self.compiled.run_cta
        for cta in pending:
            block = words[cta]
            block[Context.FUEL] = _FUEL
            block[Context.BLOCKS] = _pointer(self._runs[thread])
            block[Context.SITES] = _pointer(self._site_counts[thread])
            reason = run(_pointer(block))
            if reason == Reason.TRAP:
                return

    def _execute_one(self, _user: int, site: int, row: int, lanes: int) -> int:
        """The executor of one site for one warp, called from compiled code."""
        machine = self.machine
        try:
            with self._lock:
                if machine.stopped:
                    return 1
                mask = unpack(np.array([lanes & 0xFFFFFFFF], np.uint32))
                machine.execute(machine.program.sites[site], np.array([row]), mask)
                machine.counts[site] -= 1  # its region counts it
                machine.instructions -= 1
                return int(machine.stopped)
        except BaseException as error:  # noqa: BLE001 - must not unwind through compiled frames
            self._error = error
            return 1

    # --- what the machine does ----------------------------------------------------------------

    def _stops(self) -> bool:
        """Execute the sites at which warps stand; whether there were any."""
        machine, state = self.machine, self.machine.state
        able = (state.status == Status.RUNNING).any(axis=1) & (self._standing >= 0)
        if not able.any():
            return False
        for site in np.unique(self._standing[able]).tolist():
            rows = np.nonzero(able & (self._standing == site))[0]
            self._standing[rows] = -1
            if site >= len(machine.program.sites):
                self._fall_off(state.pc >= site)
                continue
            standing = (state.pc[rows] == site) & (state.status[rows] <= Status.GATHERING)
            self._leave_native_barriers(site)
            machine.step(site, rows, standing)
            machine.engine.tick()
            if machine.stopped:
                break
        self._check_budget()
        return True

    def _leave_native_barriers(self, site: int) -> None:
        """A barrier executed by the machine must see the warps that wait in compiled code."""
        if self.machine.program.sites[site].form.family in ("bar.sync", "bar.arrive", "bar.red"):
            self._hand_over()

    def _hand_over(self) -> bool:
        """Warps that compiled code holds at barrier 0 arrive again, at the machine's barrier."""
        machine, state = self.machine, self.machine.state
        held = (state.status == Status.BARRIER).all(axis=1) & (self._standing >= 0)
        if not held.any():
            return False
        for site in np.unique(self._standing[held]).tolist():
            rows = np.nonzero(held & (self._standing == site))[0]
            self._standing[rows] = -1
            state.status[rows] = Status.RUNNING
            state.pc[rows] = site
            machine.counts[site] -= len(rows)  # its region has counted it
            machine.instructions -= len(rows)
            machine.step(site, rows, np.ones((len(rows), 32), bool))
        return True

    def _settle(self) -> bool:
        """Nobody runs: barriers with absent warps, parked waits, copies, deadlock."""
        return self._hand_over() or self._wake()

    def _spins(self) -> bool:
        """Out of fuel: a long loop, or one that waits for ever."""
        from_before = self.machine.version
        self._check_budget()
        self._unpark(only_if_moved=True)
        if self.machine.engine.drain():
            return False
        if self.machine.version == from_before and self._idle.repeats(self.machine):
            self.machine.deadlock = explain_deadlock(self.machine, spinning=True)
            return True
        return False

    def _check_budget(self) -> None:
        total = self.machine.instructions + self.compiled.instructions(self._runs)
        if total > self.max_steps:
            raise LimitExceeded(f"{total} warp instructions",
                                f"the limit of this run is {self.max_steps} (max_steps)")

    def _collect(self) -> None:
        """Add what compiled code counted to the machine's counts."""
        machine = self.machine
        per_site = self.compiled.site_runs(self._runs)
        machine.counts += per_site
        machine.instructions += int(per_site.sum())
        machine.counters["barrier.waits"] += int(self._words[:, Context.BARRIER_WAITS].sum())
        machine.native_sites += self._site_counts.sum(axis=0)
        self._site_counts[:] = 0


def _pointer(array: NDArray[Any]) -> int:
    return int(array.ctypes.data) if array.size else 0
