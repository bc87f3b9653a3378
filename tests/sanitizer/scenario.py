"""Builds event streams by hand: what a machine would emit for a few instructions.

>>> s = Scenario(threads=64)
>>> s.store(0, TILE)                        # warp 0 writes 32 words
>>> s.load(1, TILE)                         # warp 1 reads them, without a barrier
>>> s.codes()
['missing-barrier']

Texts of instructions name sites: the same text is the same site, and its line is its number + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmalab.emulator import events as ev
from mmalab.emulator.program import BasicBlock, Site
from mmalab.isa.form import Evidence, Form, Source
from mmalab.sanitizer.model import HappensBefore

FULL = 0xFFFFFFFF
LOW, HIGH = 0x0000FFFF, 0xFFFF0000
LANES = np.arange(32, dtype=np.uint64)
#: One word per lane, in shared and in global memory.
TILE = np.uint64(1024) + 4 * LANES
ROWS = np.uint64(1024) + 16 * LANES
DATA = np.uint64(16 << 40) + 4 * LANES
SOURCE = np.uint64(17 << 40) + 16 * LANES
FLAG = np.full(32, (18 << 40) + 256, np.uint64)
BAR = np.full(32, 9216, np.uint64)
BAR_AT = 9216
#: Where the asynchronous tile lies that TILE begins, and its bytes.
TILE_AT, TILE_BYTES = 1024, 128
OUT_AT = 19 << 40
_TWO_PART = ("mma", "wmma", "cp.async", "bar.warp", "shfl", "vote", "mbarrier")


@dataclass(frozen=True)
class Launch:
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass
class Listing:
    """The part of a Program that the model reads, growing as texts come."""

    sites: list[Site] = field(default_factory=list)
    blocks: tuple[BasicBlock, ...] = ()
    local_bytes: int = 64


def family(text: str) -> str:
    """The family of an instruction, for the few that the scenarios use."""
    parts = text.split(maxsplit=1)[0].split(".")
    head = ".".join(parts[:2])
    for longer in ("cp.async.mbarrier.arrive", "cp.async.bulk", "wgmma.mma_async"):
        if text.startswith(longer):
            return longer
    return head if head.startswith(_TWO_PART) or parts[0] in ("bar", "barrier") else parts[0]


class Scenario:
    """One run's events, sent to the model as they are made."""

    def __init__(self, threads: int = 64, ctas: int = 1, cluster: int = 1) -> None:
        self.listing = Listing()
        self.model = HappensBefore(
            self.listing, Launch((ctas, 1, 1), (threads, 1, 1), (cluster, 1, 1)))
        self._products: dict[int, int] = {}
        self._texts: dict[str, int] = {}

    def site(self, text: str) -> int:
        """The number of the instruction with that text."""
        if text not in self._texts:
            index = self._texts[text] = len(self.listing.sites)
            opcode = text.split(maxsplit=1)[0]
            flags = {part: part for part in opcode.split(".")[1:]}
            form = Form(opcode, family(text), flags, (), "sm_80", (7, 0),
                        Source("test"), Evidence.DOCUMENTED)
            self.listing.sites.append(Site(index, index + 1, form, (), None, text))
        return self._texts[text]

    def findings(self) -> list[Any]:
        return self.model.findings()

    def codes(self) -> list[str]:
        return sorted({finding.code for finding in self.findings()})

    def severity(self, code: str) -> str:
        return next(f.severity for f in self.findings() if f.code == code)

    def repair(self, code: str) -> str:
        return next(f.witness["repair"] for f in self.findings() if f.code == code)

    # -- memory ----------------------------------------------------------------------------------

    def access(self, kind, warp, addresses, text, *, cta=0, mask=FULL, size=4, semantics="weak",
               scope="", values=None, owner=None):
        space = "global" if int(addresses[0]) >> 40 else "shared"
        owners = None if owner is None else np.full(32, owner, np.int32)
        self.model.on(ev.Access(cta, warp, self.site(text), mask, kind, space,
                                np.asarray(addresses, np.uint64), size, semantics, scope, values,
                                owners=owners))

    def store(self, warp, addresses, text="st.u32", **options):
        self.access("write", warp, addresses, text, **options)

    def load(self, warp, addresses, text="ld.u32", **options):
        self.access("read", warp, addresses, text, **options)

    def atom(self, warp, addresses, text="atom.add.u32", *, semantics="relaxed", scope="gpu",
             **options):
        self.access("atomic", warp, addresses, text, semantics=semantics, scope=scope, **options)

    def fence(self, warp, semantics="acq_rel", scope="gpu", *, cta=0, mask=FULL):
        text = f"fence.{semantics}.{scope}"
        self.model.on(ev.Fence(cta, warp, self.site(text), mask, semantics, scope))

    def proxy_fence(self, warp, proxy="async.shared::cta", *, cta=0, mask=FULL, semantics="",
                    addresses=None):
        text = f"fence.proxy.{proxy}.{semantics}"
        self.model.on(ev.Fence(cta, warp, self.site(text), mask, semantics, "gpu", proxy,
                               addresses, 128))

    # -- copies ----------------------------------------------------------------------------------

    def copy(self, warp, destinations=ROWS, sources=SOURCE, text="cp.async.cg 16", *, cta=0,
             mask=FULL, size=16, read=16):
        self.model.on(ev.CpAsync(cta, warp, self.site(text), mask, destinations, sources, size,
                                 np.full(32, read, np.uint32)))

    def commit(self, warp, *, cta=0, mask=FULL):
        self.model.on(ev.CpAsyncCommit(cta, warp, self.site("cp.async.commit_group"), mask))

    def wait(self, warp, newest=0, *, cta=0, mask=FULL):
        text = "cp.async.wait_all" if newest < 0 else f"cp.async.wait_group {newest}"
        self.model.on(ev.CpAsyncWait(cta, warp, self.site(text), mask, newest))

    # -- barriers --------------------------------------------------------------------------------

    def arrive(self, warp, ident=0, count=0, kind="sync", *, cta=0, mask=FULL, text=None,
               aligned=True):
        text = text or f"bar.{kind} {ident}, {count}"
        self.model.on(ev.BarrierArrive(cta, warp, self.site(text), mask, ident, count, kind,
                                       aligned))

    def release(self, *warps, ident=0, cta=0):
        self.model.on(ev.BarrierRelease(cta, ident, tuple(warps)))

    def barrier(self, *warps, ident=0, count=0, cta=0):
        for warp in warps:
            self.arrive(warp, ident, count, cta=cta)
        self.release(*warps, ident=ident, cta=cta)

    def warp_sync(self, warp=0, mask=FULL, members=0, *, cta=0):
        self.model.on(ev.WarpSync(cta, warp, self.site("bar.warp.sync"), mask, members))

    def collective(self, warp=0, mask=FULL, text="shfl.sync.idx.b32", **options):
        self.model.on(ev.Collective(0, warp, self.site(text), mask, **options))

    def diverge(self, *groups, warp=0, cta=0):
        self.model.on(ev.Diverge(cta, warp, self.site("bra"), groups))

    def reconverge(self, mask=FULL, *, warp=0, cta=0):
        self.model.on(ev.Reconverge(cta, warp, self.site("join"), mask))

    def exit(self, warp, mask=FULL, *, cta=0):
        self.model.on(ev.Exit(cta, warp, self.site("exit"), mask))

    # -- mbarriers -------------------------------------------------------------------------------

    def mbarrier(self, op, warp, *, cta=0, mask=FULL, count=1, phase=0, completed=0, text=None,
                 semantics="weak", addresses=BAR, scope="", expected=None, owner=None):
        self.model.on(ev.Mbarrier(
            cta, warp, self.site(text or f"mbarrier.{op} [bar]"), mask, op, addresses,
            np.full(32, count, np.uint32), np.full(32, phase, np.int64), completed, semantics,
            scope, None if expected is None else np.full(32, expected, np.int64),
            None if owner is None else np.full(32, owner, np.int32)))

    def copies_arrive(self, warp, *, cta=0, mask=FULL, noinc=True, completed=0, phase=0):
        text = "cp.async.mbarrier.arrive.noinc [bar]"
        self.model.on(ev.CpAsyncArrive(cta, warp, self.site(text), mask, BAR, noinc))
        self.mbarrier("arrive", warp, cta=cta, mask=mask, phase=phase, completed=completed,
                      text=text)

    def expect(self, warp=0, size=TILE_BYTES, *, phase=0, completed=0, cta=0):
        """mbarrier.arrive.expect_tx by lane 0."""
        self.mbarrier("arrive", warp, cta=cta, mask=1, phase=phase, completed=completed,
                      expected=size, text="mbarrier.arrive.expect_tx [bar]")

    # -- asynchronous operations -----------------------------------------------------------------

    def bulk_load(self, warp=0, *, cta=0, lane=0, at=TILE_AT, size=TILE_BYTES, phase=0, swizzle="",
                  source=16 << 40, to=None, maps=None, text="cp.async.bulk.shared.global"):
        """A copy into shared memory of the CTAs `to`, counted by the mbarrier at BAR of each."""
        spans = [ev.Span("global", -1, "read", np.array([source]), size)]
        if maps is not None:
            spans.append(ev.Span("global", -1, "read", np.array([maps]), 128, "tensormap"))
        signals = []
        for owner in (cta,) if to is None else to:
            spans.append(ev.Span("shared", owner, "write", np.array([at]), size, swizzle=swizzle))
            signals.append(ev.Signal(owner, BAR_AT, phase, size, (len(spans) - 1,)))
        self.model.on(ev.Async(cta, warp, self.site(text), lane, tuple(spans), tuple(signals)))

    def bulk_store(self, warp=0, *, cta=0, lane=0, at=TILE_AT, size=TILE_BYTES, target=OUT_AT,
                   reduces=False, swizzle="", text="cp.async.bulk.global.shared"):
        """A copy from shared to global memory in the lane's bulk group."""
        self.model.on(ev.Async(cta, warp, self.site(text), lane, (
            ev.Span("shared", cta, "read", np.array([at]), size, swizzle=swizzle),
            ev.Span("global", -1, "atomic" if reduces else "write", np.array([target]), size))))

    def bulk_commit(self, warp=0, *, cta=0, mask=1):
        self.model.on(ev.BulkCommit(cta, warp, self.site("cp.async.bulk.commit_group"), mask))

    def bulk_wait(self, warp=0, newest=0, *, read=False, cta=0, mask=1):
        text = f"cp.async.bulk.wait_group{'.read' if read else ''} {newest}"
        self.model.on(ev.BulkWait(cta, warp, self.site(text), mask, newest, read))

    def wgmma(self, *warps, at=TILE_AT, size=TILE_BYTES, d=(0, 1), a=(), reads_d=True,
              shape="m64n8k16", swizzle="", text=None):
        """A product by these warps, whose operand is one tile."""
        for warp in warps:
            index = self._products[warp] = self._products.get(warp, -1) + 1
            self.model.on(ev.Wgmma(
                0, warp, self.site(text or f"wgmma.mma_async.{shape}"), FULL, index,
                (ev.Span("shared", 0, "read", np.array([at]), size, swizzle=swizzle),), a, d,
                reads_d, shape))

    def wgmma_fence(self, *warps):
        for warp in warps:
            self.model.on(ev.WgmmaFence(0, warp, self.site("wgmma.fence"), FULL))

    def wgmma_commit(self, *warps):
        for warp in warps:
            self.model.on(ev.WgmmaCommit(0, warp, self.site("wgmma.commit_group"), FULL))

    def wgmma_wait(self, *warps, newest=0):
        for warp in warps:
            self.model.on(ev.WgmmaWait(0, warp, self.site(f"wgmma.wait_group {newest}"), FULL,
                                       newest))

    def registers(self, warp, reads=(), writes=(), text="mov.b32"):
        self.model.on(ev.Registers(0, warp, self.site(text), FULL, reads, writes))

    # -- clusters --------------------------------------------------------------------------------

    def cluster_arrive(self, *ctas, generation=0, semantics="release", warp=0):
        for cta in ctas:
            text = f"barrier.cluster.arrive.{semantics}"
            self.model.on(ev.ClusterArrive(cta, warp, self.site(text), FULL, generation,
                                           semantics))

    def cluster_wait(self, *ctas, generation=0, warp=0):
        for cta in ctas:
            self.model.on(ev.ClusterWait(cta, warp, self.site("barrier.cluster.wait"), FULL,
                                         generation))

    def cluster_barrier(self, *ctas, generation=0, semantics="release"):
        self.cluster_arrive(*ctas, generation=generation, semantics=semantics)
        self.cluster_wait(*ctas, generation=generation)
