"""A warp-specialised Hopper matmul, right as it stands, and one fault at a time on request.

C (256 x 128, bf16) = A (256 x 256) x B^T (B 128 x 256), by a cluster of two CTAs. Each CTA owns
128 rows and goes through two tiles of 64 columns; of three warpgroups the first brings slices of 64
of K by TMA into a ring of two stages, the others multiply 64 rows each. B is shared: each CTA
brings half of a slice and multicasts it to both.

    producer (one thread)                       consumers (2 warpgroups)
    wait empty[s]                               wait full[s]
    arrive.expect_tx full[s]                    wgmma.fence; 4 wgmma; commit
    copy A -> own, B half -> both CTAs          wait_group 1; release the stage before, in both CTAs
                                                ... wait_group 0; stmatrix; proxy fence; barrier
                                                one thread: TMA store; commit

A :class:`Fault` leaves out the steps that it names, or gives a value another number. Everything is
unrolled, so a step can be broken in one place only: ``"full.wait.3"`` is the fourth slice's wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mmalab import isa
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.nodes import Register

__all__ = ["BLOCK", "CLUSTER", "GRID", "SHARED", "Fault", "text"]

GRID, BLOCK, CLUSTER = (2, 1, 1), (384, 1, 1), (2, 1, 1)
STAGES, TILES, SLICES = 2, 2, 4
A_BYTES, B_BYTES, C_BYTES = 128 * 128, 64 * 128, 64 * 128
#: Byte offsets in shared memory: A stages, B stages, one output tile per consumer, the mbarriers.
A_AT, B_AT, C_AT = 0, STAGES * A_BYTES, STAGES * (A_BYTES + B_BYTES)
FULL_AT = C_AT + 2 * C_BYTES
EMPTY_AT = FULL_AT + 8 * STAGES
SHARED = EMPTY_AT + 8 * STAGES
_PRODUCT = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"


@dataclass(frozen=True)
class Fault:
    """What is wrong: steps left out, values replaced."""

    without: frozenset[str] = frozenset()
    values: Mapping[str, Any] = field(default_factory=dict)


class _Writer:
    """Writes the kernel step by step."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.unknown = set(fault.without) | set(fault.values)
        self.b = KernelBuilder("pipeline", target="sm_90a", version=(8, 6), arity=isa.find)

    def has(self, *names: str) -> bool:
        """Whether the step stays; it may be named at several grains."""
        self.unknown -= set(names)
        return not self.fault.without.intersection(names)

    def value(self, default: Any, *names: str) -> Any:
        """The value of the first name that the fault sets, else `default`."""
        self.unknown -= set(names)
        return next((self.fault.values[n] for n in names if n in self.fault.values), default)

    # --- the whole ----------------------------------------------------------------------------

    def text(self) -> str:
        b = self.b
        maps = [b.param(name, "b8", dims=[128], align=64) for name in ("a", "b", "c")]
        b.reqntid(*BLOCK)
        b.maxnreg(168)
        self.a, self.bb, self.c = (b.cvta("param.u64", b.mov("u64", name)) for name in maps)
        self.shared = b.mov("u32", b.dynamic_shared(align=1024))
        self.rank = b.mov("u32", b.cluster_ctarank)
        self.tid = b.mov("u32", b.tid.x)
        self.group = b.shr("u32", self.tid, 7)
        self.start()
        consumer, end = b.label("consumer"), b.label("end")
        b.branch(consumer, b.setp("ne", "u32", self.group, 0))
        self.producer()
        b.branch(end)
        b.place(consumer)
        self.consumer()
        b.place(end)
        if self.has("exit.cluster"):
            self.cluster("exit")
        b.emit("ret")
        if self.unknown:
            raise AssertionError(f"no such steps: {sorted(self.unknown)}")
        return b.text()

    def start(self) -> None:
        """The barriers, and what makes them known to the cluster."""
        b = self.b
        with b.when(b.setp("eq", "u32", self.tid, 0)):
            for stage in range(STAGES):
                full, empty = FULL_AT + 8 * stage, EMPTY_AT + 8 * stage
                b.emit("mbarrier.init.shared::cta.b64", b.at(self.shared, full),
                       self.value(1, "full.count"))
                b.emit("mbarrier.init.shared::cta.b64", b.at(self.shared, empty),
                       self.value(4, "empty.count"))
            if self.has("init.fence"):
                b.emit("fence.mbarrier_init.release.cluster")
        if self.has("start.cluster"):
            self.cluster("start")
        else:
            b.emit("bar.sync", 0)

    def cluster(self, name: str) -> None:
        sem = ".relaxed" if name == "start" else ""
        self.b.emit(f"barrier.cluster.arrive{sem}.aligned")
        self.b.emit("barrier.cluster.wait.aligned")

    def wait(self, barrier: int, parity: int, *names: str) -> None:
        """Poll an mbarrier of this CTA until the phase with this parity has completed."""
        b = self.b
        if not self.has(*names):
            return
        again, done = b.label("again"), b.reg("pred")
        b.place(again)
        b.emit("mbarrier.try_wait.parity.shared::cta.b64", done, b.at(self.shared, barrier),
               parity)
        if self.has(*(f"{name}.loop" for name in names)):
            b.branch(again, done, negated=True)

    @contextmanager
    def one_lane(self, name: str) -> Iterator[None]:
        """One elected lane, unless the fault lets all of them in."""
        b = self.b
        if not self.has(name):
            yield
            return
        elected = b.reg("pred")
        b.emit("elect.sync", b.pair(b.sink, elected), 0xFFFFFFFF)
        with b.when(elected):
            yield

    # --- the producer -------------------------------------------------------------------------

    def producer(self) -> None:
        b = self.b
        b.emit("setmaxnreg.dec.sync.aligned.u32", 40)
        with b.when(b.setp("lt", "u32", self.tid, 32)), self.one_lane("producer.elect"):
            for at in range(TILES * SLICES):
                self.fill(at)

    def fill(self, at: int) -> None:
        """Slice `at` of the ring: wait for its stage, announce, copy."""
        b, stage = self.b, at % STAGES
        full = FULL_AT + 8 * stage
        first = self.value(1, "empty.first_parity")
        self.wait(EMPTY_AT + 8 * stage, (at // STAGES & 1) ^ first, "empty.wait",
                  f"empty.wait.{at}")
        if self.has("expect"):
            b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", b.sink, b.at(self.shared, full),
                   self.value(A_BYTES + B_BYTES, "expect.bytes", f"expect.bytes.{at}"))
        else:
            b.emit("mbarrier.arrive.shared::cta.b64", b.sink, b.at(self.shared, full))
        k, n = at % SLICES * 64, at // SLICES * 64
        row = b.mul_lo("u32", self.rank, 128)
        a_at = A_AT + stage * self.value(A_BYTES, "stage.bytes") + self.value(0, "a.offset")
        b.emit(_LOAD, b.at(self.shared, a_at), b.at(self.a, coordinates=[k, row]),
               b.at(self.shared, full))
        half = b.mad_lo("u32", self.rank, 32, n)
        to = b.mad_lo("u32", self.rank, 32 * 128, self.shared)
        b.emit(f"{_LOAD}.multicast::cluster", b.at(to, B_AT + stage * B_BYTES),
               b.at(self.bb, coordinates=[k, half]), b.at(self.shared, full),
               b.mov("u16", self.value(3, "multicast.mask")))

    # --- the consumers ------------------------------------------------------------------------

    def consumer(self) -> None:
        b = self.b
        b.emit("setmaxnreg.inc.sync.aligned.u32", self.value(232, "consumer.registers"))
        self.mine = b.sub("u32", self.group, 1)
        self.thread = b.and_("b32", self.tid, 127)
        self.sums = b.regs("f32", 32)
        for register in self.sums:
            b.mov("f32", 0.0, out=register)
        for tile in range(TILES):
            for at in range(tile * SLICES, (tile + 1) * SLICES):
                self.multiply(at)
            if self.has("last.wait"):
                b.emit("wgmma.wait_group.sync.aligned", self.value(0, "last.wait.newest"))
            self.release((tile + 1) * SLICES - 1)
            self.store(tile)
        if self.has("exit.wait"):
            self.by_first("exit.wait.thread", lambda: b.emit("cp.async.bulk.wait_group.read", 0))

    def multiply(self, at: int) -> None:
        b, stage = self.b, at % STAGES
        waited = self.value(stage, "full.stage")
        parity = self.value(at // STAGES & 1, "full.parity")
        self.wait(FULL_AT + 8 * waited, parity, "full.wait", f"full.wait.{at}")
        if at % SLICES == 0 and self.has("wgmma.fence", f"wgmma.fence.{at}"):
            b.emit("wgmma.fence.sync.aligned")
        rows = b.mad_lo("u32", self.mine, 64 * 128, self.shared)
        stride = self.value(A_BYTES, "stage.bytes")
        a = self.descriptor(rows, A_AT + stage * stride)
        bb = self.descriptor(self.shared, B_AT + stage * B_BYTES)
        if not self.has("wgmma.whole"):
            with b.when(b.setp("lt", "u32", self.thread, 96)):
                self.products(at, a, bb)
        else:
            self.products(at, a, bb)
        if self.has("commit", f"commit.{at}"):
            b.emit("wgmma.commit_group.sync.aligned")
        if at % SLICES:
            if self.has("release.wait"):
                b.emit("wgmma.wait_group.sync.aligned", self.value(1, "release.wait.newest"))
            self.release(at - 1)

    def descriptor(self, base: Register, offset: int) -> Register:
        """K-major, 128-byte swizzle, rows of 128 bytes: SBO 1024."""
        b = self.b
        start = b.and_("b32", b.shr("u32", b.add("u32", base, offset), 4), 0x3FFF)
        rest = (1 << 62) | (64 << 32) | (1 << 16)
        return b.or_("b64", b.cvt("u64.u32", start), rest)

    def products(self, at: int, a: Register, bb: Register) -> None:
        b = self.b
        for step in range(4):
            left, right = (b.add("s64", word, 2 * step) for word in (a, bb))
            keep = b.setp("ne", "u32", 0 if at % SLICES == 0 and step == 0 else 1, 0)
            b.emit(_PRODUCT, self.sums, left, right, keep, 1, 1, 0, 0)
            if step == 1 and not self.has("touch"):
                b.mul("f32", self.sums[0], 2.0, out=self.sums[0])

    def release(self, at: int) -> None:
        """Threads 0 and 1 tell the producers of both CTAs that the stage may be filled again."""
        b = self.b
        if not self.has("release", f"release.{at}"):
            return
        ranks = self.value(2, "release.ranks")
        with b.when(b.setp("lt", "u32", self.thread, ranks)):
            own = b.add("u32", self.shared, EMPTY_AT + 8 * (at % STAGES))
            remote = b.reg("b32")
            b.emit("mapa.shared::cluster.u32", remote, own, self.thread)
            sem = self.value(".release.cluster", "release.semantics")
            b.emit(f"mbarrier.arrive{sem}.shared::cluster.b64", b.sink, b.at(remote))

    # --- the epilogue -------------------------------------------------------------------------

    def by_first(self, name: str, action: Any) -> None:
        """Thread 0 of the warpgroup, or the thread that the fault names."""
        b = self.b
        with b.when(b.setp("eq", "u32", self.thread, self.value(0, name))):
            action()

    def barrier(self, name: str) -> None:
        """The warpgroup's own named barrier."""
        b = self.b
        if self.has(name):
            ident = self.value(None, "barrier.id")
            ident = ident if ident is not None else b.add("u32", self.group, 1)
            b.emit("bar.sync", ident, self.value(128, f"{name}.threads"))

    def store(self, tile: int) -> None:
        """Sums to shared memory, 16 bytes of a row a thread, and from there by TMA."""
        b = self.b
        if tile:
            if self.has("reuse.wait"):
                self.by_first("reuse.wait.thread",
                              lambda: b.emit("cp.async.bulk.wait_group.read", 0))
            self.barrier("reuse.barrier")
        home = b.mad_lo("u32", self.mine, C_BYTES, b.add("u32", self.shared, C_AT))
        if not self.has("store.fence.late"):
            b.emit("fence.proxy.async.shared::cta")
        self.write_tile(home)
        if self.has("store.fence") and self.has("store.fence.late"):
            b.emit(f"fence.proxy.async{self.value('.shared::cta', 'store.fence.space')}")
        self.barrier("store.barrier")
        self.by_first("store.thread", lambda: self.send(home, tile))

    def write_tile(self, home: Register) -> None:
        """stmatrix.x4: lane l gives row l % 16 of the warp's 16, columns 8 (l / 16) on."""
        b = self.b
        lane, warp = b.and_("b32", self.tid, 31), b.and_("b32", b.shr("u32", self.tid, 5), 3)
        row = b.mad_lo("u32", warp, 16, b.and_("b32", lane, 15))
        line = b.mad_lo("u32", row, 128, home)
        for part in range(4):
            column = b.add("u32", b.shl("b32", b.shr("u32", lane, 4), 4), 32 * part)
            swizzled = b.xor("b32", column, b.shl("b32", b.and_("b32", row, 7), 4))
            words = []
            for pair in range(4):
                low, high = self.sums[8 * part + 2 * pair : 8 * part + 2 * pair + 2]
                word = b.reg("b32")
                b.emit("cvt.rn.bf16x2.f32", word, high, low)
                words.append(word)
            at = b.add("u32", line, swizzled)
            b.emit("stmatrix.sync.aligned.m8n8.x4.shared.b16",
                   b.at(at, self.value(0, "stmatrix.offset")), words)

    def send(self, home: Register, tile: int) -> None:
        b = self.b
        row = b.mad_lo("u32", self.mine, 64, b.mul_lo("u32", self.rank, 128))
        b.emit("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
               b.at(self.c, coordinates=[64 * tile, row]), b.at(home))
        if self.has("store.commit"):
            b.emit("cp.async.bulk.commit_group")


def text(fault: Fault | None = None) -> str:
    """The PTX of the kernel with this fault."""
    return _Writer(fault or Fault()).text()
