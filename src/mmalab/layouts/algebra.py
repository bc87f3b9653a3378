"""CuTe's layout algebra: coalesce, compose, complement, inverses, divides and products.

Each operation is defined by its post-condition, and the tests check that and nothing else:

    coalesce(A)             the same function of one integer, with fewest modes
    compose(A, B)(c)     =  A(B(c)) for every c of B
    complement(A, n)        walks the gaps of A in rising order, never meeting a value of A twice
    right_inverse(A)        A(R(i)) = i for i < size(R), R as large as it can be
    left_inverse(A)         L(A(i)) = i for every i of A (A injective)
    logical_divide(A, B)    mode 0 is A in the order of tile B, mode 1 the rest: tiles of A
    logical_product(A, B)   mode 0 is A, mode 1 repeats A in the order of B without overlap

    >>> print(compose(Layout.parse("(6,2):(8,2)"), Layout.parse("(4,3):(3,1)")))
    ((2,2),3):((24,2),8)
    >>> print(complement(Layout.parse("(2,2):(1,6)"), 24))
    (3,2):(2,12)

A stride that neither divides nor is divided by an extent has no layout as result; the error says
which pair. Modes that only fit one by one are refused too (CuTe composes them mode by mode, and
the sum then carries: ``(4,4):(1,8) o (2,2):(3,3)`` would give 6 where A(B(3)) is A(6) = 10).

`zipped_`, `tiled_` and `flat_` variants regroup the modes of the logical result::

    logical  ((TileM,RestM), (TileN,RestN), ...)      tiled  ((TileM,TileN), RestM, RestN, ...)
    zipped   ((TileM,TileN), (RestM,RestN,...))       flat   (TileM, TileN, RestM, RestN, ...)

Source: CUTLASS documentation, CuTe, "Layout Algebra"; cute/layout.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from operator import mul
from typing import Any, TypeAlias, overload

import numpy as np

from mmalab.errors import UsageError
from mmalab.layouts.layout import Layout, check_layout, make_layout
from mmalab.layouts.swizzle import ComposedLayout, Swizzle

__all__ = [
    "Tiler",
    "blocked_product",
    "coalesce",
    "complement",
    "compose",
    "flat_divide",
    "flat_product",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "max_common_vector",
    "raked_product",
    "right_inverse",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]

#: What tiles a layout: a layout or extent for all of it, or a tuple, one item for each mode (None
#: leaves the mode whole).
Tiler: TypeAlias = "Layout | int | tuple[Tiler, ...] | None"

_WHERE = "CuTe, Layout Algebra"


def _from_leaves(leaves: list[tuple[int, int]]) -> Layout:
    """An integer mode for one leaf, a flat tuple for more, ``1:0`` for none."""
    if len(leaves) < 2:
        return Layout(*(leaves[0] if leaves else (1, 0)))
    return Layout(tuple(extent for extent, _ in leaves), tuple(stride for _, stride in leaves))


def coalesce(layout: Layout, *, by_mode: bool = False) -> Layout:
    """The same function of one integer with the fewest modes; `by_mode` keeps the rank."""
    if by_mode:
        return make_layout(*map(coalesce, layout))
    check_layout(layout)
    leaves: list[tuple[int, int]] = []
    for extent, stride in layout.leaves:
        if extent == 1:
            continue
        if leaves and leaves[-1][0] * leaves[-1][1] == stride:
            leaves[-1] = (leaves[-1][0] * extent, leaves[-1][1])
        else:
            leaves.append((extent, stride))
    return _from_leaves(leaves)


@overload
def compose(outer: Layout, inner: Tiler) -> Layout: ...
@overload
def compose(outer: Swizzle | ComposedLayout, inner: Tiler) -> ComposedLayout: ...
def compose(outer: Layout | Swizzle | ComposedLayout, inner: Tiler) -> Layout | ComposedLayout:
    """The layout with the shape of `inner` and the values ``outer(inner(coord))``.

    A tuple composes mode by mode and leaves the modes after its end as they are. A swizzle or a
    swizzled layout on the left gives a ComposedLayout. Raises UsageError where the values are not a
    layout (stride or extent not divisible, or a sum of modes that carries).
    """
    if isinstance(outer, Swizzle):
        return ComposedLayout(outer, 0, _as_layout(inner))
    if isinstance(outer, ComposedLayout):
        return ComposedLayout(outer.swizzle, outer.offset, compose(outer.layout, inner))
    check_layout(outer)
    if inner is None:
        return outer
    if isinstance(inner, tuple):
        return _by_mode(compose, outer, inner)
    return _Composition(outer).of(_as_layout(inner))


def _as_layout(tiler: Tiler) -> Layout:
    if isinstance(tiler, Layout):
        return tiler
    if isinstance(tiler, int):
        return Layout(tiler)
    raise UsageError(f"{tiler!r}", "not a layout", legal="a Layout or an integer", where=_WHERE)


def _by_mode(operation: Callable[[Layout, Any], Layout], outer: Layout, tilers: tuple[Any, ...]
             ) -> Layout:
    if len(tilers) > outer.rank:
        raise UsageError(
            f"{len(tilers)} tilers for {outer}", f"the layout has {outer.rank} modes",
            legal=f"at most {outer.rank}", where=_WHERE,
        )
    modes = list(outer)
    return make_layout(*map(operation, modes, tilers), *modes[len(tilers):])


class _Composition:
    """``outer o inner``, leaf by leaf of `inner`, over the coalesced leaves of `outer`."""

    def __init__(self, outer: Layout) -> None:
        self.outer = outer
        self.flat = list(coalesce(outer).leaves)
        #: Largest coordinate that all leaves of `inner` together reach in each leaf of `outer`.
        self.reached = [0] * len(self.flat)

    def of(self, inner: Layout) -> Layout:
        result = self._modes(inner)
        for (extent, _), last in zip(self.flat[:-1], self.reached[:-1], strict=True):
            if last >= extent:
                raise UsageError(
                    f"{self.outer} o {inner}",
                    f"modes that fit one by one add up to {last} in an extent of {extent}",
                    legal="modes whose sum carries nowhere", where=f"{_WHERE}, composition",
                )
        return result

    def _modes(self, inner: Layout) -> Layout:
        if isinstance(inner.shape, tuple):
            return make_layout(*map(self._modes, inner))
        ((extent, stride),) = inner.leaves
        if stride == 0 or extent == 1:
            return Layout(extent, 0)
        if stride < 0:
            raise UsageError(
                f"{self.outer} o {inner}", "a negative stride gives negative coordinates",
                legal="strides from 0", where=_WHERE,
            )
        return _from_leaves(list(self._leaf(extent, stride)))

    def _leaf(self, extent: int, stride: int) -> Iterator[tuple[int, int]]:
        """The leaves of `outer` o extent:stride: every leaf of `outer` takes its share."""
        mode = f"{extent}:{stride}"
        for place, (size, step) in enumerate(self.flat[:-1]):
            if stride >= size:
                if stride % size:
                    raise _indivisible(self.outer, mode, f"stride {stride} by extent {size}")
                stride //= size
                continue
            inside = min(extent, -(-size // stride))  # how many steps stay inside this leaf
            if inside < extent and (size % stride or extent % inside):
                uneven = f"stride {stride}" if size % stride else f"extent {extent}"
                raise _indivisible(self.outer, mode, f"{uneven} by extent {size}")
            self.reached[place] += (inside - 1) * stride
            yield inside, stride * step
            extent, stride = extent // inside, 1
            if extent == 1:
                return
        yield extent, stride * self.flat[-1][1]


def _indivisible(outer: Layout, mode: str, pair: str) -> UsageError:
    return UsageError(
        f"{outer} o {mode}", f"not divisible: {pair}",
        legal="strides and extents that divide one another, or modes that end inside one extent",
        where=f"{_WHERE}, composition",
    )


def complement(layout: Layout, target: int | Layout | None = None) -> Layout:
    """A layout of the values that `layout` skips, up to at least `target` - 1, in rising order.

    `target` is a size, or a layout whose cosize is meant; without it, the cosize of `layout`.
    Gaps are filled with whole copies of what lies below them, as CuTe does: if a stride is no
    multiple of the values below it, the end of the gap stays empty. Raises UsageError if a stride
    falls inside the values below it (`layout` overlaps itself).
    """
    check_layout(layout)
    bound = layout.cosize if target is None else target
    bound = bound.cosize if isinstance(bound, Layout) else bound
    if not isinstance(bound, int):
        raise UsageError(f"{bound!r}", "is no size to fill up to", legal="64, or a layout",
                         where=f"{_WHERE}, complement")
    leaves: list[tuple[int, int]] = []
    reached = 1
    for stride, extent in sorted((d, s) for s, d in layout.leaves if d and s > 1):
        if stride < reached:
            raise UsageError(
                f"the complement of {layout}",
                f"stride {stride} falls inside the {reached} values below it",
                legal=f"strides from {reached}", where=f"{_WHERE}, complement",
            )
        leaves.append((stride // reached, reached))
        reached = stride * extent
    leaves.append((-(-bound // reached), reached))
    return coalesce(_from_leaves(leaves))


def right_inverse(layout: Layout) -> Layout:
    """The largest R with ``layout(R(i)) = i`` for every i below size(R)."""
    sizes = [extent for extent, _ in layout.leaves]
    starts = list(accumulate(sizes, mul, initial=1))
    leaves: list[tuple[int, int]] = []
    reached = 1
    for stride, extent, start in sorted(
        (d, s, p) for (s, d), p in zip(layout.leaves, starts, strict=False) if s > 1
    ):
        if stride == reached:
            leaves.append((extent, start))
            reached *= extent
    return coalesce(_from_leaves(leaves))


def left_inverse(layout: Layout) -> Layout:
    """A layout L with ``L(layout(i)) = i`` for every i.

    Raises UsageError if `layout` is not injective, or if its strides do not divide one another (no
    layout undoes it then).
    """
    sizes = [extent for extent, _ in layout.leaves]
    starts = accumulate(sizes, mul, initial=1)
    modes = sorted(
        (d, s, p) for (s, d), p in zip(layout.leaves, starts, strict=False) if s > 1
    )
    # Between two strides lie the values of the lower mode, and perhaps a gap that nobody reaches.
    leaves: list[tuple[int, int]] = []
    below, width, start = 1, 1, 0
    for stride, extent, place in modes:
        if stride < below * width or stride % below:
            raise UsageError(
                f"the left inverse of {layout}",
                f"stride {stride} after the mode {width}:{below}",
                legal=f"multiples of {below} from {below * width}",
                where=f"{_WHERE}, left inverse",
            )
        leaves.append((stride // below, start))
        below, width, start = stride, extent, place
    return coalesce(_from_leaves([*leaves, (width, start)]))


def max_common_vector(a: Layout, b: Layout) -> int:
    """How many first elements lie together in `a` and in `b`: the width of one vector copy.

    The largest n for which some coordinates c(i) give ``a(c(i)) = b(c(i)) = i`` for i < n.
    """
    order = right_inverse(b).indices()
    order = order[: np.argmax(order >= a.size)] if (order >= a.size).any() else order
    values = a.indices()[order]
    wrong = np.flatnonzero(values != np.arange(len(values)))
    return max(1, int(wrong[0]) if len(wrong) else len(values))


def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """(tile, rest): `layout` in the order of `tiler`, then over its repetitions."""
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        return _by_mode(logical_divide, layout, tiler)
    tiler = _as_layout(tiler)
    return compose(layout, make_layout(tiler, complement(tiler, layout.size)))


def logical_product(block: Layout, tiler: Tiler) -> Layout:
    """(block, repetitions): copies of `block` next to one another in the order of `tiler`."""
    if tiler is None:
        return block
    if isinstance(tiler, tuple):
        return _by_mode(logical_product, block, tiler)
    tiler = _as_layout(tiler)
    # Where strides leave ragged gaps, CuTe's bound (block.size * tiler.cosize) can end before the
    # last copy, which then falls onto the block; this bound leaves room for every copy above it.
    rest = complement(block, 2 * block.cosize * tiler.cosize)
    return make_layout(block, compose(rest, tiler))


def _zipped(operation: Callable[[Layout, Any], Layout], layout: Layout, tiler: Tiler) -> Layout:
    """((tiles), (rests)) of `operation` done mode by mode."""
    if tiler is None:
        return make_layout(Layout(1, 0), layout)
    if not isinstance(tiler, tuple):
        return operation(layout, tiler)
    _by_mode(lambda mode, _: mode, layout, tiler)  # complains about too many tilers
    modes = list(layout)
    pairs = [_zipped(operation, mode, item) for mode, item in zip(modes, tiler, strict=False)]
    return make_layout(
        make_layout(*(pair[0] for pair in pairs)),
        make_layout(*(pair[1] for pair in pairs), *modes[len(tiler):]),
    )


def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """((TileM, TileN, ...), (RestM, RestN, ...))."""
    return _zipped(logical_divide, layout, tiler)


def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """((TileM, TileN, ...), RestM, RestN, ...)."""
    tile, rest = zipped_divide(layout, tiler)
    return make_layout(tile, *rest)


def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """(TileM, TileN, ..., RestM, RestN, ...)."""
    tile, rest = zipped_divide(layout, tiler)
    return make_layout(*tile, *rest)


def zipped_product(block: Layout, tiler: Tiler) -> Layout:
    """((BlockM, BlockN, ...), (TileM, TileN, ...))."""
    return _zipped(logical_product, block, tiler)


def tiled_product(block: Layout, tiler: Tiler) -> Layout:
    """((BlockM, BlockN, ...), TileM, TileN, ...)."""
    inner, outer = zipped_product(block, tiler)
    return make_layout(inner, *outer)


def flat_product(block: Layout, tiler: Tiler) -> Layout:
    """(BlockM, BlockN, ..., TileM, TileN, ...)."""
    inner, outer = zipped_product(block, tiler)
    return make_layout(*inner, *outer)


def _padded_product(block: Layout, tiler: Layout) -> tuple[list[Layout], list[Layout]]:
    """Modes of the product with both ranks made equal by modes ``1:0``."""
    rank = max(block.rank, tiler.rank)
    widened = [
        make_layout(*layout, *[Layout(1, 0)] * (rank - layout.rank)) for layout in (block, tiler)
    ]
    inner, outer = logical_product(*widened)
    return list(inner), list(outer)


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """((BlockM, TileM), (BlockN, TileN), ...): whole blocks side by side in each mode."""
    return make_layout(*map(make_layout, *_padded_product(block, tiler)))


def raked_product(block: Layout, tiler: Layout) -> Layout:
    """((TileM, BlockM), (TileN, BlockN), ...): blocks interleaved element by element."""
    inner, outer = _padded_product(block, tiler)
    return make_layout(*map(make_layout, outer, inner))
