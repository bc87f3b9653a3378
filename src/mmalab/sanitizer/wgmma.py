"""wgmma: four warps start one product, groups end it, registers belong to it in between.

The product starts when all four warps have issued it, and it knows what *every* one of them knows:
being collective makes it no barrier for its operands, so each warp's part is checked with that
warp's clock. It ends once for the warpgroup: a wait_group by any of the warps covers the operand
reads of all four (decision G1).

Registers of one warp, for ``wgmma D, A, [B]``::

    mov D, A ...        touched
    wgmma.fence         not touched any more
    wgmma D, A          D and A fly; a second wgmma of the same shape may chain on D
    commit, wait 0      land
    mov x, D            before the wait: missing-wgmma-wait

A wgmma on registers that were touched since the last fence, or that fly with another shape, is
``missing-wgmma-fence``. ptxas often inserts what is missing; the PTX is undefined all the same
(decision G2). Where the product drops the old D (scale-d is false) and nobody has read a result
from it since the fence, it is a note: nvcc sinks the zeroes of an accumulator below the fence of a
right program, and ptxas makes the same code of both orders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mmalab.emulator.events import Registers, Span, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from mmalab.findings import Severity
from mmalab.sanitizer.agents import Agents
from mmalab.sanitizer.clocks import lanes_of
from mmalab.sanitizer.gathering import IN_TIME, TimeGathering
from mmalab.sanitizer.groups import Groups
from mmalab.sanitizer.lanes import WarpClock
from mmalab.sanitizer.sweep import Looked, Sweeps
from mmalab.sanitizer.tile_steps import StepRule
from mmalab.sanitizer.tiles import TileRule
from mmalab.sanitizer.touch import Sweep
from mmalab.sanitizer.world import World

__all__ = ["WgmmaRule"]

_WARPS = 4
#: Groups whose issue is remembered for warps that wait later than others.
_KEPT = 8
#: Groups in flight that are told apart.
_GROUPS = 64
_REPAIRED = "ptxas usually inserts what is missing, but the PTX is undefined"


class _Flying(NamedTuple):
    """A register that a product in flight uses: as D it is written, as A only read."""

    epoch: int
    shape: str
    accumulator: bool
    site: int


@dataclass(slots=True)
class _File:
    """The watched registers of one warp. Before the first fence all count as touched."""

    fenced: bool = False
    used: set[int] = field(default_factory=set)
    #: Registers that hold a product's result, and those of which it was read since the fence.
    results: set[int] = field(default_factory=set)
    drained: set[int] = field(default_factory=set)
    flying: dict[int, _Flying] = field(default_factory=dict)
    #: The epoch, shape and D of the last product, if nothing has happened to registers since: one
    #: of the same kind chains on it.
    chain: tuple[int, str, tuple[int, ...]] | None = None
    #: The epoch and the clocks with which the warp issued last.
    issued: tuple[int, int] = (0, 0)
    parts: object = None

    def touched(self, slot: int) -> bool:
        """Whether another instruction used the register since the last fence."""
        return not self.fenced or slot in self.used

    def fly(self, event: Wgmma, epoch: int) -> None:
        """A product in flight uses its registers."""
        self.flying.update(dict.fromkeys(
            event.a, _Flying(epoch, event.shape, False, event.site)))
        self.flying.update(dict.fromkeys(
            event.d, _Flying(epoch, event.shape, True, event.site)))
        self.results.update(event.d)
        self.chain = None if event.a else (epoch, event.shape, event.d)


class _Product:
    """One product: what its first warp found where the operands lie serves the others."""

    def __init__(self, index: int, reads: tuple[Span, ...]) -> None:
        self.index = index
        self._reads = reads
        self.starts = [np.sort(span.starts) for span in reads]
        self.looked: dict[int, list[Looked]] = {}

    def reads(self, event: Wgmma) -> bool:
        """Whether another warp names the same operands."""
        return len(event.reads) == len(self._reads) and all(
            mine.size == span.size and mine.swizzle == span.swizzle
            and (mine.starts is span.starts or np.array_equal(mine.starts, span.starts))
            for mine, span in zip(self._reads, event.reads, strict=True))


class WgmmaRule:
    """Follows products, their groups and their registers."""

    def __init__(self, world: World, sweeps: Sweeps, agents: Agents, groups: Groups,
                 steps: StepRule) -> None:
        self._world = world
        self._sweeps = sweeps
        self._agents = agents
        self._groups = groups
        self._tiles = TileRule(world, sweeps)
        self._steps = steps
        self._files: dict[tuple[int, int], _File] = {}
        self._products: dict[tuple[int, int], _Product] = {}
        #: (CTA, warpgroup) -> epoch -> the order in time of the warps that issued it.
        self._started: dict[tuple[int, int], dict[int, TimeGathering]] = {}

    def issue(self, event: Wgmma) -> None:
        """One warp's part: its registers, and the operands in shared memory."""
        epoch = self._groups.wgmma(event.cta, event.warp).epoch
        registers = self._file(event)
        if event.a or registers.chain != (epoch, event.shape, event.d):
            self._check_registers(event, registers)
            registers.fly(event, epoch)
        clock = self._world.clock(event.cta, event.warp)
        group = event.cta, event.warp // _WARPS
        agent = self._agents.warpgroup(*group)
        if registers.issued != (epoch, clock.now) or registers.parts is not clock.parts:
            registers.issued, registers.parts = (epoch, clock.now), clock.parts
            self._start(group, epoch).add(clock, event.mask)
        product = self._products.get(group)
        if product is None or product.index != event.index or not product.reads(event):
            product = self._products[group] = _Product(event.index, event.reads)
            shared = self._world.cta(event.cta).shared
            for span in event.reads:
                self._tiles.check(event, span, shared)
            self._steps.product(event, shared)
        for lane in _observers(clock):
            for number, span in enumerate(event.reads):
                sweep = Sweep(
                    clock, lane, agent, epoch, event.site, "shared", False, product.starts[number],
                    span.size, swizzle=self._sweeps.layout(span.swizzle))
                looked = product.looked.get(number)
                if looked is None or not self._sweeps.again(sweep, looked):
                    product.looked[number] = self._sweeps.sweep(
                        sweep, self._world.cta(event.cta).shared)

    def retire(self, cta: int) -> None:
        """All threads of a CTA, and of its cluster, have ended."""
        for warp in range(self._world.warps):
            self._files.pop((cta, warp), None)
            self._started.pop((cta, warp // _WARPS), None)
            self._products.pop((cta, warp // _WARPS), None)
        self._steps.retire(cta, self._world.warps)

    def _start(self, group: tuple[int, int], epoch: int) -> TimeGathering:
        """What gathers the issue of an epoch; the oldest of too many joins the next."""
        started = self._started.setdefault(group, {})
        if epoch not in started and len(started) >= _GROUPS:
            oldest = started.pop(min(started))
            started[min(started)].join(oldest)
        return started.setdefault(epoch, TimeGathering())

    def fence(self, event: WgmmaFence) -> None:
        """What was done to registers before is done."""
        self._steps.fence(event.cta, event.warp)
        registers = self._file(event)
        registers.fenced = True
        registers.used.clear()
        registers.drained.clear()

    def commit(self, event: WgmmaCommit) -> None:
        """The warp's open group ends here."""
        self._groups.wgmma(event.cta, event.warp).commit()

    def wait(self, event: WgmmaWait) -> None:
        """The groups up to the wait's reach are done: operands for everybody, registers for us."""
        reach = self._groups.wgmma(event.cta, event.warp).wait(event.newest, event.site)
        registers = self._file(event)
        registers.chain = None
        registers.flying = {slot: flying for slot, flying in registers.flying.items()
                            if flying.epoch > reach}
        if not reach:
            return
        group = event.cta, event.warp // _WARPS
        clock = self._world.clock(event.cta, event.warp)
        clock.learn(event.mask, self._agents.warpgroup(*group).place, reach)
        # The products end after all four warps have issued them: order in time, not of memory.
        started, together = self._started.get(group, {}), TimeGathering()
        for epoch in sorted(started):
            if epoch <= reach - _KEPT:
                del started[epoch]
            elif epoch <= reach:
                together.join(started[epoch])
        clock.receive(event.mask, together.knowledge(), IN_TIME)

    def touch(self, event: Registers) -> None:
        """Another instruction reads or writes registers that some wgmma uses."""
        registers = self._file(event)
        registers.chain = None
        if registers.flying:
            self._check_touch(event, registers)
        registers.used.update(event.reads, event.writes)
        registers.drained |= registers.results.intersection(event.reads)
        registers.results.difference_update(event.writes)

    def _file(self, event: Wgmma | WgmmaFence | WgmmaWait | Registers) -> _File:
        return self._files.setdefault((event.cta, event.warp), _File())

    # -- checks ----------------------------------------------------------------------------------

    def _check_registers(self, event: Wgmma, registers: _File) -> None:
        states = set(map(registers.flying.get, event.d))
        if all(state is not None and state.accumulator and state.shape == event.shape
               for state in states) and not event.a:
            return
        for slot in event.d:
            flying = registers.flying.get(slot)
            if flying is None:
                if registers.touched(slot):
                    dropped = (registers.fenced and not event.reads_d
                               and registers.drained.isdisjoint(event.d))
                    self._unfenced(event, "D", "were touched since the last wgmma.fence",
                                   "note" if dropped else "error")
                    return
            elif flying.accumulator and flying.shape != event.shape:
                self._unfenced(event, "D", f"still belong to {self._world.named(flying.site)}, a "
                               "product of another shape")
                return
            elif not flying.accumulator:
                self._unawaited(event, flying, "writes")
                return
        for slot in event.a:
            flying = registers.flying.get(slot)
            if flying is not None and flying.accumulator:
                self._unawaited(event, flying, "reads")
                return
            if flying is None and registers.touched(slot):
                self._unfenced(event, "A", "were touched since the last wgmma.fence")
                return

    def _check_touch(self, event: Registers, registers: _File) -> None:
        for slots, verb in ((event.writes, "writes"), (event.reads, "reads")):
            for slot in slots:
                flying = registers.flying.get(slot)
                if flying is not None and (flying.accumulator or verb == "writes"):
                    self._unawaited(event, flying, verb)
                    return

    def _unfenced(self, event: Wgmma, operand: str, why: str,
                  severity: Severity = "error") -> None:
        world = self._world
        line = world.line(event.site)
        repair = f"wgmma.fence.sync.aligned before line {line}"
        if "another shape" in why:
            repair = f"wgmma.wait_group 0, then {repair}"
        world.report(
            "missing-wgmma-fence", severity,
            f"{world.named(event.site)}: registers of {operand} {why} ({_REPAIRED}). Repair: "
            f"{repair}", cta=event.cta, warp=event.warp, site=event.site, lane=_lane(event),
            witness={"operand": operand, "repair": repair})

    def _unawaited(self, event: Wgmma | Registers, flying: _Flying, verb: str) -> None:
        world = self._world
        group = self._groups.wgmma(event.cta, event.warp)
        repair = group.register_words(flying.epoch, world.line)
        role = "D" if flying.accumulator else "A"
        world.report(
            "missing-wgmma-wait", "error",
            f"{world.named(event.site)} {verb} registers of {role} that "
            f"{world.named(flying.site)} may still use ({_REPAIRED}). Repair: {repair} before "
            f"line {world.line(event.site)}", cta=event.cta, warp=event.warp, site=event.site,
            lane=_lane(event), key=(role,), cause=flying.site,
            witness={"operand": role, "product_line": world.line(flying.site), "repair": repair})


def _observers(clock: WarpClock) -> Iterable[int]:
    """One live lane of each part of a warp: lanes of a part know the same."""
    for mask, _ in clock.parts:
        if mask & clock.live:
            yield int(lanes_of(mask & clock.live)[0])


def _lane(event: Wgmma | Registers) -> int:
    return int(lanes_of(event.mask)[0])
