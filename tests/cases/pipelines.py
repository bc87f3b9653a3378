"""Kernels that do what the reports of sections C and F describe, right and with the report's fault.

Each is a few dozen instructions: what else the report has (tiles, maths, an epilogue) does not bear
on its question. `TWINS` names every text; the files in ``ptx/`` are these texts, so that the
commands of ``index.toml`` can be typed as they stand there. After a change:
``PYTHONPATH=tests python -m cases.pipelines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mmalab import descriptors, isa
from mmalab.atlas.provoked import wgmma_text
from mmalab.atlas.specimens import specimens_of
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["PTX", "TWINS"]

#: Where the texts lie as files.
PTX = Path(__file__).parent / "ptx"

_TILED = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
_NVFP4 = ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
          ".f32.e2m1.e2m1.f32.ue4m3")
#: Stages of every ring.
_STAGES = 3


def _kernel(name: str, threads: int, target: str = "sm_90a",
            version: tuple[int, int] = (8, 6)) -> KernelBuilder:
    b = KernelBuilder(name, target=target, version=version, arity=isa.find)
    b.reqntid(threads)
    return b


def _wait(b: KernelBuilder, barrier: Register, parity: Register | int, offset: int = 0) -> None:
    again, done = b.label("again"), b.reg("pred")
    b.place(again)
    b.emit("mbarrier.try_wait.parity.shared::cta.b64", done, b.at(barrier, offset), parity)
    b.branch(again, done, negated=True)


def _arrive(b: KernelBuilder, barrier: Register, offset: int = 0) -> None:
    b.emit("mbarrier.arrive.shared::cta.b64", b.sink, b.at(barrier, offset))


@contextmanager
def _one_thread(b: KernelBuilder, thread: int = 0) -> Iterator[None]:
    with b.when(b.setp("eq", "u32", b.mov("u32", b.tid.x), thread)):
        yield


# --- C01: a ring of stages ------------------------------------------------------------------------

def _barriers(b: KernelBuilder, full: int, empty: int) -> Register:
    """Full barriers, then empty ones; everybody knows them."""
    bars = b.mov("u32", b.shared("bars", 16 * _STAGES))
    with _one_thread(b):
        for at in range(2 * _STAGES):
            b.emit("mbarrier.init.shared::cta.b64", b.at(bars, 8 * at),
                   full if at < _STAGES else empty)
    b.emit("bar.sync", 0)
    return bars


@contextmanager
def _stages(b: KernelBuilder, bars: Register, parity: int, *, steps: int, tiles: int = 1,
            flips: bool = True, restarts: bool = False) -> Iterator[tuple[Register, ...]]:
    """A loop that goes round the ring: (full barrier, parity, stage) of each step."""
    stage, phase = b.mov("u32", 0), b.mov("u32", parity)
    with b.loop(tiles):
        if restarts:
            b.mov("u32", 0, out=stage)
            b.mov("u32", parity, out=phase)
        with b.loop(steps):
            yield b.add("u32", bars, b.shl("b32", stage, 3)), phase, stage
            b.add("u32", stage, 1, out=stage)
            with b.guard(b.setp("eq", "u32", stage, _STAGES)):
                b.mov("u32", 0, out=stage)
                if flips:
                    b.emit("xor.b32", phase, phase, 1)


def ring(*, first: int = 1, flips: bool = True, restarts: bool = False, steps: int = 7,
         tiles: int = 1) -> str:
    """A producer warp and a consumer warp; the producer may be wrong.

    `first` is the parity of its first wait; without `flips` its parity stays; with `restarts` its
    stage and parity begin anew with each tile, though `steps` is no multiple of the stages.
    """
    b = _kernel("ring", 64)
    bars = _barriers(b, 32, 32)
    consumer, end = b.label("consumer"), b.label("end")
    b.branch(consumer, b.setp("ge", "u32", b.mov("u32", b.tid.x), 32))
    with _stages(b, bars, first, steps=steps, tiles=tiles, flips=flips,
                 restarts=restarts) as (full, phase, _):
        _wait(b, full, phase, 8 * _STAGES)
        _arrive(b, full)
    b.branch(end)
    b.place(consumer)
    with _stages(b, bars, 0, steps=steps, tiles=tiles) as (full, phase, _):
        _wait(b, full, phase)
        _arrive(b, full, 8 * _STAGES)
    b.place(end)
    b.emit("ret")
    return b.text()


def leader(*, together: bool = True, steps: int = 7) -> str:
    """Of four consumer warps one arrives for all: behind a barrier of the four, or without."""
    b = _kernel("leader", 160)
    bars = _barriers(b, 32, 1)
    consumer, end = b.label("consumer"), b.label("end")
    b.branch(consumer, b.setp("ge", "u32", b.mov("u32", b.tid.x), 32))
    with _stages(b, bars, 1, steps=steps) as (full, phase, _):
        _wait(b, full, phase, 8 * _STAGES)
        _arrive(b, full)
    b.branch(end)
    b.place(consumer)
    with _stages(b, bars, 0, steps=steps) as (full, phase, _):
        _wait(b, full, phase)
        if together:
            b.emit("bar.sync", 1, 128)
        with _one_thread(b, 32):
            _arrive(b, full, 8 * _STAGES)
    b.place(end)
    b.emit("ret")
    return b.text()


# --- C02: announced bytes -------------------------------------------------------------------------

def announced(count: int) -> str:
    """One tensor copy of 16 rows of 64 bf16, 2048 bytes, of which `count` are announced."""
    b = _kernel("announced", 32)
    source = b.param("tile", "b8", dims=[128], align=64)
    out = b.load_param(b.param("out", "u64"))
    tile = b.mov("u32", b.shared("staged", 2048, align=1024))
    bar = b.mov("u32", b.shared("bar", 8, align=8))
    with _one_thread(b):
        b.emit("mbarrier.init.shared::cta.b64", b.at(bar), 1)
    b.emit("bar.sync", 0)
    with _one_thread(b):
        b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(bar), count)
        at = b.cvta("param.u64", b.mov("u64", source))
        b.emit(_TILED, b.at(tile), b.at(at, coordinates=[0, 0]), b.at(bar))
    _wait(b, bar, 0)
    lane = b.mov("u32", b.tid.x)
    word = b.ld("shared.b32", b.at(b.mad_lo("u32", lane, 64, tile)))
    b.st("global.b32", b.at(b.add("s64", out, b.mul_wide("u32", lane, 4))), word)
    b.emit("ret")
    return b.text()


# --- C04: groups of cp.async ----------------------------------------------------------------------

def copies(*, newest: int = _STAGES - 2, late_commit: bool = False, tail: bool = True,
           steps: int = 6) -> str:
    """64 threads copy 16 bytes each through three stages; another warp reads what one copied.

    `newest` is N of ``cp.async.wait_group N``; `late_commit` puts the commit behind the next wait;
    without `tail` the last steps, which copy nothing, do not commit either.
    """
    b = _kernel("copies", 64, "sm_80")
    source, out = (b.load_param(b.param(name, "u64")) for name in ("source", "out"))
    base = b.mov("u32", b.shared("staged", 1024 * _STAGES))
    mine = b.mov("u32", b.tid.x)
    here = b.mad_lo("u32", mine, 16, base)
    there = b.mad_lo("u32", b.xor("b32", mine, 32), 16, base)
    at = b.add("s64", source, b.mul_wide("u32", mine, 16))
    total = b.mov("u32", 0)

    def issue(step: int) -> None:
        b.emit("cp.async.cg.shared.global", b.at(here, 1024 * (step % _STAGES)),
               b.at(at, 1024 * step), 16)

    for step in range(_STAGES - 1):
        issue(step)
        if not late_commit or step < _STAGES - 2:
            b.emit("cp.async.commit_group")
    for step in range(steps):
        b.emit("cp.async.wait_group", newest)
        if late_commit:
            b.emit("cp.async.commit_group")
        b.emit("bar.sync", 0)
        word = b.ld("shared.u32", b.at(there, 1024 * (step % _STAGES)))
        b.add("u32", total, word, out=total)
        following = step + _STAGES - 1
        if following < steps:
            issue(following)
        if not late_commit and (tail or following < steps):
            b.emit("cp.async.commit_group")
    b.emit("cp.async.wait_all")
    b.st("global.u32", b.at(b.add("s64", out, b.mul_wide("u32", mine, 4))), total)
    b.emit("ret")
    return b.text()


# --- C05: the memory of a barrier -----------------------------------------------------------------

def reused(*, by: str = "data", ordered: bool = True, invalidated: bool = True) -> str:
    """Two warps meet at an mbarrier, whose eight bytes then hold `by`: data, or another barrier."""
    b = _kernel("reused", 64)
    out = b.load_param(b.param("out", "u64"))
    bar = b.mov("u32", b.shared("bar", 8, align=8))
    with _one_thread(b):
        b.emit("mbarrier.init.shared::cta.b64", b.at(bar), 64)
    b.emit("bar.sync", 0)
    _arrive(b, bar)
    _wait(b, bar, 0)
    if ordered:
        b.emit("bar.sync", 0)
    with _one_thread(b):
        if invalidated:
            b.emit("mbarrier.inval.shared::cta.b64", b.at(bar))
        if by == "data":
            b.st("shared.u64", b.at(bar), 7)
        else:
            b.emit("mbarrier.init.shared::cta.b64", b.at(bar), 64)
    b.emit("bar.sync", 0)
    if by == "data":
        word = b.ld("shared.u64", b.at(bar))
        mine = b.mul_wide("u32", b.mov("u32", b.tid.x), 8)
        b.st("global.u64", b.at(b.add("s64", out, mine)), word)
    else:
        _arrive(b, bar)
        _wait(b, bar, 0)
    b.emit("ret")
    return b.text()


# --- C08: what must surround wgmma ----------------------------------------------------------------

def _descriptor(b: KernelBuilder, at: Register, rows: int) -> Register:
    """K-major, no swizzle, 16 elements of K."""
    tile = descriptors.packed("K", "none", rows, 16, 16)
    word = descriptors.smem_format("sm_90a").encode(lbo=tile.lbo, sbo=tile.sbo, swizzle="none")
    start = b.and_("b32", b.shr("u32", at, 4), 0x3FFF)
    return b.or_("b64", b.cvt("u64.u32", start), word)


def product(*, fence: bool = True, commit: bool = True, wait: bool = True,
            overwrites: bool = False, steps: int = 2) -> str:
    """A warpgroup adds the products of `steps` tiles, which it stages itself, to `out`.

    `overwrites`: the next tile is stored over the operands before the wait, not behind it.
    """
    b = _kernel("product", 128)
    out = b.load_param(b.param("out", "u64"))
    tile = b.mov("u32", b.shared("staged", 2304, align=128))
    mine = b.mov("u32", b.tid.x)
    place = b.mad_lo("u32", mine, 16, tile)
    sums = b.regs("f32", 4)
    at = b.add("s64", out, b.mul_wide("u32", mine, 16))
    b.emit("ld.global.v4.f32", sums, b.at(at))

    def stage(value: int) -> None:
        words = [value | value << 16] * 4
        b.emit("st.shared.v4.b32", b.at(place), words)
        with b.when(b.setp("lt", "u32", mine, 16)):
            b.emit("st.shared.v4.b32", b.at(place, 2048), words)
        b.emit("fence.proxy.async.shared::cta")
        b.emit("bar.sync", 0)

    stage(0x3F80)
    for step in range(steps):
        if fence:
            b.emit("wgmma.fence.sync.aligned")
        b.emit(_PRODUCT, sums, _descriptor(b, tile, 64),
               _descriptor(b, b.add("u32", tile, 2048), 8),
               b.setp("ne", "u32", 1, 0), 1, 1, 0, 0)
        if commit:
            b.emit("wgmma.commit_group.sync.aligned")
        last = step == steps - 1
        if overwrites and not last:
            stage(0x4000)
        if wait:
            b.emit("wgmma.wait_group.sync.aligned", 0)
        if not overwrites and not last:
            b.emit("bar.sync", 0)
            stage(0x4000)
    b.emit("st.global.v4.f32", b.at(at), sums)
    b.emit("ret")
    return b.text()


# --- B01: counting values through one product -----------------------------------------------------

def fragments() -> str:
    """One m16n8k8 product; each lane loads its registers of A, B and C as they lie in a file."""
    b = _kernel("fragments", 32, "sm_80")
    a, bb, out = (b.load_param(b.param(name, "u64")) for name in ("a", "b", "out"))
    lane = b.mov("u32", b.tid.x)
    left = b.ld("global.v2.b32", b.at(b.add("s64", a, b.mul_wide("u32", lane, 8))))
    right = b.ld("global.b32", b.at(b.add("s64", bb, b.mul_wide("u32", lane, 4))))
    sums = [b.mov("f32", 0.0) for _ in range(4)]
    b.emit("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", sums, left, [right], sums)
    b.emit("st.global.v4.f32", b.at(b.add("s64", out, b.mul_wide("u32", lane, 16))), sums)
    b.emit("ret")
    return b.text()


# --- texts that are asked about, not run ----------------------------------------------------------

def newer_than_the_assembler() -> str:
    """A12: an empty kernel in a version that CUDA 13.0 does not read."""
    return KernelBuilder("newer", target="sm_80", version=(9, 1)).text()


def refused_twice() -> str:
    """A16: an NVFP4 product on a plain target, in a version before it."""
    return specimens_of(_NVFP4)[0].module("sm_120", "8.6")


def columns(count: int, *, register: bool = True) -> str:
    """K02: tcgen05.alloc of so many columns, through a register or as an immediate."""
    b = KernelBuilder("columns", target="sm_100a", version=(8, 6), arity=isa.find)
    b.reqntid(32)
    place = b.mov("u32", b.shared("place", 4, align=4))
    given = b.mov("u32", count) if register else count
    b.emit("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", b.at(place), given)
    b.emit("ret")
    return b.text()


# --- E03, E09: scales of the padding, rows that nobody computes -----------------------------------

def padded() -> str:
    """E03, E09: a tile of 16 rows for each CTA, some of them valid; the last 16 of K = 64 are
    padding.

    A has ones in valid rows and zeros in the padding; each row's word holds four scales (ue4m3).
    """
    b = _kernel("padded", 32, target="sm_120a", version=(8, 7))
    scales, out = (b.load_param(b.param(name, "u64")) for name in ("scales", "out"))
    rows = b.load_param(b.param("rows", "u32"))
    lane = b.mov("u32", b.tid.x)
    row, quad = b.shr("u32", lane, 2), b.and_("b32", lane, 3)
    first = b.mad_lo("u32", b.mov("u32", b.ctaid.x), 16, row)
    ones, zero = b.mov("b32", 0x22222222), b.mov("b32", 0)
    inside = b.setp("lt", "u32", quad, 2)
    last = b.selp("b32", ones, zero, inside)
    halves = [b.setp("lt", "u32", at, rows) for at in (row, b.add("u32", row, 8))]
    a = [b.selp("b32", word, zero, valid) for word in (ones, last) for valid in halves]
    own = b.add("u32", first, b.mul_lo("u32", b.and_("b32", lane, 1), 8))
    scale = b.ld("global.b32", b.at(b.add("s64", scales, b.mul_wide("u32", own, 4))))
    one = b.mov("b32", 0x38383838)
    f_zero = b.mov("f32", 0.0)
    d = [b.reg("f32") for _ in range(4)]
    b.emit(_NVFP4, d, a, [ones, last], [f_zero] * 4, scale, [0, 0], one, [0, 0])
    at = b.mad_lo("u32", first, 8, b.mul_lo("u32", quad, 2))
    place = b.add("s64", out, b.mul_wide("u32", at, 4))
    for half in range(2):
        for element in range(2):
            b.st("global.f32", b.at(place, 256 * half + 4 * element), d[2 * half + element])
    b.emit("ret")
    return b.text()


# --- F03: registers handed over -------------------------------------------------------------------

def split(launch: int, *groups: int, blocked: bool = False) -> str:
    """Each warpgroup asks for its registers by setmaxnreg, all having `launch` before.

    `blocked`: the first group, which gives registers away, first waits for the second.
    """
    b = _kernel("split", 128 * len(groups))
    b.maxnreg(launch)
    bar = b.mov("u32", b.shared("bar", 8, align=8))
    with _one_thread(b):
        b.emit("mbarrier.init.shared::cta.b64", b.at(bar), 128)
    b.emit("bar.sync", 0)
    group = b.shr("u32", b.mov("u32", b.tid.x), 7)
    for at, count in enumerate(groups):
        with b.when(b.setp("eq", "u32", group, at)):
            if blocked and at == 0:
                _wait(b, bar, 0)
            way = "dec" if count < launch else "inc"
            b.emit(f"setmaxnreg.{way}.sync.aligned.u32", count)
            if at == 1:
                _arrive(b, bar)
    b.emit("ret")
    return b.text()


#: What makes each text, by the name of its file.
TWINS: dict[str, Callable[[], str]] = {
    "c01_ring": ring,
    "c01_ring_first_parity": partial(ring, first=0),
    "c01_ring_no_flip": partial(ring, flips=False),
    "c01_ring_two_tiles": partial(ring, tiles=2, steps=4),
    "c01_ring_restarted": partial(ring, tiles=2, steps=4, restarts=True),
    "c01_leader": leader,
    "c01_leader_alone": partial(leader, together=False),
    "c02_announced": partial(announced, 2048),
    "c02_announced_half": partial(announced, 1024),
    "c02_announced_twice": partial(announced, 4096),
    "c04_copies": copies,
    "c04_wait_for_all": partial(copies, newest=0),
    "c04_wait_too_loose": partial(copies, newest=2),
    "c04_commit_late": partial(copies, late_commit=True),
    "c04_no_tail": partial(copies, tail=False),
    "c05_reused": reused,
    "c05_reused_as_barrier": partial(reused, by="barrier"),
    "c05_not_invalidated": partial(reused, invalidated=False),
    "c05_barrier_over_barrier": partial(reused, by="barrier", invalidated=False),
    "c05_too_early": partial(reused, ordered=False),
    "c08_product": product,
    "c08_no_wait": partial(product, wait=False),
    "c08_no_fence": partial(product, fence=False),
    "c08_no_commit": partial(product, commit=False),
    "c08_overwritten": partial(product, overwrites=True),
    "a12_newer": newer_than_the_assembler,
    "a16_refused_twice": refused_twice,
    "b01_fragments": fragments,
    "k02_columns_48": partial(columns, 48),
    "k02_columns_64": partial(columns, 64),
    "k02_columns_48_immediate": partial(columns, 48, register=False),
    "e03_padded": padded,
    "f02_two_accumulators": partial(wgmma_text, n=256, tiles=2),
    "f02_one_accumulator": partial(wgmma_text, n=256, tiles=1),
    "f03_split_504": partial(split, 168, 24, 240, 240),
    "f03_split_488": partial(split, 168, 24, 232, 232),
    "f03_split_528": partial(split, 128, 24, 24, 240, 240),
    "f03_split_blocked": partial(split, 168, 24, 240, 240, blocked=True),
}


if __name__ == "__main__":
    for name, text in TWINS.items():
        (PTX / f"{name}.ptx").write_text(text(), encoding="utf-8")
