"""Which lanes of a warp run as one: told to the listeners when groups split and when they meet.

Lanes that execute an instruction together and then stand at one place stay together. When they come
to stand at different places (a branch, a wait that some failed), they are groups of their own until
a scheduler lets them execute together again::

    @%p bra L        lanes 0-7 jump, 8-31 stay         Diverge(groups=(0xff, 0xffffff00))
 L: add ...          all 32 execute it                 Reconverge(mask=0xffffffff)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Diverge, Reconverge
from mmalab.emulator.state import Status, pack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Convergence"]


class Convergence:
    """The groups of all resident lanes, as numbers [rows, 32]."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._group = np.zeros((machine.state.rows, 32), np.int64)
        self._next = 1

    def before(self, site: int, rows: NDArray[np.int64], standing: NDArray[np.bool_]) -> None:
        """`standing` [warps, 32] are about to execute together."""
        group = self._group[rows]
        low = np.where(standing, group, np.iinfo(np.int64).max).min(axis=1)
        high = np.where(standing, group, -1).max(axis=1)
        for position in np.nonzero(low < high)[0].tolist():
            row = int(rows[position])
            self._group[row][standing[position]] = self._take()
            cta, warp = self._machine.state.where(row)
            self._machine.emit(Reconverge(cta, warp, site, int(pack(standing[position]))))

    def after(self, site: int, rows: NDArray[np.int64], standing: NDArray[np.bool_]) -> None:
        """They have executed; those that now stand apart are groups of their own."""
        state = self._machine.state
        status = state.status[rows]
        alive = standing & (status != Status.EXITED)
        place = state.pc[rows].astype(np.int64) * 8 + status
        low = np.where(alive, place, np.iinfo(np.int64).max).min(axis=1)
        high = np.where(alive, place, -1).max(axis=1)
        for position in np.nonzero(low < high)[0].tolist():
            row = int(rows[position])
            groups = []
            for where in np.unique(place[position][alive[position]]).tolist():
                lanes = alive[position] & (place[position] == where)
                self._group[row][lanes] = self._take()
                groups.append(int(pack(lanes)))
            cta, warp = state.where(row)
            self._machine.emit(Diverge(cta, warp, site, tuple(groups)))

    def _take(self) -> int:
        self._next += 1
        return self._next
