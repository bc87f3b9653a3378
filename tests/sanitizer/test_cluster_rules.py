"""Clusters: the barrier, shared memory of other CTAs, remote mbarriers and their scopes."""

from __future__ import annotations

import pytest
from scenario import FULL, TILE, Scenario

LAST = 1 << 31


def cluster(**options) -> Scenario:
    """Two CTAs of one warp that have met once."""
    s = Scenario(threads=32, ctas=2, cluster=2)
    s.cluster_barrier(0, 1, **options)
    return s


def leave(s, generation=1) -> Scenario:
    """Meet again, then both CTAs exit."""
    s.cluster_barrier(0, 1, generation=generation)
    s.exit(0)
    s.exit(0, cta=1)
    return s


# --- the barrier ----------------------------------------------------------------------------------

def test_the_cluster_barrier_orders_the_ctas():
    """Write own, barrier, read the peer's, barrier, exit."""
    s = cluster()
    s.store(0, TILE)
    s.cluster_barrier(0, 1, generation=1)
    s.load(0, TILE, cta=1, owner=0)
    assert leave(s, 2).codes() == []


def test_what_follows_the_arrive_is_not_covered():
    """A store between arrive and wait."""
    s = cluster()
    s.cluster_arrive(0, 1, generation=1)
    s.store(0, TILE)
    s.cluster_wait(0, 1, generation=1)
    s.load(0, TILE, cta=1, owner=0)
    assert leave(s, 2).codes() == ["missing-barrier"]
    assert s.repair("missing-barrier") == "barrier.cluster.arrive and wait between lines 3 and 4"


def test_a_relaxed_arrive_publishes_what_was_fenced():
    """fence, arrive.relaxed, wait, fence; without the first fence nothing is published."""
    for fence, codes in ((True, []), (False, ["missing-release"])):
        s = cluster()
        s.store(0, TILE)
        if fence:
            s.fence(0, "acq_rel", "cluster")
        s.cluster_barrier(0, 1, generation=1, semantics="relaxed")
        s.load(0, TILE, cta=1, owner=0)
        assert leave(s, 2).codes() == codes


def test_threads_that_ended_count_with_what_they_did():
    """One CTA has two warps, one of which ends before the barrier."""
    s = Scenario(threads=64, ctas=2, cluster=2)
    s.store(1, TILE, cta=0)
    s.exit(1)
    s.cluster_arrive(0, 1)
    s.cluster_arrive(1, warp=1)
    s.cluster_wait(0, 1)
    s.load(0, TILE, cta=1, owner=0)
    assert s.codes() == []


# --- lifetimes ------------------------------------------------------------------------------------

def test_a_cta_must_have_started():
    """A remote store without any synchronisation before."""
    s = Scenario(threads=32, ctas=2, cluster=2)
    s.store(0, TILE, owner=1)
    assert s.codes() == ["cluster-lifetime"]
    assert "may not have started" in s.findings()[0].message


def test_a_relaxed_barrier_tells_that_a_cta_has_started():
    """Order in time is enough for that."""
    s = cluster(semantics="relaxed")
    s.store(0, TILE, owner=1)
    assert leave(s).codes() == []


@pytest.mark.parametrize("first", [0, 1])
def test_a_cta_must_not_exit_under_an_access(first):
    """Whoever comes first in this run: the exit, or the access."""
    s = cluster()
    if first:
        s.load(0, TILE, cta=0, owner=1)
        s.exit(0, cta=1)
    else:
        s.exit(0, cta=1)
        s.load(0, TILE, cta=0, owner=1)
    assert s.codes() == ["cluster-lifetime"]
    assert "may have exited" in s.findings()[0].message


def test_remote_writes_need_more_than_a_relaxed_barrier_before_the_exit():
    """A read has its value; a store may still be under way."""
    for kind, codes in (("load", []), ("store", ["cluster-lifetime"])):
        s = Scenario(threads=32, ctas=2, cluster=2)
        s.store(0, TILE, cta=1)
        s.cluster_barrier(0, 1)
        getattr(s, kind)(0, TILE, cta=0, owner=1)
        s.cluster_barrier(0, 1, generation=1, semantics="relaxed")
        s.exit(0)
        s.exit(0, cta=1)
        assert s.codes() == codes


def test_a_copy_into_a_peer_that_exits():
    """The peer waits for its phase, or it does not."""
    for waits, codes in ((True, []), (False, ["cluster-lifetime"])):
        s = Scenario(threads=32, ctas=2, cluster=2)
        for cta in range(2):
            s.mbarrier("init", 0, mask=1, cta=cta)
        s.cluster_barrier(0, 1)
        s.expect(cta=1)
        s.bulk_load(to=(1,))
        if waits:
            s.mbarrier("try_wait", 0, completed=FULL, cta=1)
        s.exit(0, cta=1)
        assert s.codes() == codes


# --- remote mbarriers -----------------------------------------------------------------------------

def remote(*, fence=True, semantics="relaxed", arrive="cluster", wait="cluster", mode="release",
           ) -> Scenario:
    """CTA 1 writes into CTA 0 and arrives at CTA 0's mbarrier; CTA 0 waits and reads."""
    s = Scenario(threads=32, ctas=2, cluster=2)
    s.mbarrier("init", 0, mask=1, count=32)
    if fence:
        s.proxy_fence(0, "mbarrier_init", semantics="release")
    s.cluster_barrier(0, 1, semantics=semantics)
    s.store(0, TILE, cta=1, owner=0)
    s.mbarrier("arrive", 0, cta=1, owner=0, completed=LAST, scope=arrive, semantics=mode)
    s.mbarrier("try_wait", 0, completed=FULL, scope=wait, semantics="acquire")
    s.load(0, TILE)
    return leave(s)


def test_a_remote_arrive_publishes_remote_data():
    """With the cluster scope written, or none at all (decision M2)."""
    assert remote().codes() == []
    assert remote(arrive="", wait="").codes() == []


@pytest.mark.parametrize("ends", [{"arrive": "cta"}, {"wait": "cta"}])
def test_a_written_cta_scope_leaves_the_other_cta_out(ends):
    """On either side."""
    assert remote(**ends).codes() == ["scope-too-narrow"]


def test_a_relaxed_remote_arrive_publishes_nothing():
    """The data are ordered in time only."""
    assert remote(mode="relaxed").codes() == ["missing-release"]


def test_a_cta_scope_wait_still_knows_the_arrivals_of_its_own_cta():
    """One local and one remote arrival; local data need no wider scope."""
    s = Scenario(threads=64, ctas=2, cluster=2)
    s.mbarrier("init", 0, mask=1, count=2)
    s.proxy_fence(0, "mbarrier_init", semantics="release")
    s.barrier(0, 1)
    for warp in range(2):
        s.cluster_arrive(0, 1, warp=warp)
    for warp in range(2):
        s.cluster_wait(0, 1, warp=warp)
    s.store(1, TILE, mask=1)
    s.mbarrier("arrive", 1, mask=1, scope="cta")
    s.mbarrier("arrive", 0, mask=1, cta=1, owner=0, completed=1, text="arrive remote")
    s.mbarrier("try_wait", 0, completed=FULL, scope="cta")
    s.load(0, TILE, mask=1)
    assert s.codes() == []


@pytest.mark.parametrize(("fence", "semantics", "codes"), [
    (True, "relaxed", []), (False, "release", []), (False, "relaxed", ["mbarrier-init-order"]),
])
def test_the_initialisation_reaches_other_ctas(fence, semantics, codes):
    """fence.mbarrier_init with any cluster barrier, or a releasing one."""
    found = remote(fence=fence, semantics=semantics).codes()
    assert [code for code in found if code != "warp-sync-missing"] == codes


def test_the_init_fence_publishes_nothing_else():
    """Data that were written before fence.mbarrier_init are not released by it."""
    s = Scenario(threads=32, ctas=2, cluster=2)
    s.mbarrier("init", 0, mask=1, count=32)
    s.store(0, TILE)
    s.proxy_fence(0, "mbarrier_init", semantics="release")
    s.cluster_barrier(0, 1, semantics="relaxed")
    s.load(0, TILE, cta=1, owner=0)
    assert "missing-release" in leave(s).codes()


def test_a_multicast_counts_in_every_cta():
    """One copy, two destinations; each CTA waits on its own mbarrier."""
    s = Scenario(threads=32, ctas=2, cluster=2)
    for cta in range(2):
        s.mbarrier("init", 0, mask=1, cta=cta)
    s.cluster_barrier(0, 1)
    for cta in range(2):
        s.expect(cta=cta)
    s.bulk_load(to=(0, 1))
    for cta in range(2):
        s.mbarrier("try_wait", 0, completed=FULL, cta=cta)
        s.load(0, TILE, cta=cta)
    assert leave(s).codes() == []


def test_a_multicast_to_a_cta_that_is_not_ready():
    """The peer's mbarrier is initialised, and nothing tells the issuer."""
    s = Scenario(threads=32, ctas=2, cluster=2)
    for cta in range(2):
        s.mbarrier("init", 0, mask=1, cta=cta)
    s.expect()
    s.bulk_load(to=(0, 1))
    assert set(s.codes()) == {"cluster-lifetime", "mbarrier-init-order"}
