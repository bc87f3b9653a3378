"""Article B's probe (:func:`mmalab.atlas.probe`) and its variations, and a few other kernels.

    >>> Probe(kind="f16").text().count("tcgen05.")
    8

The probe is the article's to the instruction, so what it counts in the machine code can be counted
here. Variations change one thing: the kind, pairs of CTAs, sparsity, the width of the drain, how
the column count is written, what is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmalab.atlas import probe

__all__ = ["BLOCK_KINDS", "KINDS", "WARPGROUP", "WARP_MMA", "Probe", "body", "tensor_copy",
           "warp_kernels"]

#: Kinds without scale factors; scaled kinds with the scale vector's size.
KINDS = ("f16", "tf32", "f8f6f4", "i8")
BLOCK_KINDS = (("mxf8f6f4", "1X"), ("mxf4", "2X"), ("mxf4nvf4", "2X"), ("mxf4nvf4", "4X"))

_HEAD = """\
.version {version}
.target {target}
.address_size 64
"""


def body(lines: list[str], *, params: tuple[str, ...] = ("out",), version: str = "8.6",
         target: str = "sm_100a", registers: int = 16, shared: tuple[str, ...] = ()) -> str:
    """A one-kernel module around instructions: `registers` of each kind, 64-bit `params` in %rd1,
    %rd2 ...
    """
    given = ", ".join(f".param .u64 {name}" for name in params)
    return "\n".join((
        _HEAD.format(version=version, target=target),
        f".visible .entry probe({given})", "{",
        f"  .reg .b32 %r<{registers}>; .reg .b64 %rd<{registers}>; .reg .pred %p<4>;",
        f"  .reg .f32 %f<{registers}>;",
        *(f"  .shared {name};" for name in shared),
        *(f"  ld.param.u64 %rd{at}, [{name}];" for at, name in enumerate(params, 1)),
        *(f"  {line}" for line in lines), "  ret;", "}", ""))


@dataclass(frozen=True)
class Probe:
    """One variation. `scale` is the scale vector's word (``4X``, ``block16``) of scaled kinds.

    `columns` is the count, given in a register, or as an immediate with `immediate`. `drain` is N
    of ``tcgen05.ld.32x32b.xN``. `commit` is the state space of the commit (``shared::cluster``, or
    nothing: a generic address). `descriptor` puts a run-time instruction descriptor instead of 0,
    `scales_apart` two scale addresses that differ.
    """

    kind: str = "f16"
    scale: str = ""
    group: int = 1
    sparse: bool = False
    stationary: bool = False
    shifted: bool = False
    a_in_memory: bool = False
    columns: int = 128
    immediate: bool = False
    relinquish: bool = True
    free: bool = True
    multiply: bool = True
    commit: str = "shared::cluster"
    drain: int = 1
    descriptor: bool = False
    scales_apart: bool = False
    version: str = "8.6"
    target: str = "sm_100a"

    def text(self) -> str:
        """The PTX."""
        without = {"relinquish": self.relinquish, "dealloc": self.free, "mma": self.multiply,
                   "commit": self.multiply}
        text = probe(
            "\n".join((*self._before(), self.product())), columns=self.columns,
            through="immediate" if self.immediate else "register",
            without=[part for part, there in without.items() if not there],
            cta_group=self.group, load=f"32x32b.x{self.drain}", version=self._version(),
            target=self.target)
        cluster = f"tcgen05.commit.cta_group::{self.group}.mbarrier::arrive::one.shared::cluster"
        if self.commit:
            return text.replace(cluster, cluster.replace("shared::cluster", self.commit))
        generic = f"mov.u64 %rd7, mbar;\n    cvta.shared.u64 %rd7, %rd7;\n    {cluster}"
        return text.replace(f"{cluster}.b64 [mbar]", generic.replace(
            ".shared::cluster", "") + ".b64 [%rd7]")

    def _version(self) -> str:
        # kind::mxf4nvf4 is younger than the rest.
        return max(self.version, "8.7") if self.kind == "mxf4nvf4" else self.version

    def _before(self) -> list[str]:
        lines = ["cvt.u32.u64 %r3, %rd3;"] if self.descriptor else []
        if self.scales_apart:
            lines += ["add.u32 %r5, %r2, 64;", "add.u32 %r6, %r2, 96;"]
        return lines

    def product(self) -> str:
        """The line of the product."""
        words = ["tcgen05.mma", "ws" if self.stationary else "", "sp" if self.sparse else "",
                 f"cta_group::{self.group}", f"kind::{self.kind}"]
        if self.scale:
            word = self.scale if self.scale.startswith("block") else f"scale_vec::{self.scale}"
            words += ["block_scale", word]
        words += ["ashift", "collector::a::lastuse"] if self.shifted else []
        memory = self.a_in_memory or self.shifted
        scales = ("[%r5]", "[%r6]") if self.scales_apart else ("[%r2]", "[%r2]")
        operands = ["[%r2]", "[%r2]" if memory else "%rd2", "%rd3",
                    *(["[%r2]"] if self.sparse else []), "%r3",
                    *(scales if self.scale else ()), "%p1"]
        return f"{'.'.join(filter(None, words))} {', '.join(operands)};"


_WGMMA = ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, "
          "1, 1, 1, 0, 0;")
_MMA = ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, "
        "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};")
#: Hopper's products: the file that the article calls legacy_wgmma.
WARPGROUP = body([
    "wgmma.fence.sync.aligned;", _WGMMA,
    "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
    *(f"st.global.f32 [%rd1+{4 * at}], %f{at + 1};" for at in range(4)),
], params=("out", "a", "b"), version="8.0", target="sm_90a")

#: And the one that every chip has: legacy_mmasync.
WARP_MMA = body([
    *(f"ld.global.b32 %r{at}, [%rd2+{4 * at}];" for at in range(6)),
    *(f"mov.f32 %f{at}, 0f00000000;" for at in range(4)),
    _MMA,
    *(f"st.global.f32 [%rd1+{4 * at}], %f{at};" for at in range(4)),
], params=("out", "a"), version="7.0", target="sm_80")


def tensor_copy(dimensions: int) -> str:
    """PTX with one tensor copy of so many dimensions."""
    coordinates = ", ".join(["%r1"] * dimensions)
    load = (f"cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.mbarrier::complete_tx"
            f"::bytes [tile], [%rd1, {{{coordinates}}}], [done];")
    return body(["mov.u32 %r1, 0;", load], version="8.0", target="sm_90a",
                shared=(".align 128 .b8 tile[128]", ".align 8 .b64 done[1]"))


def warp_kernels() -> dict[str, str]:
    """One warp's instructions, a kernel each: products of six types, ldmatrix, cp.async."""
    product = "m16n8k16.row.col.f32.f16.f16.f32"
    f16 = WARP_MMA
    half = f16.replace("f32.f16.f16.f32 {%f0, %f1, %f2, %f3}", "f16.f16.f16.f16 {%r8, %r9}")
    half = half.replace("{%f0, %f1, %f2, %f3};", "{%r8, %r9};").replace(
        "st.global.f32 [%rd1+0], %f0;", "st.global.v2.b32 [%rd1], {%r8, %r9};")
    fp8 = _later(f16.replace(product, "m16n8k32.row.col.f32.e4m3.e4m3.f32"), "8.4", "sm_89")
    s8 = f16.replace(product, "m16n8k32.row.col.s32.s8.s8.s32")
    s8 = s8.replace("{%f0, %f1, %f2, %f3}", "{%r8, %r9, %r10, %r11}")
    s8 = re.sub(r"st\.global\.f32 (\[[^]]*\]), %f(\d)",
                lambda m: f"st.global.u32 {m[1]}, %r{8 + int(m[2])}", s8)
    fp4 = f16.replace(product, "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32"
                               ".e2m1.e2m1.f32.ue4m3")
    fp4 = _later(fp4.replace("{%f0, %f1, %f2, %f3};",
                             "{%f0, %f1, %f2, %f3}, %r6, {0, 0}, %r7, {0, 0};"), "8.7", "sm_120a")
    ldmatrix = body(["mov.u32 %r1, tile;",
                     "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r1];",
                     "st.global.v4.b32 [%rd1], {%r4, %r5, %r6, %r7};"],
                    version="7.0", target="sm_80", shared=(".align 16 .b8 tile[512]",))
    copy = body(["mov.u32 %r1, tile;", "cp.async.cg.shared.global [%r1], [%rd1], 16;",
                 "cp.async.wait_all;"], version="7.0", target="sm_80",
                shared=(".align 16 .b8 tile[16]",))
    return {"f16": f16, "bf16": f16.replace("f16.f16.f32", "bf16.bf16.f32"), "f16.f16": half,
            "e4m3": fp8, "s8": s8, "nvfp4": fp4, "ldmatrix": ldmatrix, "cp.async": copy}


def _later(text: str, version: str, target: str) -> str:
    return text.replace(".version 7.0", f".version {version}").replace("sm_80", target)
