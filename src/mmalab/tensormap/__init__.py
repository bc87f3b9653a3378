"""Tensor maps (CUtensorMap): what TMA copies read to know a tensor, its boxes and its swizzle.

:class:`TensorMap` is the value, ``encoding`` its 128 bytes, ``rules`` the driver's limits, ``cut``
which bytes a box has in global memory, ``shared`` where they lie in shared memory.
"""

from mmalab.tensormap.cut import Block, Cut, cut
from mmalab.tensormap.elements import ELEMENTS, NAN_FILL, SWIZZLES, Element, SwizzleMode
from mmalab.tensormap.encoding import MAP_BYTES
from mmalab.tensormap.shared import Arrangement, arrange
from mmalab.tensormap.tensor_map import Im2col, TensorMap

__all__ = [
    "ELEMENTS", "MAP_BYTES", "NAN_FILL", "SWIZZLES", "Arrangement", "Block", "Cut", "Element",
    "Im2col", "SwizzleMode", "TensorMap", "arrange", "cut",
]
