"""The SM clock while other kernels run: two readings of every SM's own counter.

``%clock64`` counts the clocks of one SM and goes on between kernels; ``%globaltimer`` counts
nanoseconds. A probe is a kernel of one thread on each SM that writes both. One probe before the
work and one after it give, SM by SM, the mean clock over all of the work, whoever wrote it::

    MHz = 1000 (clock after - clock before) / (nanoseconds after - nanoseconds before)

One CTA of almost all shared memory lands on each SM, and writes at its ``%smid``. The first probe
can also wait: it holds the stream until the host has queued what is to be timed. Checked on an H200
against a kernel that counted its own clocks: 1979.8 both, idle gaps of 300 ms between included.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from mmalab import isa
from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.kernel import Kernel, Param
from mmalab.ptx.nodes import Register

__all__ = ["SLOTS", "mean_mhz", "probe_kernel"]

#: SMs that a probe has room for.
SLOTS = 512
#: Least distance of two readings, in ns: the timer moves in steps of 32 or 64 ns.
_LEAST_NS = 20_000


def probe_kernel(sms: int, shared: int) -> Kernel:
    """The probe: ``readings`` (2 x SLOTS u64: clock and ns by SM), ``wait`` ns before reading."""
    b = KernelBuilder("clock_probe", target="sm_80", arity=isa.find)
    place = b.load_param(b.param("readings", "u64"))
    wait = b.load_param(b.param("wait", "u64"))
    b.reqntid(1)
    timer = Register("%globaltimer")
    start, now, ahead = b.reg("b64"), b.reg("b64"), b.reg("b64")
    b.emit("mov.u64", start, timer)
    again = b.label("again")
    b.place(again)
    b.emit("mov.u64", now, timer)
    b.emit("sub.u64", ahead, now, start)
    with b.guard(b.setp("lt", "u64", ahead, wait)):
        b.emit("bra", again)
    slot, clock = b.mov("u32", Register("%smid")), b.reg("b64")
    address = b.add("s64", b.cvta("to.global.u64", place), b.mul_wide("u32", slot, 16))
    b.emit("mov.u64", clock, b.clock64)
    b.emit("mov.u64", now, timer)
    b.st("global.u64", b.at(address), clock)
    b.st("global.u64", b.at(address, 8), now)
    b.emit("ret")
    return Kernel(
        name="clock_probe", ptx=b.text(), entry="clock_probe", grid=(sms, 1, 1), block=(1, 1, 1),
        params=(Param("readings", "out", "u64", (SLOTS, 2), "clock and ns, by SM"),
                Param("wait", "scalar", "u64", (), "ns")),
        target="sm_80", dynamic_shared=shared)


def mean_mhz(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> float | None:
    """The median over the SMs of the mean clock between two probes, MHz; None without readings."""
    found = [1000 * (late[0] - early[0]) / (late[1] - early[1])
             for early, late in zip(before, after, strict=True)
             if early[1] and late[1] - early[1] >= _LEAST_NS]
    return statistics.median(found) if found else None
