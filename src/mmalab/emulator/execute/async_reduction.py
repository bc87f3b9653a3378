"""red.async: reductions in another CTA's shared memory that complete on an mbarrier there."""

from __future__ import annotations

import numpy as np

from mmalab.emulator.events import Span
from mmalab.emulator.execute.atomic import reduce_lanes
from mmalab.emulator.execute.bulk import barrier_of
from mmalab.emulator.execute.reduction import combine
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.issue import Issue, each_lane
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.types import width

__all__: list[str] = []


@executes("red.async")
def _reduce_async(lanes: Lanes) -> None:
    """With an mbarrier in the cluster; the forms without one reduce in global memory, at once."""
    if any(spec.name == "mbar" for spec in lanes.site.form.operands):
        each_lane(lanes, _to_cluster)
    else:
        reduce_lanes(lanes)


def _to_cluster(issue: Issue) -> None:
    kind, op = issue.modifiers["type"], issue.modifiers["op"]
    size = width(kind) // 8
    value = np.array([issue.word("b")], f"u{size}")
    place = issue.shared(issue.in_cluster("a"), size, "the destination", align=size)
    barrier = barrier_of(issue, place, issue.in_cluster("mbar"))
    if issue.shared_cta(place) == issue.cta:
        issue.warn("red.async into the CTA that executes it", "is undefined",
                   legal="another CTA of the cluster (mapa), or red.shared::cta")
    issue.spans.append(Span("shared", issue.owner(issue.shared_cta(place)), "atomic",
                            np.array([issue.offset(place)]), size, "generic"))
    done = issue.signal(barrier, size, (0,))
    issue.check_written(place, slice(place.at, place.at + size), issue.name)

    def reduce() -> None:
        where = place.region.data[place.at : place.at + size]
        old = np.ascontiguousarray(where).view(value.dtype)
        where[:] = np.ascontiguousarray(combine(op, kind, old, value, False)).view(np.uint8)
        done()

    issue.launch("mbarrier", [reduce])
