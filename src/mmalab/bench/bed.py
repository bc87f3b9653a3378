"""The test bed: launches in a graph, events around them, clock probes around those.

One timed block on the stream::

    probe (waits)   event   graph ... graph   event   probe

The first probe holds the stream for 200 us, until the host has queued the rest, so no launch
latency is inside. A graph holds as many launches as fill its time, each on the next set of
operands, so launching costs the same for every contestant. Two regimes:

- *burst*: 300 ms of rest, then about 3 ms of work: what a cool chip does, near its highest clock;
- *sustained*: blocks of 1.5 s without rest, behind a lead-in: what the power cap leaves. A product
  of few rows reads more than it multiplies and may stay below the cap; then it is what memory
  delivers for so long, at some 50,000 launches a block.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mmalab.bench.arena import Arena
from mmalab.bench.clock import SLOTS, mean_mhz, probe_kernel
from mmalab.bench.power import Meter, Reading
from mmalab.bench.subject import Subject
from mmalab.device.driver import call
from mmalab.device.gpu import Gpu
from mmalab.device.launch import load

__all__ = ["BURST", "PATIENCE_S", "SUSTAINED", "Bed", "Block", "Graph", "Regime", "bed"]

#: Nanoseconds that the first probe holds the stream.
_GATE_NS = 200_000
_POLL_S = 0.0002
#: Seconds after which a first launch is given up.
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Regime:
    """How a block is run: seconds of rest, of unmeasured lead-in, of measured work; of a graph."""

    name: str
    rest: float
    lead: float
    work: float
    graph: float
    #: Whether to warm the chip up with this many seconds before the first block.
    warm: float = 0.0
    #: What it shows, in a record's words.
    shows: str = ""


BURST = Regime("burst", rest=0.3, lead=0.0, work=0.003, graph=0.003,
               shows="launches back to back for some milliseconds on a rested chip")
SUSTAINED = Regime("sustained", rest=0.0, lead=0.1, work=1.5, graph=0.02, warm=0.8,
                   shows="launches back to back without rest: what the power cap leaves of a "
                         "product of many rows; of one that reads more than it multiplies, what "
                         "memory delivers for as long, its clock and power (the reasons say "
                         "whether anything slowed the chip down)")


@dataclass(frozen=True, slots=True)
class Graph:
    """Launches of one subject, ready to be replayed."""

    handle: Any
    launches: int
    subject: str
    #: Seconds of one launch, as estimated when the graph was made.
    each: float
    #: The kernels' own names, as the driver knows them.
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """One timed block. `seconds` is per launch, `mhz` the SMs' own mean clock over the work."""

    subject: str
    regime: str
    seconds: float
    launches: int
    mhz: float | None
    reading: Reading

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class Bed:
    """Times subjects on one GPU."""

    def __init__(self, gpu: Gpu, arena: Arena) -> None:
        self.gpu, self.arena = gpu, arena
        self.sms = gpu.attribute("MULTIPROCESSOR_COUNT")
        shared = gpu.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") * 3 // 4
        self._probe = load(gpu, probe_kernel(self.sms, shared))
        self._readings = [arena.allocate(16 * SLOTS) for _ in range(2)]
        self._events = [call(gpu.driver.cuEventCreate, 0) for _ in range(2)]
        self._graphs: list[tuple[Any, Any]] = []
        self.meter = Meter(_bus(gpu))

    # --- graphs -------------------------------------------------------------------------------

    def graph(self, subject: Subject, launches: int, each: float = 0.0) -> Graph:
        """Capture `launches` launches, each on the next set of operands.

        Raises:
            DriverError: the subject does something that cannot be captured.
        """
        cuda, stream = self.gpu.driver, self.gpu.stream.handle
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call(cuda.cuStreamBeginCapture, stream, mode)
        try:
            for at in range(launches):
                subject.enqueue(at % len(self.arena.sets))
        finally:
            error, template = cuda.cuStreamEndCapture(stream)
        if int(error):
            call(lambda: (error,))
        ready = call(cuda.cuGraphInstantiate, template, 0)
        call(cuda.cuGraphUpload, ready, stream)
        self._graphs.append((template, ready))
        return Graph(ready, launches, subject.name, each, self._kernels(template))

    def _kernels(self, template: Any) -> tuple[str, ...]:
        """The names of the kernels of one launch, asked of the graph's nodes."""
        cuda, names = self.gpu.driver, []
        kernel = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        _, count = call(cuda.cuGraphGetNodes, template, 0)
        nodes, _ = call(cuda.cuGraphGetNodes, template, count)
        for node in nodes[:count]:
            if call(cuda.cuGraphNodeGetType, node) != kernel:
                continue
            params = call(cuda.cuGraphKernelNodeGetParams, node)
            error, name = (cuda.cuFuncGetName(params.func) if int(params.func)
                           else cuda.cuKernelGetName(params.kern))
            names.append(name.decode() if not int(error) and name else "unknown")
        return tuple(dict.fromkeys(names))

    def fitting(self, subject: Subject, seconds: float, each: float) -> Graph:
        """A graph of about `seconds`, of a subject that takes `each` seconds."""
        return self.graph(subject, max(1, round(seconds / each)), each)

    # --- blocks -------------------------------------------------------------------------------

    def warm_up(self, subject: Subject) -> float:
        """Run each set once, then estimate the seconds of one launch from a few.

        Raises:
            DriverError: the subject faults.
        """
        for at in range(len(self.arena.sets)):
            subject.enqueue(at)
        self.gpu.wait(subject.name, patience=PATIENCE_S)
        for launches in (2, 16, 128):
            seconds = self.run(self.graph(subject, launches), 1)[0]
            if seconds * launches > 5e-4:
                break
        return seconds

    def block(self, graph: Graph, regime: Regime) -> Block:
        """One block of a regime."""
        if regime.rest:
            time.sleep(regime.rest)
        if regime.lead:
            self._spend(graph, regime.lead)
        sampled = not regime.rest
        if sampled:
            self.meter.start()
        replays = self._replays(graph, regime.work) if sampled else 1
        seconds, mhz = self.run(graph, replays)
        reading = self.meter.stop() if sampled else Reading()
        return Block(graph.subject, regime.name, seconds, graph.launches * replays, mhz, reading)

    @staticmethod
    def _replays(graph: Graph, seconds: float) -> int:
        return max(1, round(seconds / (graph.each * graph.launches)))

    def _spend(self, graph: Graph, seconds: float) -> None:
        """Keep the chip at work for about so long."""
        self.run(graph, self._replays(graph, seconds))

    def heat(self, graph: Graph, regime: Regime) -> None:
        """The regime's warm-up."""
        if regime.warm:
            self._spend(graph, regime.warm)

    def run(self, graph: Graph, replays: int) -> tuple[float, float | None]:
        """Seconds per launch, and the SMs' clock in MHz where the work was long enough."""
        cuda, stream = self.gpu.driver, self.gpu.stream.handle
        for place in self._readings:
            call(cuda.cuMemsetD8Async, place, 0, 16 * SLOTS, stream)
        start, end = self._events
        self._read_clocks(0, _GATE_NS)
        call(cuda.cuEventRecord, start, stream)
        for _ in range(replays):
            call(cuda.cuGraphLaunch, graph.handle, stream)
        call(cuda.cuEventRecord, end, stream)
        self._read_clocks(1, 0)
        self.gpu.wait(graph.subject, _POLL_S)
        milliseconds = float(call(cuda.cuEventElapsedTime, start, end))
        before, after = (self._clocks(which) for which in (0, 1))
        return milliseconds / 1000 / (replays * graph.launches), mean_mhz(before, after)

    def _read_clocks(self, which: int, wait: int) -> None:
        block = self._readings[which].to_bytes(8, "little") + wait.to_bytes(8, "little")
        self.gpu.enqueue(self._probe.code, self._probe.shape, block, self._probe.offsets)

    def _clocks(self, which: int) -> list[list[int]]:
        found = np.zeros((SLOTS, 2), np.uint64)
        call(self.gpu.driver.cuMemcpyDtoH, found.ctypes.data, self._readings[which], found.nbytes)
        return [[int(clock), int(ns)] for clock, ns in found]

    def forget(self) -> None:
        """Give back the graphs."""
        cuda = self.gpu.driver
        for template, ready in self._graphs:
            cuda.cuGraphExecDestroy(ready)
            cuda.cuGraphDestroy(template)
        self._graphs.clear()

    def close(self) -> None:
        """Give everything back."""
        self.forget()
        for event in self._events:
            self.gpu.driver.cuEventDestroy(event)


def _bus(gpu: Gpu) -> str:
    return str(call(gpu.driver.cuDeviceGetPCIBusId, 32, gpu.index).split(b"\0")[0].decode())


@contextmanager
def bed(gpu: Gpu, arena: Arena) -> Iterator[Bed]:
    """A bed that is closed at the end."""
    made = Bed(gpu, arena)
    try:
        yield made
    finally:
        made.close()
