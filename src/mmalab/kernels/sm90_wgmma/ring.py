"""The ring of stages and its mbarriers: who waits for whom.

``full[s]`` completes when the bytes of stage s have arrived, ``empty[s]`` when every group of every
CTA that reads the stage (or a multicast copy of it) has released it. A pass over the ring is a
phase; who fills waits for the phase before, so a fresh barrier lets the first pass through.

    fill:      wait empty[s], parity ^ 1;  expect bytes on full[s];  copy
    multiply:  wait full[s], parity;       wgmma;                    arrive on empty[s]

Where threads change what has arrived (see `shift`) they stand between the two::

    shift:     wait full[s], parity;       move bytes;               arrive on ready[s]
    multiply:  wait ready[s], parity;      ...
"""

from __future__ import annotations

from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Barriers", "Cursor", "Turns", "wait"]

#: Warps of a group.
_WARPS = 4


def wait(b: KernelBuilder, address: Register, parity: Register | int, offset: int = 0) -> None:
    """Until the phase of this parity is complete."""
    again, behind = b.label("wait"), b.label("ready")
    done = b.reg("pred")
    b.place(again)
    b.emit("mbarrier.try_wait.parity.shared::cta.b64", done, b.at(address, offset), parity)
    b.branch(behind, done)
    b.branch(again)
    b.place(behind)


class Barriers:
    """``full`` and ``empty`` of every stage, behind each other from `base` on."""

    def __init__(self, b: KernelBuilder, stages: int, base: Register, groups: int = 0) -> None:
        """`groups`: how many own tiles in turn, and hand over through a barrier each."""
        self.b, self.stages, self.base, self.groups = b, stages, base, groups
        self.empty_at = 8 * stages
        self.turns_at = 16 * stages
        #: Where others work on a stage between those that fill and those that multiply.
        self.ready_at = self.turns_at + 8 * groups

    def start(self, full: int, empty: int, ready: int = 0) -> None:
        """Initialise, with the arrivals that complete a phase (one thread); `ready` 0: no such."""
        b, fresh = self.b, "mbarrier.init.shared::cta.b64"
        for stage in range(self.stages):
            b.emit(fresh, b.at(self.base, 8 * stage), full)
            b.emit(fresh, b.at(self.base, self.empty_at + 8 * stage), empty)
        for group in range(self.groups):
            b.emit(fresh, b.at(self.base, self.turns_at + 8 * group), _WARPS)
        for stage in range(self.stages if ready else 0):
            b.emit(fresh, b.at(self.base, self.ready_at + 8 * stage), ready)


class Cursor:
    """A role's place in the ring: stage and parity, in registers."""

    def __init__(self, b: KernelBuilder, barriers: Barriers) -> None:
        self.b, self.barriers = b, barriers
        self.stages = barriers.stages
        self.stage, self.parity = b.mov("u32", 0), b.mov("u32", 0)

    def full(self) -> Register:
        """The address of the stage's full barrier; its empty one lies `empty_at` behind."""
        return self.b.mad_lo("u32", self.stage, 8, self.barriers.base)

    def wait_full(self) -> Register:
        """Wait for the stage's bytes; gives the barrier's address."""
        address = self.full()
        wait(self.b, address, self.parity)
        return address

    def wait_ready(self) -> None:
        """Wait for those who work on the stage's bytes."""
        wait(self.b, self.full(), self.parity, self.barriers.ready_at)

    def wait_empty(self) -> Register:
        """Wait until the stage may be filled; gives the full barrier's address."""
        b, address = self.b, self.full()
        wait(b, address, b.xor("b32", self.parity, 1), self.barriers.empty_at)
        return address

    def advance(self) -> None:
        """On to the next stage."""
        b = self.b
        b.add("u32", self.stage, 1, out=self.stage)
        self._wrap()

    def _wrap(self) -> None:
        b = self.b
        around = b.setp("ge", "u32", self.stage, self.stages)
        flipped = b.xor("b32", self.parity, 1)
        b.selp("b32", flipped, self.parity, around, out=self.parity)
        back = b.sub("u32", self.stage, self.stages)
        b.selp("b32", back, self.stage, around, out=self.stage)

    def skip(self, count: int) -> None:
        """Over `count` stages that another group reads."""
        b = self.b
        rounds, rest = divmod(count, self.stages)
        if rounds % 2:
            b.xor("b32", self.parity, 1, out=self.parity)
        if rest:
            b.add("u32", self.stage, rest, out=self.stage)
            self._wrap()


class Turns:
    """Groups that own tiles in turn: none looks at a stage before the one ahead saw its last.

    A parity tells a phase from its neighbours only: a group that waited for a stage more than one
    pass of the ring ahead would take an old phase for its own. For the same reason every warp gives
    the turn away itself: with tiles of one slice it would come back to the group, and leave again,
    while a warp that was not yet there waited for the first of both.
    """

    def __init__(self, b: KernelBuilder, barriers: Barriers, group: Register) -> None:
        self.b, self.offset = b, barriers.turns_at
        last = barriers.groups - 1
        behind = b.selp("b32", 0, b.add("u32", group, 1), b.setp("eq", "u32", group, last))
        self.own = b.mad_lo("u32", group, 8, barriers.base)
        self.next = b.mad_lo("u32", behind, 8, barriers.base)
        self.leads = b.setp("eq", "u32", b.and_("b32", b.mov("u32", b.tid.x), 31), 0)
        # The first group's first turn has nobody ahead: it waits for the phase before the first.
        self.parity = b.selp("b32", 1, 0, b.setp("eq", "u32", group, 0))

    def take(self) -> None:
        """Wait for the group ahead."""
        wait(self.b, self.own, self.parity, self.offset)
        self.b.xor("b32", self.parity, 1, out=self.parity)

    def give(self) -> None:
        """Let the next group go on, as far as this warp is concerned."""
        b = self.b
        with b.guard(self.leads):
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink, b.at(self.next, self.offset))
