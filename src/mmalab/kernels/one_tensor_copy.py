"""One tensor copy of any form, on shared memory exactly as it lies: what a chip makes of a map.

Each CTA is a case of its own. It fills its shared memory from an image, lets one thread issue the
copy (a load waits at an mbarrier for the bytes that it was told to expect, a store for its bulk
group), and writes out what shared memory holds then::

    kernel = one_tensor_copy("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                             ".mbarrier::complete_tx::bytes", cases=4, image=8192)
    mmalab.emulate(kernel, [TensorMap.tiled(a, box=(64, 32)), image, words, out, done])

Stores and reductions without a tensor map are cases too: the first parameter is then a buffer.
`words` of a case: five coordinates, three im2col offsets, the box's place in shared memory (bytes
from a multiple of 1024 on), the bytes to expect (or to store, without a map). `done` is 1
where the wait ended.
"""

from __future__ import annotations

from mmalab.isa.lookup import find
from mmalab.kernels.image import STRIDE, THREADS, aligned, fill, part, tensor_map
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

__all__ = ["WORDS", "one_tensor_copy"]

#: 32-bit words that a case is given.
WORDS = 10
_OFFSETS, _PLACE, _EXPECTED = 5, 8, 9
#: Looks at the mbarrier before the thread gives up: a wrong number of bytes must not hang a chip.
_TRIES = 1 << 16


def one_tensor_copy(opcode: str, *, cases: int, image: int, target: str = "sm_90a") -> Kernel:
    """A kernel of one copy, `cases` CTAs; `image` bytes of shared memory, in 2048s.

    Parameters: the tensor map; image [cases, image] u8, shared memory before; words [cases, 10]
    s32; out [cases, image] u8, shared memory after; done [cases] u32.

    Raises:
        UsageError: not an instruction of the ISA.
    """
    form = find(opcode)
    size = -(-image // STRIDE) * STRIDE
    coordinates = next((spec.count for spec in form.operands if spec.name == "map"), 0)
    writer = _Writer(size, target, max(form.ptx, (8, 0)), mapped=bool(coordinates))
    offsets = next((spec.count for spec in form.operands if spec.name == "offsets"), 0)
    writer.fill()
    b = writer.builder
    with b.when(b.setp("eq", "u32", writer.thread, 0)):
        writer.issue(opcode, coordinates, offsets, loads=form.modifiers["space"] != "global")
    writer.drain()
    b.emit("ret")
    return Kernel(
        f"one {opcode}", b.text(), b.name, (cases, 1, 1), (THREADS, 1, 1),
        (Param("map", "tensormap", "u8", (128,)) if coordinates else Param("to", "inout", "u8"),
         Param("image", "in", "u8", (cases, size)),
         Param("words", "in", "s32", (cases, WORDS)), Param("out", "out", "u8", (cases, size)),
         Param("done", "out", "u32", (cases,))),
        target, dynamic_shared=size + 1024, facts={"form": form.key, "image": size})


class _Writer:
    """The kernel around the copy."""

    def __init__(self, size: int, target: str, version: tuple[int, int], *,
                 mapped: bool) -> None:
        self.size = size
        b = self.builder = KernelBuilder("one_tensor_copy", target=target, version=version)
        self.barrier = b.shared("barrier", 8, align=8)
        shared = b.dynamic_shared(align=1024)
        self.thread, self._case = b.mov("u32", b.tid.x), b.mov("u32", b.ctaid.x)
        if mapped:
            self._map = tensor_map(b)
        else:
            self._map = b.cvta("to.global.u64", b.load_param(b.param("to", "u64")))
        self._image = self._parameter("image", size)
        self._words = self._parameter("words", 4 * WORDS)
        self._out = self._parameter("out", size)
        self._done = self._parameter("done", 4)
        self._base = aligned(b, shared)

    def _parameter(self, name: str, stride: int) -> Register:
        """The address of this CTA's part of a parameter, `stride` bytes for each case."""
        return part(self.builder, name, self._case, stride)

    def _word(self, index: int) -> Register:
        b = self.builder
        word: Register = b.ld("global.u32", b.at(self._words, 4 * index))
        return word

    def fill(self) -> None:
        """Shared memory from the image, visible to the async proxy."""
        fill(self.builder, self._image, self._base, self.thread, self.size)

    def issue(self, opcode: str, coordinates: int, offsets: int, *, loads: bool) -> None:
        """The copy by one thread, and its completion."""
        b = self.builder
        place = b.add("u32", self._base, self._word(_PLACE))
        source = b.at(self._map, coordinates=[self._word(i) for i in range(coordinates)])
        if not loads:
            size = () if coordinates else (self._word(_EXPECTED),)
            b.emit(opcode, source, b.at(place), *size)
            b.emit("cp.async.bulk.commit_group")
            b.emit("cp.async.bulk.wait_group", 0)
            b.st("global.u32", b.at(self._done), 1)
            return
        barrier = b.mov("u32", self.barrier)
        b.emit("mbarrier.init.shared::cta.b64", b.at(barrier), 1)
        b.emit("fence.mbarrier_init.release.cluster")
        b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(barrier),
               self._word(_EXPECTED))
        more = [[b.cvt("u16.u32", self._word(_OFFSETS + i)) for i in range(offsets)]]
        b.emit(opcode, b.at(place), source, b.at(barrier), *(more if offsets else ()))
        self._wait(barrier)

    def _wait(self, barrier: Register) -> None:
        b = self.builder
        left, again, behind = b.mov("u32", _TRIES), b.label("again"), b.label("behind")
        b.place(again)
        done = b.reg("pred")
        b.emit("mbarrier.try_wait.parity.shared::cta.b64", done, b.at(barrier), 0)
        b.st("global.u32", b.at(self._done), b.selp("b32", 1, 0, done))
        b.branch(behind, done)
        b.emit("sub.u32", left, left, 1)
        b.branch(again, b.setp("ne", "u32", left, 0))
        b.place(behind)

    def drain(self) -> None:
        """Shared memory to the output."""
        b = self.builder
        b.emit("bar.sync", 0)
        own = b.mul_lo("u32", self.thread, 16)
        source = b.add("u32", self._base, own)
        target = b.add("u64", self._out, b.cvt("u64.u32", own))
        with b.loop(self.size // STRIDE, unroll=False):
            b.st("global.v4.b32", b.at(target), b.ld("shared.v4.b32", b.at(source)))
            b.emit("add.u64", target, target, STRIDE)
            b.emit("add.u32", source, source, STRIDE)
