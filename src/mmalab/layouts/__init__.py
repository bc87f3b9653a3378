"""Layouts: which integer (address, element, lane) belongs to a coordinate. CuTe's algebra.

``Layout`` and its algebra, XOR swizzles, the linear view over GF(2), and text pictures.
"""

from mmalab.layouts.algebra import (
    Tiler,
    blocked_product,
    coalesce,
    complement,
    compose,
    flat_divide,
    flat_product,
    left_inverse,
    logical_divide,
    logical_product,
    max_common_vector,
    raked_product,
    right_inverse,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from mmalab.layouts.inttuple import IntTuple
from mmalab.layouts.layout import Layout, make_layout
from mmalab.layouts.linear import LinearLayout
from mmalab.layouts.swizzle import TMA_SWIZZLES, ComposedLayout, Swizzle

__all__ = [
    "TMA_SWIZZLES",
    "ComposedLayout",
    "IntTuple",
    "Layout",
    "LinearLayout",
    "Swizzle",
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
    "make_layout",
    "max_common_vector",
    "raked_product",
    "right_inverse",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]
