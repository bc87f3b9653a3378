"""Small Hopper kernels written as bodies: registers with fixed names, waits and copies as words.

A body finds its thread in ``%t``, its warp in ``%w``, its lane in ``%l`` and its rank in the
cluster in ``%k``; ``%e`` is true in thread 0, ``%el`` in lane 0 of each warp. Pointers are in
``%g0`` ..., tensor maps at ``%m0`` ..., 32 KiB of shared memory at ``%s`` (a multiple of 1024) and
eight mbarriers at ``%b``, ``%b + 8`` ...::

    body = init(1) + START + "@%e bra COPY; ..." + wait(0, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mmalab
from mmalab.tensormap import TensorMap

__all__ = ["PRODUCT", "START", "bulk", "d_of", "descriptor", "expect", "init", "load", "product",
           "run", "store", "text", "wait"]

_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k({parameters}) {attributes}
{{
.reg .pred %p<32>; .reg .pred %e; .reg .pred %el; .reg .b16 %h<8>; .reg .b32 %r<64>;
.reg .b32 %t; .reg .b32 %w; .reg .b32 %l; .reg .b32 %k; .reg .b32 %s; .reg .b32 %b;
.reg .f32 %f<64>; .reg .b64 %rd<32>; .reg .b64 %g<4>; .reg .b64 %m<4>;
.shared .align 1024 .b8 s[{shared}]; .shared .align 8 .b8 b[64];
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; and.b32 %l, %t, 31; mov.u32 %k, %cluster_ctarank;
mov.u32 %s, s; mov.u32 %b, b; setp.eq.u32 %e, %t, 0; setp.eq.u32 %el, %l, 0;
"""
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
#: After the mbarriers' initialisation, in a CTA that is alone.
START = "fence.mbarrier_init.release.cluster; bar.sync 0;\n"


def text(body: str, args: Sequence[Any], attributes: str = "", shared: int = 32768) -> str:
    """The kernel of a body: parameter i in ``%gi``, or, of a tensor map, in ``%mi``."""
    parameters, loads = [], []
    for number, value in enumerate(args):
        if isinstance(value, TensorMap):
            parameters.append(f".param .align 64 .b8 p{number}[128]")
            loads.append(f"mov.u64 %m{number}, p{number}; cvta.param.u64 %m{number}, %m{number};")
        else:
            parameters.append(f".param .u64 p{number}")
            loads.append(f"ld.param.u64 %g{number}, [p{number}];"
                         f" cvta.to.global.u64 %g{number}, %g{number};")
    head = _HEAD.format(parameters=", ".join(parameters), attributes=attributes, shared=shared)
    return head + "\n".join([*loads, body, "ret;", "}"]) + "\n"


def run(body: str, args: Sequence[Any] = (), *, block: int = 128, attributes: str = "",
        shared: int = 32768, **options: Any) -> Any:
    """Emulate a body on one CTA, or on what the options say."""
    return mmalab.emulate(text(body, args, attributes, shared), list(args), block=block,
                          **{"grid": 1, "max_steps": 200_000, **options})


# --- words ----------------------------------------------------------------------------------------

def init(*counts: int) -> str:
    """Thread 0 initialises one mbarrier per count."""
    return "".join(f"@%e mbarrier.init.shared::cta.b64 [%b+{8 * at}], {count};\n"
                   for at, count in enumerate(counts))


def wait(barrier: int, parity: int | str, semantics: str = "") -> str:
    """Try until the phase of mbarrier number `barrier` with that parity is complete."""
    return (f"{{ WAIT: mbarrier.try_wait.parity{semantics}.shared::cta.b64 %p31,"
            f" [%b+{8 * barrier}], {parity}; @!%p31 bra WAIT; }}\n")


def expect(barrier: int, size: int, guard: str = "%e") -> str:
    """Thread 0 announces bytes and arrives."""
    return (f"@{guard} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b+{8 * barrier}],"
            f" {size};\n")


def bulk(size: int, *, to: str = "%s", source: str = "%g0", barrier: int = 0,
         guard: str = "%e") -> str:
    """Thread 0 copies bytes from global to shared memory."""
    return (f"@{guard} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}],"
            f" [{source}], {size}, [%b+{8 * barrier}];\n")


def load(tensor: int, *, to: str = "%s", at: str = "0, 0", barrier: int = 0, guard: str = "%e",
         form: str = "2d.shared::cluster.global.mbarrier::complete_tx::bytes") -> str:
    """Thread 0 copies a box of tensor map number `tensor`."""
    return (f"@{guard} cp.async.bulk.tensor.{form} [{to}], [%m{tensor}, {{{at}}}],"
            f" [%b+{8 * barrier}];\n")


def store(tensor: int, *, source: str = "%s", at: str = "0, 0", guard: str = "%e") -> str:
    """Thread 0 copies a box from shared to global memory."""
    return (f"@{guard} cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
            f" [%m{tensor}, {{{at}}}], [{source}];\n")


def descriptor(name: str, offset: int = 0, *, leading: int = 16, stride: int = 1024,
               swizzle: int = 1) -> str:
    """``%name``: the operand at `offset` from ``%s``; swizzle 1 is 128B, 0 none."""
    high = swizzle << 30 | stride >> 4
    low = leading >> 4 << 16
    return (f"add.u32 %r60, %s, {offset}; shr.u32 %r60, %r60, 4; or.b32 %r60, %r60, {low};"
            f" mov.u32 %r61, {high}; mov.b64 {name}, {{%r60, %r61}};\n")


def d_of(first: int = 0) -> str:
    """The four registers of a 64 x 8 accumulator."""
    return "{" + ", ".join(f"%f{first + at}" for at in range(4)) + "}"


def product(a: str = "%rd0", b: str = "%rd1", *, first: int = 0, scale_d: str = "0",
            guard: str = "") -> str:
    """One 64 x 8 x 16 product of descriptors; `scale_d` 0 drops the old accumulator."""
    return (f"setp.ne.u32 %p30, {scale_d}, 0;\n"
            f"{guard} {PRODUCT} {d_of(first)}, {a}, {b}, %p30, 1, 1, 0, 0;\n")
