"""Random programs of Hopper instructions: they end, in findings or errors of ours, and touch only
the buffers that they were given."""

from __future__ import annotations

import random
import secrets
from contextlib import suppress

import numpy as np
import pytest
from hostile import Guarded, compiled, interpreted

from mmalab import TensorMap, emulate
from mmalab.errors import MmalabError

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .align 64 .b8 m0[128])
{ .reg .pred %p<8>; .reg .b16 %h<2>; .reg .b32 %r<48>; .reg .f32 %f<8>; .reg .b64 %rd<48>;
.shared .align 1024 .b8 s[4096];
ld.param.u64 %rd40,[p0]; ld.param.u64 %rd41,[p1]; mov.u64 %rd42,m0; cvta.param.u64 %rd42,%rd42;
mov.u32 %r40,s; mov.u32 %r41,%tid.x; mov.u32 %r42,%cluster_ctarank; mov.u32 %r43,0;
mov.f32 %f0,0f3F800000; mov.f32 %f1,%f0; mov.f32 %f2,%f0; mov.f32 %f3,%f0;
setp.eq.u32 %p6,%r41,0; setp.lt.u32 %p7,%r41,64;
@%p6 mbarrier.init.shared::cta.b64 [%r40],1; @%p6 mbarrier.init.shared::cta.b64 [%r40+8],2;
fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
#: A: an address in shared memory, B: an mbarrier, G: in global memory, M: a tensor map, N: a size,
#: C: a coordinate, D: a descriptor, P: a predicate, R: a word.
FORMS = [
    "mbarrier.init.shared::cta.b64 [B],R;", "mbarrier.inval.shared::cta.b64 [B];",
    "mbarrier.arrive.shared::cta.b64 _,[B];", "mbarrier.arrive_drop.shared::cta.b64 _,[B];",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _,[B];",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _,[B],N;",
    "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [B],N;",
    "mbarrier.try_wait.parity.shared::cta.b64 P,[B],0;",
    "mbarrier.test_wait.parity.shared::cta.b64 P,[B],R;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [A],[G],N,[B];",
    ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
     " [A],[G],N,[B],%h0;"),
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [A],[A],N,[B];",
    "cp.async.bulk.global.shared::cta.bulk_group [G],[A],N;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [G],[A],N;",
    "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;",
    ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
     " [A],[M,{C,C}],[B];"),
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [M,{C,C}],[A];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [M,{C,C}],[A];",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [A],R,[B];",
    "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
    "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3},D,D,1,1,1,0,0;",
    "setmaxnreg.dec.sync.aligned.u32 40;", "fence.proxy.async;", "exit;", "bar.sync 0;",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%rd41],D;",
    "tensormap.replace.tile.box_dim.global.b1024.b32 [%rd41],0,R;",
    "st.shared.u32 [A],R;", "st.shared::cluster.u32 [A],R;", "ld.shared.u32 %r20,[A];",
    "cp.async.cg.shared.global [A],[G],16;",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [B];", "prefetch.tensormap [M];",
]


def _program(rng: random.Random) -> str:
    """Mostly of addresses that make sense, so that programs get further than one instruction."""
    wild = rng.random() < 0.3
    lines = [HEAD, f"mov.u16 %h0,{rng.choice([1, 2, 3, 0xFFFF])};"]
    for i in range(8):
        offset = rng.choice([0, 8, 1024, 2048, 4080, rng.randrange(1 << 13)] if wild
                            else [128, 1024, 2048])
        lines.append(f"mapa.shared::cluster.u32 %r{i},%r40,{rng.choice([0, 1, 7])};" if wild and
                     rng.random() < 0.4 else f"add.u32 %r{i},%r40,{offset};")
        lines.append(f"mov.u64 %rd{i},{rng.choice([0, rng.getrandbits(64)])};" if wild else
                     f"add.u64 %rd{i},%rd{rng.choice([40, 41])},{rng.choice([0, 16, 128])};")
        lines.append(f"mov.s32 %r{i + 8},{rng.choice([-(2**31), -8, 0, 4, 2**31 - 1])};")
    picks = {
        "A": [*(f"%r{i}" for i in range(8)), "%r40"], "B": ["%r40", "%r40+8", "%r40", "%r3"],
        "G": ["%rd40", "%rd41", "%rd1", "%rd2"], "M": ["%rd42", "%rd42", "%rd41", "%rd3"],
        "N": ["0", "16", "512", *(["%r9"] if wild else [])], "P": ["%p0", "%p1", "%p6"],
        "C": ["%r43", "%r43", "%r8", "%r12"], "D": ["%rd4", "%rd5"], "R": ["%r9", "%r41", "1"]}
    for at in range(rng.randrange(5, 18)):
        text = "".join(rng.choice(picks[c]) if c in picks and not (
            before.isalnum() or before in "._:" or after.isalnum() or after in "._:") else c
            for before, c, after in _windows(rng.choice(FORMS)))
        free = wild or ".aligned" not in text
        guard = rng.choice(["@%p6 ", "@%p6 ", "@%p7 ", ""]) if free else ""
        lines.append(f"L{at}: {guard}{text}")
        if rng.random() < 0.15:
            lines.append(f"@{rng.choice(['', '!'])}%p7 bra L{rng.randrange(at + 1)};")
    return "\n".join([*lines, "ret; }"])


def _windows(form: str) -> list[tuple[str, str, str]]:
    padded = f" {form} "
    return [(padded[i - 1], padded[i], padded[i + 1]) for i in range(1, len(form) + 1)]


@pytest.mark.parametrize("number", range(8))
def test_random_programs_end_and_stay_within_their_buffers(number: int) -> None:
    """Whichever executor and schedule: no other exception, no byte beside the buffers."""
    seed = secrets.randbits(32)
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311
    text, raw = _program(rng), rng.random() < 0.3
    launch = {"grid": 2, "cluster": rng.choice([1, 2]), "block": rng.choice([32, 128]),
              "max_steps": 600}
    for execute, schedule in ((interpreted, "eager"), (compiled, "eager"), (emulate, "eager"),
                              (emulate, "lazy"), (emulate, number)):
        buffers = [Guarded(8192, at_end=rng.random() < 0.5), Guarded(512)]
        for buffer in buffers:
            buffer.array[:] = np.frombuffer(rng.randbytes(buffer.array.size), np.uint8)
        box = TensorMap.tiled(buffers[0].array.view(np.float32).reshape(-1, 32), box=(8, 8))
        args = [*(b.array for b in buffers), rng.randbytes(128) if raw else box]
        with suppress(MmalabError):
            execute(text, args, schedule=schedule, **launch)
        assert all(buffer.intact for buffer in buffers), text
