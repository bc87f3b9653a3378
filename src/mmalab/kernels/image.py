"""Shared memory filled from an image in global memory, as kernels of one instruction begin.

    thread t of 128:  shared[16 t + 2048 i] = image[16 t + 2048 i]     for every i
    fence.proxy.async; bar.sync 0
"""

from __future__ import annotations

from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Name, Register

__all__ = ["STRIDE", "THREADS", "aligned", "fill", "part", "tensor_map"]

THREADS = 128
#: Bytes that the threads copy at once: the image's size is a multiple of it.
STRIDE = 16 * THREADS


def fill(b: KernelBuilder, image: Register, base: Register, thread: Register, size: int) -> None:
    """Copy `size` bytes from `image` to `base` in shared memory, visible to the async proxy."""
    own = b.mul_lo("u32", thread, 16)
    source = b.add("u64", image, b.cvt("u64.u32", own))
    target = b.add("u32", base, own)
    with b.loop(size // STRIDE, unroll=False):
        b.st("shared.v4.b32", b.at(target), b.ld("global.v4.b32", b.at(source)))
        b.emit("add.u64", source, source, STRIDE)
        b.emit("add.u32", target, target, STRIDE)
    b.emit("fence.proxy.async")
    b.emit("bar.sync", 0)


def tensor_map(b: KernelBuilder) -> Register:
    """The generic address of a parameter ``map``, a tensor map."""
    return b.cvta("param.u64", b.mov("u64", b.param("map", "b8", dims=[128], align=64)))


def part(b: KernelBuilder, name: str, which: Register, stride: int) -> Register:
    """The address of part `which`, of `stride` bytes, of the array that a parameter points to."""
    pointer = b.cvta("to.global.u64", b.load_param(b.param(name, "u64")))
    return b.add("u64", pointer, b.mul_wide("u32", which, stride))


def aligned(b: KernelBuilder, shared: Name) -> Register:
    """The first multiple of 1024 in a shared array: a launch may put it at less than it asks."""
    return b.and_("b32", b.add("u32", b.mov("u32", shared), 1023), 0xFFFFFC00)
