"""wgmma.fence, commit_group and wait_group: each warp on its own.

A warp that waits for products of which other warps have not issued their part stands at the wait
until they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mmalab.emulator.events import WgmmaCommit, WgmmaFence, WgmmaWait
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.wgmma_product import together
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm, Site
from mmalab.emulator.state import any_lane, pack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__: list[str] = []


@executes("wgmma.fence")
def _fence(lanes: Lanes) -> None:
    _tell(lanes, WgmmaFence)


@executes("wgmma.commit_group")
def _commit(lanes: Lanes) -> None:
    for row in lanes.rows[any_lane(lanes.mask)].tolist():
        lanes.machine.warpgroups.commit(row)
    _tell(lanes, WgmmaCommit)


def _tell(lanes: Lanes, event: type[WgmmaFence | WgmmaCommit]) -> None:
    if not lanes.machine.observed:
        return
    for position, row in enumerate(lanes.rows.tolist()):
        if lanes.mask[position].any():
            cta, warp = lanes.machine.state.where(row)
            lanes.machine.emit(event(cta, warp, lanes.site.index, int(pack(lanes.mask[position]))))


@executes("wgmma.wait_group")
def _wait(lanes: Lanes) -> None:
    """Warps that come before others have issued what they wait for stand here until then."""
    with together(lanes.machine):
        _wait_each(lanes)


def _wait_each(lanes: Lanes) -> None:
    machine, count = lanes.machine, lanes.operands[0]
    newest = count.word if isinstance(count, Imm) else 0
    observed, groups, rows = machine.observed, machine.warpgroups, lanes.rows.tolist()
    behind = groups.behind(lanes.rows)
    for position in np.nonzero(any_lane(lanes.mask))[0].tolist():
        row = rows[position]
        done = groups.wait(row, newest, behind[position])
        if done and not observed:
            continue
        active = lanes.mask[position]
        if done:
            cta, warp = machine.state.where(row)
            machine.emit(WgmmaWait(cta, warp, lanes.site.index, int(pack(active)), newest))
            continue
        machine.state.pc[row][active] = lanes.site.index
        machine.counts[lanes.site.index] -= 1  # it has not been executed yet
        machine.park(row, active, {"site": lanes.site, "explain": machine.warpgroups.explain})
        _check_siblings(machine, row, lanes.site)


def _check_siblings(machine: Machine, row: int, site: Site) -> None:
    lacks = machine.warpgroups.explain(row)
    if lacks["ended_warps"]:
        ended = ", ".join(map(str, lacks["ended_warps"]))
        machine.report(
            "divergent-collective", f"the warpgroup's products wait for warps {ended}, which have"
            " ended without issuing their part", site=site, row=row, witness=lacks)
