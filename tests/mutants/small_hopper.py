"""Small Hopper kernels with one fault each and their right twins, and right ones of unusual make.

`FAULTS`: name -> a pair of cases, wrong and right, of kinds that neither the pipeline's mutants nor
the litmus set has: who announces, who initialises, who commits; ranks, masks and addresses in a
cluster; what a group, a phase or a warpgroup covers. `UNUSUAL`: right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from mutants.hopper_snippets import (
    PRODUCT,
    START,
    bulk,
    d_of,
    descriptor,
    expect,
    init,
    load,
    product,
    store,
    wait,
)

import mmalab

__all__ = ["FAULTS", "UNUSUAL", "Case"]

Args = Callable[[], list[Any]]


def words() -> list[Any]:
    """4 KiB to read, 4 KiB to write."""
    return [np.arange(1, 1025, dtype=np.uint32), np.zeros(1024, np.uint32)]


def tiles(box: tuple[int, int] = (64, 32), shape: tuple[int, int] = (64, 128),
          swizzle: str = "none") -> Args:
    """A tensor map to load from and one to store to."""
    def make() -> list[Any]:
        rows = np.arange(shape[0] * shape[1]).reshape(shape).astype(ml_dtypes.bfloat16)
        return [mmalab.TensorMap.tiled(array, box=box, swizzle=swizzle)
                for array in (rows, np.zeros_like(rows))]
    return make


@dataclass(frozen=True)
class Case:
    """A body, its launch, and the codes one of which must be an error (none: no finding)."""

    body: str
    codes: tuple[str, ...] = ()
    args: Args = words
    launch: dict[str, Any] = field(default_factory=dict)

    def right(self, *changes: tuple[str, str], **launch: Any) -> Case:
        """The twin: pieces of text replaced, each found once or more."""
        body = self.body
        for old, new in changes:
            assert old in body, old
            body = body.replace(old, new)
        return replace(self, body=body, codes=(), launch={**self.launch, **launch})


def pair(wrong: Case, *changes: tuple[str, str], **launch: Any) -> tuple[Case, Case]:
    """A case and its twin."""
    return wrong, wrong.right(*changes, **launch)


# --- pieces ---------------------------------------------------------------------------------------

CTAS = {"grid": 2, "cluster": 2}
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
#: Barriers known to the cluster.
TOGETHER = "fence.mbarrier_init.release.cluster;\n" + MEET
READ = "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; ld.shared.b32 %r2, [%r1];\n"
KEEP = ("mad.lo.u32 %r3, %k, 512, %t; mul.wide.u32 %rd0, %r3, 4; add.u64 %rd0, %rd0, %g1;\n"
        "st.global.b32 [%rd0], %r2;\n")
USE = READ + KEEP
FILL = "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; st.shared.b32 [%r1], %t;\n"
PROXY = "fence.proxy.async.shared::cta;\n"
COMMIT, DONE = "@%e cp.async.bulk.commit_group;\n", "@%e cp.async.bulk.wait_group 0;\n"
OUT = "@%e cp.async.bulk.global.shared::cta.bulk_group [%g1], [%s], 512;\n"
MULTICAST = ("@{guard} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
             ".multicast::cluster [%s], [%g0], 512, [%b], %h0;\n")
#: 4 KiB at %s.
_FILL_TILE = ("mov.b32 %r2, 0;\n" + "shl.b32 %r1, %t, 5; add.u32 %r1, %r1, %s;\n"
              "st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};\n"
              "st.shared.v4.b32 [%r1+16], {%r2, %r2, %r2, %r2};\n")
FENCE, GROUP = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
READY = "wgmma.wait_group.sync.aligned 0;\n"
#: A (64 x 16) and B (8 x 16), K-major without swizzle, behind %s and %s + 2048.
OPERANDS = (descriptor("%rd0", leading=128, stride=256, swizzle=0)
            + descriptor("%rd1", 2048, leading=128, stride=256, swizzle=0))
LOAD_AB = (init(1) + START + expect(0, 2304) + bulk(2304) + wait(0, 0) + OPERANDS)
RESULT = ("mul.wide.u32 %rd2, %t, 16; add.u64 %rd2, %rd2, %g1;\n"
          "st.global.v4.f32 [%rd2], {%f0, %f1, %f2, %f3};\n")


def put(text: str, **values: object) -> str:
    """``{name}`` replaced; other braces are PTX's."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def only(rank: int, name: str = "%p20") -> str:
    """`name` is true in thread 0 of one CTA of the cluster."""
    return f"setp.eq.u32 {name}, %k, {rank}; and.pred {name}, {name}, %e;\n"


def outputs() -> list[Any]:
    """2304 bytes of bf16 operands, and a 64 x 8 result."""
    rng = np.random.default_rng()
    return [rng.standard_normal(1152).astype(ml_dtypes.bfloat16),
            np.zeros((128, 4), np.float32)]


# --- faults ---------------------------------------------------------------------------------------

def _clusters() -> dict[str, tuple[Case, Case]]:
    send = "mov.b16 %h0, {mask};\n" + only(0) + put(MULTICAST, guard="%p20")
    both = init(1) + TOGETHER + "{expect}" + put(send, mask=3) + wait(0, 0) + USE + MEET
    remote = ("mapa.shared::cluster.u32 %r4, %b, {rank};\n"
              "@%e mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n")
    peer = "mapa.shared::cluster.u32 %r5, %s, {rank}; mapa.shared::cluster.u32 %r6, %b, {mbar};\n"
    push = ("@%e st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], 7,"
            " [%r6];\n")
    sent = (init(1) + TOGETHER + expect(0, 4) + peer + push + wait(0, 0)
            + "ld.shared.b32 %r2, [%s];\n" + KEEP + "{end}")
    return {
        "multicast_peer_announces_nothing": pair(
            Case(put(both, expect=only(0, "%p21") + expect(0, 512, "%p21")),
                 ("tx-mismatch", "deadlock"), launch=CTAS),
            (only(0, "%p21") + expect(0, 512, "%p21"), expect(0, 512))),
        "multicast_mask_lacks_the_peer": pair(
            Case(put(both, expect=expect(0, 512)).replace("%h0, 3", "%h0, 1"),
                 ("deadlock", "tx-mismatch"), launch=CTAS), ("%h0, 1", "%h0, 3")),
        "multicast_mask_of_nobody": pair(
            Case(put(both, expect=expect(0, 512)).replace("%h0, 3", "%h0, 0"),
                 ("out-of-bounds",), launch=CTAS),
            ("%h0, 0", "%h0, 3")),
        "multicast_barrier_initialised_in_one_cta": pair(
            Case((only(0, "%p22") + "@%p22 mbarrier.init.shared::cta.b64 [%b], 1;\n" + TOGETHER
                  + only(0, "%p21") + expect(0, 512, "%p21") + put(send, mask=3)
                  + "setp.ne.u32 %p23, %k, 0; @%p23 bra END;\n" + wait(0, 0) + "END:\n" + MEET),
                 ("mbarrier-uninitialised", "mbarrier-init-order"), launch=CTAS),
            ("%h0, 3", "%h0, 1")),
        "announced_to_the_wrong_cta": pair(
            Case(init(1) + TOGETHER + "xor.b32 %r3, %k, 1; mapa.shared::cluster.u32 %r4, %b, %r3;\n"
                 + "setp.eq.u32 %p3, %k, 0; and.pred %p3, %p3, %e;\n"
                 "@%p3 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4],"
                 " 512;\n" + only(0) + bulk(512, guard="%p20")
                 + "@!%p3 bra END;\n" + wait(0, 0) + "END:\n" + MEET,
                 ("tx-mismatch", "deadlock"), launch=CTAS),
            ("xor.b32 %r3, %k, 1", "mov.b32 %r3, %k")),
        "arrives_at_its_own_barrier_instead_of_the_peers": pair(
            Case(init(1) + TOGETHER + "xor.b32 %r3, %k, 0;\n" + only(0)
                 + put(remote, rank="%r3").replace("@%e", "@%p20")
                 + "setp.eq.u32 %p8, %k, 0; @%p8 bra END;\n" + wait(0, 0) + "END:\n" + MEET,
                 ("deadlock",), launch=CTAS), ("xor.b32 %r3, %k, 0", "xor.b32 %r3, %k, 1")),
        "rank_outside_the_cluster": pair(
            Case(init(2) + TOGETHER + put(remote, rank=2) + MEET,
                 ("out-of-bounds", "illegal-value", "cluster-lifetime"), launch=CTAS),
            (put(remote, rank=2), put(remote, rank=0))),
        "st_async_signals_another_cta": pair(
            Case("xor.b32 %r3, %k, 1;\n" + put(sent, rank="%r3", mbar="%k", end=MEET),
                 ("illegal-value", "tx-mismatch", "missing-mbarrier-wait"), launch=CTAS),
            ("%r6, %b, %k", "%r6, %b, %r3")),
        "peer_leaves_before_it_is_written": pair(
            Case(init(1) + TOGETHER + only(1) + expect(0, 4, "%p20") + put(peer, rank=1, mbar=1)
                 + only(0) + push.replace("@%e", "@%p20") + "setp.eq.u32 %p25, %k, 1;\n",
                 ("cluster-lifetime", "async-outlives-cta"), launch=CTAS),
            ("setp.eq.u32 %p25, %k, 1;\n", "setp.eq.u32 %p25, %k, 1; @!%p25 bra END;\n"
             + wait(0, 0) + "END:\n" + MEET)),
        "shared_memory_of_a_peer_that_may_not_have_started": pair(
            Case("mapa.shared::cluster.u32 %r5, %s, 1;\n" + only(0)
                 + "@%p20 st.shared::cluster.b32 [%r5], 7;\n" + MEET,
                 ("cluster-lifetime",), launch=CTAS),
            ("mapa.shared::cluster.u32 %r5", MEET + "mapa.shared::cluster.u32 %r5")),
        "one_cta_skips_the_cluster_barrier": pair(
            Case("setp.eq.u32 %p3, %k, 1; @%p3 bra SPIN;\n" + MEET + "ret;\nSPIN:\n" + init(1)
                 + wait(0, 0), ("deadlock",), launch=CTAS),
            (init(1), ""), (wait(0, 0), MEET)),
    }


def _barriers() -> dict[str, tuple[Case, Case]]:
    one = init(1) + START + expect(0, 512) + bulk(512)
    arrives = "@%e mbarrier.arrive.shared::cta.b64 _, [%b];\n"
    announces = "@%e mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 512;\n"
    return {
        "arrives_twice_in_a_phase": pair(
            Case(one + "@%e mbarrier.arrive.shared::cta.b64 _, [%b];\n" + wait(0, 0) + USE,
                 ("mbarrier-count", "mbarrier-phase", "deadlock")),
            (init(1), init(2))),
        "everybody_arrives_for_one": pair(
            Case(init(1) + START + "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + wait(0, 0),
                 ("deadlock", "mbarrier-count")), (init(1), init(128))),
        "invalidated_while_others_wait": pair(
            Case(one + wait(0, 0) + "@%e mbarrier.inval.shared::cta.b64 [%b];\n" + USE,
                 ("mbarrier-lifetime", "mbarrier-uninitialised", "mbarrier-phase",
                  "missing-barrier")),
            ("@%e mbarrier.inval", "bar.sync 0; @%e mbarrier.inval")),
        "invalidated_under_a_copy": pair(
            Case(one + "@%e mbarrier.inval.shared::cta.b64 [%b];\n",
                 ("mbarrier-lifetime", "mbarrier-uninitialised", "missing-mbarrier-wait")),
            ("@%e mbarrier.inval", wait(0, 0) + "bar.sync 0; @%e mbarrier.inval")),
        "initialised_again_without_inval": pair(
            Case(one + wait(0, 0) + "bar.sync 0;\n" + init(1) + "bar.sync 0;\n",
                 ("mbarrier-lifetime",)),
            ("bar.sync 0;\n" + init(1),
             "bar.sync 0; @%e mbarrier.inval.shared::cta.b64 [%b];\n" + init(1))),
        "copy_over_its_own_barrier": pair(
            Case(init(1) + START + expect(0, 64) + bulk(64, to="%b") + wait(0, 0),
                 ("mbarrier-lifetime",)), ("[%b], [%g0]", "[%s], [%g0]")),
        "barrier_misaligned": pair(
            Case("@%e mbarrier.init.shared::cta.b64 [%b+4], 1;\n", ("misaligned-access",)),
            ("%b+4", "%b+8")),
        "count_beyond_its_range": pair(
            Case("mov.b32 %r1, 1048576; @%e mbarrier.init.shared::cta.b64 [%b], %r1;\n",
                 ("mbarrier-count",)), ("1048576", "1048575")),
        "state_of_an_old_phase": pair(
            Case(init(1) + START + "@!%e bra END;\n"
                 + "mbarrier.arrive.shared::cta.b64 %rd5, [%b];\n" + wait(0, 0)
                 + "mbarrier.arrive.shared::cta.b64 %rd6, [%b];\n" + wait(0, 1)
                 + "A: mbarrier.try_wait.shared::cta.b64 %p3, [%b], %rd5; @!%p3 bra A;\nEND:\n",
                 ("mbarrier-phase", "deadlock")),
            ("[%b], %rd5;", "[%b], %rd6;")),
        "announces_after_the_last_arrival": pair(
            Case(init(1) + START + arrives + announces + bulk(512)
                 + wait(0, 0) + USE, ("tx-mismatch", "missing-mbarrier-wait", "mbarrier-phase")),
            (arrives + announces, announces + arrives)),
        "elements_announced_for_bytes": pair(
            Case(init(1) + START + expect(0, 64 * 32) + load(0) + wait(0, 0),
                 ("tx-mismatch", "deadlock"), tiles()), (", 2048;", ", 4096;")),
        "bytes_inside_the_tensor_announced": pair(
            Case(init(1) + START + expect(0, 2048) + load(0, at="0, 48") + wait(0, 0),
                 ("tx-mismatch", "deadlock"), tiles()), (", 2048;", ", 4096;")),
        "all_warps_wait_on_another_barrier": pair(
            Case(init(1, 1) + START + expect(0, 512) + bulk(512)
                 + "@%e mbarrier.arrive.shared::cta.b64 _, [%b+8];\n" + wait(1, 0) + USE,
                 ("missing-mbarrier-wait",)),
            (wait(1, 0), wait(0, 0))),
        "one_warp_waits_for_all": pair(
            Case(one + "setp.ne.u32 %p3, %w, 0; @%p3 bra END;\n" + wait(0, 0) + "END:\n" + USE,
                 ("missing-mbarrier-wait", "missing-barrier")),
            ("END:\n", "END: bar.sync 0;\n")),
        "dropped_arrivals_are_waited_for": pair(
            Case(init(4) + START + "@!%el bra END;\nsetp.eq.u32 %p3, %w, 3;\n"
                 "@%p3 mbarrier.arrive_drop.shared::cta.b64 _, [%b];\n"
                 "@!%p3 mbarrier.arrive.shared::cta.b64 _, [%b];\n@%p3 bra END;\n" + wait(0, 0)
                 + "setp.lt.u32 %p4, %w, 2;\n@%p4 mbarrier.arrive.shared::cta.b64 _, [%b];\n"
                 + wait(0, 1) + "END:\n", ("deadlock",)),
            ("setp.lt.u32 %p4, %w, 2", "setp.lt.u32 %p4, %w, 3")),
    }


def _copies() -> dict[str, tuple[Case, Case]]:
    filled = FILL + PROXY + "bar.sync 0;\n"
    reduced = ("@%e cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%g1], [%s],"
               " 512;\n")
    again = "bar.sync 0;\n" + FILL
    return {
        "size_from_a_register": pair(
            Case(init(1) + START + "mov.b32 %r3, 500;\n" + expect(0, 512).replace("512", "%r3")
                 + bulk(512).replace("512", "%r3") + wait(0, 0),
                 ("misaligned-access", "illegal-value")), ("%r3, 500", "%r3, 512")),
        "source_misaligned": pair(
            Case(init(1) + START + "add.u64 %rd3, %g0, 8;\n" + expect(0, 512)
                 + bulk(512, source="%rd3") + wait(0, 0), ("misaligned-access",)),
            ("%g0, 8", "%g0, 16")),
        "source_past_the_buffer": pair(
            Case(init(1) + START + "add.u64 %rd3, %g0, 4080;\n" + expect(0, 512)
                 + bulk(512, source="%rd3") + wait(0, 0), ("out-of-bounds",)),
            ("%g0, 4080", "%g0, 3584")),
        "store_from_unaligned_shared_memory": pair(
            Case(filled + "add.u32 %r4, %s, 64;\n" + store(1, source="%r4") + COMMIT + DONE,
                 ("misaligned-access",), tiles(box=(64, 1))), ("%s, 64", "%s, 128")),
        "store_at_a_negative_coordinate": pair(
            Case(filled + store(1, at="0, -1") + COMMIT + DONE, ("illegal-value",),
                 tiles(box=(64, 2))), ("0, -1", "0, 1")),
        "reduction_never_committed": pair(
            Case(filled + reduced + DONE + again, ("missing-bulk-wait",)),
            (DONE, COMMIT + DONE)),
        "another_thread_commits": pair(
            Case(filled + OUT + "setp.eq.u32 %p3, %t, 1;\n@%p3 cp.async.bulk.commit_group;\n"
                 "@%p3 cp.async.bulk.wait_group 0;\n" + again, ("missing-bulk-wait",)),
            ("setp.eq.u32 %p3, %t, 1", "setp.eq.u32 %p3, %t, 0")),
        "all_but_the_newest_store_awaited": pair(
            Case(filled + OUT + COMMIT + OUT.replace("[%g1]", "[%g1+1024]") + COMMIT
                 + DONE.replace("0;", "1;") + again, ("missing-bulk-wait",)),
            (DONE.replace("0;", "1;"), DONE.replace("wait_group", "wait_group.read"))),
        "fence_in_a_thread_that_saw_nothing": pair(
            Case(FILL + "setp.eq.u32 %p3, %w, 1; @%p3 " + PROXY + "bar.sync 0;\n" + OUT + COMMIT
                 + DONE, ("missing-proxy-fence",)),
            ("setp.eq.u32 %p3, %w, 1; @%p3 " + PROXY + "bar.sync 0;\n",
             PROXY + "bar.sync 0;\n")),
        "output_read_before_the_store_is_done": pair(
            Case(filled + OUT + COMMIT + DONE.replace("wait_group", "wait_group.read")
                 + "@%e ld.global.b32 %r2, [%g1];\n", ("missing-bulk-wait",)),
            ("wait_group.read", "wait_group")),
        "rank_of_the_map_is_another": pair(
            Case(init(1) + START + expect(0, 4096) + load(
                0, at="0, 0, 0", form="3d.shared::cluster.global.mbarrier::complete_tx::bytes")
                + wait(0, 0), ("illegal-value",), tiles()),
            ("3d.", "2d."), ("0, 0, 0", "0, 0")),
        "im2col_offsets_beyond_a_byte": pair(
            Case("mov.b16 %h1, 256; mov.b16 %h2, 0;\n" + init(1) + START + expect(0, 4096)
                 + load(0, at="0, 0, 0, 0", form="4d.shared::cluster.global.im2col"
                        ".mbarrier::complete_tx::bytes").replace("[%b+0];", "[%b+0], {%h1, %h2};")
                 + wait(0, 0), ("illegal-value",), images),
            ("%h1, 256", "%h1, 1")),
        "tiled_copy_with_an_im2col_map": pair(
            Case("mov.b16 %h1, 0;\n" + init(1) + START + expect(0, 4096)
                 + load(0, at="0, 0, 0, 0",
                        form="4d.shared::cluster.global.mbarrier::complete_tx::bytes")
                 + wait(0, 0), ("illegal-value",), images),
            ("global.mbarrier", "global.im2col.mbarrier"), ("[%b+0];", "[%b+0], {%h1, %h1};")),
        "stmatrix_rows_misaligned": pair(
            Case("shl.b32 %r3, %l, 4; add.u32 %r3, %r3, %s; add.u32 %r3, %r3, 8;\n"
                 "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%t, %t, %t, %t};\n",
                 ("misaligned-access",), launch={"block": 32}), ("%r3, 8", "%r3, 16")),
        "leaves_with_sources_unread": pair(
            Case(filled + OUT + COMMIT, ("missing-bulk-wait",)),
            (COMMIT, COMMIT + DONE.replace("wait_group", "wait_group.read"))),
    }


def images() -> list[Any]:
    """An im2col map of 16 pixels of 64 channels, over images of 16 x 16."""
    array = np.zeros((2, 16, 16, 64), ml_dtypes.bfloat16)
    return [mmalab.TensorMap.im2col(array, lower=(0, 0), upper=(0, 0), channels=64, pixels=32)]


def _products() -> dict[str, tuple[Case, Case]]:
    first = LOAD_AB + FENCE
    packed = "mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;\n"
    with_a = (f"setp.ne.u32 %p30, 0, 0;\n{PRODUCT} {d_of()}, {{%r10, %r11, %r12, %r13}}, %rd1,"
              " %p30, 1, 1, 0;\n")
    two = (init(1, 1) + START + expect(0, 2048) + bulk(2048) + expect(1, 256)
           + bulk(256, to="%r9", source="%rd9", barrier=1).replace(
               "@%e", "add.u32 %r9, %s, 2048; add.u64 %rd9, %g0, 2048;\n@%e"))
    return {
        "one_operand_of_two_awaited": pair(
            Case(two + wait(0, 0) + OPERANDS + FENCE + product() + GROUP + READY + RESULT,
                 ("missing-mbarrier-wait",), outputs),
            (wait(0, 0), wait(0, 0) + wait(1, 0))),
        "registers_of_a_rewritten_before_the_wait": pair(
            Case(LOAD_AB + packed + FENCE + with_a + GROUP + "mov.b32 %r10, 1;\n" + READY + RESULT,
                 ("missing-wgmma-wait",), outputs),
            ("mov.b32 %r10, 1;\n" + READY, READY + "mov.b32 %r10, 1;\n")),
        "registers_of_a_written_behind_the_fence": pair(
            Case(LOAD_AB + FENCE + packed + with_a + GROUP + READY + RESULT,
                 ("missing-wgmma-fence",), outputs),
            (FENCE + packed, packed + FENCE)),
        "committed_after_the_wait": pair(
            Case(first + product() + READY + GROUP + RESULT, ("missing-wgmma-wait",), outputs),
            (READY + GROUP, GROUP + READY)),
        "operands_refilled_before_the_wait": pair(
            Case(first + product() + GROUP + expect(0, 2304) + bulk(2304) + wait(0, 1) + READY
                 + RESULT, ("missing-wgmma-wait", "missing-barrier"), outputs),
            (GROUP + expect(0, 2304), GROUP + READY + "bar.sync 0;\n" + expect(0, 2304))),
        "operands_past_the_shared_memory": pair(
            Case(LOAD_AB + descriptor("%rd0", leading=128, stride=256 * 16, swizzle=0) + FENCE
                 + product() + GROUP + READY, ("out-of-bounds", "uninitialised-read"), outputs),
            (descriptor("%rd0", leading=128, stride=256 * 16, swizzle=0), "")),
        "cp_async_without_a_proxy_fence": pair(
            Case("shl.b32 %r3, %t, 4; add.u32 %r3, %r3, %s; mul.wide.u32 %rd3, %t, 16;\n"
                 "add.u64 %rd3, %rd3, %g0; cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
                 "setp.lt.u32 %p3, %t, 16;\n"
                 "@%p3 cp.async.cg.shared.global [%r3+2048], [%rd3+2048], 16;\n"
                 "cp.async.wait_all;\nbar.sync 0;\n" + OPERANDS + FENCE + product() + GROUP + READY
                 + RESULT, ("missing-proxy-fence",), outputs),
            ("cp.async.wait_all;\n", "cp.async.wait_all;\n" + PROXY)),
        "accumulator_used_in_another_shape": pair(
            Case(first + product() + GROUP + "setp.ne.u32 %p30, 0, 0;\n"
                 + PRODUCT.replace("k16.f32.bf16", "k8.f32.tf32").replace(".bf16", ".tf32")
                 + f" {d_of()}, %rd0, %rd1, %p30, 1, 1;\n" + GROUP + READY,
                 ("missing-wgmma-fence",), outputs),
            (GROUP + "setp", GROUP + READY + FENCE + "setp")),
        "warps_1_to_4_multiply": pair(
            Case(LOAD_AB + "setp.eq.u32 %p3, %w, {out}; @%p3 bra END;\n".replace("{out}", "0")
                 + FENCE + product() + GROUP + READY + "END:\n",
                 ("divergent-collective", "deadlock"), outputs, {"block": 160}),
            ("%w, 0; @%p3", "%w, 4; @%p3")),
        "a_warp_ends_between_two_products": pair(
            Case(first + product() + GROUP + READY + "setp.eq.u32 %p3, %w, 3; @%p3 ret;\n" + FENCE
                 + product() + GROUP + READY, ("divergent-collective", "deadlock"), outputs),
            ("%w, 3", "%w, 4")),
        "descriptors_of_two_warps_differ": pair(
            Case(LOAD_AB + "setp.eq.u32 %p3, %w, 1; mov.b64 %rd7, 64;\n"
                 "@%p3 add.u64 %rd1, %rd1, %rd7;\n" + FENCE + product() + GROUP + READY,
                 ("illegal-value",), outputs),
            ("mov.b64 %rd7, 64", "mov.b64 %rd7, 0")),
    }


def _warps() -> dict[str, tuple[Case, Case]]:
    known = ".reqntid 384 .maxnreg {}"
    split = ("setp.lt.u32 %p3, %w, 4; @%p3 bra P;\nsetmaxnreg.inc.sync.aligned.u32 232; ret;\n"
             "P: setmaxnreg.dec.sync.aligned.u32 {};\n")
    return {
        "registers_over_the_pool": pair(
            Case(split.format(48), ("deadlock",),
                 launch={"block": 384, "attributes": known.format(168)}),
            ("u32 48", "u32 40")),
        "increase_below_what_it_has": pair(
            Case("setmaxnreg.inc.sync.aligned.u32 96;\n", ("illegal-value",),
                 launch={"block": 384, "attributes": known.format(168)}),
            ("u32 96", "u32 168")),
        "elected_in_half_a_warp": pair(
            Case("setp.lt.u32 %p3, %l, 16; @!%p3 bra END;\nelect.sync _|%p4, 0xffffffff;\nEND:\n"
                 "bar.warp.sync 0xffffffff;\n", ("warp-sync-mask", "divergent-collective")),
            ("0xffffffff;\nEND", "0x0000ffff;\nEND")),
        "barrier_of_three_warps_for_four": pair(
            Case("bar.sync 1, 96;\n", ("deadlock", "barrier-count", "barrier-shared-id")),
            ("96", "128")),
        "half_a_warp_at_an_aligned_barrier": pair(
            Case("setp.lt.u32 %p3, %t, 48; @!%p3 bra END;\nbar.sync 1, 64;\nEND:"
                 " bar.warp.sync -1;\n", ("divergent-collective", "deadlock")),
            ("%t, 48", "%t, 64")),
        "two_groups_meet_at_one_barrier": pair(
            Case("setp.lt.u32 %p3, %w, 2; @%p3 bra A;\nbar.sync 1, 64; bar.sync 1, 64; ret;\n"
                 "A: bar.sync 1, 64;\n", ("barrier-shared-id", "deadlock")),
            ("A: bar.sync 1, 64", "A: bar.sync 2, 64")),
    }


def _more() -> dict[str, tuple[Case, Case]]:
    swizzled = ("add.u32 %r9, %s, 1024; add.u32 %r10, %s, 16384;\n" + init(1) + START
                + expect(0, 72 * 128) + load(0, to="%r9") + load(1, to="%r10") + wait(0, 0))
    sent = ("@{guard} cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
            " [%r5], [%s], 512, [%r6];\n")
    peer = "mapa.shared::cluster.u32 %r5, %s, 1; mapa.shared::cluster.u32 %r6, %b, 1;\n"
    pushed = (FILL + PROXY + init(1) + TOGETHER + peer
              + "add.u32 %r5, %r5, 4096;\n" + only(1) + expect(0, 512, "%p20") + only(0)
              + put(sent, guard="%p20") + "setp.eq.u32 %p3, %k, 1; @%p3 bra WAITS;\n{early}"
              + "bra END;\nWAITS:\n" + wait(0, 0) + "END:\n" + MEET + "{late}" + MEET)
    counted = (init(1) + "@%e st.shared.b32 [%s], 0;\n" + TOGETHER + only(0)
               + expect(0, 4, "%p20") + only(1, "%p24")
               + "mapa.shared::cluster.u32 %r6, %b, 0; mapa.shared::cluster.u32 %r5, %s, 0;\n"
               "@%p24 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
               ".add.u32 [%r5], 1, [%r6];\nsetp.ne.u32 %p3, %k, 0; @%p3 bra END;\n")
    return {
        "swizzled_tile_read_without_swizzle": pair(
            Case(swizzled
                 + descriptor("%rd0", 1024, leading=128, stride=1024, swizzle=0)
                 + descriptor("%rd1", 16384) + FENCE + product() + GROUP + READY,
                 ("swizzle-mismatch",), swizzled_maps),
            (descriptor("%rd0", 1024, leading=128, stride=1024, swizzle=0),
             descriptor("%rd0", 1024))),
        "source_of_a_copy_to_a_peer_reused": pair(
            Case(put(pushed, early=FILL, late=""), ("missing-mbarrier-wait",), launch=CTAS),
            (put(pushed, early=FILL, late=""), put(pushed, early="", late=FILL))),
        "peers_memory_read_between_arrive_and_wait": pair(
            Case(MEET + FILL + "mapa.shared::cluster.u32 %r5, %r1, 0;\n"
                 "barrier.cluster.arrive.aligned;\nld.shared::cluster.b32 %r2, [%r5];\n"
                 "barrier.cluster.wait.aligned;\n" + MEET, ("missing-barrier",), launch=CTAS),
            ("ld.shared::cluster.b32 %r2, [%r5];\nbarrier.cluster.wait.aligned;\n",
             "barrier.cluster.wait.aligned;\nld.shared::cluster.b32 %r2, [%r5];\n")),
        "sums_of_a_cluster_read_before_they_came": pair(
            Case(counted + "ld.shared.b32 %r2, [%s];\n" + KEEP + "END:\n" + MEET,
                 ("missing-mbarrier-wait",), launch=CTAS),
            ("ld.shared.b32 %r2, [%s];", wait(0, 0) + "ld.shared.b32 %r2, [%s];")),
        "barrier_arrive_where_sync_is_meant": pair(
            Case("setp.lt.u32 %p3, %w, 2; @%p3 bra A;\nbar.arrive 1, 128;\n" + USE.replace(
                "ld.shared.b32 %r2, [%r1]", "ld.shared.b32 %r2, [%r1+-256]") + "bra END;\nA:\n"
                + FILL + "bar.arrive 1, 128;\nEND:\n", ("missing-barrier", "deadlock")),
            ("bra A;\nbar.arrive", "bra A;\nbar.sync")),
        "waits_once_instead_of_in_a_loop": pair(
            Case(init(1) + START + expect(0, 512) + bulk(512)
                 + "mbarrier.test_wait.parity.shared::cta.b64 %p3, [%b], 0;\n" + USE,
                 ("mbarrier-wait-unchecked",)),
            ("mbarrier.test_wait.parity.shared::cta.b64 %p3, [%b], 0;\n", wait(0, 0))),
        "an_atomic_on_a_barrier": pair(
            Case("@%e st.shared.b64 [%b+8], 0;\n" + init(1) + START
                 + "atom.shared.add.u32 %r2, [%b], 1;\n", ("mbarrier-lifetime",)),
            ("[%b], 1;", "[%b+8], 1;")),
    }


def swizzled_maps() -> list[Any]:
    """64 x 64 and 8 x 64, rows of 128 bytes with the 128-byte swizzle."""
    rng = np.random.default_rng()
    return [mmalab.TensorMap.tiled(
        rng.standard_normal((rows, 64)).astype(ml_dtypes.bfloat16), box=(64, rows),
        swizzle="128B") for rows in (64, 8)]


def _stores(newest: int, apart: int) -> str:
    """Four stores from two buffers that take turns, waiting for all but the newest `newest`."""
    steps = "".join(
        f"@%e cp.async.bulk.wait_group.read {newest};\nbar.sync 0;\n"
        f"add.u32 %r4, %r1, {apart * (at % 2)}; st.shared.b32 [%r4], %t;\n{PROXY}bar.sync 0;\n"
        f"add.u32 %r5, %s, {apart * (at % 2)};\n@%e cp.async.bulk.global.shared::cta.bulk_group"
        f" [%g1+{512 * at}], [%r5], 512;\n{COMMIT}" for at in range(4))
    return "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s;\n" + steps + DONE


_SUMS = (
    FILL + "add.u32 %r8, %r1, 1024; st.shared.b32 [%r8], 0;\n" + PROXY + init(1) + TOGETHER
    + "mapa.shared::cluster.u32 %r5, %s, 0; add.u32 %r5, %r5, 1024;\n"
    "mapa.shared::cluster.u32 %r6, %b, 0;\n" + only(0) + expect(0, 1024, "%p20")
    + "@%e cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
    " [%r5], [%s], 512, [%r6];\nsetp.ne.u32 %p3, %k, 0; @%p3 bra END;\n" + wait(0, 0)
    + "ld.shared.b32 %r2, [%r8];\n" + KEEP + "END:\n" + MEET)
_TURNS = (
    "setp.lt.u32 %p1, %w, 4; mov.b32 %r9, 0; @%p1 bra LOW;\n"
    "HIGH: bar.sync 2, 256; add.u32 %r9, %r9, 1; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s;\n"
    "st.shared.b32 [%r1+-512], %r9; bar.arrive 1, 256; setp.lt.u32 %p2, %r9, 3;\n"
    "@%p2 bra HIGH; bra END;\n"
    "LOW: shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; st.shared.b32 [%r1], %r9; bar.arrive 2, 256;\n"
    "bar.sync 1, 256; add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 3; @%p2 bra LOW;\nEND:\n")
_COUNTER = (MEET + "@%e st.shared.b32 [%s], 0;\n" + MEET + "mapa.shared::cluster.u32 %r5, %s, 0;\n"
            "@%e atom.relaxed.cluster.shared::cluster.add.u32 %r2, [%r5], 1;\n" + MEET)


def _late() -> dict[str, tuple[Case, Case]]:
    one = init(1) + START + expect(0, 512) + bulk(512)
    written = ("shl.b32 %r3, %t, 4; add.u32 %r3, %r3, %s; st.shared.v4.b32 [%r3], {0, 0, 0, 0};\n"
               "setp.lt.u32 %p3, %t, 16;\n@%p3 st.shared.v4.b32 [%r3+2048], {0, 0, 0, 0};\n"
               "bar.sync 0;\nsetp.eq.u32 %p4, %w, 0;\n")
    ring = (init(1, 4) + START + expect(0, 512) + bulk(512) + wait(0, 0) + "bar.warp.sync -1;\n"
            "@%el mbarrier.arrive.shared::cta.b64 _, [%b+8];\n" + READ + "@!%e bra END;\n"
            + wait(1, 0) + expect(0, 512) + bulk(512) + wait(0, 1) + "END:\n")
    early = "bar.warp.sync -1;\n@%el mbarrier.arrive.shared::cta.b64 _, [%b+8];\n"
    zero = "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;\n"
    differs = (zero + LOAD_AB + FENCE + "setp.ne.u32 %p30, %w, 0;\n"
               + f"{PRODUCT} {d_of()}, %rd0, %rd1, %p30, 1, 1, 0, 0;\n" + GROUP + READY)
    return {
        "two_buffers_at_one_place": pair(
            Case(_stores(1, 0), ("missing-bulk-wait",)), (_stores(1, 0), _stores(1, 512))),
        "two_buffers_and_three_in_flight": pair(
            Case(_stores(2, 512), ("missing-bulk-wait",)), (_stores(2, 512), _stores(1, 512))),
        "sums_of_a_bulk_reduction_unawaited": pair(
            Case(_SUMS.replace(wait(0, 0), ""), ("missing-mbarrier-wait",), launch=CTAS),
            ("ld.shared.b32 %r2, [%r8]", wait(0, 0) + "ld.shared.b32 %r2, [%r8]")),
        "a_bulk_reduction_of_unfenced_words": pair(
            Case(_SUMS.replace(PROXY, ""), ("missing-proxy-fence",), launch=CTAS),
            (init(1) + TOGETHER, PROXY + init(1) + TOGETHER)),
        "an_atomic_of_two_ctas_at_cta_scope": pair(
            Case(_COUNTER.replace("relaxed.cluster", "relaxed.cta"), ("scope-too-narrow",),
                 launch=CTAS), ("relaxed.cta", "relaxed.cluster")),
        "a_proxy_fence_by_one_of_four_warps": pair(
            Case(written + "@%p4 " + PROXY + OPERANDS + FENCE + product() + GROUP + READY,
                 ("missing-proxy-fence",)), ("@%p4 " + PROXY, PROXY)),
        "released_before_it_is_read": pair(
            Case(ring, ("missing-barrier", "missing-mbarrier-wait")), (early + READ, READ + early)),
        "scale_d_of_one_warp": pair(
            Case(differs, ("illegal-value",), outputs), ("%w, 0;", "%w, 9;")),
        "initialised_by_another_warp": pair(
            Case("setp.eq.u32 %p4, %t, 32; @%p4 mbarrier.init.shared::cta.b64 [%b], 1;\n"
                 + expect(0, 512) + bulk(512) + wait(0, 0), ("mbarrier-init-order",)),
            ("@%e mbarrier.arrive", "bar.sync 0; @%e mbarrier.arrive")),
        "copies_that_overlap": pair(
            Case(init(1) + START + expect(0, 1024) + bulk(512) + bulk(512, to="%s+256")
                 + wait(0, 0), ("async-overlap",)), ("%s+256", "%s+512")),
        "a_relaxed_wait": pair(
            Case(one + wait(0, 0, ".relaxed.cta") + USE, ("missing-acquire",)),
            (USE, "fence.acq_rel.cta;\n" + USE)),
        "prefetched_past_the_buffer": pair(
            Case("@%e cp.async.bulk.prefetch.L2.global [%g0+4080], 512;\n", ("out-of-bounds",)),
            ("4080", "3584")),
        "a_barrier_that_no_sm_has": pair(
            Case("mov.b32 %r3, 16; bar.sync %r3, 128;\n", ("illegal-value", "barrier-count")),
            ("%r3, 16", "%r3, 15")),
        "half_a_warp_gives_registers": pair(
            Case("setp.lt.u32 %p3, %l, 16; @!%p3 bra X;\nsetmaxnreg.dec.sync.aligned.u32 40;\n"
                 "X: bar.warp.sync -1;\n", ("divergent-collective",),
                 launch={"attributes": ".reqntid 128 .maxnreg 128"}), ("%l, 16", "%l, 32")),
        "a_fence_in_a_block_of_two_warps": pair(
            Case(FENCE, ("divergent-collective",), launch={"block": 64}), block=128),
        "products_in_a_block_of_three_warps": pair(
            Case(LOAD_AB + FENCE + product() + GROUP + READY, ("divergent-collective",), outputs,
                 {"block": 96}), block=128),
        "a_wait_in_warps_that_are_no_warpgroup": pair(
            Case("setp.lt.u32 %p3, %w, 4; @%p3 bra END;\n" + READY + "END:\n",
                 ("divergent-collective",), launch={"block": 192}), block=256),
        "a_fence_where_the_last_warp_lacks_lanes": pair(
            Case(FENCE, ("divergent-collective",), launch={"block": 120}), block=128),
        "another_cluster_than_the_kernel_has": pair(
            Case("mapa.shared::cluster.u32 %r4, %b, 2;\n" + init(1) + TOGETHER
                 + "@%e mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n" + MEET,
                 ("out-of-bounds",), launch={"grid": 2, "attributes": ".reqnctapercluster 2"}),
            ("%b, 2", "%b, 1"), (init(1), init(2))),
    }


# --- right, but not what one sees every day -------------------------------------------------------

def _unusual() -> dict[str, Case]:
    one = init(1) + START + expect(0, 512) + bulk(512)
    state = "mbarrier.arrive.shared::cta.b64 %rd5, [%b];\n"
    tested = ("{ SPIN: mbarrier.test_wait.shared::cta.b64 %p3, [%b], %rd5; @!%p3 bra SPIN; }\n")
    exchange = ("xor.b32 %r3, %t, 127; shl.b32 %r4, %r3, 2; add.u32 %r4, %r4, %s;\n"
                "ld.shared.b32 %r2, [%r4];\n" + state + tested + "st.shared.b32 [%r1], %r2;\n")
    two_halves = ("setp.eq.u32 %p4, %t, 32;\n" + init(2) + START
                  + "add.u32 %r9, %s, 256; add.u64 %rd9, %g0, 256;\n" + expect(0, 256)
                  + bulk(256) + expect(0, 256, "%p4")
                  + bulk(256, to="%r9", source="%rd9", guard="%p4") + wait(0, 0) + USE)
    remote = (init(1) + TOGETHER + "mapa.shared::cluster.u32 %r4, %b, 0;\n" + only(1)
              + "@%p20 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4],"
              " 512;\n" + only(0) + bulk(512, guard="%p20")
              + "setp.ne.u32 %p3, %k, 0; @%p3 bra END;\n" + wait(0, 0) + USE + "END:\n" + MEET)
    by_hand = ("mov.b32 %r9, 0;\n" + init(1) + START + expect(0, 512) + "@%e st.shared.b32 [%s],"
               " 7;\n@%e mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 512;\n")
    ring = ("mov.b32 %r8, 0; mov.b32 %r7, 0;\n" + init(1, 1, 1, 4, 4, 4) + START
            + "setp.ne.u32 %p5, %w, 4; @%p5 bra CONSUMER;\n"  # warp 4 brings, warps 0-3 use
            "@!%el bra DONE;\nmov.b32 %r6, 1;\nP: mad.lo.u32 %r5, %r7, 8, %b;\n"
            "{ W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5+24], %r6; @!%p3 bra W; }\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 512;\n"
            "mad.lo.u32 %r4, %r7, 512, %s;\n"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%g0], 512,"
            " [%r5];\nadd.u32 %r7, %r7, 1; setp.eq.u32 %p3, %r7, 3; @%p3 mov.b32 %r7, 0;\n"
            "@%p3 xor.b32 %r6, %r6, 1;\nadd.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 7;"
            " @%p3 bra P;\nbra DONE;\nCONSUMER: mov.b32 %r6, 0; mov.b32 %r2, 0;\n"
            "C: mad.lo.u32 %r5, %r7, 8, %b;\n"
            "{ W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], %r6; @!%p3 bra W; }\n"
            "mad.lo.u32 %r4, %r7, 512, %s; shl.b32 %r1, %t, 2; add.u32 %r4, %r4, %r1;\n"
            "ld.shared.b32 %r1, [%r4]; add.u32 %r2, %r2, %r1; bar.warp.sync -1;\n"
            "@%el mbarrier.arrive.shared::cta.b64 _, [%r5+24];\n"
            "add.u32 %r7, %r7, 1; setp.eq.u32 %p3, %r7, 3; @%p3 mov.b32 %r7, 0;\n"
            "@%p3 xor.b32 %r6, %r6, 1;\nadd.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 7;"
            " @%p3 bra C;\n" + KEEP + "DONE:\n")
    fed = ("shl.b32 %r3, %t, 4; add.u32 %r3, %r3, %s; mul.wide.u32 %rd3, %t, 16;\n"
           "add.u64 %rd3, %rd3, %g0; cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
           "setp.lt.u32 %p3, %t, 16;\n"
           "@%p3 cp.async.cg.shared.global [%r3+2048], [%rd3+2048], 16;\n")
    multiply = OPERANDS + FENCE + product() + GROUP
    lanes = (init(1, 1) + START + "setp.gt.u32 %p3, %t, 1; @%p3 bra END;\n@%e bra MAKES;\n"
             + wait(0, 0) + "ld.shared.b32 %r2, [%s];\n" + KEEP
             + "mbarrier.arrive.shared::cta.b64 _, [%b+8];\nbra END;\nMAKES:\n"
             + expect(0, 512) + bulk(512) + wait(1, 0) + expect(0, 512) + bulk(512) + wait(0, 1)
             + "END:\n")
    group = ("setp.eq.u32 %p4, %t, 96;\n" + FILL + PROXY + "bar.sync 5, 128;\n"
             + OUT.replace("@%e", "@%p4") + COMMIT.replace("@%e", "@%p4")
             + DONE.replace("@%e", "@%p4").replace("wait_group", "wait_group.read")
             + "bar.sync 6, 128;\n" + FILL + PROXY + "bar.sync 5, 128;\n"
             + OUT.replace("@%e", "@%p4").replace("[%g1]", "[%g1+512]")
             + COMMIT.replace("@%e", "@%p4") + DONE.replace("@%e", "@%p4"))
    again = (one + wait(0, 0) + "bar.sync 0;\n@%e mbarrier.inval.shared::cta.b64 [%b];\n"
             "@%e st.shared.b64 [%b], 0;\nbar.sync 0;\n" + init(1) + START + expect(0, 512)
             + bulk(512) + wait(0, 0) + USE)
    shares = ("setp.lt.u32 %p3, %w, 4; @%p3 bra P;\nsetmaxnreg.inc.sync.aligned.u32 232;\n"
              "bar.sync 2, 384;\nsetmaxnreg.dec.sync.aligned.u32 168; bra END;\n"
              "P: setmaxnreg.dec.sync.aligned.u32 40;\nbar.sync 2, 384;\n"
              "setmaxnreg.inc.sync.aligned.u32 168;\nEND:\n")
    chain = (FENCE + product() + GROUP + GROUP + GROUP + "wgmma.wait_group.sync.aligned 2;\n"
             + RESULT)
    both = (FENCE + product(first=0) + product(first=4) + product(first=0, scale_d="1")
            + product(first=4, scale_d="1") + GROUP + READY + RESULT)
    columns = (init(1) + START + "mov.b16 %h1, 2; mov.b16 %h2, 1;\n" + expect(0, 4096)
               + load(0, at="0, 0, 0, 0", form="4d.shared::cluster.global.im2col"
                      ".mbarrier::complete_tx::bytes").replace("[%b+0];", "[%b+0], {%h1, %h2};")
               + wait(0, 0) + READ)
    drops = (init(4) + START + "@!%el bra END;\nsetp.eq.u32 %p3, %w, 3;\n"
             "@%p3 mbarrier.arrive_drop.shared::cta.b64 _, [%b];\n@%p3 bra END;\n"
             "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + wait(0, 0)
             + "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + wait(0, 1) + "END:\n")
    edge = (init(1) + START + expect(0, 4096) + load(0, at="32, 48") + wait(0, 0) + READ)
    to_itself = (init(1) + TOGETHER + expect(0, 512) + "shl.b32 %r3, 1, %k; cvt.u16.u32 %h0, %r3;\n"
                 + put(MULTICAST, guard="%e") + wait(0, 0) + USE + MEET)
    split = (FILL + "barrier.cluster.arrive.aligned;\nadd.u32 %r5, %t, 1; mul.lo.u32 %r5, %r5, 3;\n"
             "barrier.cluster.wait.aligned;\nxor.b32 %r3, %k, 1;\n"
             "mapa.shared::cluster.u32 %r4, %r1, %r3; ld.shared::cluster.b32 %r2, [%r4];\n" + KEEP
             + MEET)
    return {
        "states_instead_of_parities": Case(
            (one.replace(init(1), init(128)) + state + tested + USE).replace(
                expect(0, 512), "@%e mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 512;\n")),
        "two_threads_bring_half_each": Case(two_halves),
        "announced_by_the_peer": Case(remote, launch=CTAS),
        "bytes_completed_by_hand": Case(
            by_hand + wait(0, 0) + "bar.sync 0;\nld.shared.b32 %r2, [%s];\n" + KEEP),
        "a_ring_of_three_for_seven_steps": Case(ring, launch={"block": 160}),
        "cp_async_feeds_wgmma": Case(
            fed + "cp.async.wait_all;\n" + PROXY + "bar.sync 0;\n" + multiply + READY + RESULT,
            args=outputs),
        "cp_async_arrives_for_wgmma": Case(
            init(128) + START + fed + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%b];\n"
            + wait(0, 0) + PROXY + multiply + READY + RESULT, args=outputs),
        "two_lanes_of_one_warp_hand_over": Case(lanes),
        "the_issuer_fences_for_all": Case(FILL + "bar.sync 0;\n@%e " + PROXY + OUT + COMMIT + DONE),
        "the_last_warp_stores": Case(group),
        "memory_of_a_barrier_is_used_again": Case(again),
        "registers_there_and_back": Case(
            shares, launch={"block": 384, "attributes": ".reqntid 384 .maxnreg 168"}),
        "empty_groups_count": Case(LOAD_AB + chain, args=outputs),
        "two_accumulators_in_turns": Case(LOAD_AB + both, args=outputs),
        "images_by_columns": Case(columns, args=images),
        "a_warp_drops_out": Case(drops),
        "a_box_over_the_edge": Case(edge, args=tiles()),
        "multicast_to_itself": Case(to_itself, launch=CTAS),
        "a_split_cluster_barrier": Case(split, launch=CTAS),
        "two_buffers_in_turns": Case(_stores(1, 512)),
        "sums_of_a_cluster": Case(_SUMS, launch=CTAS),
        "two_groups_in_turns": Case(_TURNS, launch={"block": 256}),
        "a_counter_of_two_ctas": Case(_COUNTER, launch=CTAS),
        "a_hint_and_a_sleep": Case(
            one + "{ W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p3, [%b], 0, 1000;"
            " @%p3 bra D; nanosleep.u32 20; bra W; D: }\n" + USE),
        "asynchronous_arrivals_that_count_themselves": Case(
            init(128) + START + "shl.b32 %r3, %t, 4; add.u32 %r3, %r3, %s;\n"
            "mul.wide.u32 %rd3, %t, 16; add.u64 %rd3, %rd3, %g0;\n"
            "cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
            "cp.async.mbarrier.arrive.shared::cta.b64 [%b];\n"
            "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + wait(0, 0) + USE),
        "everybody_commits_nothing": Case(
            FILL + PROXY + "bar.sync 0;\n" + OUT + "cp.async.bulk.commit_group;\n"
            "cp.async.bulk.wait_group.read 0;\nbar.sync 0;\n" + FILL),
        "arrives_and_leaves": Case("barrier.cluster.arrive; setp.eq.u32 %p1, %k, 1; @%p1 ret;\n"
                                   "barrier.cluster.wait;\n", launch=CTAS),
        "lanes_that_wait_while_one_brings": Case(
            init(1) + START + "@!%e bra J;\n" + expect(0, 512) + bulk(512) + wait(0, 0)
            + "J: barrier.sync 2, 128;\n" + USE),
        "whoever_is_elected_brings": Case(
            init(1) + START + "setp.ne.u32 %p1, %w, 0; @%p1 bra J;\nelect.sync _|%p2, -1;\n"
            "@!%p2 bra J;\n" + expect(0, 512, "%p2") + bulk(512, guard="%p2") + "J:\n"
            + wait(0, 0) + USE),
        "stored_and_loaded_again": Case(
            FILL + PROXY + init(1) + "bar.sync 0;\n" + OUT + COMMIT + DONE + expect(0, 512)
            + bulk(512, to="%s+1024", source="%g1") + wait(0, 0)
            + READ.replace("[%r1]", "[%r1+1024]") + KEEP.replace("%g1", "%g0")),
        "an_mbarrier_for_everybody": Case(
            init(128) + START + FILL + (state + tested + exchange) * 2
            + state + tested + KEEP),
        "both_halves_to_both": Case(
            init(1) + TOGETHER + expect(0, 512) + "mov.b16 %h0, 3; mul.lo.u32 %r4, %k, 256;\n"
            "add.u32 %r9, %s, %r4; cvt.u64.u32 %rd9, %r4; add.u64 %rd9, %g0, %rd9;\n"
            + put(MULTICAST, guard="%e").replace("[%s], [%g0], 512", "[%r9], [%rd9], 256")
            + wait(0, 0) + USE + MEET, launch=CTAS),
        "threads_that_leave_before_a_barrier": Case(
            "setp.ge.u32 %p3, %t, 40; @%p3 ret;\n" + FILL + "bar.sync 0;\n" + USE),
        "size_and_address_from_registers": Case(
            init(1) + START + "mov.b32 %r3, 16; add.u64 %rd3, %g0, 4080;\n"
            + expect(0, 16).replace("16;", "%r3;") + bulk(16, source="%rd3").replace("16,", "%r3,")
            + wait(0, 0) + "ld.shared.b32 %r2, [%s+12];\n" + KEEP),
    }


# --- stores by copies -----------------------------------------------------------------------------

def _stores_of_tiles() -> dict[str, tuple[Case, Case]]:
    filled = ("mov.u32 %r10, %ctaid.x;\n" + _FILL_TILE + PROXY + "bar.sync 0;\n")
    row = "mul.lo.u32 %r7, %r10, {step};\n"
    tensor = filled + row + store(1, at="0, %r7") + COMMIT + DONE
    reduced = ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"
               " [%m1, {0, 0}], [%s];\n")
    parts = ("setp.eq.u32 %p9, %r10, 0; and.pred %p10, %p9, %e; not.pred %p11, %p9;"
             " and.pred %p11, %p11, %e;\n")
    mixed = (filled + parts + store(1, guard="%p10") + "@%p11 " + reduced + COMMIT + DONE)
    modulo = (filled + "rem.u32 %r7, %r10, {of}; mul.lo.u32 %r7, %r7, 32;\n"
              + store(1, at="0, %r7") + COMMIT + DONE)
    flag = ("@%e fence.acq_rel.gpu; @%e st.relaxed.gpu.global.u32 [%g0], 9;\n")
    spin = ("{ W: ld.acquire.gpu.global.u32 %r9, [%g0]; setp.ne.u32 %p9, %r9, 9; @%p9 bra W; }\n")
    turns = (FILL + PROXY + "bar.sync 0;\nmov.u32 %r7, %ctaid.x; setp.eq.u32 %p9, %r7, 1;"
             " @%p9 bra SECOND;\n" + OUT + COMMIT + DONE + flag + "bra END;\nSECOND:\n" + spin
             + OUT + COMMIT + DONE + "END:\n")
    two = filled + store(1) + COMMIT + "{wait}" + store(1, at="0, {row}") + COMMIT + DONE
    one_group = filled + store(1) + store(1, at="0, {row}") + COMMIT + DONE
    read = DONE.replace("wait_group", "wait_group.read")
    threads = (FILL + PROXY + "bar.sync 0;\n" + OUT + COMMIT + DONE + "{meet}"
               "setp.eq.u32 %p9, %t, 32;\n" + (OUT + COMMIT + DONE).replace("@%e", "@%p9"))
    race, unawaited = ("data-race",), ("missing-bulk-wait",)
    many = tiles((64, 32), (64 * 32, 64))
    return {
        "boxes_of_two_ctas_overlap": pair(
            Case(put(tensor, step=16), race, tiles(), {"grid": 2}), ("%r10, 16", "%r10, 32")),
        "boxes_of_a_cluster_overlap": pair(
            Case(put(tensor, step=31), race, tiles(), CTAS), ("%r10, 31", "%r10, 32")),
        "ctas_far_apart_store_one_box": pair(
            Case(put(modulo, of=40), race, many, {"grid": 41}), ("%r10, 40", "%r10, 41")),
        "a_store_and_a_sum_of_two_ctas": pair(
            Case(mixed, race, tiles(), {"grid": 2}),
            (store(1, guard="%p10"), "@%p10 " + reduced)),
        "taking_turns_without_a_wait": pair(
            Case(turns.replace(DONE + flag, flag + DONE), ("missing-bulk-wait", "data-race"),
                 launch={"grid": 2}), (flag + DONE, DONE + flag)),
        "two_boxes_of_one_thread_overlap": pair(
            Case(put(two, wait="", row=16), unawaited, tiles()),
            (COMMIT + "@", COMMIT + DONE + "@")),
        "two_boxes_of_one_group_overlap": pair(
            Case(put(one_group, row=31), unawaited, tiles()), ("0, 31", "0, 32")),
        "two_boxes_after_their_sources_are_read": pair(
            Case(put(two, wait=read, row=16), unawaited, tiles()), (read, DONE)),
        "both_ctas_multicast_the_whole": pair(
            Case(init(1) + TOGETHER + expect(0, 1024) + "mov.b16 %h0, 3; mul.lo.u32 %r4, %k, 0;\n"
                 "add.u32 %r9, %s, %r4; cvt.u64.u32 %rd9, %r4; add.u64 %rd9, %g0, %rd9;\n"
                 + put(MULTICAST, guard="%e").replace("[%s], [%g0], 512", "[%r9], [%rd9], 512")
                 + wait(0, 0) + USE + MEET, ("async-overlap",), launch=CTAS),
            (expect(0, 1024), expect(0, 512)), ("%r4, %k, 0;", "%r4, %k, 256;"),
            ("%rd9], 512", "%rd9], 256")),
        "both_ctas_copy_to_one_place": pair(
            Case(FILL.replace("[%r1], %t", "[%r1+1024], %t") + PROXY + init(1) + TOGETHER
                 + "mapa.shared::cluster.u32 %r5, %s, 0; mapa.shared::cluster.u32 %r6, %b, 0;\n"
                 "mul.lo.u32 %r4, %k, 0; add.u32 %r5, %r5, %r4;\n" + only(0)
                 + expect(0, 1024, "%p20")
                 + "@%e cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                 " [%r5], [%s+1024], 512, [%r6];\nsetp.ne.u32 %p3, %k, 0; @%p3 bra END;\n"
                 + wait(0, 0) + USE + "END:\n" + MEET, ("async-overlap",), launch=CTAS),
            ("%r4, %k, 0;", "%r4, %k, 512;")),
        "two_threads_store_one_tile": pair(
            Case(put(threads, meet=""), race),
            ("setp.eq.u32 %p9, %t", "bar.sync 0; setp.eq.u32 %p9, %t")),
    }


FAULTS = (_clusters() | _barriers() | _copies() | _products() | _warps() | _more() | _late()
          | _stores_of_tiles())
UNUSUAL = _unusual()
