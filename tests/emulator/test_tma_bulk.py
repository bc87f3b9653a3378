"""Bulk copies: directions, masks, reductions, groups, clusters, and what the listeners hear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import run_kernel

from mmalab.emulator import events as ev
from mmalab.emulator.program import Program
from mmalab.emulator.state import LaunchShape
from mmalab.tensormap import TensorMap

MODULE = (".shared .align 1024 .b8 smem[4096];\n.shared .align 8 .b64 bar;\n"
          ".shared .align 8 .b64 bar2;\n")
#: %r90 shared memory, %r91 the mbarrier, %r92 the thread, %p31 all but thread 0, %r93 the rank.
PROLOGUE = """
    mov.u32 %r90, smem; mov.u32 %r91, bar; mov.u32 %r92, %tid.x; mov.u32 %r93, %cluster_ctarank;
    setp.ne.u32 %p31, %r92, 0;
    @!%p31 mbarrier.init.shared::cta.b64 [%r91], 1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p30, [%r91], 0; @!%p30 bra W;\n"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r91], {};\n"
#: Word t of shared memory to out[rank * 32 + t].
OUT = """
    shl.b32 %r80, %r92, 2; add.u32 %r81, %r90, %r80; ld.shared.u32 %r82, [%r81];
    shl.b32 %r83, %r93, 7; add.u32 %r80, %r80, %r83; cvt.u64.u32 %rd30, %r80;
    add.s64 %rd31, %rd41, %rd30; st.global.u32 [%rd31], %r82;
"""
#: Thread t puts 100 * rank + t into word t of shared memory.
FILL = """
    mad.lo.u32 %r84, %r93, 100, %r92; shl.b32 %r85, %r92, 2; add.u32 %r86, %r90, %r85;
    st.shared.u32 [%r86], %r84; fence.proxy.async; bar.sync 0;
"""
SCHEDULES: list[str | int] = ["eager", "lazy", 1, 2]


class Ear:
    """Keeps the events of one run."""

    heard: list[ev.Event]

    def __init__(self, _program: Program, _shape: LaunchShape) -> None:
        type(self).heard = []

    def on(self, event: ev.Event) -> None:
        type(self).heard.append(event)


def run(body: str, args: list[Any], **options: Any) -> Any:
    """A run without findings."""
    done = run_kernel(PROLOGUE + body, args, target=options.pop("target", "sm_90a"), module=MODULE,
                      max_steps=20_000, **options)
    assert done.findings == [], [str(f) for f in done.findings]
    return done


def heard(kind: type) -> list[Any]:
    return [event for event in Ear.heard if isinstance(event, kind)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_loads(schedule: str | int) -> None:
    """Bytes from global memory, counted by the mbarrier."""
    x, out = np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)
    body = "@%p31 bra W;" + EXPECT.format(128) + (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%r90], [%rd40+64], 128, [%r91];") + WAIT + OUT
    run(body, [x, out], schedule=schedule, listeners=[Ear])
    np.testing.assert_array_equal(out, x[16:48])
    (copy,) = heard(ev.Async)
    assert [(s.space, s.kind, s.size, s.owner) for s in copy.spans] == [
        ("global", "read", 128, -1), ("shared", "write", 128, 0)]
    (signal,) = copy.signals
    assert (signal.bytes, signal.phase, signal.spans, signal.owner) == (128, 0, (1,), 0)
    waits = [e for e in heard(ev.Mbarrier) if e.op == "try_wait" and e.completed]
    assert waits
    arrive = next(e for e in heard(ev.Mbarrier) if e.op == "arrive")
    assert arrive.expected[0] == 128
    assert arrive.owners is None


def test_ignored_bytes_at_both_ends() -> None:
    """The first 4 and the last 8 bytes stay as they were."""
    x, out = np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)
    body = FILL + "@%p31 bra W;" + EXPECT.format(64) + (
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob"
        " [%r90], [%rd40], 64, 4, 8, [%r91];") + WAIT + OUT
    run(body, [x, out])
    assert out.tolist() == [0, *range(1, 14), *range(14, 32)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stores_in_groups(schedule: str | int) -> None:
    """wait_group.read frees the source, wait_group the destination."""
    out, again = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    body = FILL + """
    @%p31 bra A;
    cp.async.bulk.global.shared::cta.bulk_group [%rd40], [%r90], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
A:  bar.sync 0;
    add.u32 %r84, %r84, 1000; st.shared.u32 [%r86], %r84; fence.proxy.async; bar.sync 0;
    @%p31 bra B;
    cp.async.bulk.global.shared::cta.bulk_group [%rd41], [%r90], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
B:  ret;
"""
    run(body, [out, again], schedule=schedule, listeners=[Ear])
    assert out.tolist() == list(range(32))
    assert again.tolist() == list(range(1000, 1032))
    assert [(w.newest, w.read, w.mask) for w in heard(ev.BulkWait)] == [(0, True, 1), (0, False, 1)]
    assert [c.mask for c in heard(ev.BulkCommit)] == [1, 1]


def test_byte_masks() -> None:
    """Of each 16 bytes those that the mask names."""
    out = np.full(32, 0xFFFFFFFF, np.uint32)
    body = FILL + """
    @%p31 bra A; mov.b16 %h0, 0xF00F;
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd40], [%r90], 128, %h0;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
A:  ret;
"""
    run(body, [out], target="sm_100a")
    want = np.arange(32, dtype=np.uint32)
    want[(np.arange(32) % 4 == 1) | (np.arange(32) % 4 == 2)] = 0xFFFFFFFF
    np.testing.assert_array_equal(out, want)


REDUCED = {
    "add.u32": np.uint32, "add.s32": np.int32, "add.u64": np.uint64, "add.f32": np.float32,
    "add.f64": np.float64, "add.noftz.f16": np.float16, "min.s32": np.int32, "max.u64": np.uint64,
    "min.f16": np.float16, "max.s64": np.int64, "and.b32": np.uint32, "or.b64": np.uint64,
    "xor.b32": np.uint32, "inc.u32": np.uint32, "dec.u32": np.uint32,
}


@pytest.mark.parametrize("op", REDUCED)
def test_reductions_to_global_memory(op: str) -> None:
    """Each operation, as NumPy makes it element by element."""
    dtype, rng = REDUCED[op], np.random.default_rng()
    name = op.split(".", maxsplit=1)[0]
    a, b = (rng.integers(0, 100, 32).astype(dtype) if name in ("inc", "dec") or "f" in op
            else rng.integers(0, 2**31, 128 // np.dtype(dtype).itemsize).astype(dtype)
            for _ in range(2))
    a, b = (np.resize(side, 128 // np.dtype(dtype).itemsize) for side in (a, b))
    want = {"add": lambda: a + b, "min": lambda: np.minimum(a, b), "max": lambda: np.maximum(a, b),
            "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
            "inc": lambda: np.where(a >= b, 0, a + 1),
            "dec": lambda: np.where((a == 0) | (a > b), b, a - 1)}[name]()
    body = """
    @%p31 bra A;""" + EXPECT.format(128) + """
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r90], [%rd41], 128, [%r91];
A:  """ + WAIT + f"""@%p31 bra B;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%rd40], [%r90], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
B:  ret;
"""
    run(body, [a, b], listeners=[Ear])
    np.testing.assert_array_equal(a, want.astype(dtype))
    assert [s.kind for s in heard(ev.Async)[1].spans] == ["read", "atomic"]


# --- clusters -------------------------------------------------------------------------------------

TO_PEER = ("xor.b32 %r70, %r93, 1; mapa.shared::cluster.u32 %r71, %r90, %r70;"
           " mapa.shared::cluster.u32 %r72, %r91, %r70;\n")
END = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_copies_between_ctas(schedule: str | int) -> None:
    """128 bytes to the peer's memory, its own mbarrier counts them."""
    out = np.zeros(64, np.uint32)
    body = FILL + TO_PEER + "@%p31 bra W;" + EXPECT.format(128) + """
    barrier.cluster.arrive; barrier.cluster.wait;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
        [%r71+128], [%r90], 128, [%r72];
    bra V;
""" + WAIT.replace("W:", "W: barrier.cluster.arrive; barrier.cluster.wait; V:").replace(
        "bra W", "bra V") + "add.u32 %r90, %r90, 128;" + OUT + END
    run(body, [np.zeros(1, np.uint32), out], grid=2, cluster=2, schedule=schedule, listeners=[Ear])
    assert out.tolist() == [*range(100, 132), *range(32)]
    signals = [s for e in heard(ev.Async) for s in e.signals]
    assert sorted(s.owner for s in signals) == [0, 1]
    generations = [e.generation for e in heard(ev.ClusterWait)]
    assert generations == sorted(generations)
    assert {e.generation for e in heard(ev.ClusterArrive)} == {0, 1, 2}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_multicast(schedule: str | int) -> None:
    """Every CTA of the mask gets the bytes at the same offset, and counts them itself."""
    x, out = np.arange(32, dtype=np.uint32), np.zeros(128, np.uint32)
    body = FILL + "@!%p31 " + EXPECT.format(128) + """
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.ne.u32 %p1, %r93, 2; or.pred %p1, %p1, %p31; @%p1 bra W; mov.b16 %h0, 13;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r90], [%rd40], 128, [%r91], %h0;
W:  setp.eq.u32 %p2, %r93, 1; @%p2 bra X;
""" + WAIT.replace("W:", "V:").replace("bra W", "bra V") + "X:" + OUT + END
    run(body, [x, out], grid=4, cluster=4, schedule=schedule, listeners=[Ear])
    assert out.reshape(4, 32)[[0, 2, 3]].tolist() == [x.tolist()] * 3
    assert out.reshape(4, 32)[1].tolist() == list(range(100, 132))
    (copy,) = heard(ev.Async)
    assert [s.owner for s in copy.signals] == [0, 2, 3]
    assert [s.owner for s in copy.spans] == [-1, 0, 2, 3]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("op", "want"), [("add.u32", 107), ("max.s32", 100), ("xor.b32", 99),
                                          ("inc.u32", 0), ("and.b32", 4)])
def test_asynchronous_reductions(schedule: str | int, op: str, want: int) -> None:
    """red.async on a word of the peer that holds 100."""
    out = np.zeros(64, np.uint32)
    body = """mov.u32 %r0, 100; shl.b32 %r85, %r92, 2; add.u32 %r86, %r90, %r85;
    st.shared.u32 [%r86], %r0;""" + TO_PEER + "@!%p31 " + EXPECT.format(128) + """
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    add.u32 %r73, %r71, %r85; mov.u32 %r1, 7;
""" + f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}" + """
        [%r73], %r1, [%r72];
""" + WAIT + OUT + END
    run(body, [np.zeros(1, np.uint32), out], grid=2, cluster=2, schedule=schedule, listeners=[Ear])
    assert set(out.tolist()) == {want}
    copies = heard(ev.Async)
    assert len(copies) == 64
    spans = {(s.kind, s.proxy, s.size) for e in copies for s in e.spans}
    assert spans == {("atomic", "generic", 4)}


def test_remote_arrivals_name_the_owner() -> None:
    """An arrival at the peer's mbarrier completes its phase, and the event says whose it is."""
    out = np.zeros(64, np.uint32)
    body = FILL + TO_PEER + """
    @%p31 bra W; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r72];
""" + WAIT.replace("try_wait.parity.shared", "try_wait.parity.acquire.cluster.shared") + OUT + END
    run(body, [np.zeros(1, np.uint32), out], grid=2, cluster=2, listeners=[Ear])
    arrivals = [e for e in heard(ev.Mbarrier) if e.op == "arrive"]
    assert [(e.cta, int(e.owners[0])) for e in arrivals] == [(0, 1), (1, 0)]
    assert {e.semantics for e in arrivals} == {"release"}
    assert all(e.addresses[0] < 1 << 24 for e in arrivals)


def test_fences_say_what_they_fence() -> None:
    """The map of an acquire, and the memory of a restricted fence."""
    body = """
    fence.proxy.tensormap::generic.acquire.gpu [%rd40], 128;
    fence.proxy.tensormap::generic.release.cta;
    fence.acquire.sync_restrict::shared::cluster.cluster;
    fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
    ret;
"""
    run(body, [np.zeros(128, np.uint8)], listeners=[Ear])
    fences = heard(ev.Fence)
    assert [(f.semantics, f.proxy, f.size, f.restrict, f.scope) for f in fences] == [
        ("acquire", "tensormap::generic", 128, "", "gpu"),
        ("release", "tensormap::generic", 0, "", "cta"),
        ("acquire", "", 0, "shared::cluster", "cluster"),
        ("release", "async::generic", 0, "shared::cta", "cluster")]
    assert int(fences[0].addresses[5]) == 16 << 40


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("multicast", [False, True])
def test_pairs_signal_across(schedule: str | int, multicast: bool) -> None:
    """With cta_group::2 the bytes of both CTAs of a pair are counted by the leader's mbarrier."""
    x = np.arange(64 * 32, dtype=np.uint32).reshape(64, 32)
    out = np.zeros(64, np.uint32)
    made = TensorMap.tiled(x, box=(32, 1))
    where = "%r5" if not multicast else "0"
    words = ".multicast::cluster.cta_group::2" if multicast else ".cta_group::2"
    mask = ", %h0" if multicast else ""
    body = FILL + """
    mov.b16 %h0, 3; mov.u32 %r4, 0; mov.u32 %r5, %r93; and.b32 %r6, %r91, 0xFEFFFFFF;
    setp.ne.u32 %p1, %r93, 0;
    @%p31 bra W; @!%p1 """ + EXPECT.format(256) + """
    barrier.cluster.arrive; barrier.cluster.wait;
""" + ("@%p1 bra V;" if multicast else "") + f"""
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{words}
        [%r90], [%rd40, {{%r4, {where}}}], [%r6]{mask};
    bra V;
W:  barrier.cluster.arrive; barrier.cluster.wait;
V:  @%p1 bra X;
""" + WAIT.replace("W:", "U:").replace("bra W", "bra U") + """
X:  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
""" + OUT + END
    run(body, [made, out], grid=2, cluster=2, target="sm_100a", schedule=schedule, listeners=[Ear])
    want = x[[0, 0]] if multicast else x[:2]
    np.testing.assert_array_equal(out.reshape(2, 32), want)
    signals = [s for e in heard(ev.Async) for s in e.signals]
    assert [(s.owner, s.bytes) for s in signals] == [(0, 128), (0, 128)]
