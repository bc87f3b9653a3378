"""Proxies: what the async proxy and the tensormap proxy may see, and which fence shows it."""

from __future__ import annotations

import numpy as np
import pytest
from scenario import FULL, TILE, TILE_AT, Scenario

MAP_AT = 20 << 40
MAP = np.uint64(MAP_AT) + 4 * np.arange(32, dtype=np.uint64)
MAPS = np.full(32, MAP_AT, np.uint64)
SOURCE = np.uint64(16 << 40) + 4 * np.arange(32, dtype=np.uint64)


def stored(*, before=(), after=(), barrier=True) -> Scenario:
    """All of warp 0 writes, warp 1 stores in bulk; proxy fences before or behind the barrier."""
    s = Scenario()
    s.store(0, TILE)
    for proxy in before:
        s.proxy_fence(0, proxy)
    if barrier:
        s.barrier(0, 1)
    for proxy in after:
        s.proxy_fence(1, proxy)
    s.bulk_store(1)
    return s


@pytest.mark.parametrize("proxy", ["async", "async.shared::cta", "async.shared::cluster"])
def test_the_fence_may_stand_with_the_writers_or_with_the_issuer(proxy):
    """Decision P1."""
    assert stored(before=[proxy]).codes() == []
    assert stored(after=[proxy]).codes() == []


def test_without_a_fence_the_async_proxy_may_see_old_bytes():
    """Ordered, but through the generic proxy only; the repair names line and state space."""
    s = stored()
    assert s.codes() == ["missing-proxy-fence"]
    assert s.severity("missing-proxy-fence") == "error"
    assert s.repair("missing-proxy-fence") == (
        "fence.proxy.async.shared::cta after line 1, before the arrive or barrier that publishes "
        "it")


def test_a_fence_for_another_space_or_of_another_kind_does_not_help():
    """.global for shared data, and fence.acq_rel."""
    s = stored(before=["async.global"])
    assert s.codes() == ["missing-proxy-fence"]
    s = Scenario()
    s.store(0, TILE)
    s.fence(0, "acq_rel", "gpu")
    s.barrier(0, 1)
    s.bulk_store(1)
    assert s.codes() == ["missing-proxy-fence"]


def test_a_fence_covers_what_came_before_it_only():
    """Store, fence, store."""
    s = Scenario()
    s.store(0, TILE)
    s.proxy_fence(0)
    s.store(0, TILE, "st.late")
    s.barrier(0, 1)
    s.bulk_store(1)
    assert s.codes() == ["missing-proxy-fence"]


def test_a_fence_without_order_is_no_order():
    """Nothing but the fence between writer and issuer."""
    assert stored(before=["async"], barrier=False).codes() == ["missing-barrier"]


def test_one_fencing_thread_covers_its_own_writes_only():
    """Lane 0 fences before the barrier: the other lanes' writes are not covered."""
    s = Scenario()
    s.store(0, TILE)
    s.proxy_fence(0, mask=1)
    s.barrier(0, 1)
    s.bulk_store(1)
    assert s.codes() == ["missing-proxy-fence"]


def test_global_data_needs_the_fence_too():
    """Ordinary stores to global memory, read by a bulk load."""
    for proxy, codes in (("async", []), ("async.global", []),
                         ("async.shared::cta", ["missing-proxy-fence"])):
        s = Scenario()
        s.mbarrier("init", 0, mask=1)
        s.store(0, SOURCE)
        s.proxy_fence(0, proxy)
        s.barrier(0, 1)
        s.expect(1)
        s.bulk_load(1)
        assert s.codes() == codes


def test_cp_async_uses_the_generic_proxy():
    """Its data need the fence before a bulk store."""
    for fence, codes in ((True, []), (False, ["missing-proxy-fence"])):
        s = Scenario()
        s.copy(0, TILE_AT + 16 * np.arange(32, dtype=np.uint64))
        s.wait(0, -1)
        if fence:
            s.proxy_fence(0)
        s.barrier(0, 1)
        s.bulk_store(1, size=512)
        assert s.codes() == codes


@pytest.mark.parametrize("restricted", ["release", "acquire"])
def test_the_restricted_fences_cover_shared_memory(restricted):
    """fence.proxy.async::generic.{release,acquire}.sync_restrict."""
    s = Scenario()
    s.store(0, TILE)
    if restricted == "release":
        s.proxy_fence(0, "async::generic.shared::cta", semantics="release")
    s.barrier(0, 1)
    if restricted == "acquire":
        s.proxy_fence(1, "async::generic.shared::cluster", semantics="acquire")
    s.bulk_store(1)
    assert s.codes() == []


# --- generic reads before an overwrite: decision P2 ----------------------------------------------

def refill(*, sync=False, fence=False, ordered=True) -> Scenario:
    """Warp 1 reads a tile; one lane of it arrives; warp 0 waits and fills the tile again."""
    s = Scenario()
    empty = np.full(32, 9224, np.uint64)
    s.mbarrier("init", 0, mask=1)
    s.mbarrier("init", 0, mask=1, addresses=empty, text="mbarrier.init [empty]")
    s.barrier(0, 1)
    s.expect()
    s.bulk_load()
    s.mbarrier("try_wait", 1, completed=FULL)
    s.load(1, TILE)
    if fence:
        s.proxy_fence(1)
    if sync:
        s.warp_sync(1)
    s.mbarrier("arrive", 1, mask=1, completed=1, addresses=empty, text="mbarrier.arrive [empty]")
    if ordered:
        s.mbarrier("try_wait", 0, mask=1, completed=1, addresses=empty, text="try_wait [empty]")
    s.expect(phase=1)
    s.bulk_load(phase=1, text="cp.async.bulk again")
    return s


def test_reads_that_meet_before_the_arrive_need_no_fence():
    """bar.warp.sync, or a fence by each reader, before the elected arrive."""
    assert refill(sync=True).codes() == []
    assert refill(fence=True).codes() == []


def test_an_elected_arrive_for_reads_in_flight_is_a_warning():
    """Neither warp sync nor fence."""
    s = refill()
    assert s.codes() == ["missing-proxy-fence"]
    assert s.severity("missing-proxy-fence") == "warning"
    assert s.repair("missing-proxy-fence").endswith(
        "; or bar.warp.sync before the elected arrive")


def test_a_refill_that_nothing_orders():
    """The issuer does not wait for the readers."""
    s = refill(sync=True, ordered=False)
    assert "missing-barrier" in s.codes()
    assert "arrives on a second mbarrier" in s.repair("missing-barrier")


# --- tensor maps ----------------------------------------------------------------------------------

def mapped(*, release=True, acquire=True, other=False) -> Scenario:
    """Warp 0 writes a tensor map, warp 1 loads through it."""
    s = Scenario()
    s.mbarrier("init", 0, mask=1)
    s.store(0, MAP, "st.map")
    if release:
        s.proxy_fence(0, "tensormap::generic", semantics="release")
    s.barrier(0, 1)
    if acquire:
        named = MAPS + np.uint64(128) if other else MAPS
        s.proxy_fence(1, "tensormap::generic", semantics="acquire", addresses=named)
    s.expect(1)
    s.bulk_load(1, maps=MAP_AT)
    return s


def test_a_changed_tensor_map_needs_release_and_acquire():
    """Both fences, and the acquire names this map."""
    assert mapped().codes() == []
    for missing in ({"release": False}, {"acquire": False}, {"other": True}):
        s = mapped(**missing)
        assert s.codes() == ["missing-tensormap-fence"]
        assert "generic.release.gpu after line 2" in s.repair("missing-tensormap-fence")


def test_the_async_fence_does_not_order_tensor_maps():
    """fence.proxy.async between write and use."""
    s = Scenario()
    s.mbarrier("init", 0, mask=1)
    s.store(0, MAP, "st.map")
    s.proxy_fence(0, "async")
    s.barrier(0, 1)
    s.expect(1)
    s.bulk_load(1, maps=MAP_AT)
    assert s.codes() == ["missing-tensormap-fence"]


def test_a_map_is_in_use_until_its_copy_is_done():
    """Overwritten in flight, and after the wait."""
    for waits, codes in ((True, []), (False, ["tensormap-in-use"])):
        s = mapped()
        if waits:
            s.mbarrier("try_wait", 1, completed=FULL)
        s.store(1, MAP, "st.next", mask=1)
        assert s.codes() == codes
