"""Whatever address a kernel makes up, nothing of the host is touched and both executors agree."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hostile import Guarded, compiled, interpreted, kernel

from mmalab import emulate

BASES = [0, 1, 8, 1 << 32, 1 << 40, (1 << 40) + 1024, 2 << 40, (2 << 40) + (1 << 32), 3 << 40,
         (3 << 40) + 8, 4 << 40, 15 << 40, 17 << 40, (1 << 64) - 1, (1 << 64) - 4, (1 << 64) - 16,
         1 << 63, (1 << 40) | (1 << 24) | 1024, (1 << 40) | (1 << 32) | 1024]
ACCESSES = ["ld.u32 %r1,[%rd1];", "st.u32 [%rd1],7;", "atom.add.u32 %r1,[%rd1],1;",
            "ld.global.v2.u64 {%rd2,%rd3},[%rd1];", "red.add.u64 [%rd1],1;",
            "st.global.u8 [%rd1],1;", "cp.async.ca.shared.global [%r9],[%rd1],4;",
            "ld.local.u32 %r1,[%rd1];", "st.shared.u32 [%rd1],1;", "ld.param.u32 %r1,[%rd1];"]
SHARED = [0, 4, 1020, 1023, 1024, 1085, 1088, 1 << 24, (1 << 24) | 1024, 0x7FFFFFFF, 0xFFFFFFFC,
          0xFFFFFFFF]
SHARED_ACCESSES = [
    "ld.shared.u32 %r1,[%r8];", "st.shared.u64 [%r8],%rd40;", "atom.shared.add.u32 %r1,[%r8],1;",
    "ld.shared.v4.u32 {%r1,%r2,%r3,%r4},[%r8];", "cp.async.cg.shared.global [%r8],[%rd40],16;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4},[%r8];",
    "mbarrier.init.shared.b64 [%r8],1;", "ld.shared::cluster.u32 %r1,[%r8];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r8],{%r9};"]
SETUP = ".local .b8 lc[64]; .shared .align 16 .b8 s[64]; mov.u32 %r9,s;"


def _outcome(run):
    return run.verdict, [(f.code, f.where) for f in run.findings if f.severity == "error"]


def _agree(text, **options):
    seen = []
    for execute in (interpreted, compiled):
        buffer = Guarded(256)
        seen.append(_outcome(execute(text, [buffer.array], **options)))
        assert buffer.intact
    assert seen[0] == seen[1]
    return seen[0]


@pytest.mark.parametrize("base", BASES, ids=hex)
def test_made_up_addresses_reach_only_what_they_may(base):
    """Null, other tags, wrapped and truncated addresses: same verdict, CTA, warp, lane and line."""
    for access in ACCESSES:
        _agree(kernel(f"{SETUP} mov.u64 %rd1,{base};\n{access}"), block=33)


@pytest.mark.parametrize("address", SHARED, ids=hex)
def test_shared_addresses_outside_the_cta_are_found(address):
    """The reserved first KiB, the end, rank bits without a cluster."""
    for access in SHARED_ACCESSES:
        verdict, errors = _agree(kernel(f"{SETUP} mov.u32 %r8,{address};\n{access}"), block=32)
        if address < 1024 or address >= 1088:
            assert verdict == "findings", access
            assert errors[0][1].lane == 0
            assert errors[0][1].line == 10


@pytest.mark.parametrize("offset", [-4, -1, 1, 252, 253, 255, 256, 1 << 32, 1 << 40, -(1 << 40)])
def test_the_ends_of_a_buffer_are_exact(offset):
    """The last word is inside, everything else is a finding, vectors included."""
    for access, size in (("ld.global.u32 %r1,[%rd1];", 4),
                         ("st.global.v4.u32 [%rd1],{%r1,%r1,%r1,%r1};", 16)):
        verdict, _ = _agree(kernel(f"mov.u32 %r1,1; add.s64 %rd1,%rd40,{offset};\n{access}"),
                            block=1)
        inside = 0 <= offset <= 256 - size and offset % size == 0
        assert verdict == ("clean" if inside else "findings")


def test_random_accesses_at_random_addresses():
    """Guard pages around every buffer: a wild access would end the process."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311
    for _ in range(25):
        body = [SETUP, "mov.u32 %r0,%laneid; mov.u32 %r1,1; mov.u64 %rd2,2; mov.u64 %rd3,3;"]
        for _ in range(3):
            base = rng.choice([*BASES, 16 << 40]) + rng.choice([0, 0, 4, 16, 240, 256, 1 << 24])
            step = rng.choice([0, 1, 4, 16, 1 << 31])
            body.append(f"mov.u64 %rd1,{base % (1 << 64)}; cvt.u64.u32 %rd4,%r0;"
                        f" mad.lo.u64 %rd1,%rd4,{step},%rd1;")
            body.append(rng.choice(ACCESSES))
        text = kernel("\n".join(body))
        found = [_outcome(execute(text, [Guarded(256, at_end=rng.random() < 0.5).array], block=32))
                 for execute in (interpreted, compiled)]
        assert found[0] == found[1], text


def test_a_wild_copy_costs_no_memory_under_the_model():
    """The shadow of shared memory does not grow to the address of an access that ended the run."""
    run = emulate(kernel(f"{SETUP} mov.u32 %r8,0x7ffffff0;\n"
                         "cp.async.cg.shared.global [%r8],[%rd40],16;"),
                  [np.zeros(64, np.uint32)], block=32)
    assert [f.code for f in run.findings if f.severity == "error"] == ["out-of-bounds"]


@pytest.mark.parametrize("index", ["2", "3", "-1", "2147483648"])
def test_branches_beyond_their_table_are_found(index):
    """brx.idx with an index that no target has is an illegal value, not a fall through."""
    text = kernel(f"mov.u32 %r1,{index}; T: .branchtargets A,B; brx.idx %r1,T;\n"
                  "A: mov.u32 %r2,1;\nB: mov.u32 %r2,2;", 0)
    for execute in (interpreted, compiled):
        run = execute(text, [], block=32)
        assert [f.code for f in run.findings] == ["illegal-value"]


@pytest.mark.parametrize("amount", [1 << 20, 1 << 21, (1 << 32) - 1])
def test_pending_bytes_beyond_an_mbarriers_count_are_found(amount):
    """2**21 announced bytes would come out as none."""
    text = kernel(f"{SETUP} mbarrier.init.shared.b64 [%r9],1; mov.u32 %r1,{amount};\n"
                  "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r9],%r1;", 0)
    for execute in (interpreted, compiled):
        assert "tx-mismatch" in [f.code for f in execute(text, [], block=1).findings]
