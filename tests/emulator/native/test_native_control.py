"""Control flow in compiled code: the NumPy interpreter's results, findings and deadlocks."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import interpret, run_kernel

from mmalab.emulator.execute import EXECUTORS
from mmalab.emulator.native import ThreadedScheduler, code_for, run_threaded
from mmalab.errors import LimitExceeded, UnsupportedInstruction

THREAD = """
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 4;
    add.s64 %rd1, %rd40, %rd0;
"""
SHARED = ".shared .align 16 .b8 box[1024];\n"
STORE = "\n    st.global.u32 [%rd1], %r1;\n    ret;"


def fuelled(amount):
    """An executor hook with its own fuel."""
    def run(machine, max_steps):
        ThreadedScheduler(machine, code_for(machine), max_steps=max_steps, fuel=amount).run()
    return run


def seen(body, executor, *, block=64, module="", grid=1, start=0xCB, **options):
    """What one executor makes of a body: output, findings, deadlock, counters."""
    out = np.full(1024, start, np.uint32)
    run = run_kernel(body, [out], block=block, grid=grid, module=module, executor=executor,
                     sanitize=False, **options)
    findings = sorted((f.code, f.severity, str(f.where), f.message) for f in run.findings)
    return out.tolist(), findings, run.deadlock, run.counters


def assert_same(body, **options):
    """Both executors, and compiled code with little and much fuel; returns the output."""
    want = seen(body, interpret, **options)
    for executor in (run_threaded, fuelled(1), fuelled(64), fuelled(4096)):
        got = seen(body, executor, **options)
        assert got[0] == want[0]
        assert got[1] == want[1]
        assert got[2] == want[2]
    return want


BRANCHES = {
    "then first": """
    and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;
    add.u32 %r1, %r0, 1000; bra DONE;
EVEN: mul.lo.u32 %r1, %r0, 3;
DONE:""",
    "else first": """
    and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @!%p1 bra ODD;
    mul.lo.u32 %r1, %r0, 3; bra DONE;
ODD: add.u32 %r1, %r0, 1000;
DONE:""",
    "code above": """
    bra START;
EVEN: mul.lo.u32 %r1, %r0, 3; bra DONE;
ODD: add.u32 %r1, %r0, 1000; bra DONE;
START: and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN; bra ODD;
DONE:""",
}


@pytest.mark.parametrize("name", BRANCHES)
def test_divergence_in_every_order_of_blocks(name):
    """Both sides run for their lanes, wherever their code stands."""
    out = assert_same(THREAD + BRANCHES[name] + STORE)[0]
    lane = np.arange(64)
    assert out[:64] == np.where(lane % 2, lane + 1000, lane * 3).tolist()


def test_nested_loops_with_break():
    """Each lane leaves both loops in its own iteration."""
    body = THREAD + """
    mov.u32 %r1, 0; mov.u32 %r2, 0;
OUTER: setp.ge.u32 %p0, %r2, %r0; @%p0 bra END;
    mov.u32 %r3, 0;
INNER: add.u32 %r1, %r1, 1; add.u32 %r3, %r3, 1;
    mul.lo.u32 %r4, %r2, %r3; setp.gt.u32 %p1, %r4, 40; @%p1 bra BREAK;
    setp.lt.u32 %p2, %r3, 5; @%p2 bra INNER;
BREAK: add.u32 %r2, %r2, 1; setp.gt.u32 %p3, %r1, 90; @%p3 bra END; bra OUTER;
END:""" + STORE
    out = assert_same(body)[0]
    for lane in range(64):
        total = turn = 0
        while turn < lane:
            for inner in range(1, 6):
                total += 1
                if turn * inner > 40:
                    break
            turn += 1
            if total > 90:
                break
        assert out[lane] == total


SPINS = {
    "the producer stands above": """
    setp.ne.u32 %p0, %r0, 5; @%p0 bra WAIT;
    st.volatile.shared.u32 [box], 77; bra DONE;
WAIT: ld.volatile.shared.u32 %r2, [box]; setp.ne.u32 %p1, %r2, 77; @%p1 bra WAIT;
DONE: ld.volatile.shared.u32 %r1, [box];""",
    "the producer stands below": """
    setp.eq.u32 %p0, %r0, 5; @%p0 bra PRODUCE;
WAIT: ld.volatile.shared.u32 %r2, [box]; setp.ne.u32 %p1, %r2, 77; @%p1 bra WAIT;
    bra DONE;
PRODUCE: st.volatile.shared.u32 [box], 77;
DONE: ld.volatile.shared.u32 %r1, [box];""",
    "the wait stands above the producer's loop": """
    mov.u32 %r3, 0; setp.eq.u32 %p0, %r0, 40; @%p0 bra PRODUCE;
WAIT: ld.volatile.shared.u32 %r2, [box]; setp.ne.u32 %p1, %r2, 77; @%p1 bra WAIT;
    bra DONE;
PRODUCE: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 300; @%p2 bra PRODUCE;
    st.volatile.shared.u32 [box], 77;
DONE: ld.volatile.shared.u32 %r1, [box];""",
}


@pytest.mark.parametrize("name", SPINS)
def test_lanes_that_wait_for_a_lane_of_their_warp(name):
    """A spin on a flag ends, whichever of the two stands lower in the text."""
    out = assert_same(THREAD + SPINS[name] + STORE, module=SHARED)[0]
    assert out[:64] == [77] * 64


def test_a_warp_waits_for_another_warp():
    """The flag's writer is a later warp that first loops for long."""
    body = THREAD + """
    setp.eq.u32 %p0, %r0, 127; @%p0 bra PRODUCE;
WAIT: ld.volatile.shared.u32 %r1, [box]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;
    bra DONE;
PRODUCE: mov.u32 %r3, 0;
LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 700; @%p2 bra LOOP;
    mov.u32 %r1, %r3; st.volatile.shared.u32 [box], %r3;
DONE:""" + STORE
    assert assert_same(body, module=SHARED, block=128)[0][:128] == [700] * 128


def test_ctas_that_wait_for_each_other():
    """CTA 0 spins on what CTA 1 writes to global memory."""
    body = """
    mov.u32 %r5, %ctaid.x; setp.eq.u32 %p0, %r5, 1; @%p0 bra PRODUCE;
WAIT: ld.relaxed.gpu.global.u32 %r1, [%rd40+512]; setp.ne.u32 %p1, %r1, 9; @%p1 bra WAIT;
    st.global.u32 [%rd40], 4; ret;
PRODUCE: mov.u32 %r3, 0;
LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 400; @%p2 bra LOOP;
    st.relaxed.gpu.global.u32 [%rd40+512], 9; ret;"""
    out = assert_same(body, grid=2, block=32)[0]
    assert out[0] == 4


def test_a_warp_comes_late_to_a_barrier_while_another_cta_spins():
    """A named barrier elsewhere makes the machine take over barrier 0 of the warps that are there;
    the last one comes when nobody executes a barrier any more, but CTA 1 waits for what is behind
    that one."""
    out, findings, deadlock, _ = assert_same(THREAD + """
    mov.u32 %r1, 7; mov.u32 %r5, %ctaid.x; setp.ne.u32 %p1, %r5, 0; @%p1 bra OTHER;
    shr.u32 %r2, %r0, 5; mov.u32 %r3, 0; setp.ne.u32 %p1, %r2, 0; @%p1 bra MEET;
LONG: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 20000; @%p1 bra LONG;
MEET: bar.sync 0; mov.u32 %r4, 1; st.relaxed.gpu.global.u32 [%rd40+4092], %r4; bra DONE;
OTHER: bar.sync 1, 64;
WAIT: ld.relaxed.gpu.global.u32 %r4, [%rd40+4092]; setp.ne.u32 %p1, %r4, 1; @%p1 bra WAIT;
DONE:""" + STORE, grid=2)
    assert out[:64] == [7] * 64
    assert (findings, deadlock) == ([], None)


def test_lanes_that_end_before_a_barrier():
    """The barrier completes with the lanes that are left."""
    body = THREAD + """
    rem.u32 %r2, %r0, 3; setp.eq.u32 %p0, %r2, 0; @%p0 ret;
    st.shared.u32 [box], 5; bar.sync 0; ld.shared.u32 %r1, [box];""" + STORE
    out = assert_same(body, module=SHARED, block=96)[0]
    assert out[:96] == [0xCB if i % 3 == 0 else 5 for i in range(96)]


def test_a_warp_that_ends_before_a_barrier():
    """A whole warp leaves; the others pass the barrier in either order of arrival."""
    for leaves in (0, 1, 2):
        body = THREAD + f"""
    shr.u32 %r2, %r0, 5; setp.eq.u32 %p0, %r2, {leaves}; @%p0 bra OUT;
    bar.sync 0; mov.u32 %r1, 6; st.global.u32 [%rd1], %r1;
OUT: ret;"""
        out = assert_same(body, block=96)[0]
        assert out[:96] == [0xCB if i // 32 == leaves else 6 for i in range(96)]


@pytest.mark.parametrize("threads", [1, 31, 33, 48, 80])
def test_partial_last_warp(threads):
    """Lanes without a thread do nothing; barriers and shuffles work with the rest."""
    body = THREAD + """
    mul.wide.u32 %rd5, %r0, 4; cvt.u32.u64 %r6, %rd5; mov.u32 %r7, box; add.u32 %r7, %r7, %r6;
    st.shared.u32 [%r7], %r0; bar.sync 0;
    xor.b32 %r8, %r6, 4; mov.u32 %r9, box; add.u32 %r9, %r9, %r8; ld.shared.u32 %r1, [%r9];
    activemask.b32 %r10; popc.b32 %r10, %r10; mad.lo.u32 %r1, %r10, 1000, %r1;
    vote.sync.ballot.b32 %r11, 1, %r12;""".replace("%r12", "-1") + STORE
    assert_same(body, module=SHARED, block=threads)


def test_named_barriers_beside_barrier_0():
    """Warps meet at barrier 1 by pairs and at barrier 0 all together, again and again."""
    body = THREAD + """
    shr.u32 %r2, %r0, 6; add.u32 %r3, %r2, 1; mov.u32 %r4, 0; mov.u32 %r1, 0;
LOOP: bar.sync %r3, 64; add.u32 %r1, %r1, %r3; bar.sync 0;
    setp.eq.u32 %p1, %r2, 0; @%p1 bar.sync 7, 64; barrier.sync 0;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 6; @%p0 bra LOOP;""" + STORE
    out = assert_same(body, block=128)[0]
    assert out[:128] == [6] * 64 + [12] * 64


def test_producers_and_consumers():
    """bar.arrive of one warp and bar.sync of another, beside barrier 0."""
    body = THREAD + """
    setp.lt.u32 %p0, %r0, 32; @%p0 bra FIRST;
    bar.sync 3, 64; ld.shared.u32 %r1, [box]; bar.sync 0; bra DONE;
FIRST: st.shared.u32 [box], 31; bar.arrive 3, 64; bar.sync 0; mov.u32 %r1, 1;
DONE:""" + STORE
    assert assert_same(body, module=SHARED)[0][:64] == [1] * 32 + [31] * 32


def test_branch_tables():
    """brx.idx sends each lane to its own label."""
    body = THREAD + """
    and.b32 %r2, %r0, 3;
    T: .branchtargets A, B, C, D;
    brx.idx %r2, T;
A: mov.u32 %r1, 10; bra DONE;
B: mov.u32 %r1, 20; bra DONE;
C: mov.u32 %r1, 30; bra DONE;
D: mov.u32 %r1, 40;
DONE:""" + STORE
    assert assert_same(body)[0][:64] == [10, 20, 30, 40] * 16


def test_full_warp_code_with_lanes_missing():
    """Shuffles and matrix loads of warps that have lost lanes are left to the machine."""
    body = THREAD + """
    setp.gt.u32 %p0, %r0, 50; @%p0 ret;
    activemask.b32 %r4; shfl.sync.bfly.b32 %r1, %r0, 1, 31, %r4;""" + STORE
    assert_same(body)


@pytest.mark.parametrize("body", [
    "L: bra L;",
    "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; xor.b32 %r1, %r1, %r1; bra L;",
    "L: ld.volatile.shared.u32 %r1, [box]; setp.eq.u32 %p0, %r1, 0; @%p0 bra L; ret;",
    "setp.eq.u32 %p0, %r0, 3; @%p0 bar.sync 1, 64; ret;",
    "setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 1, 64; ret; A: bar.sync 0; ret;",
    "setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 2, 96; A: ret;",
])
def test_deadlocks_are_explained_alike(body):
    """A run that cannot end stops, with the interpreter's report."""
    text = THREAD + body
    want = seen(text, interpret, module=SHARED, max_steps=1 << 24)
    got = seen(text, run_threaded, module=SHARED, max_steps=1 << 24)
    assert got[2] == want[2]
    assert got[1] == want[1]


@pytest.mark.parametrize("step", ["", "fns.b32 %r2, %r1, 0, 1;", "mov.u32 %r2, %clock;",
                                  "bar.sync 1;", "bar.sync 0;", "vote.sync.any.pred %p2, %p2, -1;"])
@pytest.mark.parametrize("block", [32, 48])
def test_endless_loops_end(step, block):
    """A loop that counts for ever runs into max_steps, also when Python executes a part of it."""
    body = f"mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; {step} bra L;"
    with pytest.raises(LimitExceeded):
        seen(body, run_threaded, block=block, max_steps=4000)


def test_traps_and_faults_are_found_alike():
    """trap, wild pointers and misaligned ones: the same findings, and nothing after them."""
    for body in ("trap;", "mov.u64 %rd2, 8; ld.global.u32 %r1, [%rd2];",
                 "add.s64 %rd2, %rd1, 1; st.global.u32 [%rd2], %r0;",
                 "add.s64 %rd2, %rd1, 8192; st.global.u32 [%rd2], %r0;",
                 "st.shared.u32 [box+2000], %r0;", "ld.shared.u32 %r1, [box+2];"):
        text = THREAD + body + " st.global.u32 [%rd1], 1; ret;"
        want, got = (seen(text, e, module=SHARED, block=32) for e in (interpret, run_threaded))
        assert got[:2] == want[:2]
        assert got[1] or body == "trap;"


def test_refusals_come_through(monkeypatch):
    """What an executor refuses inside a run ends it with the executor's error."""
    def refuse(lanes):
        raise lanes.refuse("not today")

    monkeypatch.setitem(EXECUTORS, "fns", refuse)
    with pytest.raises(UnsupportedInstruction, match="not today"):
        seen("fns.b32 %r2, %r1, 0, 1;", run_threaded)
    monkeypatch.setitem(EXECUTORS, "ld", refuse)
    with pytest.raises(UnsupportedInstruction, match="not today"):
        seen("mov.u64 %rd2, 8; ld.global.u32 %r1, [%rd2];", run_threaded)


def test_counters_are_the_interpreters():
    """Instructions, bytes, wavefronts and barrier waits do not depend on who executes."""
    body = THREAD + """
    mov.u32 %r7, box; mad.lo.u32 %r7, %r0, 4, %r7; st.shared.u32 [%r7], %r0; bar.sync 0;
    cp.async.ca.shared.global [%r7], [%rd1], 4; cp.async.wait_all;
    ld.shared.u32 %r1, [%r7];""" + STORE
    want, got = (seen(body, e, module=SHARED, block=96)[3] for e in (interpret, run_threaded))
    assert got == want


def test_many_ctas_add_up():
    """Atomic additions of CTAs on several threads lose nothing."""
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r5, 0;
L:  red.global.add.u32 [%rd40], 1; atom.global.max.u32 %r6, [%rd40+4], %r0;
    red.global.xor.b32 [%rd40+8], %r0; atom.global.inc.u32 %r7, [%rd40+12], 6;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 20; @%p0 bra L; ret;"""
    for _ in range(3):
        out = seen(body, run_threaded, block=96, grid=64, start=0)[0]
        assert out[:4] == [64 * 96 * 20, 95, 0, 64 * 96 * 20 % 7]


def test_tickets_are_the_same_every_time():
    """Who gets which old value does not depend on the host's threads."""
    body = THREAD + """
    atom.global.add.u32 %r1, [%rd40+3000], 1;
    mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 96, %r0; mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd40, %rd2; st.global.u32 [%rd3], %r2; ret;"""
    want = seen(body, interpret, block=96, grid=5, start=0)[0]
    assert [seen(body, run_threaded, block=96, grid=5, start=0)[0] for _ in range(3)] == [want] * 3


LOCK = """
    mov.u32 %r1, 0;
TRY: atom.global.cas.b32 %r2, [%rd40+2048], 0, 1; setp.ne.u32 %p0, %r2, 0; @%p0 bra TRY;
    ld.volatile.global.u32 %r3, [%rd40+2052]; add.u32 %r3, %r3, 1;
    st.volatile.global.u32 [%rd40+2052], %r3;
    atom.global.exch.b32 %r4, [%rd40+2048], 0; ret;"""


@pytest.mark.parametrize("space", ["global", "shared"])
def test_a_lock_that_lanes_of_one_warp_want(space):
    """Losers spin below the winner's code, in compiled code or through Python; all get the lock."""
    body = LOCK
    if space == "shared":
        body = LOCK.replace(".global", ".shared").replace("%rd40+2048", "box").replace(
            "%rd40+2052", "box+4")
        show = "ld.volatile.shared.u32 %r5, [box+4]; st.global.u32 [%rd40+2052], %r5; ret;"
        body = body.replace("ret;", show)
    out = np.zeros(1024, np.uint32)
    run = run_kernel(body, [out], block=33, module=SHARED, executor=run_threaded, sanitize=False,
                     max_steps=1 << 22)
    assert run.deadlock is None
    assert out[513] == 33


@pytest.mark.parametrize("block", [32, 64])
def test_clusters(block):
    """Shared variables are a CTA's own; mapa reaches the neighbour's, whoever executes."""
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r5, %cluster_ctarank; mov.u32 %r6, box;
    mad.lo.u32 %r8, %r5, 100, %r0; mad.lo.u32 %r7, %r0, 4, %r6; st.shared.u32 [%r7], %r8;
    setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [box+512], %r5;
    barrier.cluster.arrive; barrier.cluster.wait;
    add.u32 %r9, %r5, 1; and.b32 %r9, %r9, 3;
    mapa.shared::cluster.u32 %r10, %r7, %r9; ld.shared::cluster.u32 %r1, [%r10];
    mapa.shared::cluster.u32 %r10, %r6, %r9; ld.shared::cluster.u32 %r2, [%r10+512];
    mov.u64 %rd5, box; cvta.shared.u64 %rd6, %rd5; ld.u32 %r3, [%rd6+512];
    mad.lo.u32 %r1, %r2, 10000, %r1; mad.lo.u32 %r1, %r3, 1000000, %r1;
    mov.u32 %r11, %ctaid.x; mov.u32 %r12, %ntid.x; mad.lo.u32 %r13, %r11, %r12, %r0;
    mul.wide.u32 %rd0, %r13, 4; add.s64 %rd1, %rd40, %rd0; st.global.u32 [%rd1], %r1;
    barrier.cluster.arrive; barrier.cluster.wait; ret;"""
    out = assert_same(body, grid=8, cluster=4, block=block, module=SHARED, target="sm_90")[0]
    for thread in range(8 * block):
        rank, lane = thread // block % 4, thread % block
        after = (rank + 1) % 4
        assert out[thread] == after * 100 + lane + 10000 * after + 1000000 * rank
