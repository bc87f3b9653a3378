"""One exchange between the CTAs of a cluster: what a chip makes of another CTA's shared memory.

Each CTA fills its shared memory from an image; its threads (or one of them) execute one instruction
that names another CTA of the cluster; then every CTA writes out what its shared memory holds::

    kernel = one_exchange("st.async.mbarrier::complete_tx::bytes.v4.u32", cluster=(16, 1, 1),
                          clusters=2)
    mmalab.emulate(kernel, [image, routes, words, out, got, done])

Addresses are those of the opcode: with ``.shared::cluster`` of 32 bits (``mapa.shared::cluster``),
without it generic (``mapa.u64``). CTAs are counted cluster by cluster, in a cluster by rank.

What completes on an mbarrier is waited for there, for the bytes (or arrivals) that a route names;
the wait gives up after many looks, so that a wrong number does not hang a chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mmalab.errors import UsageError
from mmalab.isa.lookup import find
from mmalab.kernels.image import STRIDE, THREADS, aligned, fill, part, tensor_map
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

__all__ = ["COPIED", "IMAGE", "ROUTE", "one_exchange"]

#: Bytes of shared memory of a CTA; bytes that one bulk copy moves.
IMAGE, COPIED = 16384, 128
#: Words of a thread's route: the other CTA's rank, the place there (bytes), the CTAs of a multicast
#: as a mask, what the CTA's own mbarrier waits for.
ROUTE = 4
_RANK, _PLACE, _MASK, _EXPECTED = range(ROUTE)
_TRIES = 1 << 16
#: Bytes that a thread has to send.
_MOST = 16


def one_exchange(opcode: str, *, cluster: Sequence[int], clusters: int = 1,
                 target: str = "sm_90a") -> Kernel:
    """A kernel of one instruction, a launch of `clusters` clusters.

    Parameters, of all CTAs in order: image [ctas, 16384] u8, shared memory before; routes
    [ctas, 128, 4] u32 (rank, place, mask, expected); words [ctas, 128, 4] u32, what threads send,
    for bulk copies the bytes in global memory; out [ctas, 16384] u8, shared memory after; got
    [ctas, 128, 4] u32, what threads received; done [ctas] u32, 1 where the wait ended. A copy of a
    tensor has its map in front.

    Raises:
        UsageError: not an instruction of the ISA, or not one that reaches another CTA.
    """
    x, y, z = cluster
    writer = _Writer(opcode, prod(cluster), (x, y, z), target)
    b = writer.b
    writer.begin()
    writer.issue()
    if writer.waits:
        writer.wait()
    writer.meet()
    writer.drain()
    b.emit("ret")
    ctas = prod(cluster) * clusters
    maps = (Param("map", "tensormap", "u8", (128,)),) if writer.mapped else ()
    return Kernel(
        f"one {opcode} in {x}x{y}x{z}", b.text(), b.name, (x, y, z * clusters), (THREADS, 1, 1),
        (*maps, Param("image", "in", "u8", (ctas, IMAGE)),
         Param("routes", "in", "u32", (ctas, THREADS, ROUTE)),
         Param("words", "in", "u32", (ctas, THREADS, 4)),
         Param("out", "out", "u8", (ctas, IMAGE)),
         Param("got", "out", "u32", (ctas, THREADS, 4)), Param("done", "out", "u32", (ctas,))),
        target, cluster=(x, y, z), dynamic_shared=IMAGE + 1024, facts={"form": writer.form.key})


def _size(kind: str) -> int:
    """Bytes of a type: ``u64`` is 8."""
    return int(kind.lstrip("bfsu")) // 8


class _Writer:
    """Writes the kernel."""

    def __init__(self, opcode: str, size: int, cluster: tuple[int, int, int], target: str) -> None:
        self.opcode, self.form = opcode, find(opcode)
        self.generic = ".shared" not in opcode
        self.bulk = opcode.startswith("cp.async.bulk")
        self.mapped = ".tensor." in opcode
        self.arrives = opcode.startswith("mbarrier.arrive")
        self.waits = self.bulk or self.arrives or "complete_tx" in opcode
        b = self.b = KernelBuilder("one_exchange", target=target,
                                   version=max(self.form.ptx, (8, 0)))
        self.barrier = b.shared("barrier", 8, align=8)
        shared = b.dynamic_shared(align=1024)
        self.thread = b.mov("u32", b.tid.x)
        self.rank = b.mov("u32", b.cluster_ctarank)
        # one row of clusters, stacked along z
        own = b.mul_lo("u32", b.div("u32", b.mov("u32", b.ctaid.z), cluster[2]), size)
        self.cta = b.add("u32", own, self.rank)
        self.map: Register | None = None
        if self.mapped:
            self.map = tensor_map(b)
        self.image = self._parameter("image", IMAGE)
        self.routes = self._thread_part("routes", ROUTE)
        self.words = self._parameter("words", 16 * THREADS)
        self.out = self._parameter("out", IMAGE)
        self.got = self._thread_part("got", 4)
        self.done = self._parameter("done", 4)
        self.base = aligned(b, shared)

    def _parameter(self, name: str, stride: int) -> Register:
        """The address of this CTA's part of a parameter."""
        return part(self.b, name, self.cta, stride)

    def _thread_part(self, name: str, words: int) -> Register:
        """The address of this thread's words of a parameter."""
        b = self.b
        return b.add("u64", self._parameter(name, 4 * words * THREADS),
                     b.mul_wide("u32", self.thread, 4 * words))

    def _route(self, index: int) -> Register:
        word: Register = self.b.ld("global.u32", self.b.at(self.routes, 4 * index))
        return word

    # --- the parts of the kernel ------------------------------------------------------------------

    def begin(self) -> None:
        """Shared memory from the image; an mbarrier that knows what it waits for; all CTAs."""
        b = self.b
        fill(b, self.image, self.base, self.thread, IMAGE)
        with b.when(b.setp("eq", "u32", self.thread, 0)):
            place = b.at(b.mov("u32", self.barrier))
            expected = self._route(_EXPECTED)
            b.emit("mbarrier.init.shared::cta.b64", place, expected if self.arrives else 1)
            b.emit("fence.mbarrier_init.release.cluster")
            if not self.arrives:
                b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, place, expected)
        self.meet()

    def meet(self) -> None:
        """All threads of the cluster."""
        self.b.emit("barrier.cluster.arrive.release.aligned")
        self.b.emit("barrier.cluster.wait.acquire.aligned")

    def issue(self) -> None:
        """The instruction, by every thread or by one."""
        b = self.b
        if self.bulk:
            with b.when(b.setp("eq", "u32", self.thread, 0)):
                self._copy()
        else:
            self._access()

    def wait(self) -> None:
        """Every thread, until its CTA's phase is over, or for many looks."""
        b = self.b
        left, again, behind = b.mov("u32", _TRIES), b.label("again"), b.label("behind")
        b.place(again)
        done = b.reg("pred")
        b.emit("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", done,
               b.at(b.mov("u32", self.barrier)), 0)
        b.st("global.u32", b.at(self.done), b.selp("b32", 1, 0, done))
        b.branch(behind, done)
        b.emit("sub.u32", left, left, 1)
        b.branch(again, b.setp("ne", "u32", left, 0))
        b.place(behind)

    def drain(self) -> None:
        """Shared memory to the output."""
        b = self.b
        own = b.mul_lo("u32", self.thread, 16)
        source = b.add("u32", self.base, own)
        target = b.add("u64", self.out, b.cvt("u64.u32", own))
        with b.loop(IMAGE // STRIDE, unroll=False):
            b.st("global.v4.b32", b.at(target), b.ld("shared.v4.b32", b.at(source)))
            b.emit("add.u64", target, target, STRIDE)
            b.emit("add.u32", source, source, STRIDE)

    # --- the instruction --------------------------------------------------------------------------

    def _there(self, here: Register, rank: Register) -> Any:
        """An address of this CTA's shared memory in the CTA `rank`, as the opcode wants it."""
        b = self.b
        if not self.generic:
            found = b.reg("b32")
            b.emit("mapa.shared::cluster.u32", found, here, rank)
            return b.at(found)
        wide, found = b.cvta("shared.u64", b.cvt("u64.u32", here)), b.reg("b64")
        b.emit("mapa.u64", found, wide, rank)
        return b.at(found)

    def _access(self) -> None:
        """A load, a store, a reduction, an arrival: one for each thread."""
        b, rank = self.b, self._route(_RANK)
        barrier = [self._there(b.mov("u32", self.barrier), rank)] if self.waits else []
        if self.arrives:
            b.emit(self.opcode, b.sink, *barrier)
            return
        place = self._there(b.add("u32", self.base, self._route(_PLACE)), rank)
        values, kind = self._values()
        if self.opcode.startswith(("ld.", "atom.")):
            got = [b.reg(kind) for _ in values]
            operand = got if len(got) > 1 else got[0]
            sent = () if self.opcode.startswith("ld.") else (values[0],)
            b.emit(self.opcode, operand, place, *sent)
            for at, register in enumerate(got):
                size = _size(kind)
                b.st(f"global.b{8 * size}", b.at(self.got, size * at), register)
            return
        operand = values if len(values) > 1 else values[0]
        b.emit(self.opcode, place, operand, *barrier)

    def _values(self) -> tuple[list[Register], str]:
        """What the thread sends, in registers of the opcode's type, and that type."""
        b, parts = self.b, self.opcode.split(".")
        kind, count = parts[-1], next((int(p[1]) for p in parts if p in ("v2", "v4")), 1)
        size = _size(kind)
        if count * size > _MOST:
            raise UsageError(self.opcode, f"sends {count * size} bytes", legal=f"{_MOST} or fewer",
                             where="mmalab.kernels.one_exchange")
        own = b.add("u64", self.words, b.mul_wide("u32", self.thread, _MOST))
        loaded = kind if kind[0] == "f" else f"b{8 * size}"
        return [b.ld(f"global.{loaded}", b.at(own, size * at)) for at in range(count)], kind

    def _copy(self) -> None:
        """A bulk copy: from global memory to the CTAs of a mask, or to one other CTA."""
        b, barrier = self.b, self.b.mov("u32", self.barrier)
        place = b.add("u32", self.base, self._route(_PLACE))
        if ".shared::cta." in self.opcode:
            rank = self._route(_RANK)
            b.emit(self.opcode, self._there(place, rank), b.at(self.base), COPIED,
                   self._there(barrier, rank))
            return
        mask = [b.cvt("u16.u32", self._route(_MASK))] if "multicast" in self.opcode else []
        if self.map is not None:
            source = b.at(self.map, coordinates=[0, self._route(_RANK)])
            b.emit(self.opcode, b.at(place), source, b.at(barrier), *mask)
        else:
            b.emit(self.opcode, b.at(place), b.at(self.words), COPIED, b.at(barrier), *mask)
