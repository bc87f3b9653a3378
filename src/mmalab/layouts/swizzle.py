"""XOR swizzles, and layouts that end in one.

``Swizzle(bits, base, shift)`` takes the `bits` bits that stand `shift` places above bit `base` and
XORs them into the `bits` bits from bit `base` upwards. CUTLASS draws it so::

    0bxxxxxxxxxxxxxxxYYYxxxxxxxZZZxxxx
                     ^--^              bits   ZZZ ^= YYY
                            ^--^       bits
                               ^---^   base   bits that stay together
                     ^---------^       shift  from ZZZ to YYY

``Swizzle<2,3,3>`` on element numbers of a tile with 32 BF16 elements a row: base 3 keeps eight
elements (16 bytes) together, bits 3 and 4 are the 16-byte chunk of the row, and bits 6 and 7 are
bits 1 and 2 of the row: chunk c of row r goes to chunk ``c ^ ((r >> 1) & 3)``.

    >>> tile = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((128, 32), (32, 1)))
    >>> print(tile)
    Swizzle<2,3,3> o 0 o (128,32):(32,1)
    >>> tile(2, 0)                              # row 2, chunk 0 -> chunk 1
    72

The unit is whatever the layout counts. Bytes instead of BF16 elements add one to `base`:
``Swizzle(2, 3, 3).recast(16, 8)`` is ``Swizzle<2,4,3>``, the 64-byte mode of TMA.

Source: CUTLASS, cute/swizzle.hpp and cute/swizzle_layout.hpp.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError
from mmalab.layouts.inttuple import IntTuple
from mmalab.layouts.layout import Layout

__all__ = ["TMA_SWIZZLES", "ComposedLayout", "Swizzle"]

_WHERE = "CUTLASS, cute/swizzle.hpp"
#: Offsets are signed 64-bit words.
_WORD = 62


@dataclass(frozen=True)
class Swizzle:
    """XOR of `bits` bits, `shift` places up, into those from `base` on; a permutation of integers.

    A negative `shift` takes the lower bits into the upper ones. CuTe requires ``bits <= |shift|``
    (else the two fields overlap and the map could not be undone by itself).
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        for name in ("bits", "base", "shift"):
            try:
                operator.index(getattr(self, name))
            except TypeError:
                raise UsageError(str(self), f"{name} is not an integer", legal="3,4,3",
                                 where=_WHERE) from None
        for name in ("bits", "base"):
            if operator.index(getattr(self, name)) < 0:
                raise UsageError(str(self), f"{name} is negative", legal="0 or more", where=_WHERE)
        if abs(operator.index(self.shift)) < self.bits:
            raise UsageError(
                str(self), f"a shift of {self.shift} makes the two {self.bits}-bit fields overlap",
                legal=f"a shift of {self.bits} or more, or {-self.bits} or less", where=_WHERE,
            )
        if self.bits + self.base + abs(self.shift) > _WORD:
            raise UsageError(str(self), f"reaches beyond bit {_WORD} of an offset",
                             legal=f"bits + base + |shift| up to {_WORD}", where=_WHERE)

    @classmethod
    def parse(cls, source: str) -> Swizzle:
        """``2,3,3``, ``Swizzle<2,3,3>`` or ``Sw<2,3,3>``."""
        numbers = re.fullmatch(
            r"(?:Sw(?:izzle)?[<(])?\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*[>)]?", source.strip()
        )
        if numbers is None:
            raise UsageError(
                f"swizzle {source!r}", "not three integers bits,base,shift",
                legal="2,3,3 or Swizzle<2,3,3>", where=_WHERE,
            )
        return cls(*map(int, numbers.groups()))

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.shift}>"

    @property
    def source_mask(self) -> int:
        """The bits that are read (YYY)."""
        return ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))

    @property
    def target_mask(self) -> int:
        """The bits that change (ZZZ)."""
        return ((1 << self.bits) - 1) << (self.base - min(self.shift, 0))

    @property
    def period(self) -> int:
        """The map of x + period is the map of x, plus period."""
        return 1 << (self.base + abs(self.shift) + self.bits) if self.bits else 1

    @overload
    def __call__(self, value: int) -> int: ...
    @overload
    def __call__(self, value: NDArray[Any]) -> NDArray[Any]: ...
    def __call__(self, value: Any) -> Any:
        """The swizzled integer, or integers of an array (its own inverse)."""
        chosen = value & self.source_mask
        return value ^ (chosen >> self.shift if self.shift >= 0 else chosen << -self.shift)

    def recast(self, from_bits: int, to_bits: int) -> Swizzle:
        """The same movement counted in units of `to_bits` bits instead of `from_bits`."""
        ratio, rest = divmod(max(from_bits, to_bits), min(from_bits, to_bits))
        step = ratio.bit_length() - 1
        base = self.base + (step if from_bits > to_bits else -step)
        if rest or ratio != 1 << step or base < 0:
            raise UsageError(
                f"{self} from {from_bits}-bit to {to_bits}-bit units",
                "the units are no power of two apart, or one unit would be torn",
                legal=f"units of at most {from_bits << self.base} bits", where=_WHERE,
            )
        return Swizzle(self.bits, base, self.shift)


@dataclass(frozen=True, repr=False)
class ComposedLayout:
    """``swizzle o offset o layout``: value(coord) = swizzle(offset + layout(coord))."""

    swizzle: Swizzle
    offset: int
    layout: Layout

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self.swizzle!r}, {self.offset}, {self.layout!r})"

    @property
    def shape(self) -> IntTuple:
        """The shape of the inner layout: the coordinates that this one takes."""
        return self.layout.shape

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.layout.size

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return self.layout.rank

    @property
    def depth(self) -> int:
        """Nesting of the shape."""
        return self.layout.depth

    @cached_property
    def cosize(self) -> int:
        """One more than the largest value."""
        return int(self._indices.max()) + 1

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, mode: int) -> ComposedLayout:
        """Mode `mode` of the inner layout, still offset and swizzled."""
        return ComposedLayout(self.swizzle, self.offset, self.layout[mode])

    def __call__(self, *coord: Any) -> Any:
        """The value at `coord`, which is anything that `Layout` takes."""
        return self.swizzle(self.offset + self.layout(*coord))

    @cached_property
    def _indices(self) -> NDArray[np.int64]:
        values = self.swizzle(self.offset + self.layout.indices())
        values.setflags(write=False)
        return values

    def indices(self) -> NDArray[np.int64]:
        """All values in colexicographic order of the coordinates: int64, (size,), read-only."""
        return self._indices

    def array(self) -> NDArray[np.int64]:
        """All values as an array with one axis for each top-level mode, read-only."""
        return self._indices.reshape([mode.size for mode in self.layout], order="F")

    @property
    def is_injective(self) -> bool:
        """Whether no two coordinates share a value (a swizzle merges none)."""
        return self.layout.is_injective

    @cached_property
    def is_bijective(self) -> bool:
        """Whether the values are exactly 0 to size - 1."""
        return bool((np.sort(self._indices) == np.arange(self.size)).all())


#: The swizzle modes of TMA and of the shared-memory descriptors, on byte addresses (PTX ISA 5.5.7).
#: 128B_ATOM_32B_FLIP_8B moves 8-byte halves as well and is not one XOR of this kind.
TMA_SWIZZLES: dict[str, Swizzle] = {
    "none": Swizzle(0, 4, 3),
    "32B": Swizzle(1, 4, 3),
    "64B": Swizzle(2, 4, 3),
    "128B": Swizzle(3, 4, 3),
    "96B": Swizzle(1, 4, 3),
    "128B_ATOM_32B": Swizzle(2, 5, 2),
    "128B_ATOM_64B": Swizzle(1, 6, 1),
}
