"""Shared-memory banks: how many wavefronts one warp-wide access takes.

Shared memory has 32 banks of 4 bytes; consecutive words lie in consecutive banks. One wavefront
delivers one word of each bank, 128 bytes at most. A warp's access is split by its width:

    up to 4 bytes a lane   all 32 lanes together
    8 bytes                two half warps of 16 lanes
    16 bytes               four groups of 8 lanes (so does each 8 x 8 matrix of ldmatrix)

and each part takes as many wavefronts as its busiest bank has *different* words; lanes that want
the same word share it. Eight 16-byte rows that lie 64 bytes apart:

    >>> passes, ideal = wavefronts(np.arange(8) * 64, 16)
    >>> int(passes), int(ideal)
    (4, 1)

Source: CUDA programming guide, shared memory; the ldmatrix counts were confirmed with Nsight
Compute on an H200 (4 wavefronts for each ldmatrix.x4 on padded or swizzled rows, 16 on plain
64-byte rows, 32 on plain 128-byte rows). Not measured: whether the chip joins groups of lanes that
all want the same words; here each group with an active lane takes at least one wavefront.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmalab.errors import UsageError

__all__ = ["BANKS", "BANK_BYTES", "LANES", "lanes_together", "wavefronts"]

BANKS = 32
BANK_BYTES = 4
LANES = 32

_SIZES = (1, 2, 4, 8, 16)
_WHERE = "mmalab.layouts.banks"


def lanes_together(size: int) -> int:
    """How many lanes are served at once when each takes `size` bytes: 32, 16 or 8."""
    if size not in _SIZES:
        raise UsageError(
            f"an access of {size} bytes a lane", "no such access",
            legal=[str(s) for s in _SIZES], where=_WHERE,
        )
    return min(LANES, BANKS * BANK_BYTES // size)


def wavefronts(
    addresses: ArrayLike, size: int, active: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Wavefronts that accesses take, and that they would take without conflicts.

    `addresses` is (..., lanes) byte addresses, up to 32 lanes, each a multiple of `size` (1, 2, 4,
    8 or 16 bytes a lane); `active` broadcasts against it. Both results have shape (...). Without
    conflicts, each group of lanes that has an active lane takes one wavefront.
    """
    at = _checked(addresses, size, active)
    together = lanes_together(size)
    groups = at.shape[-1] // together
    words = at[..., None] // BANK_BYTES + np.arange(max(1, size // BANK_BYTES))
    # Every group now has 32 words or fewer; inactive lanes have negative ones.
    words = np.sort(words.reshape(-1, words.shape[-1] * together))
    fresh = np.ones(words.shape, bool)
    fresh[:, 1:] = words[:, 1:] != words[:, :-1]
    fresh &= words >= 0
    rows = np.arange(len(words))[:, None] * BANKS + words % BANKS
    load = np.bincount(rows[fresh], minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
    passes = load.reshape(*at.shape[:-1], groups)
    return passes.sum(axis=-1), (passes > 0).sum(axis=-1)


def _checked(addresses: ArrayLike, size: int, active: ArrayLike | None) -> NDArray[np.int64]:
    """Addresses as int64 with a whole number of lane groups; inactive and missing lanes are -16."""
    together = lanes_together(size)
    at: NDArray[Any] = np.asarray(addresses)
    if at.ndim == 0 or at.shape[-1] > LANES or at.dtype.kind not in "iu":
        raise UsageError(
            f"addresses of shape {at.shape} and type {at.dtype}", "not lanes of byte addresses",
            legal=f"integers of shape (..., lanes) with at most {LANES} lanes", where=_WHERE,
        )
    on = np.ones(at.shape, bool) if active is None else np.broadcast_to(active, at.shape)
    at = at.astype(np.int64)
    if np.any(on & ((at % size != 0) | (at < 0))):
        worst = int(at[on & ((at % size != 0) | (at < 0))][0])
        raise UsageError(
            f"address {worst} for {size} bytes", "misaligned or negative",
            legal=f"multiples of {size} from 0", where=_WHERE,
        )
    missing = -at.shape[-1] % together
    padding = [(0, 0)] * (at.ndim - 1) + [(0, missing)]
    return np.pad(np.where(on, at, -16), padding, constant_values=-16)
