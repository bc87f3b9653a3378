"""setmaxnreg: warps of a CTA give registers to a pool and take some out of it.

The pool exists when the registers of the launch are known from the text: see
:mod:`mmalab.isa.entry_registers`. Without, as with ``.maxntid`` alone, the assembler leaves
setmaxnreg out (C7508), and so do we; the checker says so. An increase waits until the pool has
enough::

    384 threads, 168 registers each    producer: dec 40, consumers: inc 232 each
    3 x 168 = 504 = 40 + 232 + 232     both increases are served
    40 + 240 + 240 = 520               one of them waits for ever
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mmalab.emulator.program import Site
from mmalab.emulator.state import Status
from mmalab.isa.entry_registers import entry_registers
from mmalab.ptx.nodes import Function, Immediate

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["RegisterPool", "launch_registers"]

_LANES = 32
#: Warps of a warpgroup.
_WARPS = 4


def launch_registers(entry: Function, target: str) -> int:
    """Registers of a thread when a CTA starts, as directives fix them; 0 when none does."""
    values = {name: [int(part) for part in value.split(",")] for name, value in entry.attributes
              if name in (".maxnreg", ".reqntid", ".maxntid", ".minnctapersm")}
    raised = [int(op.value) for item in entry.instructions() for op in item.operands
              if item.opcode.startswith("setmaxnreg.inc") and isinstance(op, Immediate)]
    return entry_registers(values, target, max(raised, default=None))


class RegisterPool:
    """Registers that each warp has and what is left in the pool of its CTA."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._launch = machine.program.launch_registers
        rows = machine.state.rows
        self._have = np.full(rows, self._launch, np.int64)
        self._free = np.zeros(len(machine.state.ctas), np.int64)
        #: The values that each warp has asked for, in order: those of a warpgroup must agree.
        self._asked: list[list[int]] = [[] for _ in range(rows)]
        self._wanted = np.zeros(rows, np.int64)

    def change(self, site: Site, row: int, count: int, *, increase: bool) -> bool:
        """setmaxnreg by one warp; False: the pool has too little, the warp waits."""
        if not self._launch:
            return True
        cta = row // self._machine.shape.warps
        if not self._right_way(site, row, count, increase=increase):
            return True
        more = (count - int(self._have[row])) * _LANES
        if more > self._free[cta]:
            self._wanted[row] = count
            return False
        self._wanted[row] = 0
        self._asked[row].append(count)
        self._check_group(site, row, count)
        self._free[cta] -= more
        self._have[row] = count
        self._machine.version += 1
        return True

    def _right_way(self, site: Site, row: int, count: int, *, increase: bool) -> bool:
        have = int(self._have[row])
        if count >= have if increase else count <= have:
            return True
        self._report(site, row, "illegal-value", f"the warp has {have} registers: "
                     f"setmaxnreg.{'inc' if increase else 'dec'} cannot set {count}. Repair: "
                     f"setmaxnreg.{'dec' if increase else 'inc'}, or a value "
                     f"{'from' if increase else 'up to'} {have}")
        return False

    def _check_group(self, site: Site, row: int, count: int) -> None:
        number = len(self._asked[row]) - 1
        for other in self._group(row):
            if len(self._asked[other]) > number:
                if self._asked[other][number] == count:
                    continue
                self._report(site, row, "divergent-collective", "the warps of a warpgroup execute "
                             f"the same setmaxnreg: warp {other % self._machine.shape.warps} set "
                             f"{self._asked[other][number]}, this one {count}")
                return
            if (self._machine.state.status[other] == Status.EXITED).all():
                self._report(site, row, "divergent-collective", "the warps of a warpgroup execute "
                             f"the same setmaxnreg: warp {other % self._machine.shape.warps} has "
                             "ended without it")
                return

    def _group(self, row: int) -> range:
        warps = self._machine.shape.warps
        cta, warp = divmod(row, warps)
        first = warp // _WARPS * _WARPS
        return range(cta * warps + first, cta * warps + min(first + _WARPS, warps))

    def _report(self, site: Site, row: int, code: str, words: str) -> None:
        self._machine.report(code, f"{words} ({site.shown})", site=site, row=row, lane=0)

    def explain(self, row: int) -> dict[str, Any]:
        """For a warp that waits: what it wants, and what its CTA has left."""
        cta, warps = divmod(row, self._machine.shape.warps)[0], self._machine.shape.warps
        have = self._have[cta * warps : (cta + 1) * warps]
        return {"setmaxnreg": int(self._wanted[row]), "has": int(self._have[row]),
                "free_registers": int(self._free[cta]),
                "missing_registers": int((self._wanted[row] - self._have[row]) * _LANES
                                         - self._free[cta]),
                "launch_registers": self._launch, "warps_have": have.tolist()}
