"""cp.async.bulk and cp.reduce.async.bulk: runs of bytes, moved by one lane's word.

A load has an mbarrier for each CTA that it goes to; a store belongs to the lane's bulk groups, in
two steps: read the source, write the destination.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import BulkCommit, BulkWait, Span
from mmalab.emulator.execute.reduction import combine
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.issue import Illegal, Issue, Step, each_lane, with_rank
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import RANK_SHIFT, Extent
from mmalab.emulator.program import Imm
from mmalab.emulator.state import pack
from mmalab.emulator.types import width

__all__ = ["barrier_of", "destinations"]

_UNIT = 16
_Bytes = NDArray[np.uint8]


@executes("cp.async.bulk")
def _copy(lanes: Lanes) -> None:
    to_global = lanes.modifier("space") == "global"
    each_lane(lanes, _store if to_global else _load)


@executes("cp.reduce.async.bulk")
def _reduce(lanes: Lanes) -> None:
    to_global = lanes.modifier("space") == "global"
    each_lane(lanes, _store if to_global else _load)


@executes("cp.async.bulk.prefetch")
def _prefetch(lanes: Lanes) -> None:
    """Caches are not modelled; what is asked for must exist."""
    each_lane(lanes, _check_prefetch)


def _check_prefetch(issue: Issue) -> None:
    issue.in_global(issue.word("a"), _size(issue), "the prefetch", write=False)


# --- loads: into shared memory, counted by an mbarrier --------------------------------------------

def _load(issue: Issue) -> None:
    size = _size(issue)
    source, low, high = _source(issue, size)
    held: list[_Bytes] = []

    def read() -> None:
        held.append(source.region.data[source.at : source.at + high - low].copy())
        if source.base:
            issue.machine.counters["global.bytes.read"] += high - low

    issue.spans.append(_span(issue, source, 0, high - low, "read"))
    steps: list[Step] = [read]
    for place, barrier in destinations(issue, size, _UNIT):
        issue.mark_written(place, slice(place.at + low, place.at + high))
        kind = "atomic" if "op" in issue.modifiers else "write"
        issue.spans.append(_span(issue, place, low, high - low, kind))
        done = issue.signal(barrier, size, (len(issue.spans) - 1,))
        steps.append(_arrives(issue, held, place, low, done))
    issue.launch("mbarrier", steps)


def _arrives(issue: Issue, held: list[_Bytes], place: Extent, low: int, done: Step) -> Step:
    """The step in which the bytes come to one destination."""
    def write() -> None:
        data = held[0]
        where = place.region.data[place.at + low : place.at + low + len(data)]
        where[:] = _combined(issue, where, data)
        done()
    return write


def _source(issue: Issue, size: int) -> tuple[Extent, int, int]:
    """The first byte that a load takes, and the range that it takes of its `size` bytes."""
    address = issue.word("b")
    if issue.modifiers.get("source") == "shared::cta":
        place = _own_shared(issue, address, size)
        issue.check_written(place, slice(place.at, place.at + size), issue.name)
        return place, 0, size
    low, high = 0, size
    if issue.operands.has("left"):
        low, high = issue.word("left"), size - issue.word("right")
        if max(low, size - high) >= _UNIT or low > high:
            raise Illegal("illegal-value", f"{issue.name} of {size} bytes that leaves out {low} and"
                          f" {size - high}", "more than it can leave out", legal="0 to 15 each",
                          where="PTX ISA, cp.async.bulk")
    place = issue.in_global(address, high - low, "the source", write=False, skipped=low)
    return place, low, high


def _own_shared(issue: Issue, address: int, size: int) -> Extent:
    """A source in the shared memory of the lane's own CTA."""
    place = issue.shared(address, size, "the source", align=_UNIT)
    if issue.shared_cta(place) != issue.cta:
        raise Illegal("illegal-value", f"{issue.name} from shared memory of CTA"
                      f" {issue.owner(issue.shared_cta(place))}",
                      "the source lies in the own CTA's shared memory",
                      legal=f"an address of CTA {issue.owner(issue.cta)}",
                      where=f"PTX ISA, {issue.name}")
    return place


def destinations(issue: Issue, size: int, align: int) -> list[tuple[Extent, Extent]]:
    """(place of `size` bytes, mbarrier) in each CTA that a load goes to.

    Raises:
        Illegal: misaligned or out of bounds, a mask beyond the cluster, an mbarrier elsewhere.
    """
    address, barrier = issue.word("a"), issue.word("mbar")
    if not issue.operands.has("ctas"):
        place = issue.shared(address, size, "the destination", align=align)
        return [(place, barrier_of(issue, place, barrier))]
    mask, count = issue.word("ctas"), issue.machine.space.cluster_size
    if not mask or mask >> count:
        raise Illegal("out-of-bounds", f"the multicast mask {mask:#x}",
                      f"names CTAs other than the {count} of the cluster" if mask
                      else "names no CTA",
                      legal=f"0x1 to {(1 << count) - 1:#x}", where=f"PTX ISA, {issue.name}")
    found = []
    for rank in range(count):
        if mask >> rank & 1:
            place = issue.shared(with_rank(address, rank), size, "the destination", align=align)
            signals = rank
            if issue.modifiers.get("cta_group") == "2":
                signals = rank & ~1 | barrier >> RANK_SHIFT & 1
            found.append((place, issue.shared(with_rank(barrier, signals), 8, "the mbarrier",
                                              align=8)))
    return found


def barrier_of(issue: Issue, place: Extent, address: int) -> Extent:
    """The mbarrier of a copy to one CTA: in that CTA, or in its pair.

    Raises:
        Illegal: misaligned, out of bounds, or elsewhere.
    """
    barrier = issue.shared(address, 8, "the mbarrier", align=8)
    owner, there = issue.shared_cta(barrier), issue.shared_cta(place)
    pair = issue.modifiers.get("cta_group") == "2"
    if owner != there and not (pair and owner ^ 1 == there):
        raise Illegal("illegal-value", f"an mbarrier in CTA {issue.owner(owner)} for a copy into"
                      f" CTA {issue.owner(there)}", "it lies in the CTA that gets the bytes",
                      where=f"PTX ISA, {issue.name}")
    return barrier


# --- stores: into global memory, in a bulk group --------------------------------------------------

def _store(issue: Issue) -> None:
    size = _size(issue)
    source = _own_shared(issue, issue.word("b"), size)
    target = issue.in_global(issue.word("a"), size, "the destination", write=True)
    kept = _kept(issue, size)
    issue.check_written(source, source.at + kept, issue.name)
    held: list[_Bytes] = []

    def read() -> None:
        held.append(source.region.data[source.at : source.at + size].copy())

    def write() -> None:
        where = target.region.data[target.at : target.at + size]
        where[kept] = _combined(issue, where, held[0])[kept]
        issue.machine.counters["global.bytes.written"] += len(kept)

    reduces = "op" in issue.modifiers
    issue.spans += [_span(issue, source, 0, size, "read"),
                    _span(issue, target, 0, size, "atomic" if reduces else "write")]
    issue.launch("bulk", [read, write])


def _kept(issue: Issue, size: int) -> NDArray[np.int64]:
    """The bytes that are stored: with .cp_mask, those whose bit of 16 is set."""
    every = np.arange(size)
    if not issue.operands.has("bytes"):
        return every
    named = np.array([issue.word("bytes") >> bit & 1 for bit in range(_UNIT)], bool)
    return np.flatnonzero(named[every % _UNIT])


# --- both -----------------------------------------------------------------------------------------

def _size(issue: Issue) -> int:
    size = issue.word("size")
    if size % _UNIT:
        raise Illegal("illegal-value", f"{issue.name} of {size} bytes",
                      "the size is no multiple of 16", legal=f"{size - size % 16} or"
                      f" {size + 16 - size % 16}", where=f"PTX ISA, {issue.name}")
    return size


def _span(issue: Issue, place: Extent, low: int, size: int, kind: str) -> Span:
    in_global = place.region is not issue.machine.space.shared
    start = place.base + place.at if in_global else issue.offset(place)
    owner = -1 if in_global else issue.owner(issue.shared_cta(place))
    return Span("global" if in_global else "shared", owner, kind,  # type: ignore[arg-type]
                np.array([start + low]), size)


def _combined(issue: Issue, old: _Bytes, new: _Bytes) -> _Bytes:
    """The new bytes, combined with the old ones where the instruction reduces."""
    op = issue.modifiers.get("op")
    if op is None:
        return new
    kind = issue.modifiers["type"]
    word = f"u{width(kind) // 8}"
    # f32 keeps subnormals, unlike red (measured on an H200)
    words = combine(op, kind, np.ascontiguousarray(old).view(word),
                    np.ascontiguousarray(new).view(word), False)
    return np.ascontiguousarray(words).view(np.uint8)


# --- groups ---------------------------------------------------------------------------------------

@executes("cp.async.bulk.commit_group")
def _commit(lanes: Lanes) -> None:
    machine = lanes.machine
    for position, lane in np.argwhere(lanes.mask).tolist():
        machine.engine.commit_group(("bulk", int(lanes.rows[position]), lane))
    for position, row in enumerate(lanes.rows.tolist()):
        if machine.observed and lanes.mask[position].any():
            cta, warp = machine.state.where(row)
            machine.emit(BulkCommit(cta, warp, lanes.site.index, int(pack(lanes.mask[position]))))


@executes("cp.async.bulk.wait_group")
def _wait(lanes: Lanes) -> None:
    machine, read = lanes.machine, lanes.has("read")
    newest = lanes.operands[0]
    if not isinstance(newest, Imm):
        raise lanes.refuse("this operand must be an immediate")
    for position, lane in np.argwhere(lanes.mask).tolist():
        machine.engine.wait_groups(("bulk", int(lanes.rows[position]), lane), newest.word,
                                   leave=int(read))
    for position, row in enumerate(lanes.rows.tolist()):
        if machine.observed and lanes.mask[position].any():
            cta, warp = machine.state.where(row)
            machine.emit(BulkWait(cta, warp, lanes.site.index, int(pack(lanes.mask[position])),
                                  newest.word, read))
