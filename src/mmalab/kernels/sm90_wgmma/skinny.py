"""A few rows times a large matrix: read the matrix once, at the speed of DRAM.

With few rows almost all bytes are B's. So the operands change places: 64 rows of B are wgmma's M,
the rows of A, filled up to a multiple of 8, its N. One warp keeps a deep ring of TMA copies in
flight, one warpgroup multiplies. Where B has fewer tiles than the chip has SMs, `split` CTAs of a
cluster take a part of K each and add up through each other's shared memory, in order of k.

From the last bytes of one kernel to the first of the next 2.5 us pass, in which DRAM could bring 11
MB. So the launch overlaps the kernel ahead, and reading B may (`overlap`): SMs that are done early
then begin with the next kernel's B. Measured on an H200 (records/h200/bench/skinny.json): BF16 with
M = 1 takes 32.8 us without either, 32.3 and 30.8 us with them; cublasLt takes 34. Slower, and left
out: two kernels with half of an SM each, letting the next one in later, bringing more of B to L2
than the ring holds. Sharing A in clusters of two is neither, of four a quarter slower.

    >>> kernel = skinny(16, 8192, 8192)
    >>> kernel.grid, kernel.facts["instruction"]
    ((128, 1, 1), 'wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.arguments import check_arrays, words_of
from mmalab.kernels.reference import matrix_product
from mmalab.kernels.sm90_wgmma.mainloop import swizzled_descriptor
from mmalab.kernels.sm90_wgmma.plan import GROUP, SLICE, check_counts
from mmalab.kernels.sm90_wgmma.recipe import recipe
from mmalab.kernels.sm90_wgmma.results import rounded
from mmalab.kernels.sm90_wgmma.ring import Barriers, Cursor
from mmalab.kernels.sm90_wgmma.skinny_shape import LINES, PITCH, Shape
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Register

__all__ = ["skinny"]

_WHERE = "mmalab.kernels.sm90_wgmma.skinny"
_COPY = ("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
         ".mbarrier::complete_tx::bytes")
#: The named barrier behind which the ring's barriers can be waited for.
_READY = 1


def skinny(m: int, n: int, k: int, dtype: str = "bf16", out: str | None = None, *,
           split: int = 1, stages: int | None = None, depth: int = 1, resident: int = 1,
           overlap: str = "launch", share: int = 1) -> Kernel:
    """C = A x B^T for M up to 256: A is M x K, B is stored N x K, C is M x N, all row-major.

    Args:
        m, n, k: sizes; rows of A and B are a multiple of 16 bytes.
        dtype: bf16, f16, tf32, e4m3, e5m2 or s8, with 32-bit accumulators.
        out: type of C, as :func:`gemm` has it.
        split: CTAs that share a tile, each with a part of K: 1, 2, 4 or 8.
        stages, depth: of the ring, and slices of 128 bytes in each; None: as many as fit.
        resident: CTAs that an SM should hold at a time.
        overlap: what may begin before the kernel ahead on the stream has ended: "none"; "launch",
            all but reads and writes of memory, which is as safe; "weights": B is read too, as far
            as the ring reaches, so that kernel must not write it.

    Raises:
        UsageError: sizes or choices that no such kernel has, with the nearest that have.
    """
    check_counts(depth=depth, resident=resident)
    row = recipe(dtype)
    if out is None:
        out = dtype if dtype in row.outputs else row.accumulator
    shape = Shape(m, n, k, row, out, split, 2, depth, overlap, share)
    legal = shape.stages_for(resident)
    if stages is None and legal:
        stages = min(legal[-1], max(legal[0], len(shape.runs()[0])))
    if stages is None or stages not in legal:
        raise UsageError(f"stages={stages}", f"of {shape.stage_bytes} bytes, {resident} CTAs an "
                         "SM", legal=f"{legal[0]} to {legal[-1]}" if legal else "a smaller depth",
                         where=_WHERE)
    shape = replace(shape, stages=stages)
    name = f"skinny_{dtype}_{out}_{m}x{n}x{k}_{split}split_{stages}x{depth}stages"
    if share > 1:
        name += f"_{share}shared"
    if overlap == "weights":
        name += "_ahead"
    return Kernel(
        name=name, ptx=_Writer(shape, name).text(), entry=name,
        grid=(shape.ctas, 1, 1), block=(GROUP + 32, 1, 1), params=shape.params,
        target="sm_90a", cluster=(shape.cluster, 1, 1),
        dynamic_shared=shape.shared_bytes, programmatic=overlap != "none",
        reference=partial(_product, shape=shape),
        validate=partial(check_arrays, name, shape.params),
        prepare=partial(_prepare, shape),
        facts={
            "tile": (LINES, shape.columns, shape.values), "stages": stages, "split": split,
            "overlap": overlap,
            "shared_bytes": shape.shared_bytes,
            "instruction": row.key(shape.columns), "instruction_k": row.k, "unit": row.unit,
            "maps": shape.maps(),
            "flops": 2 * m * n * k, "bytes": (m * k + n * k) * row.bytes,
        },
    )


def _prepare(shape: Shape, args: Sequence[Any]) -> list[Any]:
    # To let L2 fetch more than what is asked for costs 1 to 4 % here (seen in a probe on an H200).
    made = [replace(shape.maps()[name].over(array), l2_promotion="none")
            for name, array in zip("ab", args[:2], strict=True)]
    return [*made, args[2]]


def _product(args: Sequence[Any], unit: str, *, shape: Shape) -> list[NDArray[Any]]:
    """One chain for each CTA's part of K, added in FP32 (integers: exactly) in order."""
    a, b = words_of(args[0]), words_of(args[1])
    width = shape.values * shape.depth
    sums = []
    for run in shape.runs():
        part = slice(run.start * width, run.stop * width)
        sums += matrix_product((a[:, part], b[:, part]), unit, family=shape.recipe.unit,
                               k=shape.recipe.k)
    total = sums[0]
    for addend in sums[1:]:
        total = total + addend
    return [rounded(total, shape.out)]


class _Writer:
    """Writes the kernel of one shape."""

    def __init__(self, shape: Shape, name: str) -> None:
        self.shape = shape
        self.b = KernelBuilder(name, target="sm_90a", version=(8, 0), arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b, shape = self.b, self.shape
        self.maps = {name: b.cvta("param.u64", b.mov("u64", b.param(name, "b8", dims=[128],
                                                                     align=64)))
                     for name in ("a", "b")}
        self.c = b.cvta("to.global.u64", b.load_param(b.param("c", "u64")))
        b.reqntid(GROUP + 32)
        if shape.cluster > 1:
            b.reqnctapercluster(shape.cluster)
        self.shared = b.mov("u32", b.dynamic_shared(align=1024))
        self.thread = b.mov("u32", b.tid.x)
        self.barriers = Barriers(b, shape.stages,
                                 b.add("u32", self.shared, shape.stages * shape.stage_bytes))
        self._place()
        fill, end = b.label("fill"), b.label("end")
        warp = b.shfl("idx.b32", b.shr("u32", self.thread, 5), 0, 31, -1)
        b.branch(fill, b.setp("ge", "u32", warp, GROUP // 32))
        self._ready(fills=False)
        sums = self._multiply()
        self._lay_down(sums)
        b.branch(end, uniform=True)
        b.place(fill)
        leads = b.setp("eq", "u32", self.thread, GROUP)
        with b.when(leads):
            for made in self.maps.values():
                b.emit("prefetch.tensormap", b.at(made))
            self.barriers.start(1, shape.share)
            b.emit("fence.mbarrier_init.release.cluster")
        self._ready(fills=True)
        with b.when(leads):
            self._fill()
        b.place(end)
        self._finish()
        return b.text()

    def _place(self) -> None:
        """The tile's first line of B, and the CTA's slices."""
        b, shape = self.b, self.shape
        block = b.mov("u32", b.ctaid.x)
        self.rank: Register | None = None
        if shape.split == 1:
            self.first = b.mul_lo("u32", block, LINES)
            self.start, self.count = b.mov("u32", 0), b.mov("u32", shape.slices)
            return
        self.rank = b.mov("u32", b.cluster_ctarank)
        self.first = b.mul_lo("u32", b.shr("u32", block, shape.split.bit_length() - 1), LINES)
        each, more = divmod(shape.slices, shape.split)
        self.start = b.mad_lo("u32", self.rank, each, b.min("u32", self.rank, more))
        longer = b.setp("lt", "u32", self.rank, more)
        self.count = b.selp("b32", each + 1, each, longer)

    def _ready(self, *, fills: bool) -> None:
        """The barriers can be waited for; who fills does not wait, but for other CTAs'."""
        b = self.b
        if self.shape.share > 1:
            self._meet_cluster()
        else:
            b.emit("bar.arrive" if fills else "bar.sync", _READY, GROUP + 32)

    def _fill(self) -> None:
        """B and A of every step; of the first ones B before the kernel ahead has ended."""
        b, shape = self.b, self.shape
        first = self._fill_early() if shape.overlap == "weights" else None
        if shape.overlap != "none":
            b.emit("griddepcontrol.wait")
            b.emit("griddepcontrol.launch_dependents")
        cursor = Cursor(b, self.barriers)
        at = b.mul_lo("u32", self.start, shape.values * shape.depth)
        line, behind = b.mov("u32", 0), b.mov("u32", LINES * SLICE)
        if shape.share > 1:  # this CTA's lines of A, for all
            part = shape.columns // shape.share
            line = b.mul_lo("u32", b.mov("u32", b.cluster_ctarank), part)
            behind = b.mad_lo("u32", line, SLICE, LINES * SLICE)
        with b.loop(self.count, dtype="u32", unroll=False) as step:
            full = cursor.wait_empty()
            stage = b.mad_lo("u32", cursor.stage, shape.stage_bytes, self.shared)
            if first is None:
                self._copy_b(full, stage, at)
            else:
                with b.when(b.setp("ge", "u32", step, first)):
                    self._copy_b(full, stage, at)
            self._copy("a", full, b.add("u32", stage, behind), at, line)
            b.add("u32", at, shape.values * shape.depth, out=at)
            cursor.advance()

    def _fill_early(self) -> Register:
        """As much of B as the ring holds; gives how many steps that are."""
        b, shape = self.b, self.shape
        at = b.mul_lo("u32", self.start, shape.values * shape.depth)
        first = b.min("u32", self.count, shape.stages)
        with b.loop(first, dtype="u32", unroll=False) as step:
            self._copy_b(b.mad_lo("u32", step, 8, self.barriers.base),
                         b.mad_lo("u32", step, shape.stage_bytes, self.shared), at)
            b.add("u32", at, shape.values * shape.depth, out=at)
        return first

    def _copy_b(self, full: Register, stage: Register, at: Register) -> None:
        b = self.b
        b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(full),
               self.shape.stage_bytes)
        self._copy("b", full, stage, at, self.first)

    def _copy(self, name: str, full: Register, stage: Register, at: Register,
              line: Register) -> None:
        """A step's slices of one operand."""
        b, shape = self.b, self.shape
        opcode, mask = _COPY, list[Register]()
        if name == "a" and shape.share > 1:
            opcode += ".multicast::cluster"
            mask = [b.mov("b16", (1 << shape.share) - 1)]
        for slice_ in range(shape.depth):
            b.emit(opcode, b.at(stage, slice_ * shape.slice_bytes),
                   b.at(self.maps[name], coordinates=[
                       b.add("u32", at, slice_ * shape.values) if slice_ else at, line]),
                   b.at(full), *mask)

    def _multiply(self) -> list[Register]:
        """The CTA's slices; a stage is released when its products are done."""
        b, shape, row = self.b, self.shape, self.shape.recipe
        cursor = Cursor(b, self.barriers)
        releases = b.setp("lt", "u32", self.thread, shape.share)
        released = self._released()
        sums = b.regs(row.register, shape.columns // 2)
        for register in sums:
            b.mov(row.register, 0.0 if row.register == "f32" else 0, out=register)
        base = b.or_("b64", b.cvt("u64.u32", b.shr("u32", self.shared, 4)), swizzled_descriptor())
        before = b.mov("u32", 0)
        fresh = b.mov("u32", 0)
        again = b.setp("ne", "u32", b.mov("u32", 1), 0)
        with b.loop(self.count, dtype="u32", unroll=False):
            cursor.wait_full()
            b.emit("wgmma.fence.sync.aligned")
            stage = b.mad_wide("u32", cursor.stage, shape.stage_bytes >> 4, base)
            for at in range(shape.depth):
                for step in range(shape.values // row.k):
                    place = b.add("u64", stage, (at * shape.slice_bytes + step * 32) >> 4)
                    b.emit(row.key(shape.columns), sums, place,
                           b.add("u64", place, LINES * SLICE >> 4), again,
                           *row.tail(shape.columns))
            b.emit("wgmma.commit_group.sync.aligned")
            b.emit("wgmma.wait_group.sync.aligned", 1)
            with b.guard(b.setp("ne.and", "u32", fresh, 0, releases)):
                b.emit(f"mbarrier.arrive.shared::{'cluster' if shape.share > 1 else 'cta'}.b64",
                       b.sink, b.at(before))
            b.mov("u32", 1, out=fresh)
            b.mad_lo("u32", cursor.stage, 8, released, out=before)
            cursor.advance()
        b.emit("wgmma.wait_group.sync.aligned", 0)
        return sums

    def _released(self) -> Register:
        """Where a thread says that a stage may be filled: thread i to CTA i of those that share."""
        b, shape = self.b, self.shape
        own = b.add("u32", self.barriers.base, self.barriers.empty_at)
        if shape.share == 1:
            return own
        there = b.reg("u32")
        b.emit("mapa.shared::cluster.u32", there, own,
               b.min("u32", self.thread, shape.share - 1))
        return there

    def _lay_down(self, sums: list[Register]) -> None:
        """Sums into shared memory, [row of A][line of B], where the ring was."""
        b = self.b
        quad = b.and_("b32", self.thread, 3)
        line = b.mad_lo("u32", b.shr("u32", self.thread, 5), 16,
                        b.and_("b32", b.shr("u32", self.thread, 2), 7))
        word = b.mad_lo("u32", quad, 2 * PITCH, line)
        place = b.mad_lo("u32", word, 4, self.shared)
        for at, register in enumerate(sums):
            row, down = at // 4 * 8 + at % 2, at // 2 % 2 * 8
            b.st(f"shared.{self.shape.recipe.register}", b.at(place, 4 * (row * PITCH + down)),
                 register)

    def _finish(self) -> None:
        """Add up what the CTAs of the cluster laid down, and write C: four lines of B a thread."""
        b, shape = self.b, self.shape
        self._meet()
        if shape.overlap != "none":  # the kernel ahead may still be writing or reading this C
            b.emit("griddepcontrol.wait")
        with b.when(b.setp("lt", "u32", self.thread, GROUP)):
            at = self.thread
            if self.rank is not None:
                at = b.mad_lo("u32", self.rank, GROUP, at)
            with b.loop(shape.m * LINES // 4, at, GROUP * shape.split, dtype="u32",
                        unroll=False) as four:
                self._four(four)
        if shape.cluster > 1:  # others read this CTA's sums, or arrive at its barriers
            self._meet_cluster()
        b.emit("ret")

    def _meet(self) -> None:
        if self.shape.split > 1:
            self._meet_cluster()
        else:
            self.b.emit("bar.sync", 0)

    def _meet_cluster(self) -> None:
        self.b.emit("barrier.cluster.arrive.release")
        self.b.emit("barrier.cluster.wait.acquire")

    def _four(self, four: Register) -> None:
        b, shape = self.b, self.shape
        kind = shape.recipe.register
        row = b.shr("u32", four, (LINES // 4).bit_length() - 1)
        line = b.mul_lo("u32", b.and_("b32", four, LINES // 4 - 1), 4)
        place = b.mad_lo("u32", b.mad_lo("u32", row, PITCH, line), 4, self.shared)
        total: list[Register] = []
        for other in range(shape.split):
            if shape.split == 1:
                part = b.ld(f"shared.v4.{kind}", b.at(place))
            else:
                there = b.reg("u32")
                b.emit("mapa.shared::cluster.u32", there, place, other)
                part = b.ld(f"shared::cluster.v4.{kind}", b.at(there))
            add = "rn.f32" if kind == "f32" else "s32"
            total = [b.add(add, x, y) for x, y in zip(total, part, strict=True)] if total else part
        column = b.add("u32", self.first, line)
        to = b.mad_wide("u32", row, shape.n * shape.out_bytes, self.c)
        to = b.add("u64", to, b.mul_wide("u32", column, shape.out_bytes))
        self._store(to, column, total)

    def _store(self, to: Register, column: Register, total: list[Register]) -> None:
        """Together where rows of C are aligned, else one by one."""
        b, shape = self.b, self.shape
        words, kind = total, shape.recipe.register
        if shape.out_bytes == 2:
            words, kind = b.regs("b32", 2), "b32"
            for word, low, high in zip(words, total[::2], total[1::2], strict=True):
                b.emit(f"cvt.rn.{shape.out}x2.f32", word, high, low)
        if shape.n % 4 == 0:
            with b.guard(b.setp("lt", "u32", column, shape.n)):
                b.st(f"global.v{len(words)}.{kind}", b.at(to), words)
            return
        if shape.out_bytes == 2:
            halves: list[Register] = []
            for word in words:
                pair = b.regs("b16", 2)
                b.emit("mov.b32", pair, word)
                halves += pair
            words, kind = halves, "b16"
        for at, word in enumerate(words):
            inside = b.setp("lt", "u32", b.add("u32", column, at), shape.n)
            with b.guard(inside):
                b.st(f"global.{kind}", b.at(to, at * shape.out_bytes), word)
