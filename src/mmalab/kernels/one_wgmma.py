"""One wgmma of any form, on operands exactly as they lie: what a chip makes of a descriptor.

Each CTA is a case of its own. It fills its shared memory from an image, loads accumulators (and A,
where that is in registers) as raw words, executes the instruction once and stores what came out::

    kernel = one_wgmma("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", cases=4, image=8192)
    mmalab.emulate(kernel, [image, descriptors, scale_d, d, out])

Descriptors are relative to the image: the kernel adds where the image lies, a multiple of 1024.
"""

from __future__ import annotations

from typing import Any

from mmalab.isa.form import Form
from mmalab.isa.lookup import find
from mmalab.kernels.image import STRIDE, THREADS, aligned, fill, part
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

__all__ = ["one_wgmma"]


def one_wgmma(opcode: str, *, cases: int, image: int, a_in_registers: bool = False,
              selector: int = 0, negate_a: bool = False, negate_b: bool = False,
              transpose_a: bool = False, transpose_b: bool = False) -> Kernel:
    """A kernel of one instruction, `cases` CTAs; `image` bytes of shared memory, in 2048s.

    Parameters: image [cases, image] bytes; descriptors [cases, 2] u64 of A and B; scale_d [cases]
    u32; d, the accumulators before, [cases, registers, 128] u32; then a [cases, registers, 128]
    u32 where A is in registers and metadata [cases, 128] u32 where it is sparse; out as d.

    Raises:
        UsageError: not an instruction of the ISA.
    """
    form = find(opcode)
    signs = (-1 if negate_a else 1, -1 if negate_b else 1)
    specs = (form.others or (form.operands,))[0] if a_in_registers else form.operands
    literals = {"ia": signs[0], "ib": signs[1], "ta": int(transpose_a), "tb": int(transpose_b),
                "f": selector}
    size = -(-image // STRIDE) * STRIDE
    writer = _Writer(form, size)
    b = writer.builder
    d, out = writer.registers("d", form.fragments["D"].registers)
    values: dict[str, Any] = {"d": d, "scale_d": writer.scale_d, **literals}
    values["a"], values["b"] = writer.descriptors
    if a_in_registers:
        values["a"] = writer.loaded("a", form.fragments["A"].registers)
    if form.sparsity is not None:
        values["e"] = writer.loaded("metadata", 1)[0]
    writer.fill()
    b.emit("wgmma.fence.sync.aligned")
    b.emit(form.key, *(values[spec.name] for spec in specs))
    b.emit("wgmma.commit_group.sync.aligned")
    b.emit("wgmma.wait_group.sync.aligned", 0)
    for register, place in zip(d, out, strict=True):
        b.st("global.b32", place, register)
    b.emit("ret")
    return Kernel(
        f"one {form.key}", b.text(), b.name, (cases, 1, 1), (THREADS, 1, 1),
        writer.params(cases), "sm_90a", dynamic_shared=size + 1024,
        facts={"form": form.key, "image": size})


class _Writer:
    """The kernel around the instruction."""

    def __init__(self, form: Form, size: int) -> None:
        self.form, self.size = form, size
        b = self.builder = KernelBuilder("one_wgmma", target="sm_90a", version=form.ptx)
        self._listed: list[tuple[str, str, tuple[int, ...]]] = []
        self._shared = b.dynamic_shared(align=1024)
        self._thread, self._case = b.mov("u32", b.tid.x), b.mov("u32", b.ctaid.x)
        self._image = self._parameter("image", "u8", (size,), size)
        descriptors = self._parameter("descriptors", "u64", (2,), 16)
        self._base = aligned(b, self._shared)
        units = b.cvt("u64.u32", b.shr("u32", self._base, 4))
        self.descriptors = tuple(
            b.add("u64", b.ld("global.u64", b.at(descriptors, 8 * at)), units) for at in range(2))
        scale = b.ld("global.u32", b.at(self._parameter("scale_d", "u32", (), 4)))
        self.scale_d: Register = b.setp("ne", "u32", scale, 0)

    def _parameter(self, name: str, dtype: str, shape: tuple[int, ...], stride: int) -> Register:
        """The address of this CTA's part of a parameter, `stride` bytes for each case."""
        self._listed.append((name, dtype, shape))
        return part(self.builder, name, self._case, stride)

    def loaded(self, name: str, count: int) -> list[Register]:
        """Registers from [registers, 128] words."""
        return self.registers(name, count, parameters=(name,))[0]

    def registers(self, name: str, count: int, *, parameters: tuple[str, ...] = ("d", "out"),
                  ) -> tuple[list[Register], list[Any]]:
        """Registers loaded from the first of the parameters, and their places in the last."""
        b, places = self.builder, []
        shape = (count, THREADS) if name != "metadata" else (THREADS,)
        for parameter in parameters:
            start = self._parameter(parameter, "u32", shape, 4 * count * THREADS)
            own = b.add("u64", start, b.mul_wide("u32", self._thread, 4))
            places.append([b.at(own, 4 * THREADS * at) for at in range(count)])
        return [b.ld("global.b32", place) for place in places[0]], places[-1]

    def fill(self) -> None:
        """Shared memory from the image, visible to the async proxy."""
        fill(self.builder, self._image, self._base, self._thread, self.size)

    def params(self, cases: int) -> tuple[Param, ...]:
        """The parameters in order."""
        return tuple(Param(name, "out" if name == "out" else "in", dtype, (cases, *shape))
                     for name, dtype, shape in self._listed)
