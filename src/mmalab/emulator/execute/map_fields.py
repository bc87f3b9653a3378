"""Tensor maps in memory: tensormap.replace changes a field, tensormap.cp_fenceproxy copies a map.

A field lies where :mod:`mmalab.tensormap.encoding` says; what else shares its 32-bit words stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access, Fence
from mmalab.emulator.execute.memory import plain_space
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.traffic import observe_access
from mmalab.emulator.issue import Illegal, Issue, each_lane
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import RANK_SHIFT, Extent
from mmalab.emulator.state import pack
from mmalab.tensormap import ELEMENTS, MAP_BYTES
from mmalab.tensormap.encoding import TABLE, write

__all__: list[str] = []

_MAP_ALIGN = 64
_BY_LITERAL = {kind.literal: kind for kind in ELEMENTS.values()}


def _changes(issue: Issue) -> dict[str, int]:
    """The values that the instruction writes, by name of the encoding's table."""
    field, value = issue.modifiers["field"], issue.word("b")
    if field == "elemtype":
        kind = _BY_LITERAL[value]
        return {"elemtype": kind.code, "tf32": int(kind.tf32)}
    if field == "rank":
        return {"rank": value + 1}  # the operand is the rank less one
    if field == "global_address":
        return {"global_address": value, "address_flag": 0}
    if not issue.operands.has("index"):
        return {field: value}
    name = f"{field}.{issue.word('index')}"
    if name not in TABLE:
        raise Illegal("illegal-value", f"{issue.name} of {field} {issue.word('index')}",
                      "a tensor map has none of that number", legal="0 to 3",
                      where="PTX ISA, tensormap.replace")
    return {name: value}


def _map_place(issue: Issue, name: str, space: str, *, writes: bool) -> Extent:
    """The 128 bytes that an [address] operand names.

    Raises:
        Illegal: misaligned, out of bounds, read-only.
    """
    address = issue.word(name)
    if address % _MAP_ALIGN:
        raise Illegal("misaligned-access", f"a tensor map at {address:#x}",
                      "is not 64-byte aligned", legal="a multiple of 64",
                      where=f"PTX ISA, {issue.name}")
    found = issue.machine.space.extent(space, address, issue.row)
    if found is None or found.at < found.low or found.at + MAP_BYTES > found.high:
        raise issue.outside("a tensor map", address, MAP_BYTES, f"{space or 'memory'} that the"
                            " kernel has")
    if writes and not found.region.writable:
        raise Illegal("read-only-write", f"a tensor map at {address:#x}", "is read-only memory")
    return found


@executes("tensormap.replace")
def _replace(lanes: Lanes) -> None:
    words: set[int] = set()

    def one(issue: Issue) -> None:
        place = _map_place(issue, "a", lanes.modifier("space"), writes=True)
        values = _changes(issue)
        data = place.region.data[place.at : place.at + MAP_BYTES]
        data[:] = np.frombuffer(write(data.tobytes(), values), np.uint8)
        for name in values:
            words.update(piece.lo // 32 + k for piece in TABLE[name].pieces
                         for k in range(-(-piece.width // 32)))
        if place.region.written is not None:
            for word in words:
                first = place.at + 4 * word
                place.region.written[first : first + 4] = True

    each_lane(lanes, one)
    lanes.machine.version += 1
    if not lanes.machine.stopped:
        addresses = lanes.address(0)
        for word in sorted(words):
            observe_access(lanes, "write", plain_space(lanes), addresses + np.uint64(4 * word), 4)


@executes("tensormap.cp_fenceproxy")
def _copy_and_release(lanes: Lanes) -> None:
    """The warp's lanes name one source and one destination; the copy is told as the first's."""
    first = np.zeros_like(lanes.mask)
    for position in np.nonzero(lanes.mask.any(axis=1))[0].tolist():
        first[position, int(np.nonzero(lanes.mask[position])[0][0])] = True

    def one(issue: Issue) -> None:
        source = _map_place(issue, "b", "shared", writes=False)
        target = _map_place(issue, "a", "global", writes=True)
        places = slice(source.at, source.at + MAP_BYTES)
        issue.check_written(source, places, issue.name)
        target.region.data[target.at : target.at + MAP_BYTES] = source.region.data[places]
        _tell(issue)

    each_lane(lanes.subset(first), one)
    lanes.machine.version += 1
    _each_warp(lanes, lambda cta, warp, mask: lanes.machine.emit(Fence(
        cta, warp, lanes.site.index, mask, "release", lanes.modifier("scope"),
        "tensormap::generic")))


def _tell(issue: Issue) -> None:
    """The copy as accesses of 16 bytes by one lane."""
    if not issue.machine.observed:
        return
    cta, warp = issue.machine.state.where(issue.row)
    source, target = issue.word("b") & (1 << RANK_SHIFT) - 1, issue.word("a")
    for offset in range(0, MAP_BYTES, 16):
        for kind, space, start in (("read", "shared", source), ("write", "global", target)):
            addresses: NDArray[np.uint64] = np.full(32, start + offset, np.uint64)
            issue.machine.emit(Access(cta, warp, issue.site.index, 1 << issue.lane,
                                      kind, space, addresses, 16))  # type: ignore[arg-type]


def _each_warp(lanes: Lanes, tell: Callable[[int, int, int], None]) -> None:
    if not lanes.machine.observed:
        return
    for position, row in enumerate(lanes.rows.tolist()):
        mask = int(pack(lanes.mask[position]))
        if mask:
            cta, warp = lanes.machine.state.where(row)
            tell(cta, warp, mask)
