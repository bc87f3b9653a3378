"""What compiled code did to mbarriers, told to the machine before it looks at them again.

Compiled arrivals and waits work on the word in shared memory. The machine also keeps how many
phases each object has completed and who arrived, to explain deadlocks; so every CTA has a log of
:data:`LOG_RECORDS` records, which is read after each round of compiled code::

    kind | completed << 4 | site << 8 | row << 40,  shared address,  arrivals,  announced bytes

A full log sends compiled code to the machine, which reads it first: nothing is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import RANK_SHIFT, aligned_zeros
from mmalab.emulator.native.abi import LOG_RECORDS, LogKind
from mmalab.emulator.program import Program

__all__ = ["Arrivals"]

_RECORD = 4


class Arrivals:
    """The logs of the resident CTAs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._logs = aligned_zeros(
            (len(machine.state.ctas), _RECORD * (1 + LOG_RECORDS)), np.int64)

    @staticmethod
    def wanted(program: Program) -> bool:
        """Whether any instruction would write a log."""
        return any(site.form.family.startswith("mbarrier.") for site in program.sites)

    @property
    def pointers(self) -> NDArray[np.int64]:
        """Where each CTA's log lies."""
        step = self._logs[0].nbytes
        return np.asarray(int(self._logs.ctypes.data) + step * np.arange(len(self._logs)))

    def tell(self) -> None:
        """Give the machine what the logs hold, and empty them."""
        used = np.nonzero(self._logs[:, 0])[0]
        for cta in used.tolist():
            count = int(self._logs[cta, 0])
            records = self._logs[cta, _RECORD : _RECORD * (1 + count)].reshape(count, _RECORD)
            self._tell_cta(cta, records.tolist())
        self._logs[used, 0] = 0

    def _tell_cta(self, cta: int, records: list[list[Any]]) -> None:
        machine = self._machine
        sites, mbarriers = machine.program.sites, machine.mbarriers
        start = cta * machine.space.shared_stride
        for head, address, arrivals, announced in records:
            index = start + (address & (1 << RANK_SHIFT) - 1)
            row, kind = head >> 40, head & 15
            if kind == LogKind.PASSED:
                mbarriers.passed(index, row)
                continue
            line = sites[head >> 8 & 0xFFFFFFFF].line
            mbarriers.happened(index, row, line, announced=announced,
                               arrivals=arrivals if kind == LogKind.ARRIVE else 0,
                               completed=bool(head >> 4 & 1))
