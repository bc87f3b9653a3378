"""Special registers as vectors in memory: thread and CTA indices, lane masks, launch geometry.

They cost an instruction nothing: an operand ``%tid.x`` is the place of a vector that Python filled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.native.abi import Base, place
from mmalab.emulator.state import LaunchShape

__all__ = ["KNOWN", "cta_specials", "special_place", "warp_specials"]

_CTA = (
    "%ctaid.x", "%ctaid.y", "%ctaid.z", "%ntid.x", "%ntid.y", "%ntid.z",
    "%nctaid.x", "%nctaid.y", "%nctaid.z",
    "%laneid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
)
_WARP = ("%tid.x", "%tid.y", "%tid.z", "%warpid")

#: Special registers that compiled code knows; an instruction with another one is a stop.
KNOWN = frozenset([*_CTA, *_WARP])


def special_place(name: str) -> int:
    """Where the register's vector lies."""
    if name in _CTA:
        return place(Base.SPECIALS, 128 * _CTA.index(name))
    return place(Base.TID, 128 * _WARP.index(name))


def cta_specials(shape: LaunchShape, coordinates: tuple[int, int, int]) -> NDArray[np.uint32]:
    """[registers, 32] of one CTA."""
    lane = np.arange(32, dtype=np.uint64)
    one = np.uint64(1) << lane
    uniform = [np.full(32, v, np.uint64) for v in (*coordinates, *shape.block, *shape.grid)]
    below = one - np.uint64(1)
    masks = [lane, one, below, below | one, ~(below | one), ~below]
    return np.stack([*uniform, *masks]).astype(np.uint32)


def warp_specials(shape: LaunchShape) -> NDArray[np.uint32]:
    """[warps of a CTA, registers, 32]."""
    x, y, _ = shape.block
    linear = np.arange(32 * shape.warps, dtype=np.uint32).reshape(shape.warps, 32)
    return np.ascontiguousarray(np.stack(
        (linear % x, linear // x % y, linear // (x * y), linear // 32), axis=1), np.uint32)
