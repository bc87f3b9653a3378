"""Running a launch with threaded code: CTAs on threads, everything else by the NumPy machine.

Round by round: the resident CTAs that can run go through ``run_ctas`` on threads (which hold no
interpreter lock there); then the sites at which warps stopped are executed, each for all
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
from mmalab.emulator.memory import FIRST_BUFFER_TAG, RANK_SHIFT, aligned_zeros
from mmalab.emulator.native.abi import CONSTANT, Context
from mmalab.emulator.native.arrivals import Arrivals
from mmalab.emulator.native.counting import add_traffic
from mmalab.emulator.native.generate import cta_specials, warp_specials
from mmalab.emulator.native.threaded import ThreadedCode
from mmalab.emulator.state import Status, all_lanes, any_lane, unpack
from mmalab.emulator.warpgroups import WARPS
from mmalab.errors import LimitExceeded

__all__ = ["ThreadedScheduler"]

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32
)
_FUEL = 200_000
#: Turns of warps that a call of run_cta has fuel for, and a turn's fuel while nothing moves, and
#: at the least while others need Python.
_TURNS, _SHORT, _SHORTEST = 4, 1024, 64
#: How much longer a turn is than the one before, where something moves without Python.
_LONGER = 4
#: Turns after which every group of lanes of a warp had its own.
_ROTATION = 34
_STOPS_TO_YIELD = 16
#: Rounds through Python: when to look whether anything changes, and when to give up.
_LOOK_EVERY, _MAX_TURNS = 4096, 1 << 23
#: What a round costs beside the instruction itself, in NumPy operations.
_ROUND_WORK = 3
#: Rounds for which a warp at a wgmma waits for the rest of its warpgroup.
_HOLD = 8
#: Rounds after which parked warps get another try.
_RETRY = 4
_BARRIERS = frozenset({"bar.sync", "bar.arrive", "bar.red"})


class ThreadedScheduler(Interpreter):
    """Runs a machine to its end, with compiled primitives for the forms that have them."""

    least_work = 1 << 19

    def __init__(self, machine: Machine, code: ThreadedCode, *, max_steps: int | None = None,
                 threads: int | None = None, fuel: int = _FUEL) -> None:
        super().__init__(machine, max_steps=max_steps)
        self.code = code
        # a small budget is looked at often enough to be kept
        self.fuel = max(1, min(fuel, self.max_steps // 8))
        self.threads = threads or len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._callback = _CALLBACK(self._execute_one)
        sites = len(machine.program.sites)
        #: Which sites are wgmma; at -1, where warps stand at none, one more.
        self._is_product = np.zeros(sites + 2, bool)
        self._is_product[code.products] = True
        self._runs = np.zeros((self.threads, sites + 1), np.int64)
        self._sites = np.zeros((self.threads, sites + 1, 4), np.int64)

    def run(self) -> None:
        """All CTAs, one window after the other."""
        try:
            super().run()
        finally:
            del self._callback  # it refers to the scheduler, whose arrays would stay for long

    # --- one window ---------------------------------------------------------------------------

    def _run_window(self) -> None:
        machine, state = self.machine, self.machine.state
        self._idle = Idle()
        self._slice = max(1, self.fuel // _TURNS)
        self._calm, self._seen_version = 0, machine.version
        self._held = np.zeros(state.rows, np.int64)
        self._stopped = np.zeros(state.rows, np.int64)
        self._prepare()
        with ThreadPoolExecutor(self.threads) as pool:
            while not machine.stopped:
                self._run_ctas(pool)
                if self._error is not None:
                    raise self._error
                self._check_budget()
                if machine.stopped or self._stops():
                    if machine.deadlock:
                        break
                    self._shorten()
                    continue
                if (state.status == Status.RUNNING).any():
                    if self._spins():
                        break
                elif (state.status == Status.EXITED).all() or not self._settle():
                    break
        self._collect()

    def _prepare(self) -> None:
        """Context blocks of the resident CTAs, and the arrays that they point to."""
        machine, state, space = self.machine, self.machine.state, self.machine.space
        shape, c = machine.shape, Context
        self._avoid = aligned_zeros((state.rows,), np.int32)
        self._standing = aligned_zeros((state.rows,), np.int32)
        self._standing[:] = -1
        self._ended = state.status == Status.EXITED
        tid, table = _aligned(warp_specials(shape)), space.host_table()
        for tag, buffer in enumerate(space.buffers, FIRST_BUFFER_TAG):
            if buffer.space == "const":
                table.writable[tag] = CONSTANT
        specials = _aligned(cta_specials(shape, state.ctas))
        self._keep = (tid, table, specials)
        fixed: dict[Context, NDArray[Any]] = {
            c.CODE: self.code.records, c.R: state.r, c.Q: state.q, c.P: state.p, c.PC: state.pc,
            c.STATUS: state.status, c.AVOID: self._avoid, c.STANDING: self._standing,
            c.CONSTANTS: self.code.constants, c.TID: tid, c.TAGS: table.pointers,
            c.TAG_BYTES: table.sizes, c.TAG_WRITABLE: table.writable, c.LOCAL: space.local.data,
            c.PARAMS: space.params.data,
        }
        numbers = {
            c.R_STRIDE: 128 * state.r.shape[1], c.Q_STRIDE: 256 * state.q.shape[1],
            c.P_STRIDE: 4 * state.p.shape[1], c.SHARED_START: space.shared_start,
            c.SHARED_BYTES: space.shared_bytes, c.TAG_COUNT: len(table.sizes),
            c.LOCAL_STRIDE: space.local_stride, c.LOCAL_BYTES: space.local_bytes,
            c.PARAM_BYTES: space.params.data.size, c.WARPS: shape.warps,
            c.CALLBACK: ctypes.cast(self._callback, ctypes.c_void_p).value or 0,
        }
        words = np.zeros((len(state.ctas), int(c.WORDS)), np.int64)
        for word, array in fixed.items():
            words[:, word] = _pointer(array)
        for word, number in numbers.items():
            words[:, word] = number
        rows = np.arange(len(state.ctas))
        words[:, c.FIRST_ROW] = rows * shape.warps
        rank = rows % space.cluster_size << RANK_SHIFT
        words[:, c.RANK] = rank
        words[:, c.SHARED] = _pointer(space.shared.data) + rows * space.shared_stride - rank
        words[:, c.SHARED_START] += rank
        words[:, c.SHARED_BYTES] += rank
        words[:, c.SPECIALS] = _pointer(specials) + rows * specials[0].nbytes
        words[:, c.PATIENT] = 1
        self._arrivals = Arrivals(machine) if Arrivals.wanted(machine.program) else None
        if self._arrivals is not None:
            words[:, c.LOG] = self._arrivals.pointers
        self._extra_context(words)
        self._words = words

    # --- compiled code ------------------------------------------------------------------------

    def _run_ctas(self, pool: ThreadPoolExecutor) -> None:
        """Run every CTA that has a warp to run."""
        state, warps = self.machine.state, self.machine.shape.warps
        able = any_lane(state.status == Status.RUNNING) & (self._standing < 0)
        todo = np.nonzero(able.reshape(-1, warps).any(axis=1))[0].astype(np.int64)
        if not len(todo):
            return
        words, workers = self._words, min(self.threads, len(todo))
        words[todo, Context.FUEL], words[todo, Context.SLICE] = _TURNS * self._slice, self._slice
        following = np.zeros(1, np.int64)

        def work(thread: int) -> None:
            self.code.run_ctas(_pointer(words), words[0].nbytes, _pointer(todo), len(todo),
                               _pointer(following), _pointer(self._runs[thread]),
                               _pointer(self._sites[thread]))

        if workers == 1:
            work(0)
        else:
            list(pool.map(work, range(workers)))
        versions = self._words[:, Context.VERSION]
        self.machine.version += int(versions.sum())
        versions[:] = 0
        if self._arrivals is not None:
            self._arrivals.tell()
        self._tell_ended()

    def _extra_context(self, words: NDArray[np.int64]) -> None:
        """For subclasses: more words of the context blocks."""

    def _tell_ended(self) -> None:
        """Barriers and collectives that wait for lanes which have ended look again."""
        machine, state = self.machine, self.machine.state
        ended = state.status == Status.EXITED
        fresh = any_lane(ended & ~self._ended)
        self._ended = ended
        if not fresh.any():
            return
        rows = np.nonzero(fresh)[0]
        gathering = state.status[rows] == Status.GATHERING
        if gathering.any() or machine.barriers.pending():
            machine.end(rows, np.zeros((len(rows), 32), bool))

    def _execute_one(self, _user: int, site: int, row: int, lanes: int) -> int:
        """The executor of one site for one warp, called from compiled code."""
        machine = self.machine
        try:
            with self._lock:
                if machine.stopped or self._error is not None:
                    return 1
                mask = unpack(np.array([lanes & 0xFFFFFFFF], np.uint32))
                machine.execute(machine.program.sites[site], np.array([row]), mask)
                machine.counts[site] -= 1  # compiled code has counted it
                machine.instructions -= 1
                self.check_budget(machine.instructions)
                return int(machine.stopped)
        except BaseException as error:  # noqa: BLE001 - must not unwind through compiled frames
            self._error = error
            return 1

    # --- what the machine does ----------------------------------------------------------------

    def _stops(self) -> bool:
        """Execute the sites at which warps stand; whether there were any."""
        machine, state = self.machine, self.machine.state
        able = any_lane(state.status == Status.RUNNING) & (self._standing >= 0)
        if not able.any():
            return False
        able = self._without_early(able)
        for site in np.unique(self._standing[able]).tolist():
            rows = np.nonzero(able & (self._standing == site))[0]
            self._standing[rows] = -1
            if site >= len(machine.program.sites):
                self._fall_off(state.pc >= site)
                continue
            standing = (state.pc[rows] == site) & (state.status[rows] <= Status.GATHERING)
            if machine.program.sites[site].form.family in _BARRIERS:
                self._hand_over()
            self._before_step(site, rows, standing)
            machine.step(site, rows, standing)
            machine.engine.tick()
            # a lane that spins through stops must let the lanes above it run too
            self._stopped[rows] += 1
            spun = rows[self._stopped[rows] >= _STOPS_TO_YIELD]
            self._avoid[spun], self._stopped[spun] = site + 1, 0
            if machine.stopped:
                break
        self._ended = state.status == Status.EXITED
        self._check_turns()
        # what is parked may have come about long before nobody else can run
        if self._turns % _RETRY == 0:
            self._unpark(only_if_moved=True)
        return True

    def _before_step(self, site: int, rows: NDArray[np.int64],
                     standing: NDArray[np.bool_]) -> None:
        """For subclasses: the machine is about to execute a site for the lanes `standing`."""

    def _without_early(self, able: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Warps that stand at a wgmma before their siblings do wait for them, for a few rounds: a
        whole warpgroup is executed at once."""
        if not self._is_product.any() or self.machine.shape.warps % WARPS:
            return able
        at = np.where(able & self._is_product[self._standing], self._standing, -1)
        groups = at.reshape(-1, WARPS)
        early = ((groups != groups[:, :1]).any(axis=1)[:, None] & (groups >= 0)).reshape(-1)
        early &= self._held < _HOLD
        self._held = np.where(early, self._held + 1, 0)
        return np.asarray(able & ~early)

    def _check_turns(self) -> None:
        """Loops through stops are cut short by their number, or because nothing changes."""
        machine = self.machine
        self._turns += 1
        machine.work += _ROUND_WORK
        if self._turns > _MAX_TURNS:
            raise LimitExceeded(f"{self._turns} turns through Python",
                                f"the limit of a run is {_MAX_TURNS}")
        if self._turns % _LOOK_EVERY == 0 and self._idle.repeats(machine):
            machine.deadlock = explain_deadlock(machine, spinning=True)

    def _hand_over(self) -> bool:
        """Warps that compiled code holds at barrier 0 arrive again, at the machine's barrier."""
        machine, state = self.machine, self.machine.state
        held = all_lanes(state.status == Status.BARRIER) & (self._standing >= 0)
        if not held.any():
            return False
        for site in np.unique(self._standing[held]).tolist():
            rows = np.nonzero(held & (self._standing == site))[0]
            self._standing[rows] = -1
            state.status[rows] = Status.RUNNING
            state.pc[rows] = site
            machine.counts[site] -= len(rows)  # compiled code has counted it
            machine.instructions -= len(rows)
            machine.step(site, rows, np.ones((len(rows), 32), bool))
        return True

    def _settle(self) -> bool:
        """Nobody runs: barriers with absent warps, parked waits, copies, deadlock."""
        return self._hand_over() or self._wake()

    def _shorten(self) -> None:
        """Some warps need Python while others run on: these may wait for them, so the next round is
        a shorter one, until a round needs Python for nothing."""
        state = self.machine.state
        if (any_lane(state.status == Status.RUNNING) & (self._standing < 0)).any():
            self._slice = min(self._slice, max(_SHORTEST, self._slice // 2))

    def _spins(self) -> bool:
        """Out of fuel: a long loop, or one that waits for ever.

        Nobody may be called stuck before all groups of lanes of all warps, 32 at most, had a turn.
        """
        machine = self.machine
        self._unpark(only_if_moved=True)
        # The last: a barrier of which compiled code holds some warps and the machine the others.
        moved = (machine.engine.drain_each() or machine.version != self._seen_version
                 or self._hand_over())
        self._seen_version = machine.version
        self._calm = 0 if moved else self._calm + 1
        # Where nothing moves the machine looks at the waits: it parks, and finds deadlocks.
        self._words[:, Context.PATIENT] = moved
        longer = _SHORT if self._calm else _LONGER * self._slice
        self._slice = max(1, min(self.fuel // _TURNS, longer))
        if self._calm % _ROTATION != _ROTATION - 1 or not self._idle.repeats(machine):
            return False
        machine.deadlock = explain_deadlock(machine, spinning=True)
        return True

    def _check_budget(self) -> None:
        self.check_budget(self.machine.instructions + int(self._runs.sum()))

    def _collect(self) -> None:
        """Add what compiled code counted to the machine's counts."""
        machine = self.machine
        runs = self._runs.sum(axis=0)[:-1]
        machine.counts += runs
        machine.native_sites += runs
        machine.instructions += int(runs.sum())
        machine.counters["barrier.waits"] += int(self._words[:, Context.BARRIER_WAITS].sum())
        add_traffic(machine, runs, self._sites.sum(axis=0)[:-1])
        self._runs[:] = 0
        self._sites[:] = 0


def _pointer(array: NDArray[Any]) -> int:
    return int(array.ctypes.data) if array.size else 0


def _aligned(array: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A copy that vector loads may assume to start at a multiple of 64."""
    copy: NDArray[np.uint32] = aligned_zeros(array.shape, np.uint32)
    copy[...] = array
    return copy
