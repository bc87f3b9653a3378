"""emulate(): arguments, launch shapes, counters, fidelity, listeners, the Run."""

from __future__ import annotations

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from emulation import HEAD, interpret, kernel_text, run_kernel

from mmalab.emulator.events import Access, BarrierRelease, Diverge, Reconverge
from mmalab.emulator.run import emulate
from mmalab.errors import UnsupportedInstruction, UsageError
from mmalab.findings import Finding
from mmalab.ptx.kernel import Kernel, Param


def _copy_parameters(declared: str, loads: str) -> str:
    return (HEAD.format(target="sm_80") + f".entry k(.param .u64 out, {declared}) {{\n"
            ".reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .b16 %h<4>;\n"
            f"ld.param.u64 %rd0, [out];\n{loads}\nret;\n}}\n")


def _pass(type_, value, size=None):
    """The bytes that a scalar parameter gets."""
    size = size or {"8": 1, "6": 2, "2": 4, "4": 8}[type_[-1]]
    register = {1: "%h1", 2: "%h1", 4: "%r1", 8: "%rd1"}[size]
    out = np.zeros(size, np.uint8)
    text = _copy_parameters(f".param .{type_} x", f"ld.param.b{8 * size} {register}, [x];"
                            f"st.global.b{8 * size} [%rd0], {register};")
    emulate(text, [out, value], block=1, executor=interpret)
    return out.tobytes()


@pytest.mark.parametrize(("type_", "value", "want"), [
    ("u32", 5, np.uint32(5)), ("s32", -5, np.int32(-5)), ("u32", np.int64(7), np.uint32(7)),
    ("f32", 1.5, np.float32(1.5)), ("f32", 2, np.float32(2)), ("f64", 0.1, np.float64(0.1)),
    ("b32", 1.5, np.float32(1.5)), ("b64", 1.5, np.float64(1.5)), ("f16", 0.5, np.float16(0.5)),
    ("b32", np.float32(0.1), np.float32(0.1)),
    ("b16", ml_dtypes.bfloat16(3), ml_dtypes.bfloat16(3)),
    ("u64", 2**64 - 1, np.uint64(2**64 - 1)), ("u8", 255, np.uint8(255)),
    ("u64", b"abcdefgh", np.frombuffer(b"abcdefgh", np.uint64)[0]), ("f32", np.float64(0.5),
                                                                   np.float32(0.5)),
])
def test_scalars_follow_the_declared_type(type_, value, want):
    """Numbers are encoded as the parameter declares; NumPy scalars of its width keep their bits."""
    assert _pass(type_, value) == want.tobytes()


def test_structs_are_bytes():
    """A .b8 array parameter takes exactly its bytes."""
    out = np.zeros(12, np.uint8)
    text = _copy_parameters(".param .align 4 .b8 s[12]", "ld.param.u32 %r1, [s+8];"
                            "st.global.u32 [%rd0], %r1;")
    emulate(text, [out, bytes(range(12))], block=1, executor=interpret)
    assert out[:4].tolist() == [8, 9, 10, 11]
    with pytest.raises(UsageError, match="12"):
        emulate(text, [out, bytes(11)], block=1, executor=interpret)


@pytest.mark.parametrize(("args", "words"), [
    ([np.zeros(1)], "parameters"), ([np.zeros(1), 2**32], "u32"), ([np.zeros(1), 1.5], "integer"),
    ([np.zeros(1), np.zeros(3)], "no pointer"), ([np.zeros(1), "x"], "str"),
    ([np.zeros(1), None], "NoneType"), ([np.array([object()]), 1], "bytes of its own"),
    ([[1, 2, 3], 1], "list"), ([np.zeros(1), np.float32(1)], "scalar"),
])
def test_arguments_that_do_not_fit_are_errors(args, words):
    """Wrong count, range, kind or dtype says what the parameter would take."""
    text = _copy_parameters(".param .u32 x", "")
    with pytest.raises(UsageError, match=words) as caught:
        emulate(text, args, block=1, executor=interpret)
    assert "legal:" in str(caught.value)


def test_anything_with_an_array_interface_is_a_pointer():
    """Objects with __array_interface__ or __dlpack__ are used in place."""
    class Interface:
        def __init__(self, array):
            self.__array_interface__ = array.__array_interface__
            self.keep = array

    class Capsule:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    for wrap in (Interface, Capsule):
        x = np.zeros(4, np.uint32)
        run = run_kernel("mov.u32 %r1, 9; st.global.u32 [%rd40+4], %r1; ret;", [wrap(x)], block=1)
        assert run.findings == []
        assert x.tolist() == [0, 9, 0, 0]


def test_read_only_arrays_are_protected():
    """A store into an array that the caller marked read-only is a finding."""
    x = np.zeros(4, np.uint32)
    x.flags.writeable = False
    run = run_kernel("mov.u32 %r1, 9; st.global.u32 [%rd40], %r1; ret;", [x], block=1)
    assert [f.code for f in run.findings] == ["read-only-write"]
    assert not x.any()


# --- launches -------------------------------------------------------------------------------------

def _launch(attributes="", **options):
    text = HEAD.format(target="sm_80") + f".entry k() {attributes} {{ ret; }}"
    return emulate(text, [], executor=interpret, **options)


def test_the_block_may_come_from_the_kernel():
    """.reqntid gives the block size, and must agree with one that is given."""
    assert _launch(".reqntid 64, 1, 1").counters["instructions"] == 2
    with pytest.raises(UsageError, match="reqntid"):
        _launch(".reqntid 64", block=32)
    with pytest.raises(UsageError, match="no block size"):
        _launch()


@pytest.mark.parametrize(("options", "words"), [
    ({"block": 1025}, "1024"), ({"block": (0, 1)}, "positive"), ({"block": 32, "grid": []}, "grid"),
    ({"block": 32, "dynamic_shared": 1 << 20}, "shared"), ({"block": 32, "schedule": "soon"},
                                                         "schedule"),
    ({"block": 32, "grid": 3, "cluster": 2}, "cluster"),
])
def test_impossible_launches_are_errors(options, words):
    """Sizes beyond any chip, empty grids and unknown schedules are refused."""
    with pytest.raises(UsageError, match=words):
        _launch(**options)
    with pytest.raises(UsageError, match="threads"):
        _launch(".maxntid 64", block=96)


def test_an_explicit_cluster_is_named():
    """.explicitcluster alone assembles; each launch must say its cluster, be it of one CTA."""
    text = HEAD.format(target="sm_90") + ".entry k() {} {{ ret; }}"
    loose, tied = (text.format(f".reqntid 32 .explicitcluster{more}")
                   for more in ("", " .reqnctapercluster 2"))
    own = Kernel("own", loose, "k", (2, 1, 1), (32, 1, 1), (), "sm_90")
    for kernel, grid in ((loose, 2), (own, None)):
        with pytest.raises(UsageError, match=r"(?s)no cluster size.*explicitcluster.*cluster="):
            emulate(kernel, [], grid=grid, executor=interpret)
        for cluster in (1, 2):
            emulate(kernel, [], grid=grid, cluster=cluster, executor=interpret)
    emulate(replace(own, cluster=(2, 1, 1)), [], executor=interpret)
    emulate(tied, [], grid=2, executor=interpret)


def test_a_grid_of_clusters():
    """.blocksareclusters: the launch counts clusters, the kernel's registers CTAs."""
    for directive, grid in (("", 6), (".blocksareclusters", 3)):
        x = np.zeros(4, np.uint32)
        text = HEAD.format(target="sm_90").replace("8.7", "9.0") + (
            f".entry k(.param .u64 p) {directive} .reqntid 32 .reqnctapercluster 2 {{\n"
            ".reg .b32 %r<4>; .reg .b64 %d; ld.param.u64 %d, [p];\n"
            "mov.u32 %r0, %nctaid.x; mov.u32 %r1, %nclusterid.x; mov.u32 %r2, %cluster_nctaid.x;\n"
            "st.global.u32 [%d], %r0; st.global.u32 [%d+4], %r1; st.global.u32 [%d+8], %r2;\n"
            "red.global.add.u32 [%d+12], 1; ret; }")
        emulate(text, [x], grid=grid, executor=interpret)
        assert x.tolist() == [6, 3, 2, 6 * 32]


def test_special_registers_describe_the_launch():
    """tid, ctaid, ntid, nctaid, laneid and warpid in three dimensions."""
    out = np.zeros((2, 3, 2, 24, 5), np.uint32)
    run_kernel("""
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
    mad.lo.u32 %r4, %r3, 3, %r2; mad.lo.u32 %r4, %r4, 4, %r1;
    mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; mov.u32 %r7, %ctaid.z;
    mad.lo.u32 %r8, %r7, 3, %r6; mad.lo.u32 %r8, %r8, 2, %r5; mad.lo.u32 %r9, %r8, 24, %r4;
    mul.wide.u32 %rd1, %r9, 20; add.s64 %rd2, %rd40, %rd1;
    mov.u32 %r10, %laneid; st.global.u32 [%rd2], %r10; mov.u32 %r10, %warpid;
    st.global.u32 [%rd2+4], %r10; mov.u32 %r10, %ntid.y; st.global.u32 [%rd2+8], %r10;
    mov.u32 %r10, %nctaid.z; st.global.u32 [%rd2+12], %r10;
    mov.u32 %r10, %lanemask_lt; st.global.u32 [%rd2+16], %r10; ret;""", [out], grid=(2, 3, 2),
               block=(4, 3, 2))
    lane = np.arange(24)
    assert (out[..., 0] == lane).all()
    assert (out[..., 1:4] == [0, 3, 2]).all()
    assert (out[..., 4] == (1 << lane) - 1).all()


def test_a_kernel_value_brings_its_launch():
    """A Kernel gives entry, grid, block and target, and validates its arguments."""
    text = HEAD.format(target="sm_80") + """.entry fill(.param .u64 x) { .reg .b64 %rd<4>;
    .reg .b32 %r<4>; ld.param.u64 %rd0, [x]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r0; ret; }"""

    def validate(args):
        if args[0].size != 5:
            raise UsageError(f"{args[0].size} elements", "five are needed", legal="5")

    kernel = Kernel("fill", text, "fill", (5, 1, 1), (1, 1, 1), (Param("x", "out", "u32", (5,)),),
                    "sm_80", validate=validate)
    x = np.full(5, 99, np.uint32)
    assert emulate(kernel, [x], executor=interpret).verdict == "clean"
    assert x.tolist() == list(range(5))
    with pytest.raises(UsageError, match="five"):
        emulate(kernel, [np.zeros(4)], executor=interpret)


# --- outcomes -------------------------------------------------------------------------------------

def test_counters_and_fidelity():
    """Instructions by family, bytes, wavefronts against their ideal, and what was approximate."""
    x = np.zeros((32, 32), np.float32)
    run = run_kernel("""
    .shared .align 4 .b8 tile[8192]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 7;
    add.u32 %r3, %r1, %r2; mov.f32 %f1, 0f3F800000; ex2.approx.f32 %f2, %f1;
    st.shared.f32 [%r3], %f2; shl.b32 %r4, %r0, 2; add.u32 %r5, %r1, %r4;
    st.shared.f32 [%r5], %f2; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd40, %rd1;
    ld.global.f32 %f3, [%rd2]; st.global.f32 [%rd2], %f2; bar.sync 0; ret;""", [x], block=64)
    counters = run.counters
    assert counters["shared.wavefronts"] == 2 * (32 + 1)
    assert counters["shared.wavefronts.ideal"] == 2 * 2
    assert counters["shared.wavefronts.st"] == counters["shared.wavefronts"]
    assert counters["global.bytes.read"] == counters["global.bytes.written"] == 256
    assert counters["instructions.st"] == 6
    assert counters["instructions"] == sum(v for k, v in counters.items()
                                           if k.startswith("instructions."))
    assert run.fidelity["ex2.approx.f32"].startswith("approximate: ")
    assert run.fidelity["st.shared.f32"] == "exact"


def test_tensor_flops_are_counted():
    """One m16n8k16 per warp is 4096 operations."""
    run = run_kernel("""
    mov.u32 %r1, 0; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},
    {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f5,%f6,%f7,%f8}; ret;""", [], block=96, sanitize=False)
    assert run.counters["tensor.flops"] == 3 * 2 * 16 * 8 * 16


def test_target_chooses_the_arithmetic():
    """The same FP8 product differs between an Ada and a Hopper accumulator."""
    words = np.random.default_rng(3).integers(0, 2**32, (2, 32), dtype=np.uint32)
    text = kernel_text("""
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd41, %rd1;
    ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd2+128]; mov.f32 %f5, 0f00000000;
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r1,%r2},
    {%r1,%r2}, {%f5,%f5,%f5,%f5}; add.s64 %rd3, %rd40, %rd1; st.global.f32 [%rd3], %f1; ret;""",
                       2, target="sm_89")
    results = []
    for target in ("sm_89", "sm_90"):
        out = np.zeros(32, np.float32)
        emulate(text, [out, words & np.uint32(0x77777777)], block=32, target=target,
                executor=interpret)
        results.append(out)
    assert np.allclose(*results, rtol=0.01, atol=1.0)
    assert (results[0] != results[1]).any()


def test_unsupported_instructions_are_named():
    """What the ISA has and the emulator does not is refused with its line."""
    with pytest.raises(UnsupportedInstruction, match="brkpt"):
        run_kernel("brkpt; ret;", [], block=1)
    assert run_kernel("mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 0; @%p1 brkpt; ret;", [],
                      block=1).verdict == "clean"


def test_listeners_hear_what_happens():
    """Events come in order, and a listener's findings become the run's."""
    class Ear:
        def __init__(self, program, shape):
            self.events = []
            heard.append(self)

        def on(self, event):
            self.events.append(event)

        def findings(self):
            return [Finding("data-race", "warning", "heard")]

    heard: list[Ear] = []
    body = """.shared .b32 w; mov.u32 %r1, 1; mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 3;
    @%p1 st.shared.u32 [w], %r1; bar.sync 0; ld.shared.u32 %r3, [w]; ret;"""
    run = run_kernel(body, [], block=64, listeners=[Ear])
    accesses = [e for e in heard[0].events if isinstance(e, Access)]
    assert [(a.kind, a.warp, a.mask) for a in accesses] == [
        ("write", 0, 8), ("read", 0, 2**32 - 1), ("read", 1, 2**32 - 1)]
    assert accesses[0].values is not None
    assert bytes(accesses[0].values[3]) == b"\x01\0\0\0"
    assert [e.warps for e in heard[0].events if isinstance(e, BarrierRelease)] == [(0, 1)]
    assert [f.message for f in run.findings] == ["heard"]
    assert run.verdict == "clean"
    run_kernel(body, [], block=64, listeners=[Ear], sanitize=False)
    assert len(heard) == 1


def test_groups_that_split_and_meet_are_told():
    """A branch that lanes take differently is a Diverge; where they run together, a Reconverge."""
    class Ear:
        def __init__(self, program, shape):
            self.events = []
            heard.append(self)

        def on(self, event):
            if isinstance(event, (Diverge, Reconverge)):
                self.events.append(event)

    heard: list[Ear] = []
    run_kernel("""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 bra A; add.u32 %r2, %r1, 1;
    bra B;\nA: add.u32 %r2, %r1, 2;\nB: bar.warp.sync 0xffffffff; ret;""", [], listeners=[Ear])
    split, joined = heard[0].events
    assert set(split.groups) == {0xFF, 0xFFFFFF00}
    assert joined.mask == 0xFFFFFFFF
    run_kernel("mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 1; @%p1 bra A; trap;\nA: ret;", [],
               listeners=[Ear])
    assert heard[1].events == []


def test_a_run_is_json():
    """as_dict has the fields of the contract and serialises."""
    run = run_kernel("trap; ret;", [], block=1)
    data = json.loads(json.dumps(run.as_dict()))
    assert set(data) == {"verdict", "findings", "counters", "fidelity", "deadlock"}
    assert data["verdict"] == "findings"
    assert data["findings"][0]["code"] == "trap"
    assert data["findings"][0]["where"]["lane"] == 0


def test_repeated_faults_are_one_finding_with_a_count():
    """A finding per code and instruction, with how often it happened."""
    run = run_kernel(".shared .b32 w; mov.u32 %r1, 0;\nL: ld.shared.u32 %r2, [w];"
                     " add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra L; ret;", [], block=1)
    assert len(run.findings) == 1
    assert run.findings[0].witness["times"] == 5
