"""Clusters that stand for others: what one of them does wrong is found all the same."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from litmus.litmus_kernels import KERNELS, launch
from mutants import hopper_pipeline as pipeline
from mutants import hopper_snippets as snippets
from mutants.faults import MUTANTS

import mmalab
from mmalab import emulator, kernels, ptx
from mmalab.emulator import variance
from mmalab.emulator.events import BarrierRelease, Diverge, Event, Reconverge, Registers
from mmalab.emulator.lower import lower
from mmalab.emulator.memory import FIRST_BUFFER_TAG, AddressSpace
from mmalab.emulator.native import twins
from mmalab.emulator.program import Program
from mmalab.emulator.state import LaunchShape
from mmalab.emulator.variance import varying_sites
from mmalab.sanitizer import quick
from mmalab.sanitizer import run as exact
from mmalab.sanitizer.model import HappensBefore

#: Every CTA copies 64 words of x into shared memory in bulk; 64 threads store them to out.
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 out) {
  .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .pred %p<6>;
  .shared .align 128 .b8 tile[256];
  .shared .align 8 .b8 full[8];
  .shared .align 4 .b8 word[4];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, full;
  ld.param.u64 %rd0, [x];
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 256;
  add.u64 %rd3, %rd0, %rd2;
  add.u64 %rd4, %rd1, %rd2;
  mul.wide.u32 %rd5, %r0, 4;
  add.u64 %rd6, %rd4, %rd5;
  shl.b32 %r4, %r0, 2;
  add.u32 %r5, %r2, %r4;
  setp.ne.u32 %p0, %r0, 0;
  setp.eq.u32 %p1, %r1, 5;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  @%p0 bra COME;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3], 256, [%r3];
COME:
  BEFORE
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
BEHIND:
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%rd6], %r6;
  AFTER
  ret;
}
"""
#: What is inserted before the wait, and behind the store: in CTA 5 it is wrong.
WRONG = {
    "no wait in one CTA": ("@%p1 bra BEHIND;", ""),
    "no wait where the data says so": (
        "ld.global.u32 %r7, [%rd3]; setp.eq.u32 %p3, %r7, 1005; @%p3 bra BEHIND;", ""),
    "a store into the copy's tile": (
        "", "mov.u32 %r8, tile; @%p1 add.u32 %r8, %r8, 4; st.shared.u32 [%r8], %r0;"),
    "a guarded store into the tile": ("", "@%p1 st.shared.u32 [tile], %r0;"),
    "one word of out by two CTAs": (
        "", "@%p1 st.global.u32 [%rd1], %r0;"),
    "a store behind the buffer": ("", "@%p1 st.global.u32 [%rd6+1000000], %r0;"),
    "a store to no buffer": ("", "mov.u64 %rd7, -16; @%p1 st.global.u32 [%rd7], %r0;"),
    "a copy from behind the buffer": (
        "", ("mov.u32 %r8, 0; @%p1 mov.u32 %r8, 16777216; cvt.u64.u32 %rd7, %r8;"
             "add.u64 %rd7, %rd3, %rd7;"
             "@!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;"
             "@!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
             " [%r2], [%rd7], 16, [%r3];")),
    "a read of what another CTA writes": (
        "", "ld.global.u32 %r7, [%rd4+256]; st.global.u32 [%rd6+4096], %r7;"),
    "a copy of what another CTA writes": (
        "", ("@!%p0 cp.async.bulk.prefetch.L2.global [%rd4], 256;"
             "@!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;"
             "@!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
             " [%r2], [%rd4+256], 16, [%r3];")),
    "values that differ in one CTA": (
        "", ("shr.u32 %r8, %r0, 5; selp.b32 %r8, %r8, 7, %p1; and.b32 %r9, %r0, 31;"
             "setp.eq.u32 %p4, %r9, 0; @%p4 st.shared.u32 [word], %r8;")),
    "lanes that collide in one CTA": (
        "", ("selp.b32 %r8, %r0, 7, %p1; setp.lt.u32 %p4, %r0, 32;"
             "@%p4 st.shared.u32 [word], %r8;")),
    "bytes that one CTA announces too many": (
        "", ("mov.u32 %r8, 0; @%p1 mov.u32 %r8, 16;"
             "@!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r8;")),
    "a register that one CTA does not set": (
        "", "@!%p1 mov.u32 %r15, 3; st.global.u32 [%rd6], %r15;"),
    "a register without a value that one CTA reads": (
        "", "@%p1 add.u32 %r16, %r15, 1; setp.eq.u32 %p3, %r1, 99; @%p3 mov.u32 %r15, 3;"),
}
FINE = {
    "as it is": ("", ""),
    "a branch that all CTAs take": ("setp.lt.u32 %p3, %r1, 100; @!%p3 bra BEHIND;", ""),
    "data that all CTAs have": (("ld.global.u32 %r7, [%rd3]; setp.eq.u32 %p3, %r7, 0;"
                                 " @%p3 bra BEHIND;"), ""),
    "a thread's own words twice": ("", "ld.global.u32 %r7, [%rd6]; st.global.u32 [%rd6], %r7;"),
}
CTAS = 8


class Listening(HappensBefore):
    """Remembers whom it heard of."""

    heard: set[int]

    def on(self, event: Event) -> None:
        """An event of some CTA."""
        self.heard.add(event.cta)
        super().on(event)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The CTAs of which the exact model heard."""
    Listening.heard = set()
    monkeypatch.setattr(exact, "HappensBefore", Listening)
    return Listening.heard


def arrays() -> list[np.ndarray]:
    """x, whose CTA 5 begins with 1005, and room behind the output."""
    x = np.arange(1, 64 * CTAS + 1, dtype=np.uint32)
    x[64 * 5] = 1005
    return [x, np.zeros(64 * CTAS + 2048, np.uint32)]


def text(parts: tuple[str, str]) -> str:
    """The kernel with these instructions in it."""
    return KERNEL.replace("BEFORE", parts[0]).replace("AFTER", parts[1])


@pytest.mark.parametrize("name", WRONG)
def test_what_one_cluster_does_is_found(name: str) -> None:
    """Findings and outputs are those of the exact model over all CTAs."""
    assert varying_sites(lower(ptx.parse(text(WRONG[name])), None)) is not None
    results = []
    for emulate in (mmalab.emulate, exact.emulate):
        args = arrays()
        run = emulate(text(WRONG[name]), args, grid=CTAS, block=64)
        results.append((run.findings, args[1].tobytes() if not run.findings else b""))
    assert results[0] == results[1]
    assert results[0][0], "the case is meant to be wrong"


@pytest.mark.parametrize("name", FINE)
def test_one_cluster_stands_for_all(name: str, heard: set[int]) -> None:
    """Where all do the same, the model sees one; outputs are those of the run of all."""
    args = arrays()
    run = mmalab.emulate(text(FINE[name]), args, grid=CTAS, block=64)
    assert run.findings == []
    assert heard == {0}
    np.testing.assert_array_equal(args[1][: 64 * CTAS], args[0])


def test_two_kinds_of_clusters(heard: set[int]) -> None:
    """CTAs that go another way are looked at too."""
    args = arrays()
    run = mmalab.emulate(text(("setp.lt.u32 %p3, %r1, 2; @%p3 bra.uni WAITS; WAITS:", "")), args,
                         grid=CTAS, block=64)
    assert run.findings == []
    assert heard == {0, 2}


STORE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry store(.param .align 64 .b8 map[128]) {
  .reg .b32 %r<9>; .reg .b64 %rd<2>; .reg .pred %p<3>;
  .shared .align 128 .b8 tile[256];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, tile;
  mov.u64 %rd0, map;
  cvta.param.u64 %rd0, %rd0;
  shl.b32 %r3, %r0, 2;
  add.u32 %r3, %r3, %r2;
  and.b32 %r4, %r0, 7;
  setp.lt.u32 %p2, %r4, 4;
  @%p2 st.shared.u32 [%r3], %r0;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.eq.u32 %p1, %r1, 5;
  PLACES
  setp.ne.u32 %p0, %r0, 0;
  @%p0 ret;
  cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%rd0, {%r5, %r6, %r1}], [%r2];
  cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%rd0, {%r7, %r8, %r1}], [%r2];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
"""
#: Where CTA 5 puts two tiles, x and y, and where the others do. A tile's first four columns are
#: written, the tensor of 12 x 12 ends in its middle.
CUTS = {
    "the other axis": ((0, 8, 16, 0), (8, 0, 16, 0)),
    "the other tile": ((16, 0, 0, 0), (0, 16, 0, 0)),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_part_of_a_tile_is_stored(name: str, heard: set[int]) -> None:
    """As many bytes of a tile are not the same bytes of it: CTA 5 stores some that have no value,
    or all do."""
    places = "".join(f"selp.b32 %r{5 + i}, {a}, {b}, %p1;"
                     for i, (a, b) in enumerate(zip(*CUTS[name], strict=True)))
    results = []
    for emulate in (mmalab.emulate, exact.emulate):
        out = np.zeros((CTAS, 12, 12), np.float32)
        run = emulate(STORE.replace("PLACES", places),
                      [mmalab.TensorMap.tiled(out, box=(8, 8, 1))], grid=CTAS, block=64)
        results.append(run.findings)
        assert heard == set(range(CTAS)), "CTA 5 is of its own kind"
        heard.clear()
    assert results[0] == results[1]
    assert "uninitialised-read" in {f.code for f in results[0]}


def of_a_product(change: str, first: str, at: int) -> list[Any]:
    """Findings of a product of 64 rows from `at` on, in two boxes of 64 at 1024 whose second begins
    at row %r8 of 128, and of 8 others; %p3 is true in CTA 5. Both ways find the same."""
    rng = np.random.default_rng()
    rows, few = (rng.standard_normal((n, 64)).astype(ml_dtypes.bfloat16) for n in (128, 8))
    maps = [mmalab.TensorMap.tiled(rows, box=(64, 64), swizzle="128B"),
            mmalab.TensorMap.tiled(few, box=(64, 8), swizzle="128B")]
    copies = "".join(f"add.u32 %r9, %s, {to};\n" + snippets.load(number, to="%r9", at=place)
                     for number, to, place in [(0, 1024, "0, 0"), (0, 9216, "0, %r8"),
                                               (1, 24576, "0, 0")])
    body = ("mov.u32 %r7, %ctaid.x; setp.eq.u32 %p3, %r7, 5; mov.u32 %r8, 64;\n" + first
            + snippets.init(1) + snippets.START + snippets.expect(0, 2 * 8192 + 1024) + copies
            + snippets.wait(0, 0) + snippets.descriptor("%rd0", at) + change
            + snippets.descriptor("%rd1", 24576) + "wgmma.fence.sync.aligned;\n"
            + snippets.product()
            + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n")
    quickly, wholly = (emulate(snippets.text(body, maps), maps, grid=CTAS, block=128).findings
                       for emulate in (mmalab.emulate, exact.emulate))
    assert quickly == wholly
    return wholly


@pytest.mark.parametrize("bit", [62, 63])
def test_a_swizzle_of_one_cluster(bit: int) -> None:
    """The top bits of a descriptor, in all lanes of CTA 5."""
    found = of_a_product(f"xor.b64 %rd5, %rd0, {1 << bit}; selp.b64 %rd0, %rd5, %rd0, %p3;\n", "",
                         1024)
    assert ("swizzle-mismatch", (5, 0, 0)) in {(f.code, f.where.cta) for f in found}


@pytest.mark.parametrize("other", [0, 64])
def test_a_product_over_two_boxes(other: int) -> None:
    """An operand begins in one box and ends in the next, which goes on with the rows behind:
    coordinates decide about that, and CTA 5 has its own."""
    found = of_a_product("", f"selp.b32 %r8, {other}, 64, %p3;\n", 1024 + 4096)
    assert [f.code for f in found] == ([] if other == 64 else ["descriptor-mismatch"])


@pytest.mark.parametrize(("fault", "seen"), [(5, {0, 5}), (3, {0, 3})])
def test_a_cluster_of_another_kind_is_seen_first(
        fault: int, seen: set[int], monkeypatch: pytest.MonkeyPatch, heard: set[int]) -> None:
    """Where not all CTAs can be checked, one of each kind is; its findings are the run's."""
    monkeypatch.setattr(quick, "_WHOLE", 1)
    body = text(("", f"setp.eq.u32 %p3, %r1, {fault}; @%p3 st.shared.u32 [tile], %r0;"))
    args = arrays()
    steps = mmalab.emulate(body, args, grid=CTAS, block=64, sanitize=False).counters
    monkeypatch.setattr(quick, "_SOME", steps["instructions"] * 3 // CTAS)
    run = mmalab.emulate(body, arrays(), grid=CTAS, block=64)
    assert {f.where.cta for f in run.findings} == {(fault, 0, 0)}
    assert seen <= heard
    assert len(heard) == 3


def test_whole_clusters_are_looked_at_closer(
        monkeypatch: pytest.MonkeyPatch, heard: set[int]) -> None:
    """Clusters that are columns of the grid: CTAs 0 and 4 are the first, not CTAs 0 and 1."""
    monkeypatch.setattr(quick, "_WHOLE", 1)
    monkeypatch.setattr(quick, "_SOME", 1)
    body = text(("", "mov.u32 %r8, %cluster_ctaid.y; atom.global.add.u32 %r9, [%rd1+8192], %r8;"))
    run = mmalab.emulate(body, arrays(), grid=(4, 2), block=64, cluster=(1, 2))
    assert heard == {0, 4}
    assert "CTAs 0, 4 only" in run.fidelity["sanitizer"]


def test_sums_of_words_that_differ_in_their_top_bits() -> None:
    """A descriptor's swizzle is its top bits: they count in all lanes together, too."""
    words = np.zeros((4, 32), np.uint64)
    words[1] = 1 << 63
    words[2] = 1 << 62
    words[3, :2] = 1 << 63
    machine_sums = np.zeros((4, 2), np.uint64)
    scheduler = SimpleNamespace(_sums=machine_sums, _factors=twins.factors())
    twins.TwinScheduler._add(scheduler, np.arange(4), words)  # type: ignore[arg-type]
    assert len({row.tobytes() for row in machine_sums}) == 4


def test_too_many_looks(monkeypatch: pytest.MonkeyPatch, heard: set[int]) -> None:
    """A loop that differs all the time is not looked at for ever; then all CTAs are checked."""
    monkeypatch.setattr(twins, "_LOOKS", 3)
    loop = ("add.u32 %r10, %r1, 9; AGAIN: sub.u32 %r10, %r10, 1; setp.ne.u32 %p3, %r10, 0;"
            " @%p3 bra AGAIN;")
    args = arrays()
    run = mmalab.emulate(text((loop, "")), args, grid=CTAS, block=64)
    assert run.findings == []
    assert heard == set(range(CTAS))
    np.testing.assert_array_equal(args[1][: 64 * CTAS], args[0])


def test_a_matmul_over_clusters(heard: set[int]) -> None:
    """Two clusters of the Hopper kernel: the model sees the first."""
    kernel = kernels.sm90_wgmma.gemm(256, 256, 128)
    rng = np.random.default_rng(3)
    args: list[Any] = [
        rng.normal(size=p.shape).astype(mmalab.formats.dtype_of(p.dtype)) if p.role == "in"
        else np.zeros(p.shape, mmalab.formats.dtype_of(p.dtype)) for p in kernel.params]
    assert mmalab.emulate(kernel, args).findings == []
    size = int(np.prod(kernel.cluster))
    assert int(np.prod(kernel.grid)) > size
    assert heard == set(range(size))
    assert kernel.reference is not None
    assert np.asarray(kernel.reference(args, kernel.target)[0]).tobytes() == args[-1].tobytes()


# --- the pipeline, wrong in one cluster -----------------------------------------------------------

_STORE = re.compile(r"(cp\.async\.bulk\.tensor\.2d\.global\.\S+ \[\S+ \{\S+ )(%r\d+)\}")


def one_cluster_wrong(fault: pipeline.Fault) -> str:
    """Four clusters of the pipeline, each with rows of C of its own; cluster 2 has the fault."""
    bodies = []
    for number, part in enumerate((pipeline.Fault(), fault)):
        head, _, body = pipeline.text(part).partition("\n{\n")
        body = _STORE.sub(rf"add.u32 %row{number}, %first, \2; \1%row{number}}}", body)
        bodies.append("{\n" + body)
    return f"""{head}
{{
.reg .pred %other; .reg .b32 %cluster, %first, %row0, %row1;
mov.u32 %cluster, %clusterid.x; mul.lo.u32 %first, %cluster, 256;
setp.eq.u32 %other, %cluster, 2; @%other bra OTHER;
{bodies[0]}
ret;
OTHER:
{bodies[1]}
ret;
}}"""


def of_four_clusters(emulate: Any, fault: pipeline.Fault) -> tuple[list[Any], bytes]:
    """Findings, and C where there are none."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
            for shape in ((256, 256), (128, 256)))
    c = np.zeros((1024, 128), ml_dtypes.bfloat16)
    boxes = ((a, (64, 128)), (b, (64, 32)), (c, (64, 64)))
    run = emulate(one_cluster_wrong(fault),
                  [mmalab.TensorMap.tiled(array, box=box, swizzle="128B") for array, box in boxes],
                  grid=8, block=pipeline.BLOCK, cluster=pipeline.CLUSTER,
                  dynamic_shared=pipeline.SHARED)
    return run.findings, c.tobytes() if not run.findings else b""


@pytest.mark.parametrize("name", [
    "producer_one_empty_wait_missing", "release_cta_scope", "store_no_proxy_fence",
    "exit_no_cluster_barrier"])
def test_a_pipeline_that_is_wrong_in_one_cluster(name: str) -> None:
    """All findings are those of the exact model over all CTAs."""
    fault = MUTANTS[name].fault
    found = of_four_clusters(mmalab.emulate, fault)
    assert found[0]
    assert found == of_four_clusters(exact.emulate, fault)


def test_a_pipeline_of_two_kinds_of_clusters(heard: set[int]) -> None:
    """The right one, written twice: the model sees a cluster of each, and all results are right."""
    findings, words = of_four_clusters(mmalab.emulate, pipeline.Fault())
    assert findings == []
    assert heard == {0, 1, 4, 5}
    assert words == of_four_clusters(exact.emulate, pipeline.Fault())[1]


# --- what may differ ------------------------------------------------------------------------------

def varying(body: str) -> list[str] | None:
    """The varying sites of a kernel of these instructions, as text."""
    program = lower(ptx.parse(f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x) {{
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
  .shared .align 16 .b8 s[64];
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, s; ld.param.u64 %rd0, [x];
  {body}
  ret;
}}"""), None)
    found = varying_sites(program)
    return None if found is None else [program.sites[index].shown for index in found]


@pytest.mark.parametrize(("body", "want"), [
    ("setp.eq.u32 %p0, %r0, 0; @%p0 bra A; A:", []),
    ("setp.eq.u32 %p0, %r1, 0; @%p0 bra A; A:", ["@%p0 bra A;"]),
    ("mov.u32 %r1, 7; setp.eq.u32 %p0, %r1, 0; @%p0 bra A; A:", []),
    ("setp.eq.u32 %p0, %r1, 0; @%p0 mov.u32 %r2, 0; st.shared.u32 [%r2], %r0;",
     ["st.shared.u32 [%r2], %r0;"]),
    (("st.shared.u32 [%r2], %r1; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %rd0;"
     " st.global.u32 [%rd1], %r0;"), []),
    ("ld.shared.u32 %r3, [%r2]; bar.sync %r3;", ["bar.sync %r3;"]),
    ("ld.global.u32 %r3, [%rd0]; shfl.sync.idx.b32 %r4, %r3, %r3, 31, -1;",
     ["shfl.sync.idx.b32 %r4, %r3, %r3, 31, -1;"]),
    ("mov.u32 %r3, 4; L: sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L;", []),
    ("mov.u32 %r3, 4; L: sub.u32 %r3, %r3, %r1; setp.gt.s32 %p0, %r3, 0; @%p0 bra L;",
     ["@%p0 bra L;"]),
    ("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; @!%p0 bra L;", []),
    ("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; @%p0 bra D; bra L; D:", []),
    ("mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; @!%p0 st.shared.u32 [%r2], %r0;",
     None),
    (("L: mov.u32 %r4, 0; mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], %r4;"
     " selp.b32 %r3, 1, 0, %p0; setp.eq.s32 %p1, %r3, 0; @%p1 bra L;"), []),
    (("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; nanosleep.u32 20;"
     " selp.b32 %r3, 1, 0, %p0; setp.ne.s32 %p1, %r3, 0; @%p1 bra D; bra L; D:"), []),
    (("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0;"
     " selp.b32 %r3, 0, 1, %p0; setp.eq.s32 %p1, %r3, 0; @%p1 bra L;"), None),
    ("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; @%p0 bra L;", None),
    (("mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1;"
     " mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; @!%p0 bra L;"), None),
    (("L: mov.u32 %r3, %clock; mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0;"
     " @!%p0 bra L; bar.sync %r3;"), ["bar.sync %r3;"]),
    (("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; setp.eq.u32 %p1, %r0, 0;"
     " @!%p1 bra L;"), None),
    (("L: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0; @!%p0 bra M; bra D;"
     " M: st.shared.u32 [%r2], %r0; bra L; D:"), None),
    ("atom.shared.add.u32 %r3, [%r2], 1;", None),
    ("ld.relaxed.gpu.global.u32 %r3, [%rd0];", None),
    ("bar.sync %ctaid.x;", None),
])
def test_varying_sites(body: str, want: list[str] | None) -> None:
    """Sites where something counts that may differ between clusters."""
    assert varying(body) == want


@pytest.mark.parametrize("name", [name for name, row in KERNELS.items()
                                  if row["expect"]["verdict"] == "clean"])
def test_who_is_heard_of(name: str) -> None:
    """No event comes of an instruction of which the dataflow says that nobody is told."""
    heard: set[str] = set()

    def listen(program: Program, _launch: LaunchShape) -> Any:
        class Ear:
            """Families of what is told of by itself, not by what happens to registers or lanes."""

            def on(self, event: Event) -> None:
                if not isinstance(event, (Registers, Diverge, Reconverge, BarrierRelease)):
                    heard.add(program.sites[event.site].form.family)
        return Ear()

    launch(emulator.emulate, name, listeners=[listen])
    assert heard
    assert not heard & variance._PLAIN


# --- whose an element is --------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(20))
def test_owner_cells(seed: int) -> None:
    """Against sets of threads per element: the first doubt comes when two threads first meet."""
    rng = np.random.default_rng(seed)
    space = AddressSpace()
    base = space.add(np.zeros(64, np.uint16), "x")
    cells = twins.OwnerCells(space)
    writers = [set[int]() for _ in range(64)]
    readers = [set[int]() for _ in range(64)]
    doubt = False
    while not doubt:
        count, size = int(rng.integers(1, 5)), int(rng.choice([1, 2, 4, 8]))
        offsets = rng.integers(0, 128 // size, count) * size
        by = rng.integers(1, 5 if seed % 2 else 40, count)
        write = bool(rng.random() < 0.5)
        doubt = not cells.enter(twins.Touched(base + offsets, by, size, write))
        pairs = zip(offsets.tolist(), by.tolist(), strict=True)
        touched = {(at, thread) for offset, thread in pairs
                   for at in range(offset // 2, (offset + size - 1) // 2 + 1)}
        for at, thread in touched:
            (writers if write else readers)[at].add(thread)
        assert doubt == any(writers[at] and len(writers[at] | readers[at]) > 1
                            for at, _ in touched)
    assert cells.written(FIRST_BUFFER_TAG) == any(writers)
