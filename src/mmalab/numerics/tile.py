"""Products on scattered operands, many in one call: what a warpgroup's instruction does.

    tile = Tile(unit, k=16, n=256)                          # one form of instruction
    tile.run(jobs)                                          # [count, JOB] words, see tile_ir.Word

Jobs of one call are done in order. Calls run without the interpreter lock; each thread has its own
scratch memory. Bit for bit the same as :func:`mmalab.numerics.reference.multiply`.
"""

from __future__ import annotations

import ctypes
import threading

import numpy as np
from numpy.typing import NDArray

from mmalab.numerics import native
from mmalab.numerics.matrix import has_kernel
from mmalab.numerics.tile_ir import Word, scratch_bytes, tile_ir
from mmalab.numerics.unit import Unit

__all__ = ["Tile", "has_tile"]

_FUNCTIONS = {"tiles": (None, ctypes.c_void_p, ctypes.c_int64)}


def has_tile(unit: Unit) -> bool:
    """Whether compiled code does such products here."""
    bytes_ = unit.algorithm == "integer" and {unit.a, unit.b} <= {"s8", "u8"}
    return bytes_ or (has_kernel(unit) and native.processor().converts_halves)


class Tile:
    """The code for one unit, K and N. `columns` is N rounded up to whole vectors."""

    def __init__(self, unit: Unit, k: int, n: int) -> None:
        width = native.processor().vector_bits // 32
        self.columns = -(-n // width) * width
        self._size = scratch_bytes(unit, k, self.columns)
        self._code = native.load(tile_ir(unit, k, width), _FUNCTIONS)
        self._own = threading.local()

    def run(self, jobs: NDArray[np.int64]) -> None:
        """Do the jobs, which are C-contiguous; N and SCRATCH are filled in."""
        scratch = getattr(self._own, "scratch", None)
        if scratch is None:
            raw = np.zeros(self._size + 64, np.uint8)
            scratch = self._own.scratch = raw[-raw.ctypes.data % 64 :]
        jobs[:, Word.N] = self.columns
        jobs[:, Word.SCRATCH] = scratch.ctypes.data
        self._code["tiles"](jobs.ctypes.data, len(jobs))
