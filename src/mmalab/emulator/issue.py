"""One lane that issues an asynchronous operation: its operands, the places that it names.

What the instruction's rules forbid raises :class:`Illegal`; :func:`each_lane` makes a finding of
it, and so does every step of the operation, however late it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.async_engine import Queue, Task
from mmalab.emulator.events import Async, Signal, Span
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import (
    OFFSET_MASK,
    PARAM_TAG,
    RANK_SHIFT,
    SHARED_TAG,
    TAG_SHIFT,
    Extent,
)
from mmalab.emulator.program import Addr, Unused
from mmalab.errors import MmalabError

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Illegal", "Issue", "Operands", "each_lane", "told"]

Step = Callable[[], None]


class Illegal(Exception):
    """What a lane does is against the rules: the finding's code and words."""

    def __init__(self, code: str, given: str, rule: str, *, legal: str = "", where: str = "",
                 ) -> None:
        super().__init__(given)
        self.code, self.message = code, _words(given, rule, legal, where)


def _words(given: str, rule: str, legal: str, where: str) -> str:
    rest = "; ".join(part for part in (f"legal: {legal}" if legal else "",
                                       f"see: {where}" if where else "") if part)
    return f"{given}: {rule}" + (f" ({rest})" if rest else "")


def told(error: MmalabError, code: str = "illegal-value") -> Illegal:
    """The same four parts as a finding."""
    return Illegal(code, error.given, error.rule, legal=", ".join(error.legal), where=error.where)


class Operands:
    """The operands of one instruction by name, each read once for all lanes."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self._index = {spec.name: i for i, spec in enumerate(lanes.site.form.operands)}
        self._known: dict[str, NDArray[Any]] = {}

    def has(self, name: str) -> bool:
        """Whether the operand is there."""
        index = self._index.get(name)
        return index is not None and index < len(self.lanes.operands) and not isinstance(
            self.lanes.operands[index], Unused)

    def index(self, name: str) -> int:
        """The place of an operand that is there."""
        return self._index[name]

    def words(self, name: str) -> NDArray[Any]:
        """[warps, 32] words of a value, or addresses of an [address]."""
        found = self._known.get(name)
        if found is None:
            index = self._index[name]
            is_address = self.lanes.site.form.operands[index].role == "address"
            found = self.lanes.address(index) if is_address else self.lanes.read(index)
            self._known[name] = found
        return found

    @cached_property
    def coordinates(self) -> list[NDArray[Any]]:
        """The signed coordinates behind a tensor map's address."""
        op = self.lanes.operands[self._index["map"]]
        given = op.coordinates if isinstance(op, Addr) else ()
        return [self.lanes.value(c, "s32").view(np.int32) for c in given]

    @cached_property
    def offsets(self) -> list[NDArray[Any]]:
        """The im2col offsets."""
        return self.lanes.read_all(self._index["offsets"]) if self.has("offsets") else []


class Issue:
    """One lane of an instruction."""

    def __init__(self, operands: Operands, position: int, lane: int) -> None:
        lanes = operands.lanes
        self.operands, self._at = operands, (position, lane)
        self.machine: Machine = lanes.machine
        self.site, self.row, self.lane = lanes.site, int(lanes.rows[position]), lane
        self.spans: list[Span] = []
        self.signals: list[Signal] = []
        #: Where the words of the mbarriers lie that the operation tells.
        self._told: list[int] = []

    # --- operands -----------------------------------------------------------------------------

    def word(self, name: str) -> int:
        """The value of an operand, or an address."""
        return int(self.operands.words(name)[self._at])

    def vector(self, name: str) -> list[np.generic]:
        """The words of a ``{...}`` operand (one for a bare operand)."""
        words = self.operands.lanes.read_all(self.operands.index(name))
        return [word[self._at] for word in words]

    def generic(self, name: str) -> int:
        """The generic address of an [address] operand of a tensor map."""
        index = self.operands.index(name)
        op, space = self.operands.lanes.operands[index], self.modifiers.get("space", "")
        if isinstance(op, Addr) and op.base is None and op.space in ("param", "shared"):
            space = op.space
        elif self.site.form.family != "prefetch":
            space = ""
        tag = {"param": PARAM_TAG, "shared": SHARED_TAG}.get(space, 0)
        return self.word(name) | tag << TAG_SHIFT

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The coordinates of this lane."""
        return tuple(int(c[self._at]) for c in self.operands.coordinates)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The im2col offsets of this lane."""
        return tuple(int(o[self._at]) for o in self.operands.offsets)

    @property
    def modifiers(self) -> Any:
        """The modifiers of the spelling."""
        return self.site.form.modifiers

    @property
    def name(self) -> str:
        """The instruction's family, as findings call it."""
        return self.site.form.family

    # --- places -------------------------------------------------------------------------------

    def in_cluster(self, name: str) -> int:
        """An [address] operand in the cluster's shared memory; a generic one where the spelling
        names no space.

        Raises:
            Illegal: a generic address of something else.
        """
        address = self.word(name)
        if "space" in self.modifiers:
            return address
        if address >> TAG_SHIFT != SHARED_TAG:
            place = self.machine.space.describe(address)
            raise Illegal("illegal-value", f"[{name}] at {place}", "the spelling names no space,"
                          " and the address is not in the shared memory of the cluster",
                          legal="a generic address as mapa.u64 gives it, or .shared::cluster",
                          where=f"PTX ISA, {self.name}")
        return address & OFFSET_MASK

    @property
    def cta(self) -> int:
        """The CTA's place among the resident ones."""
        return self.row // self.machine.shape.warps

    @property
    def first_cta(self) -> int:
        """The place of the cluster's first CTA."""
        size = self.machine.space.cluster_size
        return self.cta // size * size

    def owner(self, cta: int) -> int:
        """The linear number of a resident CTA."""
        return int(self.machine.state.ctas[cta])

    def shared(self, address: int, size: int, what: str, *, align: int) -> Extent:
        """`size` bytes of shared memory of the cluster.

        Raises:
            Illegal: misaligned, or not within one CTA's shared memory.
        """
        if address % align:
            raise Illegal("misaligned-access", f"{what} at {address:#x}",
                          f"is not {align}-byte aligned", legal=f"a multiple of {align}",
                          where=f"PTX ISA, {self.name}")
        found = self.machine.space.extent("shared", address, self.row)
        if found is None or found.at < found.low or found.at + size > found.high:
            raise self.outside(what, address, size, "shared memory of a CTA of the cluster")
        self._keep_within(found, size, what)
        return found

    def _keep_within(self, extent: Extent, size: int, what: str) -> None:
        """Warn of bytes that begin in one shared variable and run into the next."""
        if not self.machine.sanitize:
            return
        low = self.offset(extent)
        touched = [(name, start, room) for name, start, room in
                   self.machine.program.shared_variables
                   if start < low + size and low < start + room]
        if len(touched) > 1:
            (name, start, room), (after, *_) = touched[0], touched[1]
            rest = start + room - low
            self.warn(f"{what} of {size} bytes at {name}+{low - start}", f"the variable has {rest} "
                      f"bytes from there, and the others lie in {after}",
                      legal=f"{rest} bytes, or a variable of {low - start + size}",
                      code="out-of-bounds")

    def shared_cta(self, extent: Extent) -> int:
        """The resident CTA that owns a place in shared memory."""
        return extent.at // self.machine.space.shared_stride

    def offset(self, extent: Extent) -> int:
        """The CTA-relative offset of a place in shared memory."""
        return extent.at % self.machine.space.shared_stride

    def outside(self, what: str, address: int, size: int, room: str) -> Illegal:
        """The error for bytes that are nobody's."""
        return Illegal("out-of-bounds", f"{what} of {size} bytes at {address:#x}",
                       f"leaves the {room}", where=f"PTX ISA, {self.name}")

    def in_global(self, address: int, size: int, what: str, *, write: bool,
                  skipped: int = 0) -> Extent:
        """`size` bytes of one global buffer, behind `skipped` ones from a 16-byte aligned address.

        Raises:
            Illegal: misaligned, out of bounds, or not writable.
        """
        if address % 16:
            raise Illegal("misaligned-access", f"{what} at {address:#x}",
                          "is not 16-byte aligned", legal="a multiple of 16",
                          where=f"PTX ISA, {self.name}")
        found = self.machine.space.extent("global", address + skipped, self.row)
        if found is None or found.at + size > found.high:
            place = self.machine.space.describe(address)
            raise Illegal("out-of-bounds", f"{what} of {size} bytes at {place}",
                          "is outside every buffer it may touch", where=f"PTX ISA, {self.name}")
        if write and not found.region.writable:
            raise Illegal("read-only-write", f"{what} of {size} bytes at"
                          f" {self.machine.space.describe(address)}", "is read-only memory")
        return found

    # --- completion ---------------------------------------------------------------------------

    def signal(self, barrier: Extent, count: int, spans: tuple[int, ...]) -> Step:
        """Announce bytes to an mbarrier; the step that delivers them."""
        mbarriers, index = self.machine.mbarriers, barrier.at
        self._told.append(index)
        self.signals.append(Signal(
            self.owner(self.shared_cta(barrier)), self.offset(barrier),
            mbarriers.phases.get(index, -1), count, spans))
        return lambda: mbarriers.deliver(self.site, self.row, self.lane, index, count)

    def mark_written(self, extent: Extent, places: NDArray[np.int64] | slice) -> None:
        """Bytes on their way are not uninitialised: reading them too early is another fault."""
        if extent.region.written is not None:
            extent.region.written[places] = True

    def check_written(self, extent: Extent, places: NDArray[np.int64] | slice, what: str) -> None:
        """Report bytes that nobody has written."""
        written = extent.region.written
        if written is None or not self.machine.sanitize:
            return
        if not written[places].all():
            self.report("uninitialised-read", f"{what} reads shared memory that was never written"
                        f" before ({self.site.shown})", fatal=False)

    def launch(self, queue: str, steps: list[Step]) -> None:
        """Queue the steps as one task, after telling the listeners."""
        machine = self.machine
        if machine.observed:
            cta, warp = machine.state.where(self.row)
            machine.emit(Async(cta, warp, self.site.index, self.lane, tuple(self.spans),
                               tuple(self.signals)))
        key: Queue = (queue, self.row, self.lane)
        if machine.traffic is not None:
            machine.traffic.operation(self.row, self.spans)
        machine.work += 1
        machine.engine.issue_task(Task(self.row, self.site, key, machine.engine.open_group(key),
                                       [self._guarded(step) for step in steps],
                                       tuple(self._told)))

    def _guarded(self, step: Step) -> Step:
        def run() -> None:
            if self.machine.stopped:
                return
            try:
                step()
            except Illegal as wrong:
                self.report(wrong.code, wrong.message)
        return run

    def report(self, code: str, message: str, *, fatal: bool = True) -> None:
        """A finding of this lane."""
        self.machine.report(code, message, site=self.site, row=self.row, lane=self.lane,
                            fatal=fatal)

    def warn(self, given: str, rule: str, *, legal: str, code: str = "illegal-value") -> None:
        """A finding about what the manual leaves undefined and the chip may well do."""
        self.machine.report(code, _words(given, rule, legal, f"PTX ISA, {self.name}"),
                            site=self.site, row=self.row, lane=self.lane, severity="warning")


def each_lane(lanes: Lanes, action: Callable[[Issue], None]) -> None:
    """Let every lane issue, in order; what is illegal ends the run with a finding."""
    operands = Operands(lanes)
    for position, lane in np.argwhere(lanes.mask).tolist():
        issue = Issue(operands, position, lane)
        try:
            action(issue)
        except Illegal as wrong:
            issue.report(wrong.code, wrong.message)
        if lanes.machine.stopped:
            return


def with_rank(address: int, rank: int) -> int:
    """The same offset in another CTA of the cluster."""
    return address & (1 << RANK_SHIFT) - 1 | rank << RANK_SHIFT
