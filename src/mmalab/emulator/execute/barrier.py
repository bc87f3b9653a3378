"""CTA barriers, mbarriers, cp.async, fences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.async_engine import Arrival, Copy
from mmalab.emulator.barriers import Kind
from mmalab.emulator.events import (
    CpAsync,
    CpAsyncArrive,
    CpAsyncCommit,
    CpAsyncWait,
    Fence,
)
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.traffic import count_shared
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import RANK_SHIFT, TAG_SHIFT
from mmalab.emulator.program import Imm, Reg, Unused
from mmalab.emulator.state import pack

__all__: list[str] = []


# --- CTA barriers ---------------------------------------------------------------------------------

@executes("bar.sync")
def _sync(lanes: Lanes) -> None:
    _arrive_all(lanes, "sync", 0)


@executes("bar.arrive")
def _arrive(lanes: Lanes) -> None:
    _arrive_all(lanes, "arrive", 0)


@executes("bar.red")
def _reduce(lanes: Lanes) -> None:
    _arrive_all(lanes, "red", 1)


def _arrive_all(lanes: Lanes, kind: Kind, first: int) -> None:
    """Each warp arrives with the barrier and the count of its first lane."""
    idents = lanes.read(first)
    counts = (lanes.read(first + 1) if len(lanes.operands) > first + 1
              and not isinstance(lanes.operands[first + 1], Unused) else np.zeros_like(idents))
    votes = lanes.predicate(first + 2) if kind == "red" else np.zeros(lanes.mask.shape, bool)
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        for ident in np.unique(idents[position][active]).tolist():
            some = active & (idents[position] == ident)
            lane = int(np.nonzero(some)[0][0])
            lanes.machine.barriers.arrive(
                lanes.site, row, int(pack(some)), ident, int(counts[position, lane]), kind,
                votes=int(pack(votes[position] & some)))


# --- fences ---------------------------------------------------------------------------------------

_LEVELS = {"cta": "cta", "gl": "gpu", "sys": "sys"}


@executes("fence", "membar")
def _fence(lanes: Lanes) -> None:
    """Memory is always up to date here; the sanitizers want to know."""
    if not lanes.machine.observed:
        return
    semantics: Any = lanes.modifier("sem", "sc" if lanes.has("level") else "acq_rel")
    scope = lanes.modifier("scope") or _LEVELS.get(lanes.modifier("level"), "")
    proxy = lanes.modifier("proxykind")
    if proxy and lanes.has("space"):
        proxy = f"{proxy}.{lanes.modifier('space')}"
    if "mbarrier_init" in lanes.site.form.key:
        proxy = "mbarrier_init"
    named = lanes.address(0) if lanes.operands else None
    size = _immediate(lanes, 1) if lanes.operands else 0
    for position, row in enumerate(lanes.rows.tolist()):
        mask = int(pack(lanes.mask[position]))
        if mask:
            cta, warp = lanes.machine.state.where(row)
            lanes.machine.emit(Fence(
                cta, warp, lanes.site.index, mask, semantics, scope, proxy,
                None if named is None else named[position].copy(), size,
                lanes.modifier("sync_restrict")))


# --- mbarriers ------------------------------------------------------------------------------------

@executes("mbarrier.init")
def _init(lanes: Lanes) -> None:
    lanes.machine.mbarriers.init(lanes, lanes.address(0), lanes.read(1))


@executes("mbarrier.inval")
def _invalidate(lanes: Lanes) -> None:
    lanes.machine.mbarriers.invalidate(lanes, lanes.address(0))


@executes("mbarrier.arrive", "mbarrier.arrive_drop")
def _mbarrier_arrive(lanes: Lanes) -> None:
    count: Any = np.uint32(1)
    announce: Any = 0
    if len(lanes.operands) > 2:
        if "expect_tx" in lanes.site.form.key.split("."):
            announce = lanes.read(2)
        else:
            count = lanes.read(2)
    drop = lanes.site.form.family == "mbarrier.arrive_drop"
    tokens = lanes.machine.mbarriers.arrive(
        lanes, lanes.address(1), count, expect=announce, drop=drop,
        no_complete=lanes.has("noComplete"), op="arrive_drop" if drop else "arrive")
    lanes.write(0, tokens)


@executes("mbarrier.expect_tx", "mbarrier.complete_tx")
def _transact(lanes: Lanes) -> None:
    op = lanes.site.form.family.partition(".")[2]
    lanes.machine.mbarriers.transact(lanes, lanes.address(0), lanes.read(1), op=op)


@executes("mbarrier.test_wait", "mbarrier.try_wait")
def _wait(lanes: Lanes) -> None:
    op = lanes.site.form.family.partition(".")[2]
    if lanes.has("parity"):
        parity = lanes.read(2)
        if (lanes.mask & (parity > 1)).any():
            _report_parity(lanes, parity)
        parity = parity & np.uint32(1)
    else:
        parity = (lanes.read(2) >> np.uint64(63)).astype(np.uint32)
    lanes.write(0, lanes.machine.mbarriers.test(lanes, lanes.address(1), parity, op=op))


def _report_parity(lanes: Lanes, parity: NDArray[np.uint32]) -> None:
    """The chip looks at the lowest bit (ptxas shifts it to where the barrier has its phase), PTX
    defines 0 and 1. A counter works by luck; -1, a truth value with its sign extended as Triton's
    warp-specialised kernels have it, is a note."""
    odd = lanes.mask & (parity > 1)
    counted = odd & (parity != _TRUE)
    position, lane = np.argwhere(counted if counted.any() else odd)[0].tolist()
    lanes.machine.report(
        "illegal-value", f"{lanes.site.shown} waits for parity {parity[position, lane]}: only 0 "
        "and 1 are defined, the chip takes the lowest bit. Repair: and.b32 with 1",
        site=lanes.site, severity="warning" if counted.any() else "note",
        row=int(lanes.rows[position]), lane=lane)


#: -1 as a word.
_TRUE = np.uint32(0xFFFF_FFFF)


@executes("mbarrier.pending_count")
def _pending(lanes: Lanes) -> None:
    state = lanes.read(1)
    lanes.write(0, (state >> np.uint64(43) & np.uint64((1 << 20) - 1)).astype(np.uint32))


# --- cp.async -------------------------------------------------------------------------------------

@executes("cp.async")
def _copy(lanes: Lanes) -> None:
    destinations, sources = lanes.address(0), lanes.address(1)
    size = _immediate(lanes, 2)
    engine = lanes.machine.engine
    read_sizes = _read_sizes(lanes, size)
    count_shared(lanes, destinations, size, lanes.mask)
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        if not active.any():
            continue
        if lanes.machine.observed:
            _tell_copy(lanes, row, active, destinations[position], sources[position], size,
                       read_sizes[position])
        if lanes.machine.traffic is not None:
            for source in np.unique(sources[position][active] >> np.uint64(TAG_SHIFT)).tolist():
                lanes.machine.traffic.fetch(source << TAG_SHIFT)
        lanes.machine.work += 1
        engine.issue(Copy(row, lanes.site, active.copy(), destinations[position],
                          sources[position], size, read_sizes[position],
                          engine.committed[row].copy(), lanes.modifier("space", "shared")))


def _tell_copy(lanes: Lanes, row: int, active: NDArray[np.bool_],
               destinations: NDArray[np.uint64], sources: NDArray[np.uint64], size: int,
               read_sizes: NDArray[np.uint32]) -> None:
    """Of the lanes that write within their CTA; the others are faults when they are done."""
    machine = lanes.machine
    rank = row // machine.shape.warps % machine.space.cluster_size
    own = active & (destinations >> np.uint64(RANK_SHIFT) == rank)
    if own.any():
        cta, warp = machine.state.where(row)
        machine.emit(CpAsync(
            cta, warp, lanes.site.index, int(pack(own)),
            destinations & np.uint64((1 << RANK_SHIFT) - 1), sources.copy(), size,
            read_sizes.copy()))


def _immediate(lanes: Lanes, index: int) -> int:
    op = lanes.operands[index]
    if not isinstance(op, Imm):
        raise lanes.refuse("this operand must be an immediate")
    return op.word


def _read_sizes(lanes: Lanes, size: int) -> NDArray[np.uint32]:
    """How many bytes each lane reads: the rest of its destination is zero."""
    full = np.full(lanes.mask.shape, size, np.uint32)
    if len(lanes.operands) <= 3 or isinstance(lanes.operands[3], Unused):
        return full
    source = lanes.operands[3]
    if isinstance(source, Reg) and source.file == "p":
        return np.where(lanes.predicate(3), np.uint32(0), full)
    asked = lanes.value(source, "u32")
    too_many = lanes.mask & (asked > size)
    if too_many.any():
        position, lane = np.argwhere(too_many)[0].tolist()
        lanes.machine.report("illegal-value", f"cp.async of {size} bytes with src-size"
                             f" {int(asked[position, lane])}", site=lanes.site,
                             row=int(lanes.rows[position]), lane=lane)
    return np.asarray(np.minimum(asked, size).astype(np.uint32))


@executes("cp.async.commit_group")
def _commit(lanes: Lanes) -> None:
    for position, row in enumerate(lanes.rows.tolist()):
        lanes.machine.engine.commit(row, lanes.mask[position])
        if lanes.machine.observed and lanes.mask[position].any():
            cta, warp = lanes.machine.state.where(row)
            lanes.machine.emit(CpAsyncCommit(cta, warp, lanes.site.index,
                                             int(pack(lanes.mask[position]))))


@executes("cp.async.wait_group", "cp.async.wait_all")
def _wait_group(lanes: Lanes) -> None:
    newest = -1 if lanes.site.form.family.endswith("all") else _immediate(lanes, 0)
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        lanes.machine.engine.wait(row, active, newest)
        if lanes.machine.observed and active.any():
            cta, warp = lanes.machine.state.where(row)
            lanes.machine.emit(CpAsyncWait(cta, warp, lanes.site.index, int(pack(active)), newest))


@executes("cp.async.mbarrier.arrive")
def _arrive_after_copies(lanes: Lanes) -> None:
    addresses, noinc = lanes.address(0), lanes.has("noinc")
    mbarriers, engine = lanes.machine.mbarriers, lanes.machine.engine
    if not noinc:
        mbarriers.add(lanes, addresses, np.uint32(1))
    index = mbarriers.locate(lanes, addresses, quiet=True)
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        if not active.any():
            continue
        known = active & (index[position] >= 0)
        if lanes.machine.observed and known.any():
            cta, warp = lanes.machine.state.where(row)
            phases = np.array([mbarriers.phases.get(int(i), -1) for i in index[position]])
            offsets, owners = mbarriers.named(index[position], row)
            lanes.machine.emit(CpAsyncArrive(cta, warp, lanes.site.index, int(pack(known)),
                                             offsets, noinc, phases, owners))
        engine.issue(Arrival(row, lanes.site, active.copy(), addresses[position], noinc))
