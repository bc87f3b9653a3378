"""Where the bytes of a box lie in shared memory: the swizzle, and the padding of narrow types.

A swizzle exchanges units of 16 bytes (8 where it flips halves) by bits of their *absolute* shared
address, so the arrangement depends on the destination's place within 1024 bytes. Its rows are as
far apart as its span is wide, also where the box is narrower; what lies between keeps its bytes::

    128B: the second 16 bytes of row 3 of a box at a multiple of 1024
          offset 3 * 128 + 1 * 16, of which bits 6:4 ^= 3: offset 3 * 128 + 2 * 16
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmalab.tensormap.elements import Element, swizzle

__all__ = ["Arrangement", "arrange"]

_CHUNK = 16
#: No swizzle looks at address bits from here on.
_PERIOD = 1024


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The units of a box in shared memory.

    `offsets` [units] int64 from the destination's address, None when they follow each other;
    `used` of the `unit` bytes hold data; `low` and `high` bound all units.
    """

    bytes: int
    unit: int
    used: int
    offsets: NDArray[np.int64] | None
    low: int
    high: int
    #: Whether each byte of a unit is one element of 6 bits when it is stored to global memory.
    spread: bool = False

    @property
    def dense(self) -> bool:
        """Whether the units fill the bytes from the destination's address on, in some order."""
        return self.low == 0 and self.high == self.bytes and self.used == self.unit

    def starts(self) -> NDArray[np.int64]:
        """Offsets of all units, in the order of the image."""
        if self.offsets is not None:
            return self.offsets
        return np.arange(0, self.bytes, self.unit)

    def put(self, memory: NDArray[np.uint8], at: int, image: NDArray[np.uint8]) -> None:
        """Write a packed image (contiguous) into `memory` with its destination at byte `at`."""
        if self.offsets is None and self.used == self.unit:
            memory[at : at + self.bytes] = image.reshape(-1)
            return
        where = self.starts() + at
        if self.used == self.unit and not at % self.unit:
            units = image.reshape(-1, self.unit)
            _words(memory, self.unit)[where // self.unit] = _words(units.reshape(-1), self.unit)
        else:
            memory[where[:, None] + np.arange(self.used)] = image.reshape(-1, self.used)

    def take(self, memory: NDArray[np.uint8], at: int) -> NDArray[np.uint8]:
        """The packed image, flat."""
        if self.offsets is None and self.used == self.unit:
            return memory[at : at + self.bytes].copy()
        where = self.starts() + at
        if self.used == self.unit and not at % self.unit:
            return np.ascontiguousarray(
                _words(memory, self.unit)[where // self.unit]).reshape(-1).view(np.uint8)
        units = memory[where[:, None] + np.arange(self.unit)]
        return _packed(units) if self.spread else units[:, : self.used].reshape(-1)

    def places(self, at: int) -> NDArray[np.int64]:
        """Index of each byte of the packed image, in memory with the destination at byte `at`."""
        return (self.starts()[:, None] + (np.arange(self.used) + at)).reshape(-1)


def _words(memory: NDArray[np.uint8], unit: int) -> NDArray[np.uint64]:
    """The bytes as units of one or two 64-bit words, those at the end that fill none left out."""
    whole = memory[: memory.size // unit * unit]
    return whole.view(np.uint64).reshape(-1, unit // 8)


def _packed(units: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[n, 16] bytes whose low 6 bits count, as 12 bytes each."""
    bits = np.unpackbits(units[..., None], axis=-1, bitorder="little")[..., :6]
    return np.packbits(bits.reshape(len(units), -1), axis=-1, bitorder="little").reshape(-1)


@lru_cache(maxsize=64)
def _arrange(rows: int, width: int, name: str, pads: int, phase: int, *,
             spread: bool) -> Arrangement:
    mode = swizzle(name)
    unit = 8 if mode.flips else _CHUNK
    if name == "none" or not width:  # maps of arbitrary bytes may have boxes of no bytes
        return Arrangement(rows * width, unit, unit - pads, None, 0, rows * width, spread)
    plain = np.arange(rows)[:, None] * mode.pitch + np.arange(0, width, unit)
    offsets = np.asarray(mode.place(plain.reshape(-1) + phase), np.int64) - phase
    low, high = int(offsets.min()), int(offsets.max()) + unit
    return Arrangement(rows * width, unit, unit - pads, offsets, low, high, spread)


def arrange(rows: int, width: int, swizzle_name: str, kind: Element, address: int) -> Arrangement:
    """The arrangement of `rows` rows of `width` bytes of shared memory at `address` (a multiple of
    16)."""
    return _arrange(rows, width, swizzle_name, kind.pads, address % _PERIOD,
                    spread=kind.bits == 6)
