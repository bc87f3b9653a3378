"""Copies at the edge of what makes sense: of nothing, and signalled as the peer leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hostile import compiled, interpreted, kernel

from mmalab import emulate

SCHEDULES = ["eager", "lazy", 1, 2]
SETUP = (".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar; mov.u32 %r0,%tid.x;"
         "mov.u32 %r1,s; mov.u32 %r2,bar; mov.u32 %r3,0; setp.eq.u32 %p0,%r0,0;"
         "@%p0 mbarrier.init.shared::cta.b64 [%r2],1; mov.b16 %h0,1; bar.sync 0;\n")
#: Copies whose size is a register that holds 0.
EMPTY = {
    "load": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%r1],[%rd40],%r3,[%r2];",
    "store": "cp.async.bulk.global.shared::cta.bulk_group [%rd40],[%r1],%r3;",
    "reduction": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd40],[%r1],%r3;",
    "to the own CTA": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                      " [%r1],[%r1],%r3,[%r2];",
    "multicast": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%r1],[%rd40],%r3,[%r2],%h0;",
    "prefetch": "cp.async.bulk.prefetch.L2.global [%rd40],%r3;",
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("copy", EMPTY.values(), ids=EMPTY.keys())
def test_copies_of_no_bytes_do_nothing(copy: str, schedule: str | int) -> None:
    """They touch nothing, so that there is nothing to order, and nothing to fail."""
    text = kernel(f"{SETUP}@%p0 {copy}\n@%p0 cp.async.bulk.commit_group;"
                  "@%p0 cp.async.bulk.wait_group 0;\n"
                  "@%p0 mbarrier.arrive.shared::cta.b64 _,[%r2];\n"
                  "W: mbarrier.try_wait.parity.shared::cta.b64 %p1,[%r2],0; @!%p1 bra W;",
                  target="sm_90a")
    data = np.arange(64, dtype=np.uint32)
    for execute in (interpreted, compiled, emulate):
        assert execute(text, [data], block=32, schedule=schedule).findings == []
    assert data.tolist() == list(range(64))


def _leaving(semantics: str) -> str:
    """CTA 1 arrives on CTA 0's mbarrier, which nobody waits for, and both leave."""
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    return kernel(
        ".shared .align 8 .b64 bar; mov.u32 %r0,%tid.x; mov.u32 %r2,bar;"
        "mov.u32 %r3,%cluster_ctarank; setp.eq.u32 %p0,%r0,0;"
        "@%p0 mbarrier.init.shared::cta.b64 [%r2],2; fence.mbarrier_init.release.cluster;\n"
        f"{meet}\nsetp.eq.and.u32 %p1,%r3,1,%p0; mapa.shared::cluster.u32 %r4,%r2,0;\n"
        "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _,[%r4];\n"
        f"barrier.cluster.arrive{semantics}.aligned; barrier.cluster.wait.aligned;", 0,
        target="sm_90a")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("semantics", "codes"), [
    ("", set()), (".release", set()), (".relaxed", {"cluster-lifetime"})])
def test_a_remote_arrival_is_ordered_before_the_exit(semantics: str, codes: set[str],
                                                     schedule: str | int) -> None:
    """It returns nothing, so that its time is not known: a relaxed barrier does not carry it."""
    run = emulate(_leaving(semantics), [], grid=2, block=32, cluster=2, schedule=schedule)
    assert {f.code for f in run.findings if f.severity == "error"} == codes


def _sent(*, waits: bool) -> str:
    """CTA 1 sends 128 bytes to CTA 0, which waits for them; both meet, or CTA 1 does not wait."""
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    last = meet if waits else "barrier.cluster.arrive.aligned;"
    return kernel(
        ".shared .align 128 .b8 s[256]; .shared .align 8 .b64 bar; mov.u32 %r0,%tid.x;"
        "mov.u32 %r1,s; mov.u32 %r2,bar; mov.u32 %r3,%cluster_ctarank; setp.eq.u32 %p0,%r0,0;"
        "@%p0 mbarrier.init.shared::cta.b64 [%r2],1; fence.mbarrier_init.release.cluster;"
        "shl.b32 %r5,%r0,2; add.u32 %r5,%r5,%r1; st.shared.u32 [%r5],%r0;\n"
        f"fence.proxy.async.shared::cta; {meet}\nsetp.eq.u32 %p1,%r3,1; @%p1 bra SEND;\n"
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _,[%r2],128;\n"
        "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2,[%r2],0; @!%p2 bra W;\n"
        f"ld.shared.u32 %r6,[%r5+128]; {meet}\nret;\n"
        "SEND: mapa.shared::cluster.u32 %r7,%r1,0; mapa.shared::cluster.u32 %r8,%r2,0;\n"
        "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        f" [%r7+128],[%r1],128,[%r8];\n{last}", 0, target="sm_90a")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("waits", [True, False])
def test_shared_memory_lives_until_a_copy_to_the_peer_has_read_it(waits: bool,
                                                                   schedule: str | int) -> None:
    """Only the receiver's mbarrier tells; the sender has to hear of it before it exits."""
    run = emulate(_sent(waits=waits), [], grid=2, block=32, cluster=2, schedule=schedule)
    assert [f.code for f in run.findings] == ([] if waits else ["cluster-lifetime"])
