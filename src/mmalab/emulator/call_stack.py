"""The call stack of recursive functions: registers, local memory and return sites, by lane.

Lanes of a warp may be at different depths. What is saved at one depth lies in one set of arrays
over all lanes, and each lane has its own place in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm, Op, Reg, Vec
from mmalab.errors import LimitExceeded

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["CallStack"]

_MAX_DEPTH = 512


class CallStack:
    """Saved invocations. `depth` [rows, 32] counts those of each lane."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.depth = np.zeros((machine.state.rows, 32), np.int64)
        #: [depth] -> [rows, 32] site to go on at.
        self._links: list[NDArray[np.int32]] = []
        #: (procedure, depth) -> arrays over all lanes: one per register, then the bytes.
        self._saved: dict[tuple[int, int], list[NDArray[Any]]] = {}

    def push(self, lanes: Lanes) -> None:
        """Save the procedure's registers and local memory of the executing lanes."""
        values = [self._read(lanes, op) for op in _registers(lanes)]
        bytes_ = self._memory(lanes)
        for depth, mask in self._by_depth(lanes):
            if depth >= _MAX_DEPTH:
                raise LimitExceeded(f"{depth} nested calls", "the call stack of the emulator ends"
                                    " here", where=f"line {lanes.site.line} of the PTX text")
            arrays = self._arrays(lanes, depth, values, bytes_)
            for array, value in zip(arrays, [*values, bytes_], strict=True):
                kept = array[lanes.rows]
                kept[mask] = value[mask]
                array[lanes.rows] = kept
        self.depth[lanes.rows] += lanes.mask

    def pop(self, lanes: Lanes) -> None:
        """Restore what the last push of each executing lane saved."""
        self.depth[lanes.rows] -= lanes.mask
        for depth, mask in self._by_depth(lanes):
            some = lanes.subset(mask)
            arrays = self._saved[_procedure(lanes), depth]
            for op, array in zip(_registers(lanes), arrays[:-1], strict=True):
                some.assign(op, array[lanes.rows], _type(op))
            self._restore(some, arrays[-1][lanes.rows])

    def link(self, lanes: Lanes) -> None:
        """Note where the executing lanes go on after their call."""
        for depth, mask in self._by_depth(lanes):
            while len(self._links) <= depth:
                self._links.append(np.zeros(self.depth.shape, np.int32))
            links = self._links[depth]
            links[lanes.rows] = np.where(mask, np.int32(lanes.site.index + 1), links[lanes.rows])

    def back(self, lanes: Lanes) -> NDArray[np.int32]:
        """[warps, 32] where each executing lane goes on."""
        target = np.zeros(lanes.mask.shape, np.int32)
        for depth, mask in self._by_depth(lanes):
            target = np.where(mask, self._links[depth][lanes.rows], target)
        return target

    def _by_depth(self, lanes: Lanes) -> list[tuple[int, NDArray[np.bool_]]]:
        depth = self.depth[lanes.rows]
        return [(level, lanes.mask & (depth == level))
                for level in np.unique(depth[lanes.mask]).tolist()]

    def _read(self, lanes: Lanes, op: Reg) -> NDArray[Any]:
        # Saving is not reading: registers may well be undefined.
        words = lanes.state.r if op.file == "r" else lanes.state.q
        if op.file == "p":
            return lanes.subset(np.zeros_like(lanes.mask)).value(op, "pred")
        return np.asarray(words[lanes.rows, op.slot])

    def _arrays(self, lanes: Lanes, depth: int, values: list[NDArray[Any]],
                bytes_: NDArray[np.uint8]) -> list[NDArray[Any]]:
        key = (_procedure(lanes), depth)
        if key not in self._saved:
            shape = self.depth.shape
            self._saved[key] = [np.zeros((*shape, *v.shape[2:]), v.dtype)
                                for v in (*values, bytes_)]
        return self._saved[key]

    # --- local memory -------------------------------------------------------------------------

    def _threads(self) -> NDArray[np.uint8]:
        """[rows, 32, bytes] of everybody's local memory."""
        space = self._machine.space
        return space.local.data.reshape(*self.depth.shape, space.local_stride)

    def _memory(self, lanes: Lanes) -> NDArray[np.uint8]:
        mine = self._threads()[lanes.rows]
        return np.concatenate([mine[..., start : start + count]
                               for start, count in _ranges(lanes)], axis=-1)

    def _restore(self, lanes: Lanes, saved: NDArray[np.uint8]) -> None:
        memory = self._threads()
        position = 0
        for start, count in _ranges(lanes):
            part = memory[lanes.rows, :, start : start + count]
            part[lanes.mask] = saved[lanes.mask][:, position : position + count]
            memory[lanes.rows, :, start : start + count] = part
            position += count


def _registers(lanes: Lanes) -> list[Reg]:
    frame = lanes.operands[0]
    items: tuple[Op, ...] = frame.items if isinstance(frame, Vec) else ()
    return [op for op in items if isinstance(op, Reg)]


def _words(lanes: Lanes) -> list[int]:
    return [op.word for op in lanes.operands[1:] if isinstance(op, Imm)]


def _procedure(lanes: Lanes) -> int:
    return _words(lanes)[0]


def _ranges(lanes: Lanes) -> list[tuple[int, int]]:
    """(start, bytes) in local memory."""
    words = _words(lanes)[1:]
    return list(zip(words[::2], words[1::2], strict=True))


def _type(op: Reg) -> str:
    return "pred" if op.file == "p" else f"b{op.bits}"
