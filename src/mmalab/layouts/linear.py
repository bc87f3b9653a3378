"""Layouts as matrices over GF(2): when XOR is the addition.

If every extent is a power of two, a layout (or a swizzle, or both) often satisfies
``f(x ^ y) = f(x) ^ f(y)``. It is then known from the images of the powers of two alone: its basis.
The 64-byte swizzle on byte addresses, cut to 10 bits, has the basis

    x        1  2  4  8  16  32  64  128      256      512
    f(x)     1  2  4  8  16  32  64  128^16   256^32   512

and everything about it is linear algebra: composing is substituting, "no two lanes hit the same
bank" is a rank, undoing is Gaussian elimination.

    >>> from mmalab.layouts.swizzle import Swizzle
    >>> wave = LinearLayout.of(Swizzle(2, 4, 3), bits=10)
    >>> wave.bases[7], wave.rank, wave.inverse() == wave
    (144, 10, True)

The direction is coordinate to value, as in `Layout`, and not back: several coordinates may share a
value (a broadcast register), but no coordinate has two.

Why not use these everywhere: wgmma's N = 24 and a padded row of 80 bytes are no power of two, and
adding (a row's address to a chunk's) is XOR only while the bits stay apart. So `Layout` is the
representation and this is the engine for questions about bits; `of` checks linearity and refuses
what is not linear. The idea of a layout as its basis vectors is Triton's LinearLayout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError
from mmalab.layouts.layout import Layout
from mmalab.layouts.swizzle import ComposedLayout, Swizzle

__all__ = ["LinearLayout"]

_WHERE = "mmalab.layouts.linear"


@dataclass(frozen=True)
class LinearLayout:
    """The map of ``in_bits`` bits whose value at ``2^i`` is ``bases[i]``."""

    bases: tuple[int, ...]

    @classmethod
    def of(
        cls, layout: Layout | ComposedLayout | Swizzle, bits: int | None = None
    ) -> LinearLayout:
        """The basis of `layout` over its one-integer coordinates.

        A `Swizzle` has no size: `bits` says how many input bits are meant. Raises UsageError if the
        size is no power of two, or with the first coordinate at which the layout is not linear.
        """
        if isinstance(layout, Swizzle):
            if bits is None:
                raise UsageError(
                    str(layout), "a swizzle has no size", legal="bits=10 for 1024 values",
                    where=_WHERE,
                )
            return cls(tuple(layout(1 << i) for i in range(bits)))
        return cls.of_values(layout.indices(), str(layout))

    @classmethod
    def of_values(cls, values: ArrayLike, name: str = "values") -> LinearLayout:
        """The basis of the map ``i -> values[i]``; raises UsageError if it is not linear."""
        table = np.asarray(values, np.int64)
        bits = len(table).bit_length() - 1
        if table.ndim != 1 or len(table) != 1 << bits:
            raise UsageError(
                f"{name}, {table.size} values", "the size is no power of two",
                legal="1, 2, 4, 8, ...", where=_WHERE,
            )
        linear = cls(tuple(int(table[1 << i]) for i in range(bits)))
        wrong = np.flatnonzero(linear.indices() != table)
        if len(wrong):
            at = int(wrong[0])
            raise UsageError(
                f"{name} at {at}", f"{table[at]}, but XOR of its powers of two gives "
                f"{linear.indices()[at]}", legal="layouts whose values add without carries",
                where=_WHERE,
            )
        return linear

    @property
    def in_bits(self) -> int:
        """Number of input bits."""
        return len(self.bases)

    @cached_property
    def out_bits(self) -> int:
        """Number of bits that hold every value."""
        return reduce(or_, self.bases, 0).bit_length()

    def __call__(self, coord: int) -> int:
        """The value at `coord`."""
        if not 0 <= coord < 1 << self.in_bits:
            raise UsageError(
                f"coordinate {coord}", f"the layout takes {self.in_bits} bits",
                legal=f"0 to {(1 << self.in_bits) - 1}", where=_WHERE,
            )
        value = 0
        for i, image in enumerate(self.bases):
            value ^= image * (coord >> i & 1)
        return value

    def indices(self) -> NDArray[np.int64]:
        """All values in order of the coordinates: int64, (2^in_bits,)."""
        values = np.zeros(1, np.int64)
        for image in self.bases:
            values = np.concatenate((values, values ^ image))
        return values

    def matrix(self) -> NDArray[np.uint8]:
        """The map as zeros and ones, (out_bits, in_bits): column i is the image of 2^i."""
        rows = np.arange(self.out_bits)[:, None]
        return (np.array([self.bases], np.int64) >> rows & 1).astype(np.uint8)

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """``self(inner(x))``."""
        if inner.out_bits > self.in_bits:
            raise UsageError(
                f"{inner.out_bits} bits into {self.in_bits}", "the inner values do not fit",
                legal=f"at most {self.in_bits} bits", where=_WHERE,
            )
        return LinearLayout(tuple(self(image) for image in inner.bases))

    @cached_property
    def _reduced(self) -> tuple[tuple[int, int], ...]:
        """Rows (value, combination of inputs) after elimination: leading bits all differ."""
        rows: list[tuple[int, int]] = []
        for i, image in enumerate(self.bases):
            value, combination = image, 1 << i
            for pivot, source in rows:
                if value ^ pivot < value:
                    value, combination = value ^ pivot, combination ^ source
            if value:
                # Keep each leading bit in one row only, so that the rows can be read as an inverse.
                lead = 1 << (value.bit_length() - 1)
                rows = [
                    (p ^ value, s ^ combination) if p & lead else (p, s) for p, s in rows
                ]
                rows.append((value, combination))
                rows.sort(reverse=True)
        return tuple(rows)

    @property
    def rank(self) -> int:
        """Dimension of the values: 2^rank of them differ."""
        return len(self._reduced)

    @property
    def is_injective(self) -> bool:
        """Whether no two coordinates share a value."""
        return self.rank == self.in_bits

    @property
    def is_invertible(self) -> bool:
        """Whether it permutes the numbers of `in_bits` bits."""
        return self.is_injective and self.out_bits == self.in_bits

    def inverse(self) -> LinearLayout:
        """The layout that undoes this one; it must permute the numbers of `in_bits` bits."""
        if not self.is_invertible:
            raise UsageError(
                f"a layout of rank {self.rank} from {self.in_bits} to {self.out_bits} bits",
                "it is no permutation, so it has no inverse", legal="rank = in_bits = out_bits",
                where=_WHERE,
            )
        images = dict(self._reduced)
        return LinearLayout(tuple(images[1 << i] for i in range(self.in_bits)))
