"""Shuffles, votes, matches, reductions, and lanes that meet or do not."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import run_kernel

LANE = np.arange(32)
PROLOGUE = """
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd41, %rd1;
    add.s64 %rd3, %rd40, %rd1; ld.global.u32 %r1, [%rd2];
"""


def _run(body, values, *, block=32, **options):
    out = np.full(block, 0xCBCBCBCB, np.uint32)
    run = run_kernel(PROLOGUE + body + "\n st.global.u32 [%rd3], %r2; ret;",
                     [out, np.asarray(values, np.uint32)], block=block, **options)
    return out, run


def _shuffle(mode, value, b, c):
    """The manual's pseudo code, lane by lane."""
    out, inside = [], []
    clamp, segment = c & 31, c >> 8 & 31
    for lane in range(32):
        low = lane & segment
        high = low | clamp & ~segment & 31
        j = {"up": lane - (b & 31), "down": lane + (b & 31), "bfly": lane ^ (b & 31),
             "idx": low | b & 31 & ~segment}[mode]
        good = j >= high if mode == "up" else j <= high
        out.append(value[j if good else lane])
        inside.append(good)
    return out, inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("c", [0x1F, 0x0, 0x181F, 0x1C07, 0x1003])
@pytest.mark.parametrize("b", [0, 1, 5, 16, 31, 33])
def test_shuffles_follow_the_manual(mode, b, c):
    """Value and predicate of every lane, in segments and beyond their ends."""
    values = np.random.default_rng().integers(0, 2**32, 32, dtype=np.uint32)
    out, _ = _run(f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, 0xffffffff;\n"
                  "@!%p1 xor.b32 %r2, %r2, 0xffffffff;", values)
    want, inside = _shuffle(mode, values.tolist(), b, c)
    assert out.tolist() == [w if p else w ^ 0xFFFFFFFF for w, p in zip(want, inside, strict=True)]


def test_shuffle_with_a_source_per_lane():
    """The source lane may be a register that differs from lane to lane."""
    values = np.random.default_rng().integers(0, 2**32, 32, dtype=np.uint32)
    out, _ = _run("mad.lo.u32 %r4, %r0, 7, 3; shfl.sync.idx.b32 %r2, %r1, %r4, 31, -1;", values)
    assert out.tolist() == values[(LANE * 7 + 3) % 32].tolist()


@pytest.mark.parametrize(("instruction", "want"), [
    ("vote.sync.ballot.b32 %r2, %p1, -1;", lambda odd: [odd] * 32),
    ("vote.sync.any.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;", lambda odd: [odd != 0] * 32),
    ("vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r2, 1, 0, %p2;", lambda odd: [odd == 0] * 32),
    ("vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
     lambda odd: [odd in (0, 2**32 - 1)] * 32),
    ("activemask.b32 %r2;", lambda _: [2**32 - 1] * 32),
])
@pytest.mark.parametrize("odd", [0, 0xFFFFFFFF, 0x0F0F1234])
def test_votes(instruction, want, odd):
    """ballot, any, all, uni and activemask."""
    values = odd >> LANE & 1
    out, _ = _run(f"setp.ne.u32 %p1, %r1, 0; {instruction}", values)
    assert out.tolist() == [int(x) for x in want(odd)]


def test_match_finds_equal_lanes():
    """match.any gives each lane its equals; match.all the mask only if all agree."""
    values = LANE % 3
    out, _ = _run("match.any.sync.b32 %r2, %r1, -1;", values)
    masks = [sum(1 << i for i in range(32) if i % 3 == k) for k in range(3)]
    assert out.tolist() == [masks[i % 3] for i in range(32)]
    body = "match.all.sync.b32 %r2|%p1, %r1, -1; @%p1 add.u32 %r2, %r2, 1;"
    assert not _run(body, values)[0].any()
    assert _run(body, np.full(32, 9))[0].tolist() == [0] * 32


@pytest.mark.parametrize(("op", "kind", "function"), [
    ("add", "u32", lambda v: int(v.sum()) & 0xFFFFFFFF), ("min", "u32", lambda v: int(v.min())),
    ("max", "s32", lambda v: int(v.astype(np.uint32).view(np.int32).max()) & 0xFFFFFFFF),
    ("and", "b32", lambda v: int(np.bitwise_and.reduce(v))),
    ("xor", "b32", lambda v: int(np.bitwise_xor.reduce(v))),
])
def test_reductions(op, kind, function):
    """redux.sync combines the lanes of the mask."""
    values = np.random.default_rng().integers(0, 2**32, 32, dtype=np.uint64)
    out, _ = _run(f"redux.sync.{op}.{kind} %r2, %r1, -1;", values)
    assert out.tolist() == [function(values)] * 32


def test_two_masks_work_side_by_side():
    """Halves of a warp with their own masks reduce apart, at one instruction."""
    out, run = _run("setp.lt.u32 %p1, %r0, 16; selp.b32 %r4, 0xffff, 0xffff0000, %p1;"
                    "redux.sync.add.u32 %r2, %r1, %r4;", LANE)
    assert out.tolist() == [120] * 16 + [376] * 16
    assert run.findings == []


def test_elect_names_one_lane():
    """elect.sync is true in exactly one lane, the lowest of the mask, and names it."""
    out, _ = _run("elect.sync %r2|%p1, 0xfffffff0; @%p1 add.u32 %r2, %r2, 100;", LANE,
                  target="sm_90")
    assert out.tolist()[4:] == [104, *[4] * 27]


def test_partial_last_warp_and_full_mask():
    """A block of 40 threads: lanes without a thread are not waited for and give no finding."""
    out, run = _run("vote.sync.ballot.b32 %r2, 1, -1;", np.zeros(40), block=40)
    assert out.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8
    assert run.findings == []


def test_lanes_gather_at_a_collective():
    """Lanes that reach shfl.sync early wait for the others of the mask, in both block orders."""
    low_first = """
    setp.lt.u32 %p1, %r0, 16; @%p1 bra SLOW; bra MEET;
SLOW: add.u32 %r1, %r1, 1000; bra MEET;
MEET: shfl.sync.idx.b32 %r2, %r1, 3, 31, -1;"""
    out, run = _run(low_first, LANE)
    assert out.tolist() == [1003] * 32
    assert run.findings == []
    high_first = """
    setp.lt.u32 %p1, %r0, 16; @!%p1 bra SLOW;
MEET: shfl.sync.idx.b32 %r2, %r1, 3, 31, -1; bra END;
SLOW: add.u32 %r1, %r1, 1000; bra MEET;
END:"""
    out, run = _run(high_first, LANE)
    assert out.tolist() == [3] * 32
    assert run.findings == []


def test_warp_sync_meets_at_different_places():
    """bar.warp.sync releases lanes that stand at different instructions with the same mask."""
    out, run = _run("""
    mov.u32 %r2, 0; setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;
    bar.warp.sync 0xffffffff; mov.u32 %r2, 1; bra END;
LOW: bar.warp.sync 0xffffffff; mov.u32 %r2, 2;
END:""", LANE)
    assert out.tolist() == [2] * 16 + [1] * 16
    assert run.findings == []


def test_mask_faults_are_findings():
    """A lane outside its own mask, and a source lane that takes no part."""
    _, run = _run("mov.u32 %r2, 0; bar.warp.sync 0x0000ffff;", LANE)
    assert [f.code for f in run.findings] == ["warp-sync-mask"]
    _, run = _run("setp.lt.u32 %p1, %r0, 8; mov.u32 %r2, 0;"
                  "@%p1 shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xff;", LANE)
    assert [f.code for f in run.findings] == ["warp-sync-mask"]
    assert run.findings[0].witness["source_lane"] == 20


def test_aligned_collective_by_half_a_warp():
    """Half of a warp at mma's friends is a divergent-collective finding, and the run ends."""
    _, run = _run("""
    .shared .align 16 .b8 smem[512]; mov.u32 %r4, smem; and.b32 %r5, %r0, 7; shl.b32 %r5, %r5, 4;
    add.u32 %r4, %r4, %r5; mov.u32 %r2, 0; setp.lt.u32 %p1, %r0, 16; @%p1 bra HALF;
    bar.sync 0; bra END;
HALF: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r4]; bar.sync 0;
END:""", LANE)
    assert "divergent-collective" in {f.code for f in run.findings}
