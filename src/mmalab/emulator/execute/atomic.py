"""atom and red: read, combine, write; lanes that meet on one address take turns in lane order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.memory import plain_space
from mmalab.emulator.execute.reduction import combine
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.traffic import observe_access
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import FIRST_BUFFER_TAG, TAG_SHIFT
from mmalab.emulator.program import Unused, Vec
from mmalab.emulator.types import width

__all__ = ["reduce_lanes"]

Words = NDArray[Any]


@executes("atom")
def _atomic(lanes: Lanes) -> None:
    _run(lanes, result=0, first=1)


@executes("red")
def reduce_lanes(lanes: Lanes) -> None:
    """``[a], b``: combine without giving the old value."""
    _run(lanes, result=None, first=0)


def _run(lanes: Lanes, *, result: int | None, first: int) -> None:
    kind, addresses = lanes.modifier("type"), lanes.address(first)
    size = width(kind) // 8
    values = lanes.read_all(first + 1)
    compare = lanes.read(first + 1) if lanes.modifier("op") == "cas" else None
    if compare is not None:
        values = [lanes.read(first + 2)]
    olds = []
    for index, value in enumerate(values):
        where = addresses + np.uint64(index * size)
        olds.append(_each(lanes, where, kind, value, compare, whole=size * len(values),
                          first=index == 0))
    if result is not None and not isinstance(lanes.operands[result], Unused):
        target = lanes.operands[result]
        items = target.items if isinstance(target, Vec) else (target,)
        for item, old in zip(items, olds, strict=True):
            lanes.assign(item, old, kind)
    lanes.machine.version += 1
    observe_access(lanes, "atomic", plain_space(lanes), addresses, size * len(values))


def _each(lanes: Lanes, addresses: NDArray[np.uint64], kind: str, value: Words,
          compare: Words | None, *, whole: int, first: bool) -> Words:
    """One element per lane; the values before, in lane order where addresses meet."""
    wide = width(kind) == 128
    size, count = (8, 2) if wide else (width(kind) // 8, 1)
    space, name, rows = lanes.machine.space, lanes.modifier("space"), lanes.rows
    old = np.zeros_like(value)
    turns = _turns(addresses, lanes.mask)
    lanes.machine.work += len(turns)
    for turn in turns:
        words, faults = space.load(name, addresses, size, turn, rows, count=count)
        if first and whole > size * count:
            faults += _misaligned(lanes, addresses, whole, turn)
        if faults:
            lanes.machine.report_faults(lanes, faults, "atomic access")
            if lanes.machine.stopped:
                return old
        before = np.stack((words[0], words[1]), axis=-1) if wide else words[0]
        after = _combined(lanes, kind, addresses, before, value, compare)
        stacked = np.stack((after[..., 0], after[..., 1])) if wide else after[None]
        faults = space.store(name, addresses, size, stacked, turn, rows)
        lanes.machine.report_faults(lanes, faults, "atomic access")
        old[turn] = before[turn]
    return old


def _misaligned(lanes: Lanes, addresses: NDArray[np.uint64], size: int,
                turn: NDArray[np.bool_]) -> list[Any]:
    _, faults = lanes.machine.space.load(lanes.modifier("space"), addresses, 1,
                                         turn & ((addresses & np.uint64(size - 1)) != 0),
                                         lanes.rows)
    return faults


def _turns(addresses: NDArray[np.uint64], mask: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Masks such that no two lanes of one mask share an address, earliest lanes first.

    Shared and local addresses of different CTAs look alike; that only costs turns.
    """
    flat = np.nonzero(mask.reshape(-1))[0]
    targets = addresses.reshape(-1)[flat]
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    starts = np.ones(len(ordered), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(ordered)), 0))
    turn = np.empty(len(ordered), np.int64)
    turn[order] = np.arange(len(ordered)) - begin
    masks = []
    for number in range(int(turn.max()) + 1 if len(turn) else 0):
        chosen = np.zeros(mask.size, bool)
        chosen[flat[turn == number]] = True
        masks.append(chosen.reshape(mask.shape))
    return masks


def _combined(lanes: Lanes, kind: str, addresses: NDArray[np.uint64], old: Words, value: Words,
              compare: Words | None) -> Words:
    if compare is not None:
        same = (old == compare).all(axis=-1)[..., None] if old.ndim == 3 else old == compare
        return np.where(same, value, old)
    # atom.add.f32 on global memory flushes subnormals, on shared memory it does not.
    flushes = (addresses >> np.uint64(TAG_SHIFT)) >= FIRST_BUFFER_TAG
    return combine(lanes.modifier("op"), kind, old, value, flushes)
