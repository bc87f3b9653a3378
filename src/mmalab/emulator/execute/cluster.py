"""Clusters: their barrier, and stores that complete on an mbarrier of another CTA."""

from __future__ import annotations

import numpy as np

from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.traffic import observe_access
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm
from mmalab.emulator.types import width

__all__: list[str] = []


@executes("barrier.cluster.arrive")
def _arrive(lanes: Lanes) -> None:
    lanes.machine.cluster_barriers.arrive(lanes.site, lanes.rows, lanes.mask)


@executes("barrier.cluster.wait")
def _wait(lanes: Lanes) -> None:
    lanes.machine.cluster_barriers.wait(lanes.site, lanes.rows, lanes.mask)


@executes("st.async")
def _store_async(lanes: Lanes) -> None:
    """The store, then its bytes on the mbarrier of the CTA that it went to."""
    values, addresses = lanes.read_all(1), lanes.address(0)
    size = width(lanes.type(1)) // 8
    space = "global" if lanes.has("global") else "shared"
    faults = lanes.machine.space.store(space, addresses, size, np.stack(values), lanes.mask,
                                       lanes.rows)
    lanes.machine.report_faults(lanes, faults, "st.async")
    lanes.machine.version += 1
    observe_access(lanes, "write", space, addresses, size * len(values), values=np.stack(values))
    if len(lanes.operands) > 2 and not lanes.machine.stopped:
        lanes.machine.mbarriers.transact(lanes, lanes.address(2),
                                         np.uint32(size * len(values)), op="complete_tx")


@executes("st.bulk")
def _store_bulk(lanes: Lanes) -> None:
    """Zero bytes of shared memory, a multiple of 8."""
    start, sizes = lanes.address(0), lanes.read(1)
    value = lanes.operands[2]
    if not isinstance(value, Imm) or value.word:
        raise lanes.refuse("only the value 0 can be stored")
    words = np.zeros((1, *lanes.mask.shape), np.uint64)
    for offset in range(0, int(sizes[lanes.mask].max()), 8):
        some = lanes.subset(lanes.mask & (sizes > offset))
        where = start + np.uint64(offset)
        faults = lanes.machine.space.store(lanes.modifier("space"), where, 8, words, some.mask,
                                           lanes.rows)
        lanes.machine.report_faults(some, faults, "st.bulk")
        if lanes.machine.stopped:
            return
        observe_access(some, "write", lanes.modifier("space").partition("::")[0], where, 8)
    lanes.machine.version += 1
