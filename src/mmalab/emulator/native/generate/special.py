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


def cta_specials(shape: LaunchShape, ctas: NDArray[np.int64]) -> NDArray[np.uint32]:
    """[CTAs, registers, 32] for the CTAs with these linear numbers."""
    lane = np.arange(32, dtype=np.uint64)
    one = np.uint64(1) << lane
    below = one - np.uint64(1)
    rest, x = np.divmod(ctas, shape.grid[0])
    z, y = np.divmod(rest, shape.grid[1])
    table = np.empty((len(ctas), len(_CTA), 32), np.uint32)
    table[:, :3] = np.stack((x, y, z), axis=1)[..., None]
    table[:, 3:9] = np.array((*shape.block, *shape.grid))[:, None]
    masks = np.stack((lane, one, below, below | one, ~(below | one), ~below))
    table[:, 9:] = masks.astype(np.uint32)
    return table


def warp_specials(shape: LaunchShape) -> NDArray[np.uint32]:
    """[warps of a CTA, registers, 32]."""
    x, y, _ = shape.block
    linear = np.arange(32 * shape.warps, dtype=np.uint32).reshape(shape.warps, 32)
    return np.ascontiguousarray(np.stack(
        (linear % x, linear // x % y, linear // (x * y), linear // 32), axis=1), np.uint32)
