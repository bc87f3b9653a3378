"""What a memory access is to the counters and to the listeners.

Wavefronts of shared memory come from :mod:`mmalab.layouts.banks`. A generic access is counted and
reported per state space that its lanes reach.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.events import Access, Semantics
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import (
    FIRST_BUFFER_TAG,
    LOCAL_TAG,
    PARAM_TAG,
    RANK_SHIFT,
    SHARED_TAG,
    TAG_SHIFT,
)
from mmalab.emulator.state import pack
from mmalab.layouts.banks import wavefronts

__all__ = ["count_shared", "observe_access"]

def count_shared(lanes: Lanes, addresses: NDArray[np.uint64], size: int,
                 mask: NDArray[np.bool_]) -> None:
    """Add an access to the shared-memory counters."""
    aligned = mask & ((addresses & np.uint64(min(size, 16) - 1)) == 0)
    aligned &= addresses < np.uint64(1 << 32)  # beyond lies nothing: a finding, not traffic
    passes, fewest = wavefronts(np.where(aligned, addresses, np.uint64(0)), min(size, 16), aligned)
    taken, ideal = int(passes.sum()), int(fewest.sum())
    counters = lanes.machine.counters
    counters["shared.wavefronts"] += taken
    counters["shared.wavefronts.ideal"] += ideal
    counters[f"shared.wavefronts.{lanes.site.form.family}"] += taken


_SPACES: tuple[tuple[Literal["shared", "local", "param"], int], ...] = (
    ("shared", SHARED_TAG), ("local", LOCAL_TAG), ("param", PARAM_TAG),
)


def observe_access(lanes: Lanes, kind: Literal["read", "write", "atomic"], space: str,
                   addresses: NDArray[np.uint64], size: int, *, collective: bool = False,
                   values: NDArray[Any] | None = None) -> None:
    """Count an access of `size` bytes per lane and tell the listeners.

    `values` [words, warps, 32] are what was written.
    """
    for where, inside, plain in _by_space(lanes, space, addresses):
        active = int(inside.sum())
        if where == "shared":
            count_shared(lanes, plain, size, inside)
        elif where == "global":
            counters = lanes.machine.counters
            if kind != "write":
                counters["global.bytes.read"] += active * size
            if kind != "read":
                counters["global.bytes.written"] += active * size
            if lanes.machine.traffic is not None:
                lanes.machine.traffic.access(lanes, inside, plain, size, write=kind != "read")
        if lanes.machine.observed:
            _tell(lanes, kind, where, inside, plain, size, collective=collective, values=values)


def _by_space(lanes: Lanes, space: str, addresses: NDArray[np.uint64],
              ) -> list[tuple[Any, NDArray[np.bool_], NDArray[np.uint64]]]:
    if space:
        return [(space, lanes.mask, addresses)]
    tags = addresses >> np.uint64(TAG_SHIFT)
    found: list[tuple[Any, NDArray[np.bool_], NDArray[np.uint64]]] = []
    beyond = lanes.mask & (tags >= FIRST_BUFFER_TAG)
    if beyond.any():
        found.append(("global", beyond, addresses))
    if beyond.all():
        return found
    for name, tag in _SPACES:
        inside = lanes.mask & (tags == tag)
        if inside.any():
            found.append((name, inside, addresses & np.uint64(2**32 - 1)))
    return found


def _tell(lanes: Lanes, kind: Literal["read", "write", "atomic"], where: Any,
          inside: NDArray[np.bool_], addresses: NDArray[np.uint64], size: int, *,
          collective: bool, values: NDArray[Any] | None) -> None:
    semantics: Semantics = lanes.modifier("sem", "relaxed" if kind == "atomic" else "weak")  # type: ignore[assignment]
    scope = lanes.modifier("scope")
    if kind == "atomic" and not scope:
        scope = "gpu"
    for position, row in enumerate(lanes.rows.tolist()):
        mask = int(pack(inside[position]))
        if not mask:
            continue
        cta, warp = lanes.machine.state.where(row)
        written = None
        if values is not None:
            raw = np.ascontiguousarray(values[:, position].T)
            written = raw.view(np.uint8).reshape(32, -1)
        owners = _owners(lanes, where, addresses[position], row)
        plain = (addresses[position] & np.uint64((1 << RANK_SHIFT) - 1) if where == "shared"
                 else addresses[position].copy())
        lanes.machine.emit(Access(cta, warp, lanes.site.index, mask, kind, where, plain, size,
                                  semantics, scope, written, collective, owners))


def _owners(lanes: Lanes, where: str, addresses: NDArray[np.uint64],
            row: int) -> NDArray[np.int32] | None:
    """The CTAs whose shared memory the lanes touch, when clusters make that a question."""
    size = lanes.machine.space.cluster_size
    if where != "shared" or size == 1:
        return None
    first = row // lanes.machine.shape.warps // size * size
    ranks = (addresses >> np.uint64(24)).astype(np.int64)
    ctas = lanes.machine.state.ctas
    return ctas[np.minimum(first + ranks, len(ctas) - 1)].astype(np.int32)
