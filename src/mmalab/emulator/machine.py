"""The machine: memory, warps, barriers and asynchronous copies of one launch, one site at a time.

:meth:`Machine.step` lets some warps execute one instruction; who steps when is a scheduler's
business (:mod:`mmalab.emulator.interpret`, or compiled code that comes here for what it has no code
for). What the kernel does wrong becomes a finding; faults of memory and traps end the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.async_engine import AsyncEngine
from mmalab.emulator.barriers import CtaBarriers
from mmalab.emulator.call_stack import CallStack
from mmalab.emulator.clusters import ClusterBarriers
from mmalab.emulator.convergence import Convergence
from mmalab.emulator.events import Event, Listener, Registers
from mmalab.emulator.execute import EXECUTORS
from mmalab.emulator.gather import Gatherer
from mmalab.emulator.global_traffic import GlobalTraffic
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.mbarriers import Mbarriers
from mmalab.emulator.memory import RANK_SHIFT, AddressSpace, Fault
from mmalab.emulator.program import SHARED_START, Program, Reg, Site
from mmalab.emulator.refusals import refusal
from mmalab.emulator.register_pool import RegisterPool
from mmalab.emulator.specials import SpecialRegisters
from mmalab.emulator.state import LaunchShape, State, Status, pack, unpack
from mmalab.emulator.warpgroups import Warpgroups
from mmalab.emulator.watched import watched_sites
from mmalab.findings import Finding, Severity, Where

__all__ = ["Machine"]

_FATAL = frozenset({"out-of-bounds", "misaligned-access", "read-only-write"})
_MEANING = {
    "out-of-bounds": "outside every buffer it may touch",
    "misaligned-access": "not a multiple of the access size",
    "read-only-write": "read-only memory",
    "uninitialised-read": "never written before",
}


class Machine:
    """One launch. Call :meth:`begin` for each set of CTAs that are resident together."""

    def __init__(self, program: Program, shape: LaunchShape, space: AddressSpace, *,
                 target: str = "", numerics: str = "exact", schedule: str | int = "eager",
                 sanitize: bool = True, listeners: Sequence[Listener] = ()) -> None:
        self.program, self.shape, self.space = program, shape, space
        self.numerics, self.schedule, self.sanitize = numerics, schedule, sanitize
        #: Whose arithmetic the matrix instructions have.
        self.target = target or program.target
        self.listeners = list(listeners)
        #: Where accesses to global memory are noted, if anybody wants to know of them.
        self.traffic: GlobalTraffic | None = None
        self.findings: dict[tuple[str, int], Finding] = {}
        self.times: Counter[tuple[str, int]] = Counter()
        self.counts = np.zeros(len(program.sites), np.int64)
        #: How often compiled code, not this machine, executed each site.
        self.native_sites = np.zeros(len(program.sites), np.int64)
        self.counters: Counter[str] = Counter()
        #: Moves with everything that another warp may wait for.
        self.version = 0
        self.stopped = False
        self.instructions = 0
        #: NumPy operations so far: what a run costs that compiled code does not.
        self.work = 0
        self.deadlock: dict[str, Any] | None = None
        self.printed: list[str] = []
        self.rng = np.random.default_rng(schedule if isinstance(schedule, int) else 0)
        self._watched = watched_sites(program) if listeners else {}

    def begin(self, ctas: NDArray[np.int64]) -> None:
        """Make the CTAs with these linear numbers resident, at the kernel's first instruction."""
        program, shape = self.program, self.shape
        end = max(program.dynamic_offset, SHARED_START) + shape.dynamic_shared
        self.space.resize(len(ctas), shape.warps, shared=end, shared_start=SHARED_START,
                          local=program.local_bytes, track=self.sanitize)
        self.space.cluster_size = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
        self.state = State(program, shape, ctas)
        self.specials = SpecialRegisters(self)
        self.gatherer = Gatherer(self)
        self.barriers = CtaBarriers(self)
        self.cluster_barriers = ClusterBarriers(self)
        self.engine = AsyncEngine(self)
        self.mbarriers = Mbarriers(self)
        self.warpgroups = Warpgroups(self)
        self.registers = RegisterPool(self)
        self.call_stack = CallStack(self)
        self.convergence = Convergence(self)
        #: row -> what its parked lanes wait for.
        self.waits: dict[int, dict[str, Any]] = {}

    def release(self) -> None:
        """The launch is over: give back what the CTAs had. The parts of a machine refer to each
        other, so the collector of garbage would come to it late."""
        if hasattr(self, "state"):
            del self.state
        self.space.release()

    # --- execution ----------------------------------------------------------------------------

    def step(self, index: int, rows: NDArray[np.int64], standing: NDArray[np.bool_], *,
             force: bool = False) -> None:
        """Execute site `index` for the lanes `standing` [warps, 32] of the warps `rows`.

        Their pc moves on (or to the branch's target); lanes that must wait for others of their
        warp stay. `force` runs a collective although lanes are missing.
        """
        state, site = self.state, self.program.sites[index]
        mask = self.guarded(site, rows, standing)
        pc = state.pc[rows]
        state.pc[rows] = np.where(standing, np.int32(index + 1), pc)
        if self.gatherer.collects(site):
            mask = self.gatherer.gather(site, rows, standing, mask, force=force)
        if self.observed and mask.any():
            self.convergence.before(index, rows, mask)
        self.execute(site, rows, mask)
        if self.observed:
            self.convergence.after(index, rows, standing)

    def guarded(self, site: Site, rows: NDArray[np.int64],
                standing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The standing lanes whose guard lets them execute."""
        if site.guard is None:
            return standing
        slot, negated = site.guard
        self._check_guard(site, rows, standing, slot)
        return standing & (unpack(self.state.p[rows, slot]) ^ negated)

    def _check_guard(self, site: Site, rows: NDArray[np.int64], standing: NDArray[np.bool_],
                     slot: int) -> None:
        defined = self.state.defined.get(("p", slot))
        if defined is not None and (standing & ~unpack(defined[rows])).any():
            lanes = Lanes(self, site, rows, standing)
            self.report_undefined(lanes, Reg("p", slot, 1), standing & ~unpack(defined[rows]))

    def execute(self, site: Site, rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        """Run the executor for exactly these lanes; no guard, no gathering, no pc."""
        self.counts[site.index] += len(rows)
        self.instructions += len(rows)
        self.work += 1
        if not mask.any():
            return
        executor = EXECUTORS.get(site.form.family)
        if executor is None:
            raise refusal(site.form.key, f"line {site.line} of the PTX text")
        if self._watched and self.observed and site.index in self._watched:
            self._tell_registers(site, rows, mask)
        executor(Lanes(self, site, rows, mask))

    def _tell_registers(self, site: Site, rows: NDArray[np.int64],
                        mask: NDArray[np.bool_]) -> None:
        """An instruction touches registers that some wgmma names."""
        reads, writes = self._watched[site.index]
        for position, row in enumerate(rows.tolist()):
            if lanes := int(pack(mask[position])):
                cta, warp = self.state.where(row)
                self.emit(Registers(cta, warp, site.index, lanes, reads, writes))

    def special(self, name: str) -> NDArray[Any]:
        """[rows, 32] words of a special register."""
        return self.specials.read(name)

    def end(self, rows: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        """The lanes end; barriers and collectives that waited for them look again."""
        status = self.state.status
        status[rows] = np.where(mask, np.uint8(Status.EXITED), status[rows])
        again = status[rows] == Status.GATHERING
        status[rows] = np.where(again, np.uint8(Status.RUNNING), status[rows])
        self.version += 1
        self.barriers.after_exit(rows)
        self.cluster_barriers.after_exit(rows)

    def park(self, row: int, lanes: NDArray[np.bool_], waits_for: dict[str, Any]) -> None:
        """A wait of `lanes` [32] came back false: they go on after others had their turn."""
        self.state.status[row][lanes] = Status.PARKED
        self.waits[row] = {"version": self.version, **waits_for}

    # --- reporting ----------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Tell all listeners; the access that ended the run is told as a finding only."""
        if self.stopped:
            return
        for listener in self.listeners:
            listener.on(event)

    @property
    def observed(self) -> bool:
        """Whether anybody listens; events need not be built otherwise."""
        return bool(self.listeners)

    def where(self, row: int | None, lane: int | None, site: Site | None) -> Where:
        """A place in words that findings use."""
        line = site.line if site else None
        if row is None:
            return Where(line=line)
        cta, warp = self.state.where(row)
        return Where(self.shape.cta_coordinates(cta), warp, lane, line)

    def report(self, code: str, message: str, *, site: Site | None, row: int | None = None,
               lane: int | None = None, severity: Severity = "error",
               witness: dict[str, Any] | None = None, fatal: bool = False) -> None:
        """Add a finding, once per code and site; `fatal` ends the run."""
        key = (code, site.index if site else -1)
        self.times[key] += 1
        if key not in self.findings:
            self.findings[key] = Finding(code, severity, message, self.where(row, lane, site),
                                         witness)
        self.stopped |= fatal

    def report_faults(self, lanes: Lanes, faults: list[Fault], what: str) -> None:
        """Memory faults of one instruction as findings."""
        for fault in faults:
            if fault.kind == "uninitialised-read" and not self.sanitize:
                continue
            position, lane = (int(i[0]) for i in np.nonzero(fault.lanes))
            row, address = int(lanes.rows[position]), int(fault.addresses[position, lane])
            space = fault.space.partition("::")[0]
            place = (f"{space} address {address:#x}" if space in ("shared", "local", "param")
                     else self.space.describe(address))
            self.report(
                fault.kind,
                f"{what} of {fault.size} bytes at {place}: {self._meaning(fault, address, row)}"
                f" ({lanes.site.shown})",
                site=lanes.site, row=row, lane=lane, fatal=fault.kind in _FATAL,
                witness={"address": address, "size": fault.size, "space": fault.space,
                         "lanes": int(pack(fault.lanes[position]))})

    def _meaning(self, fault: Fault, address: int, row: int) -> str:
        """The rule in words; addresses of the cluster need the instruction's wider form."""
        size, rank = self.space.cluster_size, address >> RANK_SHIFT
        if (fault.kind == "out-of-bounds" and fault.space in ("shared", "shared::cta")
                and rank < size and rank != row // self.shape.warps % size):
            return (f"in the shared memory of the cluster's CTA {rank}, which only"
                    " .shared::cluster and generic addresses reach")
        return _MEANING[fault.kind]

    def report_undefined(self, lanes: Lanes, op: Reg, stale: NDArray[np.bool_]) -> None:
        """A register was read before anything was written to it."""
        if not self.sanitize:
            return
        position, lane = (int(i[0]) for i in np.nonzero(stale))
        name = self.program.maybe_undefined.get((op.file, op.slot), op.name)
        self.report("uninitialised-read", f"register {name} is read before it was written"
                    f" ({lanes.site.shown})", site=lanes.site, severity="warning",
                    row=int(lanes.rows[position]), lane=lane,
                    witness={"register": name, "lanes": int(pack(stale[position]))})
