"""Control flow, and the instructions that do nothing here."""

from __future__ import annotations

import numpy as np

from mmalab.emulator.events import Exit, SetRegisters
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm, Target
from mmalab.emulator.state import pack

__all__: list[str] = []


def _targets(lanes: Lanes, index: int) -> tuple[int, ...]:
    op = lanes.operands[index]
    if not isinstance(op, Target):
        raise lanes.refuse("the branch target is not resolved")
    return op.sites


@executes("bra")
def _branch(lanes: Lanes) -> None:
    lanes.jump(_targets(lanes, 0)[0], lanes.mask)


@executes("brx.idx")
def _branch_indexed(lanes: Lanes) -> None:
    table = np.array(_targets(lanes, 1), np.int32)
    index = lanes.read(0)
    wild = lanes.mask & (index >= len(table))
    if wild.any():
        position, lane = np.argwhere(wild)[0].tolist()
        lanes.machine.report("illegal-value", f"brx.idx with index {int(index[position, lane])} of"
                             f" {len(table)} targets", site=lanes.site,
                             row=int(lanes.rows[position]), lane=lane, fatal=True)
    lanes.jump(table[np.minimum(index, len(table) - 1)], lanes.mask)


@executes("exit", "ret")
def _exit(lanes: Lanes) -> None:
    if lanes.machine.observed:
        for position, row in enumerate(lanes.rows.tolist()):
            if lanes.mask[position].any():
                cta, warp = lanes.state.where(row)
                lanes.machine.emit(Exit(cta, warp, lanes.site.index,
                                        int(pack(lanes.mask[position]))))
    lanes.machine.end(lanes.rows, lanes.mask)


@executes("trap")
def _trap(lanes: Lanes) -> None:
    position, lane = np.argwhere(lanes.mask)[0].tolist()
    lanes.machine.report("trap", "the kernel executed trap", site=lanes.site,
                         row=int(lanes.rows[position]), lane=lane, fatal=True,
                         witness={"lanes": int(pack(lanes.mask[position]))})


@executes("call")
def _call(lanes: Lanes) -> None:
    raise lanes.refuse("only functions with a body in this module can be called: "
                       + lanes.site.shown)


@executes("call.push")
def _push(lanes: Lanes) -> None:
    lanes.machine.call_stack.push(lanes)


@executes("call.pop")
def _pop(lanes: Lanes) -> None:
    lanes.machine.call_stack.pop(lanes)


@executes("call.jump")
def _call_procedure(lanes: Lanes) -> None:
    lanes.machine.call_stack.link(lanes)
    lanes.jump(_targets(lanes, 0)[0], lanes.mask)


@executes("call.return")
def _return(lanes: Lanes) -> None:
    lanes.jump(lanes.machine.call_stack.back(lanes), lanes.mask)


@executes("setmaxnreg")
def _set_registers(lanes: Lanes) -> None:
    """A warp that asks for more than the pool has stands here until others gave some."""
    machine, count = lanes.machine, lanes.operands[0]
    if not isinstance(count, Imm):
        raise lanes.refuse("the register count must be an immediate")
    for position, row in enumerate(lanes.rows.tolist()):
        active = lanes.mask[position]
        if not active.any():
            continue
        if machine.registers.change(
                lanes.site, row, count.word, increase=lanes.modifier("op") == "inc"):
            if machine.observed:
                cta, warp = machine.state.where(row)
                machine.emit(SetRegisters(
                    cta, warp, lanes.site.index, int(pack(active)), count.word))
            continue
        machine.state.pc[row][active] = lanes.site.index
        machine.counts[lanes.site.index] -= 1  # it has not been executed yet
        machine.park(row, active, {"site": lanes.site, "explain": machine.registers.explain})


@executes("nanosleep", "pmevent", "pmevent.mask", "griddepcontrol.wait",
          "griddepcontrol.launch_dependents")
def _nothing(lanes: Lanes) -> None:
    """No time passes, and one grid runs alone."""
