"""The same kernel with its clocks read on the way: how long who waits for what, and what a tile's
end costs.

Around every wait, at the end of a tile's products, at its beginning and its end a warp's first lane
reads ``%clock`` and writes two words: the clock before, and the clocks until behind it with a kind
in the lowest bits. So many events a warp, of the warps of some blocks spread over the grid; the one
register that says where the next event goes also says that there is none to write::

    mov.u32 %before, %clock;                    // ahead of a wait
    ...                                         // the wait
    mov.u32 %clock, %clock;                     // behind it
    st.global.v2.u32 [...], {%before, 16 * (%clock - %before) + kind};

The last product of mma.sync is only issued where the text says so: its clock is read behind a
branch that its result decides. The kernel's result is the same, bit for bit; :func:`summary` says
what the events mean.

    >>> from mmalab.kernels import sm80_mma
    >>> traced(sm80_mma.gemm(512, 256, 512, copy="tma", sms=2), blocks=1).slots    # its 12 warps
    12
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.bench.anatomy import Anatomy, anatomy, registers_of
from mmalab.errors import UsageError
from mmalab.ptx import print_module
from mmalab.ptx.edit import Editor
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Parameter

__all__ = ["EVENTS", "KINDS", "Traced", "summary", "traced"]

#: Events of a warp there is room for.
EVENTS = 2048
#: Kinds of events by number: those of waits, a tile's last product, a warp's first and last words.
KINDS = {"full": 1, "pass": 2, "empty": 3, "turn": 4, "take": 5, "end": 6, "begin": 7, "leave": 8}
_BITS = 4
_NOWHERE = 0x7FFFFFFF
#: Warps that share a scheduler are so many apart.
_SCHEDULERS = 4
_WHERE = "mmalab.bench.trace"
_READ = "mov.u32 %trace_{}, %clock;"
_TIMER = "mov.u32 %trace_after, %globaltimer_lo;"


@dataclass(frozen=True, slots=True)
class Traced:
    """An instrumented kernel: its last parameter is ``trace``, u32 of (events, slots, 2), zeros
    before. A slot is a warp of one of `blocks`, which are `apart` from each other; the first
    `multiplying` warps of a block multiply."""

    kernel: Kernel
    events: int
    blocks: int
    apart: int
    multiplying: int

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.kernel.block[0] // 32

    @property
    def slots(self) -> int:
        """Warps that write."""
        return self.blocks * self.warps

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the buffer, in words."""
        return self.events, self.slots, 2


def traced(kernel: Kernel, blocks: int = 16, events: int = EVENTS) -> Traced:
    """The kernel with its clocks read, in so many blocks.

    Raises:
        UsageError: it is none that a ring feeds, or there is nothing to write.
    """
    if min(blocks, events) < 1:
        raise UsageError(f"{blocks} blocks, {events} events", "write nothing", legal="1 or more",
                         where=_WHERE)
    found = anatomy(kernel)
    grid = math.prod(kernel.grid)
    blocks = min(blocks, grid)
    plan = Traced(kernel, events, blocks, grid // blocks, found.multiplying_warps)
    editor = Editor(found.module)
    _Writer(found, editor, plan).write()
    module = editor.module()
    entry = next(each for each in module.entries if each.name == kernel.entry)
    longer = replace(entry, parameters=(*entry.parameters, Parameter("trace", "u64")))
    text = print_module(replace(module, functions=tuple(
        longer if each is entry else each for each in module.functions)))
    param = Param("trace", "out", "u32", plan.shape, "clocks, by event and warp")
    return replace(plan, kernel=replace(
        kernel, name=f"{kernel.name}_traced", ptx=text, params=(*kernel.params, param),
        validate=partial(_validate, kernel), prepare=partial(_prepare, kernel),
        reference=None))


def _validate(kernel: Kernel, args: Sequence[Any]) -> None:
    if kernel.validate is not None:
        kernel.validate(args[:-1])


def _prepare(kernel: Kernel, args: Sequence[Any]) -> list[Any]:
    own = args[:-1] if kernel.prepare is None else kernel.prepare(args[:-1])
    return [*own, args[-1]]


class _Writer:
    """Puts the reading and writing of clocks into a kernel's text."""

    def __init__(self, found: Anatomy, editor: Editor, plan: Traced) -> None:
        self.found, self.editor, self.plan = found, editor, plan

    def write(self) -> None:
        """All of it."""
        found, editor = self.found, self.editor
        editor.insert_before(found.body[next(at for at, _ in found.instructions())],
                             *self._beginning())
        for wait in found.waits:
            editor.insert_before(found.body[wait.first], _READ.format("before"))
            editor.insert_after(found.body[wait.last], *self._event(wait.kind, passed=True))
        editor.insert_after(found.body[found.tile_end], *self._end_of_tile())
        editor.insert_before(found.body[found.fill - 1], _READ.format("before"), _TIMER,
                             *self._event("leave"))

    def _beginning(self) -> list[str]:
        """Where the warp's events go: from its slot on, every `slots`; nowhere but from first lanes
        of blocks that are traced."""
        plan = self.plan
        return [
            ".reg .b64 %trace_base, %trace_place;",
            ".reg .b32 %trace_at, %trace_before, %trace_after, %trace_block, %trace_within;",
            ".reg .pred %trace_here;",
            "mov.u32 %trace_before, %clock;", _TIMER,
            "ld.param.u64 %trace_base, [trace];",
            "cvta.to.global.u64 %trace_base, %trace_base;",
            "mov.u32 %trace_within, %ctaid.x;",
            f"div.u32 %trace_block, %trace_within, {plan.apart};",
            f"mul.lo.u32 %trace_at, %trace_block, {plan.apart};",
            "sub.u32 %trace_within, %trace_within, %trace_at;",
            "mov.u32 %trace_at, %tid.x;",
            f"mad.lo.u32 %trace_block, %trace_block, {32 * plan.warps}, %trace_at;",
            "and.b32 %trace_at, %trace_at, 31;",
            "or.b32 %trace_within, %trace_within, %trace_at;",
            "shr.u32 %trace_at, %trace_block, 5;",
            f"setp.ge.u32 %trace_here, %trace_at, {plan.slots};",
            f"@%trace_here mov.u32 %trace_at, {_NOWHERE};",
            "setp.ne.u32 %trace_here, %trace_within, 0;",
            f"@%trace_here mov.u32 %trace_at, {_NOWHERE};",
            *self._event("begin"),
        ]

    def _event(self, kind: str, *, passed: bool = False) -> list[str]:
        """Write %before and, with its kind, %after (`passed`: what has passed since %before); go on
        to the warp's next place.

        Under a predicate, or ptxas would read the clock by way of a uniform register, which takes
        longer than what is measured.
        """
        plan = self.plan
        reading = [f"@%trace_here {_READ.format('after')}",
                   "sub.u32 %trace_after, %trace_after, %trace_before;"] if passed else []
        return [
            f"setp.lt.u32 %trace_here, %trace_at, {plan.events * plan.slots};", *reading,
            f"mad.lo.u32 %trace_after, %trace_after, {1 << _BITS}, {KINDS[kind]};",
            "mad.wide.u32 %trace_place, %trace_at, 8, %trace_base;",
            "@%trace_here st.global.v2.u32 [%trace_place], {%trace_before, %trace_after};",
            f"@%trace_here add.u32 %trace_at, %trace_at, {plan.slots};",
        ]

    def _end_of_tile(self) -> list[str]:
        """The clock when the last product is there. That of mma.sync is told by its result, which
        decides a branch that is never taken."""
        found = self.found
        lines = [_READ.format("before"), "mov.u32 %trace_after, 0;", *self._event("end")]
        if not found.by_warps:
            return lines
        result = registers_of(found.instruction(found.products[-1]).operands[0])[0]
        return ["mov.u32 %trace_block, %ctaid.z;", f"mov.b32 %trace_within, {result};",
                "and.b32 %trace_within, %trace_within, %trace_block;",
                "setp.ne.u32 %trace_here, %trace_within, 0;",
                f"@%trace_here bra {found.label(found.end)};", *lines]


# --- what the events say --------------------------------------------------------------------------

def summary(plan: Traced, trace: NDArray[np.uint32]) -> dict[str, Any]:
    """What the events of all warps say, in clocks; ns where it says so.

    ``slice``: from one slice being there to the next, within a tile; ``wait_full`` and the other
    waits: each with its two readings; ``end_of_a_tile``: from its last product to the next tile's
    first slice being there; ``start``: from a warp's first word to its first slice; ``tail``: from
    its last product to its last word; ``phase``: of a slice, between the two warps that multiply on
    a scheduler. ``begins_ns`` and ``leaves_ns``: behind the first warp's beginning, ahead of the
    last one's leaving. ``lost``: warps with more events than there is room for.
    """
    if trace.shape != plan.shape:
        raise UsageError(f"a trace of {trace.shape}", "is not this kernel's", legal=str(plan.shape),
                         where=_WHERE)
    every = [_Warp(trace[:, slot], int(trace[0, slot - slot % plan.warps, 0]))
             for slot in range(plan.slots)]
    multiplying = [warp for slot, warp in enumerate(every) if slot % plan.warps < plan.multiplying]
    found: dict[str, Any] = {
        "blocks": plan.blocks, "warps": len(multiplying),
        "slices": sum(len(warp.of("full")[0]) for warp in multiplying),
        "tiles": sum(len(warp.of("end")[0]) for warp in multiplying),
        "lost": sum(warp.count == plan.events for warp in every),
        "slice": _told([warp.slices() for warp in multiplying]),
    }
    filling = [warp for slot, warp in enumerate(every) if slot % plan.warps >= plan.multiplying]
    for kind, among in (("full", multiplying), ("pass", multiplying), ("turn", multiplying),
                        ("take", multiplying), ("empty", filling)):
        found[f"wait_{kind}"] = _told([warp.of(kind)[1] for warp in among])
    found |= {
        "end_of_a_tile": _told([warp.ends() for warp in multiplying]),
        "start": _told([warp.start() for warp in multiplying]),
        "tail": _told([warp.tail() for warp in multiplying]),
        "phase": _told([phase for first in range(0, plan.slots, plan.warps)
                        for phase in _phases(every[first : first + plan.multiplying])]),
        "begins_ns": _told(_since([warp.of("begin")[1] for warp in multiplying])),
        "leaves_ns": _told(_since([warp.of("leave")[1] for warp in multiplying], last=True)),
    }
    return {key: value for key, value in found.items() if value is not None}


class _Warp:
    """One warp's events in order: clocks, what passed behind them, kinds."""

    def __init__(self, words: NDArray[np.uint32], origin: int) -> None:
        """`origin`: a clock of the same SM, which 32 bits of the others are told from."""
        kinds = words[:, 1] & (1 << _BITS) - 1
        self.count = int(np.count_nonzero(kinds))
        self.kinds = kinds[: self.count]
        self.passed = (words[: self.count, 1] >> _BITS).astype(np.int64)
        self.clocks = origin + _apart(words[: self.count, 0].astype(np.int64), origin, 32)

    def of(self, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The clocks of the events of a kind, and what passed."""
        chosen = self.kinds == KINDS[kind]
        return self.clocks[chosen], self.passed[chosen]

    def _there(self) -> NDArray[np.int64]:
        """When each slice was there."""
        clocks, passed = self.of("full")
        found: NDArray[np.int64] = clocks + passed
        return found

    def _tiles(self) -> NDArray[np.int64]:
        """The number of each slice's tile."""
        ends = np.cumsum(self.kinds == KINDS["end"], dtype=np.int64)
        found: NDArray[np.int64] = ends[self.kinds == KINDS["full"]]
        return found

    def slices(self) -> NDArray[np.int64]:
        """Clocks from slice to slice of one tile."""
        found: NDArray[np.int64] = np.diff(self._there())[np.diff(self._tiles()) == 0]
        return found

    def ends(self) -> NDArray[np.int64]:
        """Clocks from each tile's last product to the next one's first slice."""
        ends, there, tiles = self.of("end")[0], self._there(), self._tiles()
        firsts = there[1:][np.diff(tiles) > 0]
        return _less(firsts, ends[: len(firsts)])

    def start(self) -> NDArray[np.int64]:
        """Clocks until the first slice was there."""
        there = self._there()[:1]
        return _less(there, self.of("begin")[0][: len(there)])

    def tail(self) -> NDArray[np.int64]:
        """Clocks behind the last product."""
        ends, leave = self.of("end")[0], self.of("leave")[0]
        return _less(leave[-1:], ends[-1:]) if len(ends) and len(leave) else _NONE

    def inner(self) -> NDArray[np.int64]:
        """When slices were there that are not a tile's first."""
        found: NDArray[np.int64] = self._there()[1:][np.diff(self._tiles()) == 0]
        return found


_NONE: NDArray[np.int64] = np.zeros(0, np.int64)


def _less(times: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much later times are than others."""
    found: NDArray[np.int64] = times - others
    return found


def _phases(warps: Sequence[_Warp]) -> list[NDArray[np.int64]]:
    """How far behind its neighbour's last slice each slice of a warp is there, both on one
    scheduler and in the middle of a tile."""
    found = []
    for one, neighbour in zip(warps, warps[_SCHEDULERS:], strict=False):
        own, other, each = one.inner(), neighbour.inner(), one.slices()
        if not len(each):
            continue
        behind = np.searchsorted(own, other, side="right")
        inside = (behind > 0) & (behind < len(own))
        behind, other = behind[inside], other[inside]
        # not where the warp is between two tiles
        near = own[behind] - own[behind - 1] < 2 * np.median(each)
        found.append((other - own[behind - 1])[near])
    return found


def _apart(times: NDArray[np.int64], origin: int, bits: int) -> NDArray[np.int64]:
    """How far times are from another of which, as of them, only the lowest bits are known."""
    half = 1 << bits - 1
    found: NDArray[np.int64] = (times - origin + half) % (2 * half) - half
    return found


def _since(times: Sequence[NDArray[np.int64]], *, last: bool = False) -> list[NDArray[np.int64]]:
    """Times of the timer behind the first one, or ahead of the `last`."""
    every = np.concatenate([_NONE, *times])
    if not len(every):
        return []
    behind = _apart(every, int(every[0]), 32 - _BITS)
    return [behind.max() - behind if last else behind - behind.min()]


def _told(parts: Sequence[NDArray[np.int64]]) -> dict[str, float] | None:
    """Median, mean and 95th percentile of all of them; None where there are none."""
    values = np.concatenate([_NONE, *parts])
    if not len(values):
        return None
    return {"count": len(values), "median": float(np.median(values)),
            "mean": round(float(np.mean(values)), 1),
            "p95": round(float(np.percentile(values, 95)), 1)}
