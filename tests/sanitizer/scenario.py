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
    if text.startswith("cp.async.mbarrier.arrive"):
        return "cp.async.mbarrier.arrive"
    return head if head.startswith(_TWO_PART) or parts[0] in ("bar", "barrier") else parts[0]


class Scenario:
    """One run's events, sent to the model as they are made."""

    def __init__(self, threads: int = 64, ctas: int = 1) -> None:
        self.listing = Listing()
        self.model = HappensBefore(self.listing, Launch((ctas, 1, 1), (threads, 1, 1)))
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
               scope="", values=None):
        space = "global" if int(addresses[0]) >> 40 else "shared"
        self.model.on(ev.Access(cta, warp, self.site(text), mask, kind, space,
                                np.asarray(addresses, np.uint64), size, semantics, scope, values))

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
                 semantics="weak", addresses=BAR):
        self.model.on(ev.Mbarrier(
            cta, warp, self.site(text or f"mbarrier.{op} [bar]"), mask, op, addresses,
            np.full(32, count, np.uint32), np.full(32, phase, np.int64), completed, semantics))

    def copies_arrive(self, warp, *, cta=0, mask=FULL, noinc=True, completed=0, phase=0):
        text = "cp.async.mbarrier.arrive.noinc [bar]"
        self.model.on(ev.CpAsyncArrive(cta, warp, self.site(text), mask, BAR, noinc))
        self.mbarrier("arrive", warp, cta=cta, mask=mask, phase=phase, completed=completed,
                      text=text)
