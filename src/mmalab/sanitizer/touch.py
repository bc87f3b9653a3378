"""One access on its way through the checks into shadow memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmalab.sanitizer.clocks import lanes_of
from mmalab.sanitizer.lanes import WarpClock

__all__ = ["Touch"]

Space: TypeAlias = Literal["shared", "global"]


@dataclass(frozen=True, slots=True)
class Touch:
    """One access on its way into shadow memory.

    `clock` is the observer: the warp, or the issuer of a copy. `row` and `epoch` say whose access
    it is. `addresses` are [n], for the lanes in `mask` in order; `values` [n, size] are the bytes
    of a write if known. `strength` is 0 for weak accesses, else 1 + the level of the scope.
    `reads`: the bytes should have been written before.
    """

    clock: WarpClock
    row: int
    epoch: int
    site: int
    space: Space
    write: bool
    strength: int
    addresses: NDArray[np.int64]
    mask: int
    size: int
    values: NDArray[np.uint8] | None = None
    reads: bool = False

    @property
    def by(self) -> NDArray[np.int64]:
        """[n] the lanes."""
        return lanes_of(self.mask)

    @property
    def copies(self) -> bool:
        """Whether the cp.async agent does it."""
        return self.row >= self.clock.warps
