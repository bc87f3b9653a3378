"""The ring of stages and its mbarriers: who waits for whom.

``full[s]`` completes when the bytes of stage s have arrived, ``empty[s]`` when every group of every
CTA that reads the stage (or a multicast copy of it) has released it. A pass over the ring is a
phase; who fills waits for the phase before, so a fresh barrier lets the first pass through.

    fill:      wait empty[s], parity ^ 1;  expect bytes on full[s];  copy
    multiply:  wait full[s], parity;       wgmma;                    arrive on empty[s]

Where threads change what has arrived (see `shift`) they stand between the two::

    shift:     wait full[s], parity;       move bytes;               arrive on ready[s]
    multiply:  wait ready[s], parity;      ...

A stage may be lent to C between two tiles (see `staged`): it is filled with nothing, and released
when TMA has read C from it::

    fill:      wait empty[s], parity ^ 1;  arrive on full[s]
    multiply:  wait full[s], parity;       C, which TMA stores ... read;  arrive on empty[s]
"""

from __future__ import annotations

from collections.abc import Callable

from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["Barriers", "Cursor", "Lent", "Turns", "wait"]

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

    def wait_next(self) -> None:
        """Wait for the bytes of the stage behind this one."""
        b, last = self.b, self.stages - 1
        around = b.setp("eq", "u32", self.stage, last)
        parity = b.selp("b32", b.xor("b32", self.parity, 1), self.parity, around)
        behind = b.selp("b32", 0, b.add("u32", self.stage, 1), around)
        wait(b, b.mad_lo("u32", behind, 8, self.barriers.base), parity)

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


class Lent:
    """Stages that hold C between two tiles, and that go back one by one, each as late as the next
    tile allows: TMA has had the more time to read them.

    The next tile has all stages but these for its first slices, so that the first one is due
    behind slice `due`, and one more behind every further slice.
    """

    def __init__(self, b: KernelBuilder, cursor: Cursor, count: int, leads: Register,
                 release: Callable[[Register], None],
                 then: Callable[[], None] | None = None) -> None:
        """`leads`: the thread that lets TMA store, in a group of its own for each stage; `release`
        writes what releases a stage, its number in a register; `then` what follows the last."""
        self.b, self.cursor, self.leads, self.release = b, cursor, leads, release
        self.then = then
        self.due = cursor.stages - count - 1
        self.stages = b.regs("u32", count)
        self.kept = b.mov("u32", 0)

    def take(self, which: int) -> Register:
        """Wait for one of the stages; gives its number."""
        b, cursor = self.b, self.cursor
        cursor.wait_full()
        stage = b.mov("u32", cursor.stage, out=self.stages[which])
        cursor.advance()
        return stage

    def keep(self) -> None:
        """C is on its way from all of them."""
        self.b.mov("u32", len(self.stages), out=self.kept)

    def among(self, rounds: Register | int, body: Callable[[], None], *, first: int = 0) -> None:
        """So many rounds, each a slice; between them stages go back as they are due, the first one
        `first` rounds later where slice 0 is a round too, and behind them those that were not. The
        loop itself is free of that: it ends where one is due, and goes on."""
        due = self.due + first
        if rounds != 0:
            self._among(rounds, body, due)
        if isinstance(rounds, Register) or rounds < due + len(self.stages):
            self.give_rest()

    def _among(self, rounds: Register | int, body: Callable[[], None], due: int) -> None:
        b = self.b
        at, until, now = b.mov("u32", 0), b.mov("u32", rounds), b.reg("u32")
        b.min("u32", until, due, out=now)
        again, behind = b.label("rounds"), b.label("behind")
        b.place(again)
        with b.loop(now, at, dtype="u32", unroll=False):
            body()
        b.branch(behind, b.setp("ge", "u32", now, until))
        b.mov("u32", now, out=at)
        self._give_one()
        one_more = b.min("u32", b.add("u32", at, 1), until)
        b.selp("b32", one_more, until, b.setp("ne", "u32", self.kept, 0), out=now)
        b.branch(again, uniform=True)
        b.place(behind)

    def _give_one(self) -> None:
        """The next stage that is kept, if there is one."""
        for which in reversed(range(len(self.stages))):
            self._give(which)

    def give_rest(self) -> None:
        """All stages that are still kept."""
        for which in range(len(self.stages)):
            self._give(which)

    def _give(self, which: int) -> None:
        """This stage, if it is the next one: those behind it may still be read."""
        b, behind = self.b, len(self.stages) - 1 - which
        with b.when(b.setp("eq", "u32", self.kept, behind + 1)):
            with b.guard(self.leads):
                b.emit("cp.async.bulk.wait_group.read", behind)
            b.emit("bar.warp.sync", -1)
            self.release(self.stages[which])
            b.mov("u32", behind, out=self.kept)
            if behind == 0 and self.then is not None:
                self.then()
