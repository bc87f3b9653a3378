"""What the machine tells the sanitizers: one record per thing that happened, in execution order.

The machine emits, sanitizers subscribe (:class:`Listener`); neither knows the other. Lanes are bit
masks (bit l = lane l), CTAs are linear indices, `site` indexes ``Program.sites``. An asynchronous
operation is announced when it is *issued*; whether its effect already happened is the schedule's
business, not the sanitizers'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Access", "Async", "BarrierArrive", "BarrierRelease", "BulkCommit", "BulkWait", "ClusterArrive",
    "ClusterWait", "Collective", "CpAsync", "CpAsyncArrive", "CpAsyncCommit", "CpAsyncWait",
    "Diverge", "Event", "Exit", "Fence", "Listener", "Mbarrier", "Reconverge", "Registers",
    "SetRegisters", "Signal", "Span", "WarpSync", "Wgmma", "WgmmaCommit", "WgmmaFence", "WgmmaWait",
]

Space = Literal["global", "shared", "local", "const", "param"]
Semantics = Literal["weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"]


@dataclass(frozen=True, slots=True)
class Access:
    """A generic-proxy load, store or atomic by the lanes in `mask`.

    `addresses` [32] uint64: shared offsets (CTA-relative) for shared, virtual addresses for global.
    `size` bytes per lane. `values` [32, size] uint8 of a write where the machine has them (for
    lane-collision and benign-race decisions), else None. ldmatrix/stmatrix emit one Access with
    `size` 16 whose lanes are the *row providers*; `collective` tells.
    `owners` gives CTA of each lane's shared target when it is not the own one (DSMEM), else None.
    """

    cta: int
    warp: int
    site: int
    mask: int
    kind: Literal["read", "write", "atomic"]
    space: Space
    addresses: NDArray[np.uint64]
    size: int
    semantics: Semantics = "weak"
    scope: str = ""
    values: NDArray[np.uint8] | None = None
    collective: bool = False
    owners: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class CpAsync:
    """cp.async issued: per lane, `read_size` bytes from global `sources`, `size` bytes to shared
    `destinations` (the rest is zero fill)."""

    cta: int
    warp: int
    site: int
    mask: int
    destinations: NDArray[np.uint64]
    sources: NDArray[np.uint64]
    size: int
    read_sizes: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class CpAsyncCommit:
    """cp.async.commit_group."""

    cta: int
    warp: int
    site: int
    mask: int


@dataclass(frozen=True, slots=True)
class CpAsyncWait:
    """cp.async.wait_group N (`newest` = N groups may stay pending) or wait_all (`newest` = -1)."""

    cta: int
    warp: int
    site: int
    mask: int
    newest: int


@dataclass(frozen=True, slots=True)
class CpAsyncArrive:
    """cp.async.mbarrier.arrive{.noinc} on the shared addresses.

    `phases` [32] int64: the phase that was open when it was issued (None: not known).
    `owners` [32]: CTA of each lane's object where some are not in the own CTA's shared memory.
    """

    cta: int
    warp: int
    site: int
    mask: int
    addresses: NDArray[np.uint64]
    noinc: bool
    phases: NDArray[np.int64] | None = None
    owners: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class BarrierArrive:
    """A warp arrives at a CTA barrier. `count` threads expected (0: all of the CTA)."""

    cta: int
    warp: int
    site: int
    mask: int
    barrier: int
    count: int
    kind: Literal["sync", "arrive", "red"]
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class BarrierRelease:
    """A barrier generation completed; the `warps` that waited (sync, red) go on."""

    cta: int
    barrier: int
    warps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WarpSync:
    """bar.warp.sync among the lanes in `mask` completed.

    `members` is the lane mask that the instruction names (0: the same as `mask`).
    """

    cta: int
    warp: int
    site: int
    mask: int
    members: int = 0


@dataclass(frozen=True, slots=True)
class Collective:
    """shfl, vote, match, redux, elect, mma, ldmatrix ... executed together by `mask`.

    `members` is the lane mask that a .sync instruction names (0: none, or the same as `mask`);
    `inactive` are the lanes of `mask` whose shfl source lane does not take part.
    """

    cta: int
    warp: int
    site: int
    mask: int
    members: int = 0
    inactive: int = 0


@dataclass(frozen=True, slots=True)
class Fence:
    """fence / membar by the lanes in `mask`; `semantics` acq_rel, sc, acquire or release."""

    cta: int
    warp: int
    site: int
    mask: int
    semantics: Semantics
    scope: str
    proxy: str = ""
    #: [32] where a tensormap fence names the map (an acquire does), and its bytes.
    addresses: NDArray[np.uint64] | None = None
    size: int = 0
    #: The memory that a .sync_restrict form is limited to: ``shared::cta``, ``shared::cluster``.
    restrict: str = ""


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """An mbarrier operation by `mask` on shared `addresses`.

    `op`: init, inval, arrive, arrive_drop, test_wait, try_wait, expect_tx, complete_tx.
    `phases` [32] int64: the phase an arrive belongs to, or the phase a wait asked about;
    `completed` bit mask of lanes whose arrive completed a phase, or whose wait returned true.
    """

    cta: int
    warp: int
    site: int
    mask: int
    op: str
    addresses: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    phases: NDArray[np.int64]
    completed: int = 0
    semantics: Semantics = "weak"
    scope: str = ""
    #: [32] bytes that an arrive.expect_tx announces before it arrives.
    expected: NDArray[np.int64] | None = None
    #: [32] CTA of each lane's object where some are not in the own CTA's shared memory.
    owners: NDArray[np.int32] | None = None


# --- asynchronous operations: what they will do, told when they are issued ------------------------

@dataclass(frozen=True, slots=True)
class Tile:
    """Where the 16-byte pieces of a wgmma operand lie before the swizzle.

    `chunks` int64, relative to the shared address `base`: [mn, k / T] where K is contiguous, [mn /
    T, k] where MN is; T elements are 16 bytes. One array stands for all operands of its shape.
    """

    chunks: NDArray[np.int64]
    base: int
    major: str
    #: Whether wgmma reads its type in the other major too.
    either: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes that an asynchronous operation reads or writes: `size` bytes from each of `starts`.

    `starts` [n] int64: offsets in the shared memory of CTA `owner`, or virtual addresses of global
    memory (`owner` -1). A tensor copy names the bytes inside the tensor only.
    """

    space: Literal["global", "shared"]
    owner: int
    kind: Literal["read", "write", "atomic"]
    starts: NDArray[np.int64]
    size: int
    proxy: Literal["async", "generic", "tensormap"] = "async"
    #: How the bytes lie: ``none``, ``32B``, ``64B``, ``128B`` ...; empty where it does not matter.
    swizzle: str = ""
    #: The box of a tensor copy: where it begins in shared memory, its size, and the bytes from one
    #: row to the next, then from one step of each further dimension to the next.
    box: tuple[int, ...] = ()
    #: An operand of wgmma: bytes from each group of 8 rows to the next, and one address of each.
    groups: tuple[int, ...] = ()
    tile: Tile | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """The mbarrier that counts `bytes` when the spans with these indices are done."""

    owner: int
    address: int
    #: The phase open when the operation was issued; -1: no live object there.
    phase: int
    bytes: int
    spans: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Async:
    """A bulk or tensor copy, bulk reduction, st.async or red.async issued by one lane.

    Completion is seen through `signals` (one for each destination CTA), or through the lane's bulk
    groups when there are none.
    """

    cta: int
    warp: int
    site: int
    lane: int
    spans: tuple[Span, ...]
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True)
class BulkCommit:
    """cp.async.bulk.commit_group by the lanes in `mask`."""

    cta: int
    warp: int
    site: int
    mask: int


@dataclass(frozen=True, slots=True)
class BulkWait:
    """cp.async.bulk.wait_group{.read} N: `newest` groups may stay pending; `read`: only the
    sources of the others are known to be read."""

    cta: int
    warp: int
    site: int
    mask: int
    newest: int
    read: bool


@dataclass(frozen=True, slots=True)
class Wgmma:
    """One warp's part of a wgmma.mma_async, told when that warp issues it.

    `index` counts the warp's products: parts of the four warps with one index are one operation.
    `reads` are the operands in shared memory (all of B; of A, all 64 rows). `a` and `d` are the
    32-bit register slots of the operand A (empty when A is in shared memory) and of D; `reads_d`
    is false when scale-d is. `shape` is the spelling of shape and types: products that are in
    flight together on one accumulator must agree in it.
    """

    cta: int
    warp: int
    site: int
    mask: int
    index: int
    reads: tuple[Span, ...]
    a: tuple[int, ...]
    d: tuple[int, ...]
    reads_d: bool
    shape: str


@dataclass(frozen=True, slots=True)
class WgmmaFence:
    """wgmma.fence by one warp."""

    cta: int
    warp: int
    site: int
    mask: int


@dataclass(frozen=True, slots=True)
class WgmmaCommit:
    """wgmma.commit_group by one warp."""

    cta: int
    warp: int
    site: int
    mask: int


@dataclass(frozen=True, slots=True)
class WgmmaWait:
    """wgmma.wait_group N by one warp: `newest` groups may stay pending."""

    cta: int
    warp: int
    site: int
    mask: int
    newest: int


@dataclass(frozen=True, slots=True)
class Registers:
    """An instruction other than wgmma reads or writes registers that some wgmma uses.

    `reads` and `writes` are 32-bit register slots; only those that a wgmma of the program names.
    """

    cta: int
    warp: int
    site: int
    mask: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetRegisters:
    """setmaxnreg by one warp: from here on its threads have `count` registers."""

    cta: int
    warp: int
    site: int
    mask: int
    count: int


@dataclass(frozen=True, slots=True)
class ClusterArrive:
    """barrier.cluster.arrive by the lanes in `mask`, into this generation of the cluster's
    barrier."""

    cta: int
    warp: int
    site: int
    mask: int
    generation: int
    semantics: Semantics = "release"


@dataclass(frozen=True, slots=True)
class ClusterWait:
    """barrier.cluster.wait is over for the lanes in `mask`: the generation has completed."""

    cta: int
    warp: int
    site: int
    mask: int
    generation: int
    semantics: Semantics = "acquire"


@dataclass(frozen=True, slots=True)
class Diverge:
    """Lanes of a warp took different ways: the groups, by mask."""

    cta: int
    warp: int
    site: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reconverge:
    """Lane groups stand at one instruction again and go on together."""

    cta: int
    warp: int
    site: int
    mask: int


@dataclass(frozen=True, slots=True)
class Exit:
    """The lanes in `mask` ended."""

    cta: int
    warp: int
    site: int
    mask: int


Event: TypeAlias = (
    Access | CpAsync | CpAsyncCommit | CpAsyncWait | CpAsyncArrive | BarrierArrive | BarrierRelease
    | WarpSync | Collective | Fence | Mbarrier | Diverge | Reconverge | Exit
    | Async | BulkCommit | BulkWait | Wgmma | WgmmaFence | WgmmaCommit | WgmmaWait | Registers
    | SetRegisters | ClusterArrive | ClusterWait
)


class Listener(Protocol):
    """Anything that wants the events of a run."""

    def on(self, event: Event) -> None:
        """Called for each event, in the order in which the machine executed it."""
