"""Shared memory of clusters: an address belongs to one CTA, and only some instructions leave it."""

from __future__ import annotations

import numpy as np
import pytest
from hostile import compiled, interpreted, kernel

from mmalab import emulate

MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
SETUP = (".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;"
         "mov.u32 %r0,%tid.x; mov.u32 %r1,s; mov.u32 %r2,bar; mov.u32 %r3,%cluster_ctarank;"
         "xor.b32 %r4,%r3,1; mapa.shared::cluster.u32 %r5,%r1,%r4; shl.b32 %r6,%r0,4;"
         f"add.u32 %r5,%r5,%r6; add.u32 %r1,%r1,%r6; {MEET}\n")
PAIR = {"grid": 2, "block": 32, "cluster": 2}
SCHEDULES = ["eager", "lazy", 1, 2]

#: Instructions of the CTA's own window.
OWN = ["st.shared.u32 [%r5],%r0;", "st.shared::cta.u32 [%r5],%r0;", "ld.shared.u32 %r7,[%r5];",
       "atom.shared::cta.add.u32 %r7,[%r5],1;", "mbarrier.init.shared::cta.b64 [%r5],1;",
       "cp.async.cg.shared.global [%r5],[%rd40],16; cp.async.wait_all;",
       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7},[%r5];",
       "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5],{%r0};"]


@pytest.mark.parametrize("access", OWN)
def test_addresses_of_another_cta_need_the_cluster_s_window(access: str) -> None:
    """``.shared`` is ``.shared::cta``: what `mapa` gives lies outside; no executor lets it pass."""
    text = kernel(f"{SETUP}{access}\n{MEET}", target="sm_90a")
    for execute in (interpreted, compiled, emulate):
        found = [f for f in execute(text, [np.zeros(64, np.uint32)], **PAIR).findings
                 if f.code == "out-of-bounds"]
        assert found, execute
        assert ".shared::cluster" in found[0].message
        assert found[0].where.line == 10


@pytest.mark.parametrize("access", ["st.shared::cluster.u32 [%r5],%r0;",
                                    "st.shared.u32 [%r1],%r0;"])
def test_the_cluster_s_window_and_the_own_addresses_stay_legal(access: str) -> None:
    """Also in a CTA whose own addresses begin above zero."""
    text = kernel(f"{SETUP}{access}\n{MEET}", target="sm_90a")
    for execute in (interpreted, compiled, emulate):
        assert execute(text, [np.zeros(64, np.uint32)], **PAIR).findings == []


COPY = (f"{SETUP}setp.eq.u32 %p0,%r0,0;"
        "@%p0 mbarrier.init.shared::cta.b64 [%r2],32; bar.sync 0;"
        "cvt.u64.u32 %rd1,%r6; add.u64 %rd1,%rd1,%rd40;\n"
        "cp.async.cg.shared.global [%r1],[%rd1],16;\n"
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];\n"
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1,[%r2],0; @!%p1 bra W;\n"
        "xor.b32 %r7,%r6,16; mov.u32 %r8,s; add.u32 %r8,%r8,%r7; ld.shared.u32 %r9,[%r8];\n"
        "mad.lo.u32 %r10,%r3,32,%r0; mul.wide.u32 %rd2,%r10,4; add.u64 %rd2,%rd2,%rd41;"
        "st.global.u32 [%rd2],%r9;")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_copies_by_threads_are_followed_in_every_cta_of_a_cluster(schedule: str | int) -> None:
    """cp.async, its arrival on an mbarrier and the wait: nothing to report in the second CTA."""
    text = kernel(COPY, 2, target="sm_90a")
    source, got = np.arange(128, dtype=np.uint32), np.zeros(64, np.uint32)
    run = emulate(text, [source, got], schedule=schedule, **PAIR)
    assert run.findings == []
    assert got.reshape(2, 32).tolist() == [(source[::4].reshape(16, 2)[:, ::-1].ravel()).tolist()
                                           ] * 2


def test_a_read_before_the_copies_have_arrived_is_found_there_too() -> None:
    """Without the wait the same kernel is a race, in both CTAs."""
    text = kernel("\n".join(line for line in COPY.split("\n")
                            if not line.startswith("W:")), 2, target="sm_90a")
    run = emulate(text, [np.arange(128, dtype=np.uint32), np.zeros(64, np.uint32)], **PAIR)
    assert {f.code for f in run.findings if f.severity == "error"} == {"missing-cp-async-wait"}
