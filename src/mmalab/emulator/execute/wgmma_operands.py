"""Where wgmma finds its operands: behind descriptors, or in registers.

The addresses of an operand depend on its descriptor and shape alone. They are computed once by
:func:`mmalab.descriptors.chunk_addresses`, relative to a multiple of 1024 below the start address
(no swizzle looks at higher bits), and kept: stepping through K moves the base only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.descriptors import WGMMA, chunk_addresses
from mmalab.descriptors.canonical import swizzled
from mmalab.emulator.events import Span, Tile
from mmalab.emulator.warpgroups import WARPS
from mmalab.isa.form import Fragment
from mmalab.numerics.fragments import from_registers, to_registers
from mmalab.numerics.operands import Words

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["SharedOperand", "from_slots", "shared_operand", "to_slots"]

#: Swizzles repeat after so many bytes.
_PATTERN = 1024
_CHUNK = 16
#: Bits of the types that wgmma reads in either major.
_EITHER = 16
#: Rows of a swizzle's pattern.
_GROUP = 8


@dataclass(frozen=True)
class SharedOperand:
    """An operand of `mn` x `k` elements in shared memory, relative to `_PATTERN` bytes.

    `chunks` are the addresses of its 16-byte pieces: [mn, k / T], or [mn / T, k] where MN is
    contiguous.
    """

    chunks: NDArray[np.int64]
    mn: int
    type: str
    major: str
    swizzle: str
    #: The descriptor's stride between groups of 8 rows (K-major).
    step: int = 0
    #: `chunks` before the swizzle; None where its pattern begins elsewhere (a base offset).
    plain: NDArray[np.int64] | None = None

    @cached_property
    def extent(self) -> tuple[int, int]:
        """First byte, and the one behind the last."""
        return int(self.chunks.min()), int(self.chunks.max()) + _CHUNK

    @cached_property
    def twice(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Two places in `chunks` that hold one address; None: there are none."""
        flat = self.chunks.reshape(-1)
        order = np.argsort(flat, kind="stable")
        same = np.flatnonzero(np.diff(flat[order]) == 0)
        if not len(same):
            return None
        second = int(order[same + 1].min())
        width = self.chunks.shape[1]
        return divmod(int((flat == flat[second]).argmax()), width), divmod(second, width)

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        return self.chunks // _CHUNK

    @cached_property
    def _distinct(self) -> NDArray[np.int64]:
        return np.unique(self._cells)

    @cached_property
    def runs(self) -> tuple[NDArray[np.int64], int]:
        """The bytes as runs of one length: where they start, and the length."""
        cells = self._distinct
        ends = np.nonzero(np.diff(cells) != 1)[0] + 1
        lengths = np.diff(np.concatenate(([0], ends, [len(cells)])))
        step = int(np.gcd.reduce(lengths))
        return cells[::step] * _CHUNK, step * _CHUNK

    def span(self, owner: int, base: int) -> Span:
        """The bytes that the operand is read from."""
        starts, size = self.runs
        tile = None if self.plain is None else Tile(
            self.plain, base, self.major, formats.get(self.type).bits == _EITHER)
        return Span("shared", owner, "read", starts + base, size, swizzle=self.swizzle,
                    groups=self._grouped(base), tile=tile)

    def _grouped(self, base: int) -> tuple[int, ...]:
        """The step between groups of 8 rows, and where each group's first chunk lies."""
        if self.major != "K" or self.swizzle == "none" or len(self.chunks) <= _GROUP:
            return ()
        return self.step, *(at + base for at in self._firsts)

    @cached_property
    def _firsts(self) -> list[int]:
        firsts: list[int] = self.chunks[::_GROUP, 0].tolist()
        return firsts

    def fetch(self, data: NDArray[np.uint8], base: int) -> Words:
        """The elements as words, [mn, k]; `base` is a byte offset into `data`."""
        chunks = data.view(np.complex128)[self._cells + base // _CHUNK]
        if self.type == "b1":
            return np.unpackbits(chunks.view(np.uint8), axis=-1, bitorder="little")
        words: Words = chunks.view(formats.get(self.type).dtype)
        if self.major == "K":
            return words
        pieces = words.reshape(*self.chunks.shape, -1)  # [mn / T, k, T]
        return pieces.swapaxes(1, 2).reshape(-1, self.chunks.shape[1])[: self.mn]

    def unwritten(self, written: NDArray[np.bool_], base: int) -> int | None:
        """The first byte that nobody wrote, as an offset from `base`."""
        cells = written.view(np.uint8).view(np.complex128)[self._distinct + base // _CHUNK]
        bytes_ = cells.view(np.bool_)
        if bytes_.all():
            return None
        cell, inside = divmod(int(bytes_.argmin()), _CHUNK)
        return int(self._distinct[cell]) * _CHUNK + inside


@lru_cache(maxsize=1024)
def _relative(word: int, mn: int, k: int, type_: str, major: str) -> SharedOperand:
    one = WGMMA.read(word)
    bits = formats.get(type_).bits
    chunks = chunk_addresses(one, mn, k, bits, major)
    # The XOR looks at bits that it leaves alone: done twice, it is undone.
    plain = None if one.base_offset else swizzled(one, chunks)
    return SharedOperand(chunks, mn, type_, major, one.swizzle, one.sbo, plain)


def shared_operand(word: int, mn: int, k: int, type_: str, major: str) -> tuple[SharedOperand, int]:
    """The operand that a descriptor names, and the shared address that it is relative to."""
    start = (word & 0x3FFF) * _CHUNK
    base = start // _PATTERN * _PATTERN
    return _relative(word - base // _CHUNK, mn, k, type_, major), base


def from_slots(machine: Machine, first: int, slots: NDArray[np.int64],
               fragment: Fragment) -> Words:
    """The matrix in the registers `slots` of the warpgroup whose first row is `first`."""
    held = machine.state.r[first : first + WARPS][:, slots]  # [warp, register, lane]
    lanes = held.swapaxes(0, 1).reshape(1, len(slots), -1)
    return np.asarray(from_registers(fragment, lanes)[0])


def to_slots(machine: Machine, first: int, slots: NDArray[np.int64], fragment: Fragment,
             words: Words) -> None:
    """The inverse of :func:`from_slots`."""
    registers: NDArray[Any] = to_registers(fragment, words[None])[0]
    machine.state.r[first : first + WARPS][:, slots] = (
        registers.reshape(len(slots), WARPS, -1).swapaxes(0, 1))
