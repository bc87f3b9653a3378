"""Clusters: their barrier, and stores that complete on an mbarrier of another CTA."""

from __future__ import annotations

import numpy as np

from mmalab.emulator.events import Span
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.traffic import observe_access
from mmalab.emulator.issue import Illegal, Issue, each_lane
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
    """To another CTA of the cluster with an mbarrier there, or to global memory at once."""
    if not lanes.has("global"):
        each_lane(lanes, _to_cluster)
        return
    values, addresses = lanes.read_all(1), lanes.address(0)
    size = width(lanes.type(1)) // 8
    faults = lanes.machine.space.store("global", addresses, size, np.stack(values), lanes.mask,
                                       lanes.rows)
    lanes.machine.report_faults(lanes, faults, "st.async")
    lanes.machine.version += 1
    observe_access(lanes, "write", "global", addresses, size * len(values),
                   values=np.stack(values))


def _to_cluster(issue: Issue) -> None:
    """The store, then its bytes on the mbarrier of the CTA that it goes to."""
    data = b"".join(word.tobytes() for word in issue.vector("b"))
    size = len(data)
    place = issue.shared(issue.in_cluster("a"), size, "the destination", align=size)
    barrier = issue.shared(issue.in_cluster("mbar"), 8, "the mbarrier", align=8)
    there = issue.shared_cta(place)
    if issue.shared_cta(barrier) != there:
        raise Illegal("illegal-value", "an mbarrier in CTA"
                      f" {issue.owner(issue.shared_cta(barrier))} for a store into CTA"
                      f" {issue.owner(there)}", "it lies in the CTA that gets the bytes",
                      where="PTX ISA, st.async")
    if issue.machine.space.cluster_size == 1:
        issue.warn("st.async in a cluster of one CTA", "is undefined",
                   legal="a cluster of two CTAs or more, or st.shared and mbarrier.arrive")
    issue.mark_written(place, slice(place.at, place.at + size))
    issue.spans.append(Span("shared", issue.owner(there), "write",
                            np.array([issue.offset(place)]), size, "generic"))
    done = issue.signal(barrier, size, (0,))

    def write() -> None:
        place.region.data[place.at : place.at + size] = np.frombuffer(data, np.uint8)
        done()

    issue.launch("mbarrier", [write])


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
