"""What to write instead: where an instruction's job is done on another chip.

``wgmma`` exists on sm_90a alone. On the Blackwell data-centre chips its job is tcgen05's, on
sm_120 that of ``mma.sync``::

    >>> from mmalab.isa.targets import target
    >>> replacements("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", target("sm_120a"))
    ['mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32']

`instead` says it in words, for all instructions of a family; `replacements` in opcodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mmalab.errors import UnknownForm
from mmalab.isa.form import Form
from mmalab.isa.lookup import find
from mmalab.isa.targets import TARGETS, Target, parse_targets

__all__ = ["instead", "replacements"]

#: (opcode prefix, chips as numbers first to last, what to write there); the first that fits.
_PORTS: tuple[tuple[str, int, int, str], ...] = (
    ("wgmma", 75, 89, "mma.sync"),
    ("wgmma", 90, 90, ".target sm_90a"),
    ("wgmma", 100, 119, "tcgen05.mma, with its accumulators in Tensor Memory (.target {chip}a)"),
    ("wgmma", 120, 129, "mma.sync, with .block_scale on {chip}a; there is no warpgroup MMA"),
    ("tcgen05", 75, 89, "mma.sync"),
    ("tcgen05", 90, 90, "wgmma.mma_async (.target sm_90a)"),
    ("tcgen05", 120, 129, "mma.sync, with .block_scale on {chip}a; there is no Tensor Memory"),
    ("mma.sync.aligned.kind", 100, 119, "tcgen05.mma .kind::mxf8f6f4, mxf4 or mxf4nvf4"),
    ("mma.sp::ordered_metadata.sync.aligned.kind", 100, 119, "tcgen05.mma.sp"),
    ("mma.sync.aligned.kind", 75, 90, "cvt to f16 or bf16 and scale by hand, then mma.sync"),
    ("cp.async.bulk", 80, 89, "cp.async, with mbarriers or groups"),
    ("cp.async.bulk", 75, 79, "ld.global, st.shared and bar.sync"),
    ("cp.async", 75, 79, "ld.global, st.shared and bar.sync"),
    ("cp.reduce.async.bulk", 75, 89, "red.global of the words"),
    ("tensormap", 75, 89, "address arithmetic: there are no tensor maps"),
    ("multimem", 75, 89, "an access for each GPU"),
    ("mbarrier", 75, 79, "bar.sync and bar.arrive"),
    ("mbarrier.try_wait", 80, 89, "mbarrier.test_wait in a loop"),
    ("stmatrix", 75, 89, "st.shared of the fragments"),
    ("redux.sync", 75, 129, "a butterfly of shfl.sync"),
    ("barrier.cluster", 75, 89, "separate launches: there are no clusters"),
    ("elect.sync", 75, 89, "compare %laneid with a fixed lane"),
    ("setmaxnreg", 75, 89, ".maxnreg for the whole kernel"),
)


def instead(opcode: str, on: Target) -> str:
    """What does the job on that chip, in words; "" where nothing is known."""
    same = _suffix(opcode, on)
    for prefix, first, last, what in _PORTS:
        if not same and opcode.startswith(prefix) and first <= on.number <= last:
            return what.format(chip=f"sm_{on.number}")
    return same


def _suffix(opcode: str, on: Target) -> str:
    """The chip itself has it, but this target's suffix does not tell."""
    try:
        allowed = parse_targets(find(opcode).targets)
    except UnknownForm:
        return ""
    same = [name for name, row in TARGETS.items() if row.number == on.number and name in allowed]
    return f".target {' or '.join(same)} (the same chip)" if same else ""


# --- opcodes --------------------------------------------------------------------------------------

#: Shape of a warp's product by the bits of its stored elements; sparse ones have twice the K.
_DEPTH: Mapping[str, int] = {
    "f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256,
}
_KIND: Mapping[str, str] = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4",
                            "e5m2": "f8f6f4", "s8": "i8", "u8": "i8"}
#: What stands for a tcgen05 kind, whose types are in its instruction descriptor: D, A, B.
_TYPES: Mapping[str, tuple[str, str, str]] = {
    "f16": ("f32", "f16", "f16"), "tf32": ("f32", "tf32", "tf32"),
    "f8f6f4": ("f32", "e4m3", "e4m3"), "i8": ("s32", "s8", "s8"),
}
_SCALED = "mma.sync.aligned.{shape}.row.col.kind::{kind}.block_scale.scale_vec::{size}"
_BLOCKS: Mapping[str, str] = {"1X": "block32", "2X": "block32", "4X": "block16"}
_PLAIN: tuple[tuple[str, str], ...] = (
    ("cp.async.bulk.commit_group", "cp.async.commit_group"),
    ("cp.async.bulk.wait_group", "cp.async.wait_group"),
    ("cp.async.bulk.prefetch", "prefetch.global.L2"),
    ("cp.async.bulk.tensor", "cp.async.cg.shared.global"),
    ("cp.async.bulk", "cp.async.cg.shared.global"),
    ("cp.async.commit_group", "bar.sync"), ("cp.async.wait", "bar.sync"),
    ("cp.async", "ld.global.v4.b32"),
    ("mbarrier.try_wait", "mbarrier.test_wait.shared.b64"), ("mbarrier", "bar.sync"),
    ("stmatrix", "st.shared.b32"), ("redux.sync", "shfl.sync.bfly.b32"),
    ("wgmma.commit_group", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"),
    ("wgmma.wait_group", "mbarrier.try_wait.parity.shared::cta.b64"),
    ("wgmma.fence", "tcgen05.fence::after_thread_sync"),
    ("tcgen05.commit", "wgmma.commit_group.sync.aligned"),
    ("tcgen05.fence", "wgmma.fence.sync.aligned"),
)


def replacements(opcode: str, on: Target) -> list[str]:
    """Opcodes that the target has and that do the instruction's job, best first."""
    form = find(opcode)
    return [other for other in dict.fromkeys(_candidates(form))
            if other != opcode and on.name in parse_targets(find(other).targets)]


def _candidates(form: Form) -> Iterator[str]:
    m = form.modifiers
    if form.family == "wgmma.mma_async":
        d, a, b = m["dtype"], m["atype"], m["btype"]
        if a in _KIND:
            yield f"tcgen05.mma{'.sp' * ('sp' in m)}.cta_group::1.kind::{_KIND[a]}"
        yield _of_a_warp(d, a, b, sparse="sp" in m, kept=m.get("satfinite", ""))
    elif form.family == "tcgen05.mma" and m["kind"] in _TYPES:
        d, a, b = _TYPES[m["kind"]]
        depth = _DEPTH[a] * (2 if "sp" in m else 1)
        yield f"wgmma.mma_async{'.sp' * ('sp' in m)}.sync.aligned.m64n128k{depth}.{d}.{a}.{b}"
        yield _of_a_warp(d, a, b, sparse="sp" in m)
    elif form.family == "tcgen05.mma" and m["kind"].startswith("mx"):
        yield from _scaled_by_a_warp(m)
    elif form.family in ("mma.sync", "mma.sp") and "block_scale" in m:
        size = m.get("scale_vec", "1X" if m["kind"] == "mxf8f6f4" else "2X")
        sparse = ".sp" * (form.family == "mma.sp")
        yield f"tcgen05.mma{sparse}.cta_group::1.kind::{m['kind']}.block_scale.{_BLOCKS[size]}"
    elif form.family in ("mma.sync", "mma.sp") and "kind" in m:
        yield f"tcgen05.mma{'.sp' * (form.family == 'mma.sp')}.cta_group::1.kind::f8f6f4"
    yield from (other for prefix, other in _PLAIN if form.key.startswith(prefix))


def _of_a_warp(d: str, a: str, b: str, *, sparse: bool, kept: str = "") -> str:
    depth = _DEPTH[a] * (2 if sparse else 1)
    head = "mma.sp::ordered_metadata" if sparse else "mma.sync"
    flags = f".{kept}" * bool(kept)
    tail = ".and.popc" if a == "b1" else ""
    sync = ".sync" * sparse
    return f"{head}{sync}.aligned.m16n8k{depth}.row.col{flags}.{d}.{a}.{b}.{d}{tail}"


def _scaled_by_a_warp(m: Mapping[str, str]) -> Iterator[str]:
    kind = m["kind"]
    if kind == "mxf8f6f4":
        yield _SCALED.format(shape="m16n8k32", kind=kind, size="1X") + ".f32.e4m3.e4m3.f32.ue8m0"
        return
    wide = kind == "mxf4nvf4" and m.get("scale_vec", "block16") in ("4X", "block16")
    size, scale = ("4X", "ue4m3") if wide else ("2X", "ue8m0")
    yield _SCALED.format(shape="m16n8k64", kind=kind, size=size) + f".f32.e2m1.e2m1.f32.{scale}"
