"""Barriers, fences, mbarriers, cp.async, and what the CTA and the grid do together.

``mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 d, [a], parity{, hint}``. The older
spellings ``bar.sync`` and ``barrier.sync.aligned`` are one instruction and share a family.
"""

from __future__ import annotations

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import row

__all__ = ["ROWS"]

_IDS = range(16)
_COUNTS = range(0, 1025, 32)
_BARRIER = {"a": _IDS, "n": _COUNTS}
_ARRIVE = {"a": _IDS, "n": range(32, 1025, 32)}
_SM90 = ("sm_90+", (8, 0))
_SEM = {"relaxed": _SM90, "release": ("any", (8, 0)), "acquire": ("any", (8, 0))}

_BARRIERS = chapter(
    "Parallel Synchronization and Communication Instructions",
    *(
        line
        for head, aligned, first in (("bar", "", (1, 0)), ("barrier", "{.aligned}", (6, 0)))
        for line in (
            row(f"{head}{{.cta}}.sync{aligned} a:u32{{, n:u32}}", "wait for all warps at barrier a",
                values=_BARRIER, ptx=first, family="bar.sync", needs={"cta": ("any", (7, 8))}),
            row(f"{head}{{.cta}}.arrive{aligned} a:u32, n:u32", "arrive at barrier a, go on",
                values=_ARRIVE, ptx=max(first, (2, 0)), family="bar.arrive",
                needs={"cta": ("any", (7, 8))}),
            row(f"{head}{{.cta}}.red.op=popc{aligned}.u32 d, a:u32{{, n:u32}}, c:pred",
                "wait, and count the true predicates", values=_BARRIER, ptx=max(first, (2, 0)),
                family="bar.red", needs={"cta": ("any", (7, 8))}),
            row(f"{head}{{.cta}}.red.op=and|or{aligned}.pred d, a:u32{{, n:u32}}, c:pred",
                "wait, and combine the predicates", values=_BARRIER, ptx=max(first, (2, 0)),
                family="bar.red", needs={"cta": ("any", (7, 8))}),
        )
    ),
    row("bar.warp.sync mask:b32", "wait for the lanes of the mask", ptx=(6, 0)),
    row("barrier.cluster.arrive{.sem}{.aligned}", "arrive at the cluster's barrier",
        sem="release relaxed", targets="sm_90+", ptx=(7, 8), needs=_SEM),
    row("barrier.cluster.wait{.acquire}{.aligned}", "wait at the cluster's barrier",
        targets="sm_90+", ptx=(7, 8), needs=_SEM),
)

_ONE_SIDED = {"acquire": ("sm_90+", (8, 6)), "release": ("sm_90+", (8, 6))}

_FENCES = chapter(
    "Parallel Synchronization and Communication Instructions",
    row("fence{.sem}.scope", "order memory accesses", sem="sc acq_rel acquire release",
        ptx=(6, 0), needs=_ONE_SIDED),
    row("fence.acquire.sync_restrict::shared::cluster.cluster",
        "acquire, for shared memory of the cluster", targets="sm_90+", ptx=(8, 6)),
    row("fence.release.sync_restrict::shared::cta.cluster", "release, for shared memory",
        targets="sm_90+", ptx=(8, 6)),
    row("fence.mbarrier_init.release.cluster", "make mbarrier.init visible to the cluster",
        targets="sm_90+", ptx=(8, 0)),
    row("fence.proxy.proxykind=alias", "order accesses through aliases", ptx=(7, 5)),
    row("membar.proxy.proxykind=alias", "order accesses through aliases", ptx=(7, 5)),
    row("fence.proxy.proxykind=async{.space}", "order generic and async accesses",
        space="global shared::cta shared::cluster", targets="sm_90+", ptx=(8, 0)),
    row("fence.proxy.proxykind=tensormap::generic.release.scope",
        "release a modified tensor map", targets="sm_90+", ptx=(8, 3)),
    row("fence.proxy.proxykind=tensormap::generic.acquire.scope [a], #size",
        "acquire a modified tensor map", targets="sm_90+", ptx=(8, 3), values={"size": (128,)}),
    row("fence.proxy.proxykind=async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "acquire through the async proxy", targets="sm_90+", ptx=(8, 6)),
    row("fence.proxy.proxykind=async::generic.release.sync_restrict::shared::cta.cluster",
        "release through the async proxy", targets="sm_90+", ptx=(8, 6)),
    row("membar.level=cta|gl|sys", "order memory accesses (cta, gpu or sys)", ptx=(1, 4)),
)

_OWN = "{.window}"
_SYNC = "{.sem.scope=cta|cluster}"
#: Arrivals and waits are relaxed later than transaction counts, which always were.
_ORDERED = {**_SEM, "relaxed": ("sm_90+", (8, 6))}

_MBARRIERS = chapter(
    "Parallel Synchronization and Communication Instructions",
    row(f"mbarrier.init{_OWN}.b64 [a], count:u32", "begin phase 0 with a count", targets="sm_80+",
        ptx=(7, 0)),
    row(f"mbarrier.inval{_OWN}.b64 [a]", "end the object's life", targets="sm_80+", ptx=(7, 0)),
    row(f"mbarrier.expect_tx{_SYNC}{{.space}}.b64 [a], count:u32", "announce bytes",
        sem="relaxed", space="shared shared::cta shared::cluster", targets="sm_90+", ptx=(8, 0)),
    row(f"mbarrier.complete_tx{_SYNC}{{.space}}.b64 [a], count:u32", "account for bytes",
        sem="relaxed", space="shared shared::cta shared::cluster", targets="sm_90+", ptx=(8, 0)),
    *(
        line
        for op in ("arrive", "arrive_drop")
        for line in (
            row(f"mbarrier.{op}{_SYNC}{_OWN}.b64 d, [a]{{, count:u32}}", "arrive, keep the state",
                sem="release relaxed", targets="sm_80+", ptx=(7, 0), needs=_ORDERED,
                operand_needs={"count": ("sm_90+", (7, 8))}, evidence=Evidence.ASSEMBLED),
            row(f"mbarrier.{op}{_SYNC}.shared::cluster.b64 _, [a]{{, count:u32}}",
                "arrive at a barrier of the cluster", sem="release relaxed", targets="sm_90+",
                ptx=(8, 0), needs=_ORDERED, evidence=Evidence.ASSEMBLED),
            row(f"mbarrier.{op}.expect_tx{_SYNC}{_OWN}.b64 d, [a], count:u32",
                "announce bytes, then arrive", sem="release relaxed", targets="sm_90+", ptx=(8, 0),
                needs=_ORDERED, evidence=Evidence.ASSEMBLED),
            row(f"mbarrier.{op}.expect_tx{_SYNC}.shared::cluster.b64 _, [a], count:u32",
                "announce bytes at a barrier of the cluster, then arrive", sem="release relaxed",
                targets="sm_90+", ptx=(8, 0), needs=_ORDERED, evidence=Evidence.ASSEMBLED),
            row(f"mbarrier.{op}.noComplete{{.release.cta}}{_OWN}.b64 d, [a], count:u32",
                "arrive without completing the phase", targets="sm_80+", ptx=(7, 0), needs=_SEM),
        )
    ),
    *(
        line
        for op, hint, floor, first in (("test_wait", "", "sm_80+", (7, 0)),
                                       ("try_wait", "{, hint:u32}", "sm_90+", (7, 8)))
        for line in (
            row(f"mbarrier.{op}{_SYNC}{_OWN}.b64 d:pred, [a], state{hint}",
                "whether the phase of a state is over", sem="acquire relaxed", targets=floor,
                ptx=first, needs=_ORDERED, evidence=Evidence.ASSEMBLED),
            row(f"mbarrier.{op}.parity{_SYNC}{_OWN}.b64 d:pred, [a], parity:u32{hint}",
                "whether the phase of that parity is over", sem="acquire relaxed", targets=floor,
                ptx=max(first, (7, 1)), needs=_ORDERED, evidence=Evidence.ASSEMBLED),
        )
    ),
    row("mbarrier.pending_count.b64 d:u32, state", "pending arrivals in a state", targets="sm_80+",
        ptx=(7, 0)),
)

_COPY = "{.L2::cache_hint}{.prefetch}"
_COPIES = chapter(
    "Data Movement and Conversion Instructions",
    *(
        row(f"cp.async.cache={cache}.space=shared|shared::cta.source=global{_COPY} "
            "[d], [a], #size{, src:u32/pred}{, policy:b64}", "copy to shared memory, later",
            targets="sm_80+", ptx=(7, 0), values={"size": sizes},
            needs={"shared::cta": ("any", (7, 0))}, evidence=Evidence.ASSEMBLED)
        for cache, sizes in (("ca", (4, 8, 16)), ("cg", (16,)))
    ),
    row("cp.async.commit_group", "make a group of the copies so far", targets="sm_80+",
        ptx=(7, 0)),
    row("cp.async.wait_group #n", "wait until n groups are pending at most", targets="sm_80+",
        ptx=(7, 0)),
    row("cp.async.wait_all", "wait for all copies", targets="sm_80+", ptx=(7, 0)),
    row("cp.async.mbarrier.arrive{.noinc}{.window}.b64 [a]",
        "arrive when this thread's copies are done", targets="sm_80+", ptx=(7, 0)),
)

_GRID = chapter(
    "Parallel Synchronization and Communication Instructions",
    row("griddepcontrol.wait", "wait for the grids before this one", targets="sm_90+",
        ptx=(7, 8)),
    row("griddepcontrol.launch_dependents", "let the next grid start", targets="sm_90+",
        ptx=(7, 8)),
    row("clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes"
        "{.multicast::cluster::all}.b128 [a], [mbar]", "take over a cluster not yet started",
        targets="sm_100+", ptx=(8, 6),
        needs={"cluster::all": ("sm_100f sm_110f sm_120f", (8, 6))}),
    row("clusterlaunchcontrol.query_cancel.is_canceled.dtype=pred.b128 d, a",
        "whether a cluster was taken over", targets="sm_100+", ptx=(8, 6)),
    row("clusterlaunchcontrol.query_cancel.get_first_ctaid.vec=v4.dtype=b32.b128 d<vec>, a",
        "its first CTA", targets="sm_100+", ptx=(8, 6)),
    row("clusterlaunchcontrol.query_cancel.axis.dtype=b32.b128 d, a", "its first CTA",
        axis="get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z", targets="sm_100+",
        ptx=(8, 6)),
)

ROWS = (*_BARRIERS, *_FENCES, *_MBARRIERS, *_COPIES, *_GRID)
