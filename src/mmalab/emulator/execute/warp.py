"""Lanes of a warp together: shuffles, votes, matches, reductions, elections.

The gatherer has already brought the lanes together; here, `members` of a lane are the lanes of its
mask that really execute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Collective
from mmalab.emulator.execute.floating import canonical, extreme
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Op, Unused, Vec
from mmalab.emulator.state import pack, unpack
from mmalab.emulator.types import is_signed

__all__ = ["observe_collective"]

_LANE = np.arange(32)


def observe_collective(lanes: Lanes, members: NDArray[np.uint32] | None = None,
                       inactive: NDArray[np.uint32] | None = None) -> None:
    """Tell the listeners which lanes executed together, by the mask they name."""
    if not lanes.machine.observed:
        return
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        named = np.unique(members[position][active]).tolist() if members is not None else [0]
        for mask in named:
            together = active if members is None else active & (members[position] == mask)
            if together.any():
                cta, warp = lanes.machine.state.where(row)
                lanes.machine.emit(Collective(
                    cta, warp, lanes.site.index, int(pack(together)), mask,
                    int(inactive[position]) if inactive is not None else 0))


def _named(lanes: Lanes) -> NDArray[np.uint32]:
    """[warps, 32] lane mask operand, the last one."""
    return lanes.read(len(lanes.operands) - 1).astype(np.uint32)


def _members(lanes: Lanes) -> NDArray[np.uint32]:
    """[warps, 32] masks of the lanes that execute with each lane."""
    return (_named(lanes) | np.uint32(1) << _LANE.astype(np.uint32)) & pack(lanes.mask)[:, None]


def _pair(lanes: Lanes) -> tuple[Op, Op]:
    target = lanes.operands[0]
    if isinstance(target, Vec):
        return target.items[0], target.items[1]
    return target, Unused()


@executes("shfl.sync")
def _shuffle(lanes: Lanes) -> None:
    a, b, c = lanes.read(1), lanes.read(2).astype(np.int64), lanes.read(3).astype(np.int64)
    move, clamp, segment = b & 31, c & 31, c >> 8 & 31
    low = _LANE & segment
    high = low | (clamp & ~segment & 31)
    mode = lanes.modifier("mode")
    if mode == "up":
        source = _LANE - move
        inside = source >= high
    else:
        source = {"down": _LANE + move, "bfly": _LANE ^ move,
                  "idx": low | (move & ~segment & 31)}[mode]
        inside = source <= high
    source = np.where(inside, source, _LANE) & 31
    value = np.take_along_axis(a, source, axis=1)
    first, second = _pair(lanes)
    present = _present(lanes, source)
    lanes.assign(first, value, "b32")
    lanes.assign(second, inside, "pred")
    observe_collective(lanes, _named(lanes), pack(lanes.mask & ~present))


def _present(lanes: Lanes, source: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each lane's source lane takes part; if not, that is a finding."""
    present = (_members(lanes) >> source.astype(np.uint32) & np.uint32(1)) != 0
    absent = lanes.mask & ~present
    if absent.any():
        position, lane = np.argwhere(absent)[0].tolist()
        other = int(source[position, lane])
        lanes.machine.report(
            "warp-sync-mask", f"lane {lane} reads lane {other}, which does not take part in"
            f" {lanes.site.form.key}: the value is undefined", site=lanes.site,
            row=int(lanes.rows[position]), lane=lane, witness={"source_lane": other})
    return np.asarray(present)


@executes("vote.sync")
def _vote(lanes: Lanes) -> None:
    members = _members(lanes)
    yes = pack(lanes.predicate(1) & lanes.mask)[:, None] & members
    op = lanes.modifier("op")
    if op == "ballot":
        lanes.write(0, yes)
    else:
        lanes.write(0, {"all": yes == members, "any": yes != 0,
                        "uni": (yes == members) | (yes == 0)}[op])
    observe_collective(lanes, _named(lanes))


@executes("match.sync")
def _match(lanes: Lanes) -> None:
    a, members = lanes.read(1), _members(lanes)
    together = unpack(members)
    same = (a[:, :, None] == a[:, None, :]) & together
    if lanes.modifier("op") == "any":
        lanes.write(0, pack(same))
    else:
        every = (same == together).all(axis=2)
        first, second = _pair(lanes)
        lanes.assign(first, np.where(every, members, np.uint32(0)), "b32")
        lanes.assign(second, every, "pred")
    observe_collective(lanes, _named(lanes))


@executes("redux.sync")
def _reduce(lanes: Lanes) -> None:
    a, members = lanes.read(1), _members(lanes)
    together = unpack(members)
    kind = lanes.modifier("type")
    values: NDArray[Any] = a
    if kind == "f32":
        numbers = a.view(np.float32)
        values = np.abs(numbers) if lanes.has("abs") else numbers
    elif is_signed(kind):
        values = a.view(np.int32)
    result = values.copy()
    started = np.zeros(a.shape, bool)
    for lane in range(32):
        other = np.broadcast_to(values[:, lane : lane + 1], a.shape)
        joins = together[..., lane]
        result = np.where(joins, np.where(started, _combine(lanes, result, other), other), result)
        started |= joins
    words = canonical(result) if kind == "f32" else np.ascontiguousarray(result).view(np.uint32)
    lanes.write(0, words)
    observe_collective(lanes, _named(lanes))


def _combine(lanes: Lanes, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    op = lanes.modifier("op")
    if x.dtype == np.float32:
        return extreme(x, y, least=op == "min", nan=lanes.has("NaN"))
    functions: dict[str, Any] = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor}
    return np.asarray(functions[op](x, y))


@executes("elect.sync")
def _elect(lanes: Lanes) -> None:
    members = _members(lanes)
    lowest = members & (~members + np.uint32(1))
    leader = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
    first, second = _pair(lanes)
    lanes.assign(first, leader, "b32")
    lanes.assign(second, leader == _LANE, "pred")
    observe_collective(lanes, _named(lanes))


@executes("activemask")
def _active(lanes: Lanes) -> None:
    lanes.write(0, np.broadcast_to(pack(lanes.mask)[:, None], lanes.mask.shape))


@executes("bar.warp.sync")
def _warp_sync(lanes: Lanes) -> None:
    """The gatherer has done it all: the lanes are here together."""
