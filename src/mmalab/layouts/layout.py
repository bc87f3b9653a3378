"""A layout: a shape and a stride, which together are a function from coordinates to integers.

``(4,8):(8,1)`` has 32 coordinates. Coordinate (r, c) gives ``8 r + c``: a row-major 4 x 8 matrix.
Modes nest, and each (nested) mode also takes one integer, counted with the first mode fastest
("colexicographic"). So the fragment layout of an MMA accumulator,

    >>> d = Layout.parse("((4,8),(2,2)):((32,1),(16,8))")    # (lane, slot) -> m + 16 n
    >>> d(6, 2)                                              # lane 6 is (2, 1), slot 2 is (0, 1)
    73

takes a lane from 0 to 31 and a slot from 0 to 3; 73 = 9 + 16 * 4 is row 9, column 4. Evaluating
the whole layout at once gives a NumPy array, which is what the emulator and the planners use:

    >>> Layout((2, 3), (3, 1)).indices()
    array([0, 3, 1, 4, 2, 5])

As in CuTe, an integer past the end of a mode continues its last leaf (``(4,8):(1,4)`` at 40 is 40);
composition relies on it. Strides may be 0 (broadcast) or negative.

Layouts are the main representation, and not the basis vectors of :mod:`mmalab.layouts.linear`,
because they hold sizes that are no powers of two: N = 24 of wgmma, and padded rows.

Source: CUTLASS documentation, CuTe, "Layout" and "Layout Algebra".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import LimitExceeded, UsageError
from mmalab.layouts import inttuple
from mmalab.layouts.inttuple import IntTuple, flatten

__all__ = ["Layout", "check_layout", "make_layout"]

_WHERE = "CuTe, Layout"
#: `indices` refuses larger layouts (2 GiB of int64), which are a mistake more often than a wish.
_MAX_INDICES = 1 << 28


@dataclass(frozen=True, init=False, repr=False)
class Layout:
    """`shape`:`stride`; without a stride the layout is compact with its first mode fastest."""

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: Any, stride: Any = None) -> None:
        shape = inttuple.normalise(shape)
        stride = inttuple.prefix_product(shape) if stride is None else inttuple.normalise(stride)
        if any(extent < 1 for extent in flatten(shape)):
            raise UsageError(
                f"shape {inttuple.text(shape)}", "an extent below 1",
                legal="integers from 1", where="CuTe, Layout",
            )
        if not inttuple.congruent(shape, stride):
            raise UsageError(
                f"{inttuple.text(shape)}:{inttuple.text(stride)}",
                "shape and stride are nested differently",
                legal=f"a stride for each extent, such as "
                f"{inttuple.text(inttuple.prefix_product(shape))}",
                where="CuTe, Layout",
            )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @classmethod
    def parse(cls, source: str) -> Layout:
        """The layout that ``shape:stride`` spells; ``shape`` alone is compact, column major."""
        shape, colon, stride = source.partition(":")
        return cls(inttuple.parse(shape), inttuple.parse(stride) if colon else None)

    @classmethod
    def row_major(cls, *extents: int) -> Layout:
        """Compact with the last mode fastest: ``row_major(4, 8)`` is ``(4,8):(8,1)``."""
        strides = inttuple.flatten(inttuple.prefix_product(tuple(reversed(extents))))
        return cls(extents, tuple(reversed(strides)))

    def __str__(self) -> str:
        return f"{inttuple.text(self.shape)}:{inttuple.text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self.shape}, {self.stride})"

    @cached_property
    def leaves(self) -> tuple[tuple[int, int], ...]:
        """(extent, stride) of each leaf, from left to right."""
        return _leaves(self.shape, self.stride)

    @cached_property
    def size(self) -> int:
        """Number of coordinates."""
        return inttuple.size(self.shape)

    @cached_property
    def cosize(self) -> int:
        """One more than the distance from the smallest to the largest value."""
        return 1 + sum((extent - 1) * abs(stride) for extent, stride in self.leaves)

    @property
    def rank(self) -> int:
        """Number of top-level modes (1 for an integer shape)."""
        return 1 if isinstance(self.shape, int) else len(self.shape)

    @property
    def depth(self) -> int:
        """Nesting: 0 for an integer shape, 1 for a flat tuple."""
        return inttuple.depth(self.shape)

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, mode: int) -> Layout:
        """The layout of top-level mode `mode` (from 0; negative counts from the end)."""
        if not -self.rank <= mode < self.rank:
            raise UsageError(
                f"mode {mode} of {self}", f"the layout has rank {self.rank}",
                legal=[str(i) for i in range(self.rank)],
                where=_WHERE,
            )
        if isinstance(self.shape, int):
            return self
        strides = cast("tuple[IntTuple, ...]", self.stride)  # congruent with the shape
        return Layout(self.shape[mode], strides[mode])

    def __iter__(self) -> Iterator[Layout]:
        return (self[mode] for mode in range(self.rank))

    @overload
    def __call__(self, *coord: int | tuple[Any, ...]) -> int: ...
    @overload
    def __call__(self, *coord: Any) -> Any: ...
    def __call__(self, *coord: Any) -> Any:
        """The value at `coord`: an int, a (nested) tuple, or as many arguments as modes.

        NumPy arrays of coordinates may stand wherever an int may; they broadcast and give an array.
        """
        where = coord[0] if len(coord) == 1 else coord
        if type(where) is int and where >= 0:
            return _linear(where, self.leaves)
        return _value(where, self.shape, self.stride)

    @cached_property
    def _indices(self) -> NDArray[np.int64]:
        if self.size > _MAX_INDICES:
            raise LimitExceeded(
                f"the indices of {self}", f"{self.size} values", legal=f"at most {_MAX_INDICES}",
                where=_WHERE,
            )
        values = np.zeros(1, np.int64)
        for extent, stride in self.leaves:
            steps = np.arange(extent, dtype=np.int64) * stride
            values = (steps[:, None] + values).reshape(-1)
        values.setflags(write=False)
        return values

    def indices(self) -> NDArray[np.int64]:
        """All values in colexicographic order of the coordinates: int64, (size,), read-only."""
        return self._indices

    def array(self) -> NDArray[np.int64]:
        """All values as an array with one axis for each top-level mode, read-only."""
        return self._indices.reshape([mode.size for mode in self], order="F")

    @cached_property
    def is_injective(self) -> bool:
        """Whether no two coordinates share a value."""
        return len(np.unique(self._indices)) == self.size

    @cached_property
    def is_bijective(self) -> bool:
        """Whether the values are exactly 0 to size - 1."""
        return self.is_injective and self.cosize == self.size and int(self._indices.min()) == 0


def check_layout(value: object) -> None:
    """Something that the algebra works on.

    Raises:
        UsageError: it is no layout.
    """
    if not isinstance(value, Layout):
        raise UsageError(f"{value!r}", "is no layout", legal="Layout((4, 8), (1, 4))", where=_WHERE)


def make_layout(*modes: Layout) -> Layout:
    """The layout whose top-level modes are `modes`."""
    for mode in modes:
        check_layout(mode)
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _value(coord: Any, shape: IntTuple, stride: IntTuple) -> Any:
    # Exact types first: this is the path of every scalar look-up.
    if type(coord) is int and coord >= 0:
        return coord * stride if isinstance(stride, int) else _linear(coord, _leaves(shape, stride))
    if isinstance(coord, (tuple, list)):
        if isinstance(shape, int) or len(coord) != len(shape):
            raise _wrong_rank(coord, shape)
        return sum(map(_value, coord, shape, cast("tuple[IntTuple, ...]", stride)))
    checked = _checked(coord, shape)
    return checked * stride if isinstance(stride, int) else _linear(checked, _leaves(shape, stride))


@lru_cache(maxsize=4096)
def _leaves(shape: IntTuple, stride: IntTuple) -> tuple[tuple[int, int], ...]:
    return tuple(zip(flatten(shape), flatten(stride), strict=True))


def _linear(coord: Any, leaves: tuple[tuple[int, int], ...]) -> Any:
    """The value at one integer (or array of integers) over all leaves; the last takes the rest."""
    if not leaves:
        return coord * 0
    total: Any = 0
    for extent, step in leaves[:-1]:
        coord, digit = divmod(coord, extent)
        total = total + digit * step
    return total + coord * leaves[-1][1]


def _wrong_rank(coord: tuple[Any, ...] | list[Any], shape: IntTuple) -> UsageError:
    rank = 1 if isinstance(shape, int) else len(shape)
    return UsageError(
        f"coordinate {coord}", f"{len(coord)} parts for the shape {inttuple.text(shape)}",
        legal=f"an integer, or {rank} parts", where="CuTe, Layout, coordinates",
    )


def _checked(coord: Any, shape: IntTuple) -> Any:
    """`coord` as an int or an int64 array without negative entries."""
    if isinstance(coord, np.ndarray) and coord.ndim:
        if coord.dtype.kind not in "iu":
            raise UsageError(f"coordinates of type {coord.dtype}", "not integers", legal="int64",
                             where=f"{_WHERE}, coordinates")
        if coord.size and coord.min() < 0:
            raise _negative(int(coord.min()), shape)
        return coord.astype(np.int64)
    whole = inttuple.normalise(coord.item() if isinstance(coord, np.ndarray) else coord)
    if not isinstance(whole, int) or whole < 0:
        raise _negative(whole, shape)
    return whole


def _negative(coord: IntTuple, shape: IntTuple) -> UsageError:
    return UsageError(
        f"coordinate {coord}", "a coordinate is never negative",
        legal=f"0 to {inttuple.size(shape) - 1} in the shape {inttuple.text(shape)}",
        where="CuTe, Layout, coordinates",
    )
