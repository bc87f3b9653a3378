"""Divergence, barriers, spinning, deadlocks, schedules: whatever the order, the same result."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import interpret, quantum, run_kernel

from mmalab.emulator.run import emulate
from mmalab.errors import LimitExceeded

QUANTA = [1, 2, 64, 4096]
STORE = "mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd40, %rd1; st.global.u32 [%rd2], %r2; ret;"


def _run(body, *, block=32, grid=1, module="", words=None, **options):
    out = np.zeros(words or block * grid, np.uint32)
    head = """mov.u32 %r0, %tid.x; mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ntid.x;
    mad.lo.u32 %r22, %r20, %r21, %r0;"""
    run = run_kernel(head + body, [out], block=block, grid=grid, module=module, **options)
    return out, run


# --- divergence -----------------------------------------------------------------------------------

@pytest.mark.parametrize("size", QUANTA)
def test_nested_divergence_and_loops_with_break(size):
    """Lanes leave a loop at different times and meet behind it."""
    out, run = _run("""
    mov.u32 %r2, 0; mov.u32 %r3, 0;
LOOP: setp.ge.u32 %p1, %r3, %r0; @%p1 bra DONE;
    and.b32 %r4, %r3, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra EVEN;
    add.u32 %r2, %r2, %r3; bra NEXT;
EVEN: setp.gt.u32 %p3, %r3, 20; @%p3 bra DONE; add.u32 %r2, %r2, 100;
NEXT: add.u32 %r3, %r3, 1; bra LOOP;
DONE: """ + STORE, executor=quantum(size))

    def model(n):
        total = 0
        for i in range(n):
            if i % 2:
                total += i
            elif i > 20:
                break
            else:
                total += 100
        return total
    assert out.tolist() == [model(i) for i in range(32)]
    assert run.findings == []


@pytest.mark.parametrize("size", QUANTA)
def test_lanes_meet_at_a_collective_that_they_reach_in_turns(size):
    """Half a warp waits at a barrier while the rest loops, and comes there by another block,
    through instructions that no lane waits at; a warp that spins keeps everybody running."""
    out, run = _run("""
    setp.ge.u32 %p4, %r0, 32; @%p4 bra SPIN;
    mov.u32 %r2, 0; setp.lt.u32 %p1, %r0, 16; @%p1 bra DONE;
LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 200; @%p2 bra LOOP;
DONE: add.u32 %r2, %r2, %r0; bar.sync 1, 32; st.volatile.shared.u32 [flag], 1; bra END;
SPIN: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p3, %r2, 0; @%p3 bra SPIN;
END: """ + STORE, block=64, module=".shared .align 4 .b32 flag;\n", executor=quantum(size))
    assert out.tolist() == [*range(16), *(200 + lane for lane in range(16, 32)), *[1] * 32]
    assert {finding.code for finding in run.findings} <= {"uninitialised-read"}  # the flag


@pytest.mark.parametrize("size", QUANTA)
@pytest.mark.parametrize("spin_first", [True, False])
def test_spinning_inside_a_warp_ends(spin_first, size):
    """31 lanes spin on a flag that lane 0 sets, whichever block comes first in the text."""
    spin = """SPIN: ld.volatile.shared.u32 %r4, [flag]; setp.eq.u32 %p2, %r4, 0; @%p2 bra SPIN;
    bra END;
"""
    setter = "SET: mov.u32 %r5, 7; st.volatile.shared.u32 [flag], %r5; bra END;\n"
    out, _ = _run(f"""
    .shared .b32 flag; setp.eq.u32 %p1, %r0, 0; mov.u32 %r6, 0; @%p1 st.shared.u32 [flag], %r6;
    bar.warp.sync 0xffffffff; @%p1 bra SET; bra SPIN;
    {spin + setter if spin_first else setter + spin}
END: ld.volatile.shared.u32 %r2, [flag]; {STORE}""", executor=quantum(size))
    assert out.tolist() == [7] * 32


@pytest.mark.parametrize("size", QUANTA)
def test_last_block_pattern_across_the_grid(size):
    """The CTA that counts last sees what all others stored; CTAs are resident together."""
    out, run = _run("""
    mul.wide.u32 %rd1, %r22, 4; add.s64 %rd2, %rd40, %rd1; add.u32 %r2, %r22, 1;
    st.global.u32 [%rd2], %r2; fence.acq_rel.gpu; bar.sync 0; mov.u32 %r3, 0;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra WAIT;
    atom.global.add.acq_rel.gpu.u32 %r3, [counter], 1;
WAIT: ld.acquire.gpu.global.u32 %r4, [counter]; setp.lt.u32 %p2, %r4, 6; @%p2 bra WAIT;
    xor.b32 %r5, %r22, 1; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd40, %rd3;
    ld.global.u32 %r6, [%rd4]; bar.sync 0; fence.acq_rel.gpu;
    ret;""", block=32, grid=6, module=".global .u32 counter;\n", executor=quantum(size))
    assert out.tolist() == list(range(1, 193))
    assert run.findings == []


# --- CTA barriers ---------------------------------------------------------------------------------

def test_warps_that_left_are_not_waited_for():
    """bar.sync without a count completes when the warps that still live have arrived."""
    out, run = _run("mov.u32 %r2, 1; setp.ge.u32 %p1, %r0, 64; @%p1 bra END; bar.sync 0;"
                    " mov.u32 %r2, 2;\nEND:" + STORE, block=128)
    assert out.tolist() == [2] * 64 + [1] * 64
    assert run.findings == []


@pytest.mark.parametrize(("op", "kind", "want"), [("popc", "u32", 10), ("and", "pred", 0),
                                                  ("or", "pred", 1)])
def test_barrier_reductions_reach_everybody(op, kind, want):
    """bar.red gives all threads the reduction over all of them."""
    target = "%r2" if op == "popc" else "%p2"
    out, run = _run(f"setp.lt.u32 %p1, %r0, 10; bar.red.{op}.{kind} {target}, 1, %p1;"
                    + ("" if op == "popc" else "selp.u32 %r2, 1, 0, %p2;") + STORE, block=64)
    assert out.tolist() == [want] * 64
    assert run.counters["barrier.waits"] == 2


def test_named_barriers_pair_producer_and_consumer():
    """bar.arrive does not wait; bar.sync with the same count does."""
    out, run = _run("""
    .shared .b32 word; mov.u32 %r2, 0; setp.lt.u32 %p1, %r0, 32; @!%p1 bra PRODUCE;
    bar.sync 3, 64; ld.shared.u32 %r2, [word]; bra END;
PRODUCE: mov.u32 %r3, 9; st.shared.u32 [word], %r3; bar.arrive 3, 64;
END:""" + STORE, block=64)
    assert out.tolist() == [9] * 32 + [0] * 32
    assert run.findings == []


def test_non_aligned_barrier_on_two_paths():
    """barrier.sync may be reached at different instructions by lanes of one warp."""
    out, run = _run("""
    setp.lt.u32 %p1, %r0, 16; mov.u32 %r2, 1; @%p1 bra OTHER; barrier.sync 0; bra END;
OTHER: barrier.sync 0; mov.u32 %r2, 2;
END:""" + STORE, block=64)
    assert out.tolist() == [2] * 16 + [1] * 48
    assert run.findings == []


# --- deadlocks ------------------------------------------------------------------------------------

def test_named_barrier_deadlock_is_explained():
    """A count that is never reached names the barrier, the arrivals and what is missing."""
    _, run = _run("bar.sync 2, 96; ret;", block=64)
    assert [f.code for f in run.findings] == ["deadlock"]
    waits = run.deadlock["waiting"][0]
    assert waits["waits_for"]["barrier"] == 2
    assert "32 more would release it" in waits["because"]
    assert (waits["cta"], waits["warp"], waits["lanes"]) == ((0, 0, 0), 0, 0xFFFFFFFF)


MBARRIER = """
    .shared .align 8 .b64 bar; setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, 0;
    @%p1 mbarrier.init.shared.b64 [bar], {count}; bar.sync 0;
"""
WAIT = """WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [bar], {parity}; @!%p2 bra WAIT;"""


@pytest.mark.parametrize(("count", "arrive", "parity"), [
    (65, True, 0),    # wrong count
    (64, False, 0),   # missing arrive
    (64, True, 1),    # the phase after the one that completes
])
def test_mbarrier_deadlocks_are_found_and_explained(count, arrive, parity):
    """A wait that nothing can satisfy ends in bounded time, with the barrier's state."""
    parity_wait = WAIT.format(parity=0) if parity else ""
    _, run = _run(MBARRIER.format(count=count) + (
        "mbarrier.arrive.shared.b64 _, [bar];" if arrive else "")
        + parity_wait + WAIT.replace("WAIT", "AGAIN").format(parity=parity) + "ret;", block=64)
    assert [f.code for f in run.findings] == ["deadlock"]
    waits = run.deadlock["waiting"][0]["waits_for"]
    assert waits["waits_for_parity"] == parity
    assert waits["pending_arrivals"] > 0


def test_a_spin_that_changes_nothing_is_a_deadlock():
    """A plain loop on a flag that nobody sets is noticed when registers and memory repeat."""
    _, run = _run(".shared .b32 f; mov.u32 %r3, 0; st.shared.u32 [f], %r3;\n"
                  "L: ld.volatile.shared.u32 %r2, [f]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L; ret;",
                  block=64)
    assert [f.code for f in run.findings] == ["deadlock"]
    assert run.deadlock["spinning"]


def test_a_loop_that_counts_ends_at_the_step_limit():
    """Registers that change are no deadlock: the limit ends the run."""
    with pytest.raises(LimitExceeded, match="max_steps"):
        _run("mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, 1; bra L;", max_steps=20_000)


def test_bounded_polling_is_no_deadlock():
    """A wait that gives up after 50 tries is allowed to."""
    out, run = _run(MBARRIER.format(count=64) + """
    mov.u32 %r2, 0;
TRY: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; add.u32 %r2, %r2, 1;
    @%p2 bra END; setp.lt.u32 %p3, %r2, 50; @%p3 bra TRY;
END:""" + STORE, block=32)
    assert out.tolist() == [50] * 32
    assert run.findings == []


# --- mbarriers ------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", QUANTA)
def test_a_live_ring_is_never_called_a_deadlock(size):
    """Producer and consumer hand a slot back and forth over phases of two mbarriers."""
    out, run = _run("""
    .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .b32 slot;
    setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;
    @%p1 mbarrier.init.shared.b64 [full], 32; @%p1 mbarrier.init.shared.b64 [empty], 32;
    bar.sync 0; setp.ge.u32 %p2, %r0, 32; @%p2 bra CONSUME;
PRODUCE: and.b32 %r4, %r3, 1; xor.b32 %r5, %r4, 1;
PW: mbarrier.test_wait.parity.shared.b64 %p3, [empty], %r5; @!%p3 bra PW;
    @%p1 st.shared.u32 [slot], %r3; mbarrier.arrive.shared.b64 _, [full];
    add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 9; @%p4 bra PRODUCE; bra END;
CONSUME: and.b32 %r4, %r3, 1;
CW: mbarrier.test_wait.parity.shared.b64 %p3, [full], %r4; @!%p3 bra CW;
    ld.shared.u32 %r6, [slot]; mad.lo.u32 %r2, %r2, 10, %r6;
    mbarrier.arrive.shared.b64 _, [empty];
    add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 9; @%p4 bra CONSUME;
END:""" + STORE, block=64, executor=quantum(size))
    assert out.tolist() == [0] * 32 + [12345678] * 32
    assert run.findings == []


def test_state_tokens_and_pending_counts():
    """arrive returns the state before it: test_wait uses it, pending_count reads it."""
    out, run = _run(MBARRIER.format(count=32) + """
    mbarrier.arrive.shared.b64 %rd5, [bar]; mbarrier.pending_count.b64 %r2, %rd5;
W: mbarrier.test_wait.shared.b64 %p2, [bar], %rd5; @!%p2 bra W;
    """ + STORE)
    assert sorted(out.tolist()) == list(range(1, 33))
    assert run.findings == []


def test_arrive_drop_lowers_later_phases():
    """After 16 drops the next phase needs 16 arrivals."""
    out, run = _run(MBARRIER.format(count=32) + """
    setp.lt.u32 %p3, %r0, 16; @%p3 mbarrier.arrive_drop.shared.b64 _, [bar];
    @!%p3 mbarrier.arrive.shared.b64 _, [bar];
    """ + WAIT.format(parity=0) + """
    @!%p3 mbarrier.arrive.shared.b64 _, [bar];
    """ + WAIT.replace("WAIT", "SECOND").format(parity=1) + "mov.u32 %r2, 5;" + STORE)
    assert out.tolist() == [5] * 32
    assert run.findings == []


def test_transaction_bytes_hold_the_phase():
    """expect_tx keeps a phase open until complete_tx has counted the bytes."""
    out, run = _run(MBARRIER.format(count=1) + """
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
    setp.eq.u32 %p3, %r0, 40; mov.u32 %r5, 128;
    @%p3 mbarrier.complete_tx.shared.b64 [bar], %r5;
    """ + WAIT.format(parity=0) + "mov.u32 %r2, 5;" + STORE, block=64, target="sm_90")
    assert out.tolist() == [5] * 64
    assert run.findings == []


def test_misused_mbarriers_are_findings():
    """No init, a count of zero, more arrivals than expected."""
    head = ".shared .align 8 .b64 bar; mov.u32 %r2, 0;"
    _, run = _run(head + "mbarrier.arrive.shared.b64 _, [bar]; ret;")
    assert [f.code for f in run.findings] == ["mbarrier-uninitialised"]
    _, run = _run(head + "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 0; ret;")
    assert [f.code for f in run.findings] == ["mbarrier-count"]


# --- cp.async -------------------------------------------------------------------------------------

COPY = """
    .shared .align 16 .b8 tile[1024]; mov.u32 %r5, tile; shl.b32 %r6, %r0, 4; add.u32 %r5, %r5, %r6;
    mul.wide.u32 %rd3, %r0, 16; add.s64 %rd4, %rd41, %rd3;
"""


def _copy(body, schedule, block=32):
    out = np.zeros(block, np.uint32)
    source = np.arange(1, 1 + 4 * block, dtype=np.uint32)
    run = run_kernel("mov.u32 %r0, %tid.x;" + COPY + body + "ld.shared.u32 %r2, [%r5];" + STORE,
                     [out, source], block=block, schedule=schedule)
    return out, run, source


@pytest.mark.parametrize("schedule", ["eager", "lazy", 1, 2, 3])
@pytest.mark.parametrize("wait", ["cp.async.commit_group; cp.async.wait_group 0;",
                                  "cp.async.wait_all;"])
def test_waited_copies_are_there_under_every_schedule(wait, schedule):
    """A copy that was waited for has its bytes, however late it was done."""
    out, run, source = _copy(f"cp.async.cg.shared.global [%r5], [%rd4], 16; {wait}", schedule)
    assert out.tolist() == source[::4].tolist()
    assert run.counters["global.bytes.read"] == 512


def test_an_unwaited_copy_depends_on_the_schedule():
    """Without a wait, eager finds the data and lazy does not: the sign of a race."""
    body = "cp.async.cg.shared.global [%r5], [%rd4], 16; cp.async.commit_group;"
    assert _copy(body, "eager")[0].tolist() == _copy(body, "eager")[2][::4].tolist()
    assert _copy(body, "lazy")[0].tolist() == [0] * 32


def test_wait_group_leaves_the_newest_pending():
    """wait_group 1 finishes the older group only."""
    body = """cp.async.ca.shared.global [%r5], [%rd4], 4; cp.async.commit_group;
    cp.async.ca.shared.global [%r5+4], [%rd4+4], 4; cp.async.commit_group; cp.async.wait_group 1;
    ld.shared.u32 %r7, [%r5+4]; st.shared.u32 [%r5], %r7;"""
    first = body.replace("ld.shared.u32 %r7, [%r5+4]; st.shared.u32 [%r5], %r7;", "")
    assert _copy(first, "lazy")[0].tolist() == list(range(1, 129, 4))
    assert _copy(body, "lazy")[0].tolist() == [0] * 32


def test_short_sources_are_filled_with_zeros():
    """src-size 6 of 8 bytes leaves two zero bytes."""
    body = "mov.u32 %r8, 2; cp.async.ca.shared.global [%r5], [%rd4], 4, %r8; cp.async.wait_all;"
    x = np.zeros(1, np.uint32)
    out = run_kernel("mov.u32 %r0, %tid.x;" + COPY + body + "ld.shared.u32 %r2, [%r5];" + STORE,
                     [x, np.full(4, 0x11223344, np.uint32)], block=1)
    assert x.tolist() == [0x3344]
    assert out.findings == []


@pytest.mark.parametrize("schedule", ["eager", "lazy", 1, 2])
@pytest.mark.parametrize(("noinc", "count"), [(".noinc", 32), ("", 64)])
def test_copies_arrive_on_an_mbarrier(noinc, count, schedule):
    """cp.async.mbarrier.arrive completes the phase after the copies of its lanes."""
    plain = "" if noinc else "mbarrier.arrive.shared.b64 _, [bar];"
    expected = 32 if not noinc else count
    body = f"""
    .shared .align 8 .b64 bar; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [bar], {expected}; bar.warp.sync 0xffffffff;
    cp.async.ca.shared.global [%r5], [%rd4], 16;
    cp.async.mbarrier.arrive{noinc}.shared.b64 [bar]; {plain}
    {WAIT.format(parity=0)}"""
    out, run, source = _copy(body, schedule)
    assert out.tolist() == source[::4].tolist()
    assert run.findings == []


# --- clusters -------------------------------------------------------------------------------------

NEIGHBOUR = """
    .shared .align 8 .b32 word; mov.u32 %r3, word; mov.u32 %r4, %cluster_ctarank;
    add.u32 %r5, %r4, 1; and.b32 %r5, %r5, 3; mapa.shared::cluster.u32 %r6, %r3, %r5;
    mad.lo.u32 %r7, %r20, 100, %r0;
"""


@pytest.mark.parametrize("size", QUANTA)
def test_cluster_barriers_order_distributed_shared_memory(size):
    """Each CTA writes its neighbour's word and, after the cluster barrier, reads its own."""
    out, run = _run(NEIGHBOUR + """
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.eq.u32 %p1, %r0, 5; @%p1 st.shared::cluster.u32 [%r6], %r7;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    ld.shared.u32 %r2, [word]; mov.u32 %r0, %r22;""" + STORE, block=32, grid=8, cluster=4,
                    target="sm_90", executor=quantum(size))
    writer = [(c // 4) * 4 + (c + 3) % 4 for c in range(8)]
    assert out.tolist() == [100 * writer[c] + 5 for c in range(8) for _ in range(32)]
    assert run.findings == []


def test_remote_arrivals_and_asynchronous_stores():
    """st.async to the neighbour completes the neighbour's mbarrier."""
    out, run = _run(NEIGHBOUR + """
    .shared .align 8 .b64 bar; mov.u32 %r8, bar; mapa.shared::cluster.u32 %r9, %r8, %r5;
    setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r7, [%r9];
    """ + WAIT.format(parity=0) + """
    ld.shared.u32 %r2, [word]; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 %r0, %r22;""" + STORE, block=32, grid=4, cluster=4, target="sm_90")
    assert out.tolist() == [100 * ((c + 3) % 4) for c in range(4) for _ in range(32)]
    assert run.findings == []


def test_cluster_barrier_misuse():
    """Arriving twice, waiting without arriving, and a CTA that never comes."""
    _, run = _run("barrier.cluster.wait.aligned; ret;", grid=2, cluster=2, target="sm_90")
    assert [f.code for f in run.findings] == ["cluster-barrier"]
    twice = "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;"
    _, run = _run(twice + "barrier.cluster.wait.aligned; ret;", grid=2, cluster=2, target="sm_90")
    assert "cluster-barrier" in [f.code for f in run.findings]
    _, run = _run("setp.eq.u32 %p1, %r20, 0; @%p1 bra HANG; barrier.cluster.arrive;"
                  "barrier.cluster.wait; ret;\nHANG: bar.sync 1, 64; ret;", grid=2, cluster=2,
                  target="sm_90")
    assert [f.code for f in run.findings] == ["deadlock"]
    assert "cluster barrier waits for warp 0 of CTA 0" in run.deadlock["summary"]


# --- limits ---------------------------------------------------------------------------------------

def test_many_ctas_run_in_windows():
    """More CTAs than are resident at once all run."""
    out = np.zeros(5000, np.uint32)
    text = """.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 x) { .reg .b64 %rd<4>; .reg .b32 %r<2>;
 ld.param.u64 %rd0, [x]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 4;
 add.s64 %rd2, %rd0, %rd1; add.u32 %r1, %r0, 1; st.global.u32 [%rd2], %r1; ret; }"""
    emulate(text, [out], grid=5000, block=1, executor=interpret)
    assert out.tolist() == list(range(1, 5001))
