"""Small kernels for the assembler, as text."""

from __future__ import annotations

from collections.abc import Sequence

EMPTY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry empty() { ret; }
"""


def matrix_kernel(opcode: str, registers: Sequence[int], *, version: str = "8.8",
                  target: str = "sm_80", extra: str = "") -> str:
    """One ``mma`` whose operands are loaded and whose result is stored.

    `registers` counts the 32-bit registers of d, a, b and c.
    """
    d, a, b, c = registers
    total = a + b + c
    loads = "".join(f"    ld.global.b32 %r{i}, [%d0+{4 * i}];\n" for i in range(total))
    stores = "".join(f"    st.global.b32 [%d0+{4 * i}], %o{i};\n" for i in range(d))

    def group(name: str, first: int, count: int) -> str:
        return "{" + ", ".join(f"{name}{i}" for i in range(first, first + count)) + "}"

    operands = ", ".join((group("%o", 0, d), group("%r", 0, a), group("%r", a, b),
                          group("%r", a + b, c)))
    return (f".version {version}\n.target {target}\n.address_size 64\n"
            f".visible .entry k(.param .u64 p)\n{{\n"
            f"    .reg .b64 %d<2>; .reg .b32 %r<{total + 1}>; .reg .b32 %o<{d + 1}>;\n"
            f"    ld.param.u64 %d0, [p];\n{loads}    {opcode} {operands}{extra};\n{stores}"
            "    ret;\n}\n")


#: A loop over k around 4 mma and their loads, and a wait loop inside it.
LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry loops(.param .u64 p, .param .u32 n)
{
    .reg .b64 %d<4>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .pred %p<4>;
    ld.param.u64 %d0, [p];
    ld.param.u32 %r0, [n];
    mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000;
    mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;
    mov.u32 %r1, 0;
outer:
    mov.u64 %d1, %d0;
    st.volatile.global.u32 [%d0+8192], %r1;
wait:
    ld.volatile.global.u32 %r3, [%d0+4096];
    setp.ne.u32 %p1, %r3, %r1;
    @%p1 bra wait;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1];
    ld.global.v2.u32 {%r8, %r9}, [%d1+16];
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3},
        {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%f0, %f1, %f2, %f3};
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3},
        {%r5, %r4, %r6, %r7}, {%r8, %r9}, {%f0, %f1, %f2, %f3};
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, %r0;
    @%p0 bra outer;
    st.global.v4.f32 [%d0], {%f0, %f1, %f2, %f3};
    ret;
}
"""
