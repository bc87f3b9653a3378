"""Whole warpgroups that issue one wgmma together and unobserved: no bookkeeping by warp.

That is how warpgroups go in a run without listeners, nearly always: their four warps stand at the
instruction with equal operands. Under the eager schedule all of them, of all CTAs, become one table
of jobs, which the processors share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.wgmma_checks import bounds_kept, judge
from mmalab.emulator.execute.wgmma_descriptors import check_overlap
from mmalab.emulator.execute.wgmma_plan import Plan
from mmalab.emulator.execute.wgmma_product import count, start, tiles_of
from mmalab.emulator.execute.wgmma_tiles import TilePlan, run_apart
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Site
from mmalab.emulator.state import all_lanes
from mmalab.emulator.warpgroups import WARPS, Part, Product
from mmalab.numerics.tile_ir import JOB, Word

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["issue_whole"]

_Words = dict[str, NDArray[Any]]


def issue_whole(lanes: Lanes, plan: Plan, named: _Words) -> NDArray[np.bool_]:
    """Issue the products of whole warpgroups; which of the rows had part in one.

    `named` are the operands [rows, 32] of A and B behind descriptors, and scale_d.
    """
    machine, rows = lanes.machine, lanes.rows
    done = np.zeros(len(rows), bool)
    if machine.observed or len(rows) < WARPS:
        return done
    tiles = tiles_of(machine, lanes.site, plan)
    if tiles is None or machine.space.shared.written is not None:
        return done
    at = _alike(lanes, named)
    if not len(at):
        return done
    done[at[:, None] + np.arange(WARPS)] = True
    firsts = rows[at]
    values = {name: words[at, 0] for name, words in named.items()}
    jobs = _jobs(machine, lanes.site, plan, tiles, firsts, values)
    if jobs is None:
        return np.ones(len(rows), bool)
    if machine.schedule == "eager":
        count(machine, plan, len(firsts), compiled=True)
        run_apart(tiles.tile, jobs)
    else:
        _start_each(machine, lanes.site, firsts, values)
    machine.warpgroups.issued[firsts[:, None] + np.arange(WARPS)] += 1
    machine.version += len(firsts)
    return done


def _start_each(machine: Machine, site: Site, firsts: NDArray[np.int64], values: _Words) -> None:
    """Products that happen when the schedule says."""
    issued = machine.warpgroups.issued
    listed = {name: words.tolist() for name, words in values.items()}
    for number, first in enumerate(firsts.tolist()):
        part = Part(site, tuple((name, int(words[number])) for name, words in listed.items()))
        start(machine, Product(first, int(issued[first]), dict.fromkeys(range(WARPS), part)))


def _alike(lanes: Lanes, named: _Words) -> NDArray[np.int64]:
    """Positions of the first rows of warpgroups that are complete and agree."""
    rows, warps = lanes.rows, lanes.machine.shape.warps
    issued = lanes.machine.warpgroups.issued
    heads = rows[: 1 - WARPS]
    at = np.nonzero((heads % warps % WARPS == 0) & (heads % warps + WARPS <= warps)
                    & (rows[WARPS - 1 :] - heads == WARPS - 1))[0]
    four = at[:, None] + np.arange(WARPS)
    alike = all_lanes(lanes.mask)[four].all(axis=1)
    alike &= (issued[rows[four]] == issued[rows[at]][:, None]).all(axis=1)
    for words in named.values():
        heads = words[:, 0]
        alike &= (heads[four] == heads[at][:, None]).all(axis=1)
        alike &= all_lanes(words == words[:, :1])[four].all(axis=1)
    return np.asarray(at[alike])


def _jobs(machine: Machine, site: Site, plan: Plan, tiles: TilePlan, firsts: NDArray[np.int64],
          values: _Words) -> NDArray[np.int64] | None:
    """[warpgroups, JOB]; None after a report that ended the run."""
    state, space = machine.state, machine.space
    registers = int(state.r.ctypes.data) + firsts * state.r[0].nbytes
    shared = int(space.shared.data.ctypes.data) + (
        firsts // machine.shape.warps * space.shared_stride)
    jobs = np.zeros((len(firsts), JOB), np.int64)
    for side, place, table in (("a", Word.A, Word.A_TABLE), ("b", Word.B, Word.B_TABLE)):
        if side not in values:
            jobs[:, place], jobs[:, table] = registers, tiles.a_pointer
            continue
        words, which, inverse = np.unique(values[side], return_index=True, return_inverse=True)
        found = np.zeros((len(words), 2), np.int64)
        for number, (word, first) in enumerate(zip(words.tolist(), which.tolist(), strict=True)):
            row = int(firsts[first])
            judge(machine, row, site, side, word)
            operand, base = plan.operand(side, word)
            if not bounds_kept(machine, row, site, side, word, operand, base):
                return None
            check_overlap(machine, row, site, side, word, operand)
            found[number] = base, tiles.table(side, operand)
        jobs[:, place] = shared + found[inverse, 0]
        jobs[:, table] = found[inverse, 1]
    jobs[:, Word.D], jobs[:, Word.D_TABLE] = registers, tiles.d_pointer
    jobs[:, Word.CHUNKS] = tiles.chunks
    jobs[:, Word.A_FLIP], jobs[:, Word.B_FLIP] = tiles.flips
    jobs[:, Word.ACCUMULATE] = values["scale_d"]
    return jobs
