"""C = A B on Hopper: a ring of TMA copies, warpgroups that multiply, and tiles dealt out to SMs.

One warpgroup fills the ring, the others multiply; nobody else waits::

    fill:       for each tile, for each slice of K:  wait empty; TMA of A and B
    multiply:   for each tile:  for each slice: wait full; wgmma; release the slice before
                                store C while the ring fills with the next tile

Sizes are constants of the code; tensor maps clip what lies outside the matrices, so M, N and K need
not fit the tiles.

    >>> kernel = gemm(8192, 8192, 8192)
    >>> kernel.grid, kernel.block, kernel.facts["tile"]
    ((128, 1, 1), (384, 1, 1), (256, 208, 64))
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.kernels.arguments import check_arrays
from mmalab.kernels.sm90_wgmma.checks import check_sizes
from mmalab.kernels.sm90_wgmma.choose import Wanted, is_skinny, plan_for, split_for
from mmalab.kernels.sm90_wgmma.epilogue import Direct, group_row
from mmalab.kernels.sm90_wgmma.gather import WARPS, Gather
from mmalab.kernels.sm90_wgmma.loaded import Loaded
from mmalab.kernels.sm90_wgmma.mainloop import Mainloop
from mmalab.kernels.sm90_wgmma.maps import maps_of, prepare
from mmalab.kernels.sm90_wgmma.order import Place, emit_tiles
from mmalab.kernels.sm90_wgmma.padding import Padding
from mmalab.kernels.sm90_wgmma.plan import GROUP, SLICE, Plan
from mmalab.kernels.sm90_wgmma.problem import Problem
from mmalab.kernels.sm90_wgmma.producer import Producer
from mmalab.kernels.sm90_wgmma.promoted import Promoted
from mmalab.kernels.sm90_wgmma.recipe import recipe
from mmalab.kernels.sm90_wgmma.results import product
from mmalab.kernels.sm90_wgmma.ring import Barriers
from mmalab.kernels.sm90_wgmma.scales import BlockScales
from mmalab.kernels.sm90_wgmma.shift import WARPS as SHIFTING
from mmalab.kernels.sm90_wgmma.shift import Shift
from mmalab.kernels.sm90_wgmma.skinny import skinny
from mmalab.kernels.sm90_wgmma.staged import Staged
from mmalab.kernels.sm90_wgmma.windowed import Windowed
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Register

__all__ = ["gemm"]


def gemm(m: int, n: int, k: int, dtype: str = "bf16", out: str | None = None, *,
         accumulate: str | None = None, promote_every: int | None = None, scaled: bool = False,
         batch: int = 1, experts: int = 0, plan: Plan | None = None) -> Kernel:
    """C = A x B^T: A is M x K, B is stored N x K, C is M x N, all row-major.

    Args:
        m, n, k: any sizes (k even where values have 8 bits).
        dtype: bf16, f16, tf32, e4m3, e5m2 or s8.
        out: type of C: the accumulator's, or bf16 or f16 of an f32 one. None: bf16 for bf16, f16
            for f16, else the accumulator's.
        accumulate: f32 or f16, s32 for s8; None is f32 (s32).
        promote_every: add partial sums of so many values of K in IEEE FP32; None: one chain.
        scaled: 8-bit floats with FP32 scales for 1 x 128 values of A and 128 x 128 of B, which
            come as arrays between B and C; sums are promoted with them every 128 values.
        batch: so many products: A, B and C have a dimension more.
        experts: B is so many matrices, and an array of s32 between B and C names the one that each
            128 rows of A are multiplied by (rows sorted by expert and filled up to 128).
        plan: tile, stages, cluster, schedule; None chooses (see `choose`), and takes
            :func:`skinny` for few rows.

    Raises:
        UsageError: sizes, types or choices that no such kernel has, with the nearest that have.
    """
    check_sizes(m=m, n=n, k=k, batch=batch, experts=1 if experts == 0 else experts)
    row = recipe(dtype, accumulate)
    if out is None:
        out = dtype if dtype in row.outputs else row.accumulator
    row.check_out(out)
    if plan is not None and not isinstance(plan, Plan):
        raise UsageError(f"plan={plan!r}", "is no Plan", legal="Plan(tile=(128, 256))",
                         where="mmalab.kernels.sm90_wgmma")
    if scaled:
        promote_every = promote_every or 128
    if plan is None:
        wanted = Wanted(m, n, k, row, out, promote_every, scaled, batch, experts)
        if is_skinny(wanted):
            split, depth, resident = split_for(n, -(-k * row.bytes // SLICE))
            return skinny(m, n, k, dtype, out, split=split, depth=depth, resident=resident)
        plan = plan_for(wanted)
    problem = Problem(m, n, k, row, out, plan, promote_every, scaled, batch, experts)
    name = _name(problem)
    return Kernel(
        name=name,
        ptx=_Writer(problem, name).text(),
        entry=name,
        grid=problem.grid,
        block=(problem.plan.threads, 1, 1),
        params=problem.params,
        target="sm_90a",
        cluster=(problem.plan.ctas, 1, 1),
        dynamic_shared=problem.plan.shared_bytes(problem.out_bytes),
        reference=partial(product, problem=problem),
        validate=partial(check_arrays, name, problem.params),
        prepare=partial(prepare, problem),
        facts=_facts(problem),
    )


def _name(problem: Problem) -> str:
    plan, row = problem.plan, problem.recipe
    sizes = ("{}x{}".format(*pair) for pair in (plan.tile, plan.cluster))
    kinds = [problem.copy] if problem.copy != "tma" else []
    kinds += ["loaded"] if problem.loaded else []
    kinds += [f"l2{plan.l2_promotion}"] if plan.l2_promotion != "256B" else []
    kinds += ["serial"] if plan.flight == 0 else []
    kinds += [] if plan.persistent else ["single"]
    kinds += [f"{plan.panels}panels"] if plan.panels else []
    sizes_of = f"{problem.m}x{problem.n}x{problem.k}"
    if problem.batch > 1 or problem.experts:
        kinds.append(f"experts{problem.experts}" if problem.experts else f"batch{problem.batch}")
    return "_".join(("wgmma", row.dtype, row.accumulator, problem.out, *sizes,
                     f"{plan.stages}stages", plan.schedule, plan.store, *kinds,
                     *_promotion(problem),
                     sizes_of))


def _promotion(problem: Problem) -> list[str]:
    if problem.promote_every is None:
        return []
    kind = "scaled" if problem.scaled else "promoted"
    return [f"{kind}{problem.promote_every}", f"{problem.plan.parts}x{problem.plan.part_columns}"]


def _facts(problem: Problem) -> Mapping[str, Any]:
    plan, row = problem.plan, problem.recipe
    return {
        "tile": (*plan.tile, problem.values),
        "stages": plan.stages,
        "cluster": plan.cluster,
        "groups": plan.groups,
        "schedule": plan.schedule,
        "band": plan.band,
        "store": plan.store,
        "copy": problem.copy,
        "phases": problem.phases if problem.shifted else 1,
        "window": (problem.a_lines, problem.b_lines) if problem.windowed else None,
        "left": "registers" if problem.loaded else "shared",
        "meets": problem.copies,
        "shared_bytes": plan.shared_bytes(problem.out_bytes),
        "slice_clocks": {"products": plan.tile[0] * plan.tile[1] / 32,
                         "shared": problem.shared_clocks},
        "instruction": row.key(plan.part_columns if problem.promote_every else plan.tile[1]),
        "instruction_k": row.k,
        "unit": row.unit,
        "registers": problem.registers,
        "promote_every": problem.promote_every,
        "slices": problem.slices,
        "tiles": problem.tiles,
        "maps": maps_of(problem),
        "flops": 2 * problem.m * problem.n * problem.k * problem.batch,
    }


class _Writer:
    """Writes the kernel of one problem."""

    def __init__(self, problem: Problem, name: str) -> None:
        self.problem, self.plan = problem, problem.plan
        self.b = KernelBuilder(name, target="sm_90a", version=(8, 0), arity=isa.find)

    def text(self) -> str:
        """The PTX."""
        b, plan = self.b, self.plan
        self._parameters()
        b.reqntid(plan.threads)
        b.minnctapersm(1)
        if plan.ctas > 1:
            b.reqnctapercluster(plan.ctas)
        self.shared = b.mov("u32", b.dynamic_shared(align=1024))
        self.thread = b.mov("u32", b.tid.x)
        staging = plan.groups * plan.staging_bytes(self.problem.out_bytes)
        behind = plan.stages * plan.stage_bytes
        self.staging = b.add("u32", self.shared, behind)
        self.barriers = Barriers(b, plan.stages, b.add("u32", self.shared, behind + staging),
                                 plan.groups if plan.schedule == "pingpong" else 0)
        self.rank = b.mov("u32", b.cluster_ctarank) if plan.ctas > 1 else None
        self._begin()
        if self.problem.padded:
            Padding(b, self.problem, self.thread, self.copied).write()
        self.window = (Windowed(b, self.problem, self.thread, self.copied)
                       if self.problem.windowed else None)
        if self.window is not None:
            self.window.begin()
        group = b.shfl("idx.b32", b.shr("u32", self.thread, 7), 0, 31, -1)
        fill, end = b.label("fill"), b.label("end")
        b.branch(fill, b.setp("ge", "u32", group, plan.groups))
        self._multiply(group)
        b.branch(end, uniform=True)
        b.place(fill)
        self._fill()
        b.place(end)
        self._end()
        return b.text()

    def _parameters(self) -> None:
        """Tensor maps as generic addresses, C as a global one where it is not a map."""
        b, mapped = self.b, maps_of(self.problem)
        self.maps: dict[str, Register] = {}
        self.pointers: dict[str, Register] = {}
        for name in (param.name for param in self.problem.params):
            if name in mapped:
                param = b.param(name, "b8", dims=[128], align=64)
                self.maps[name] = b.cvta("param.u64", b.mov("u64", param))
            else:
                pointer = b.param(name, "u64")
                self.pointers[name] = b.cvta("to.global.u64", b.load_param(pointer))
        for name in ("a_others", "b_others"):
            if name in mapped:
                param = b.param(name, "b8", dims=[128], align=64)
                self.maps[name] = b.cvta("param.u64", b.mov("u64", param))
        self.left_over = {
            name: b.cvta("to.global.u64", b.load_param(b.param(f"{name}_values", "u64")))
            for name, rows in zip("ab", self.problem.left_over, strict=True) if rows}
        copied: tuple[tuple[str, str], ...] = ()
        if self.problem.padded:
            copied = (("a", "a_values"), ("b", "b_values"), ("a_rows", "a_rows"),
                      ("b_rows", "b_rows"), ("arrivals", "arrivals"))
        if self.problem.windowed:
            copied = (("a", "a_values"), ("b", "b_values"), ("a_window", "a_window"),
                      ("b_window", "b_window"), ("counters", "counters"))
        self.copied = {key: b.cvta("to.global.u64", b.load_param(b.param(entry, "u64")))
                       for key, entry in copied}

    def _begin(self) -> None:
        """Barriers, seen by the whole cluster."""
        b, plan = self.b, self.plan
        readers = 1 if plan.schedule == "pingpong" else plan.groups
        if self.problem.loaded:
            readers *= GROUP // 32
        with b.when(b.setp("eq", "u32", self.thread, 0)):
            for address in self.maps.values():
                b.emit("prefetch.tensormap", b.at(address))
            self.barriers.start(WARPS if self.problem.gathered else 1, readers * plan.ctas,
                                SHIFTING if self.problem.shifted else 0)
            b.emit("fence.mbarrier_init.release.cluster")
        self._meet()

    def _meet(self) -> None:
        b = self.b
        if self.plan.ctas > 1:
            b.emit("barrier.cluster.arrive.release.aligned")
            b.emit("barrier.cluster.wait.acquire.aligned")
        else:
            b.emit("bar.sync", 0)

    def _tiles(self, first: Register | None = None,
               every: int = 1) -> AbstractContextManager[Place]:
        b, plan = self.b, self.plan
        cluster = b.mov("u32", b.ctaid.x)
        if plan.ctas > 1:
            cluster = b.shr("u32", cluster, plan.ctas.bit_length() - 1)
        return emit_tiles(b, self.problem, cluster, self.rank, first, every)

    def _fill(self) -> None:
        b, plan = self.b, self.plan
        registers = self.problem.registers
        if registers is not None:
            b.emit("setmaxnreg.dec.sync.aligned.u32", registers[0])
        if self.problem.gathered:
            gather = Gather(b, self.problem, self.barriers, self.shared, self.pointers)
            with self._tiles() as place:
                gather.tile(place)
            gather.finish()
            return
        if self.problem.shifted:
            with b.when(b.setp("ge", "u32", self.thread, 128 * plan.groups + 32)):
                shift = Shift(b, self.problem, self.barriers, self.shared, self.left_over)
                with self._tiles() as place:
                    shift.tile(place)
        if self.window is not None:
            with b.when(b.setp("ge", "u32", self.thread, 128 * plan.groups + 32)):
                self.window.copy()
        with b.when(b.setp("eq", "u32", self.thread, 128 * plan.groups)):
            producer = Producer(b, self.problem, self.barriers, self.shared, self.maps, self.rank,
                                self.pointers.get("experts"), self.window)
            with self._tiles() as place:
                producer.tile(place)

    def _multiply(self, group: Register) -> None:
        b, plan = self.b, self.plan
        registers = self.problem.registers
        if registers is not None:
            b.emit("setmaxnreg.inc.sync.aligned.u32", registers[1])
        loop = self._mainloop(group)
        way = self._way_out(group)
        turns = plan.groups if plan.schedule == "pingpong" else 1
        if turns > 1:
            self._skip_to(loop, group)
        with self._tiles(group if turns > 1 else None, turns) as place:
            loop.tile(place)
            if self.window is not None:
                self.window.tell_done(place)
            way.store(loop.sums, place)
            if turns > 1:
                loop.cursor.skip(self.problem.slices * (turns - 1))
        if not isinstance(way, Direct):
            way.finish()

    def _way_out(self, group: Register) -> Direct | Staged:
        b, problem = self.b, self.problem
        if problem.plan.store == "staged":
            return Staged(b, problem, self.maps["c"], group, self.staging)
        return Direct(b, problem, self.pointers["c"], group)

    def _mainloop(self, group: Register) -> Mainloop:
        b, problem = self.b, self.problem
        if problem.loaded:
            return Loaded(b, problem, self.barriers, self.shared, group)
        if problem.promote_every is None:
            return Mainloop(b, problem, self.barriers, self.shared, group)
        scales = None
        if problem.scaled:
            row = group_row(b, problem, group)
            scales = BlockScales(b, problem, self.pointers["a_scales"],
                                 self.pointers["b_scales"], row)
        return Promoted(b, problem, self.barriers, self.shared, group, scales)

    def _skip_to(self, loop: Mainloop, group: Register) -> None:
        """The second group begins behind the first one's tile, the third behind both."""
        b = self.b
        for number in range(1, self.plan.groups):
            with b.when(b.setp("ge", "u32", group, number)):
                loop.cursor.skip(self.problem.slices)

    def _end(self) -> None:
        """Nobody leaves while another CTA of the cluster may still signal its barriers."""
        b = self.b
        if self.window is not None:
            self.window.clear()
        if self.plan.ctas > 1:
            b.emit("barrier.cluster.arrive.release")
            b.emit("barrier.cluster.wait.acquire")
        b.emit("ret")
