"""wgmma: operands that all four warps must know, groups, and registers in flight."""

from __future__ import annotations

import pytest
from scenario import FULL, TILE, Scenario

ALL = (0, 1, 2, 3)


def filled(*, fence=True, told=ALL) -> Scenario:
    """Warp 0 writes the operand, and tells the warps in `told`."""
    s = Scenario(threads=128)
    s.store(0, TILE)
    if fence:
        s.proxy_fence(0)
    if told:
        s.barrier(*told, ident=1, count=32 * len(told))
    s.wgmma_fence(*ALL)
    return s


def test_a_product_of_what_every_warp_knows():
    """Filled, fenced, barrier, product, commit, wait; then its bytes and registers are free."""
    s = filled()
    s.wgmma(*ALL)
    s.wgmma_commit(*ALL)
    s.wgmma_wait(*ALL)
    s.registers(2, reads=(0, 1), writes=(0,))
    s.store(0, TILE, "st.again")
    assert s.codes() == []


def test_generic_operands_need_the_proxy_fence():
    """wgmma reads through the async proxy."""
    s = filled(fence=False)
    s.wgmma(*ALL)
    assert s.codes() == ["missing-proxy-fence"]


def test_being_collective_is_no_barrier():
    """Three of four warps know the operand: the product starts with what all four know."""
    s = filled(told=(0, 1, 2))
    s.wgmma(*ALL)
    assert s.codes() == ["missing-barrier"]
    (finding,) = s.findings()
    assert finding.where.warp == 3


def test_one_warps_wait_covers_the_operand_reads_of_all():
    """Decision G1: warp 2 overwrites after its own wait, warp 1 has to be told."""
    for told, codes in ((True, []), (False, ["missing-wgmma-wait"])):
        s = filled()
        s.wgmma(*ALL)
        s.wgmma_commit(*ALL)
        s.wgmma_wait(2)
        if told:
            s.barrier(1, 2, ident=2, count=64)
        s.store(1, TILE, "st.again")
        assert s.codes() == codes


@pytest.mark.parametrize(("commit", "newest", "repair"), [
    (False, 0, "wgmma.commit_group before the wait in line 6"),
    (True, 1, "wait_group 0 instead of 1 in line 7"),
    (True, None, "wgmma.wait_group 0 before, in a warp of the warpgroup that tells the others"),
])
def test_operands_of_a_product_in_flight(commit, newest, repair):
    """Not committed, N too large, no wait: the repair says which."""
    s = filled()
    s.wgmma(*ALL)
    if commit:
        s.wgmma_commit(*ALL)
    if newest is not None:
        s.wgmma_wait(*ALL, newest=newest)
    s.store(0, TILE, "st.again")
    assert s.codes() == ["missing-wgmma-wait"]
    assert s.repair("missing-wgmma-wait") == repair


def test_the_refill_of_a_stage_after_the_product():
    """An elected thread refills by a bulk copy after its own wait; before it, it must not."""
    for waits, codes in ((True, []), (False, ["missing-wgmma-wait"])):
        s = filled()
        s.mbarrier("init", 0, mask=1)
        s.wgmma(*ALL)
        s.wgmma_commit(*ALL)
        if waits:
            s.wgmma_wait(0)
        s.expect()
        s.bulk_load()
        assert s.codes() == codes


# --- registers ------------------------------------------------------------------------------------

def test_registers_touched_after_the_fence():
    """The accumulator, and A in registers."""
    for touched, operands in ((0, {}), (9, {"a": (9,)})):
        s = filled()
        s.registers(0, writes=(touched,))
        s.wgmma(*ALL, **operands)
        assert s.codes() == ["missing-wgmma-fence"]
        assert s.severity("missing-wgmma-fence") == "error"


def test_without_any_fence_all_registers_count_as_touched():
    """The first product of a warp needs one."""
    s = Scenario(threads=128)
    s.wgmma(*ALL)
    assert s.codes() == ["missing-wgmma-fence"]


def test_an_accumulator_that_is_dropped_is_a_note():
    """scale-d is false: the zeroes that a compiler sank below the fence are not read."""
    s = filled()
    s.registers(0, writes=(0, 1))
    s.wgmma(*ALL, reads_d=False)
    assert s.codes() == ["missing-wgmma-fence"]
    assert s.severity("missing-wgmma-fence") == "note"


def test_a_result_that_was_read_is_no_dropped_accumulator():
    """The next tile begins with scale-d false, the last one's sums are still being read."""
    s = filled()
    s.wgmma(*ALL)
    s.wgmma_commit(*ALL)
    s.wgmma_wait(*ALL)
    s.registers(0, reads=(0,))
    s.wgmma(*ALL, reads_d=False)
    assert s.codes() == ["missing-wgmma-fence"]
    assert s.severity("missing-wgmma-fence") == "error"


def test_products_of_one_shape_chain_on_an_accumulator():
    """Another shape needs wait and fence in between."""
    chain, change, after = filled(), filled(), filled()
    for s in (chain, change, after):
        s.wgmma(*ALL)
        s.wgmma_commit(*ALL)
    chain.wgmma(*ALL)
    change.wgmma(*ALL, shape="m64n16k16")
    after.wgmma_wait(*ALL)
    after.wgmma_fence(*ALL)
    after.wgmma(*ALL, shape="m64n16k16")
    assert chain.codes() == []
    assert change.codes() == ["missing-wgmma-fence"]
    assert after.codes() == []


def test_flying_registers_are_not_touched():
    """D not at all, A not written; each is told once per product."""
    for reads, writes, codes in (((0,), (), ["missing-wgmma-wait"]),
                                 ((), (1,), ["missing-wgmma-wait"]),
                                 ((), (9,), ["missing-wgmma-wait"]), ((9,), (), []),
                                 ((5,), (5,), [])):
        s = filled()
        s.wgmma(*ALL, a=(9,))
        s.registers(0, reads=reads, writes=writes)
        s.registers(1, reads=reads, writes=writes, text="another")
        assert s.codes() == codes
        assert len(s.findings()) == len(codes)


def test_registers_land_at_the_warps_own_wait():
    """wait_group 1 frees the older group's accumulator only; another warp's wait frees nothing."""
    for newest, slot, warp, codes in ((1, 0, 0, []), (1, 4, 0, ["missing-wgmma-wait"]),
                                      (0, 4, 0, []), (0, 4, 1, ["missing-wgmma-wait"])):
        s = filled()
        s.wgmma(*ALL, d=(0, 1))
        s.wgmma_commit(*ALL)
        s.wgmma(*ALL, d=(4, 5), text="wgmma.mma_async second")
        s.wgmma_commit(*ALL)
        s.wgmma_wait(0, newest=newest)
        s.registers(warp, reads=(slot,))
        assert s.codes() == codes


def test_the_wait_of_one_warp_tells_when_the_others_issued():
    """M1': all warps saw phase 0 before the product that they issued; its end implies that."""
    s = Scenario(threads=128)
    s.mbarrier("init", 0, mask=1)
    s.barrier(*ALL)
    s.expect()
    s.bulk_load()
    for warp in ALL:
        s.mbarrier("try_wait", warp, completed=FULL)
    s.wgmma_fence(*ALL)
    s.wgmma(*ALL)
    s.wgmma_commit(*ALL)
    s.wgmma_wait(0)
    s.expect(phase=1)
    s.bulk_load(phase=1, text="cp.async.bulk again")
    s.mbarrier("try_wait", 0, phase=1, completed=FULL)
    assert s.codes() == []
