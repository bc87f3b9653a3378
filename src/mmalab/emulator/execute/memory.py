"""Loads, stores, address windows; prefetches and cache policies, which do nothing here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.registry import approximates, executes
from mmalab.emulator.execute.traffic import observe_access
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.memory import (
    FIRST_BUFFER_TAG,
    LOCAL_TAG,
    OFFSET_MASK,
    PARAM_TAG,
    RANK_SHIFT,
    SHARED_TAG,
    TAG_SHIFT,
)
from mmalab.emulator.program import Vec
from mmalab.emulator.types import width
from mmalab.isa.form import Form

__all__ = ["plain_space"]

_WINDOWS = {"shared": SHARED_TAG, "local": LOCAL_TAG, "param": PARAM_TAG}


def plain_space(lanes: Lanes) -> str:
    """The state space without its qualifier; "" for generic addresses."""
    return lanes.modifier("space").partition("::")[0]


def _unit(kind: str) -> tuple[int, int]:
    """(bytes per word, words) of one element: b128 is two words of 8 bytes."""
    bits = width(kind)
    return (8, 2) if bits == 128 else (bits // 8, 1)


@executes("ld", "ldu")
def _load(lanes: Lanes) -> None:
    kind = lanes.type(0)
    size, words = _unit(kind)
    target = lanes.operands[0]
    items = target.items if isinstance(target, Vec) else (target,)
    addresses = lanes.address(1)
    space = plain_space(lanes)
    loaded, faults = lanes.machine.space.load(
        lanes.modifier("space"), addresses, size, lanes.mask, lanes.rows,
        count=words * len(items))
    if faults:
        lanes.machine.report_faults(lanes, faults, "load")
    for index, item in enumerate(items):
        value: NDArray[Any] = (loaded[index] if words == 1
                               else np.stack((loaded[2 * index], loaded[2 * index + 1]), axis=-1))
        lanes.assign(item, value, kind)
    observe_access(lanes, "read", space, addresses, size * words * len(items))


@executes("st")
def _store(lanes: Lanes) -> None:
    kind = lanes.type(1)
    size, words = _unit(kind)
    values = lanes.read_all(1)
    if words == 2:
        values = [part for value in values for part in (value[..., 0], value[..., 1])]
    addresses = lanes.address(0)
    stacked = np.stack(values)
    faults = lanes.machine.space.store(lanes.modifier("space"), addresses, size, stacked,
                                       lanes.mask, lanes.rows)
    if faults:
        lanes.machine.report_faults(lanes, faults, "store")
    lanes.machine.version += 1
    observe_access(lanes, "write", plain_space(lanes), addresses, size * len(stacked),
                   values=stacked)


@executes("prefetchu", "applypriority", "discard")
def _hint(lanes: Lanes) -> None:
    """Caches are not modelled."""


@approximates("discard")
def _why_discard(_form: Form) -> str:
    return "the discarded line keeps its bytes"


@executes("createpolicy.range", "createpolicy.fractional", "createpolicy.cvt")
def _policy(lanes: Lanes) -> None:
    lanes.write(0, np.zeros(lanes.mask.shape, np.uint64))


# --- generic addresses ----------------------------------------------------------------------------

@executes("cvta")
def _convert_address(lanes: Lanes) -> None:
    words = lanes.read(1).astype(np.uint64)
    tag = _WINDOWS.get(plain_space(lanes))
    if tag is not None:
        base = np.uint64(tag << TAG_SHIFT)
        words = words & np.uint64(OFFSET_MASK) if lanes.has("to") else words | base
    lanes.write(0, words.astype(f"u{width(lanes.type(0)) // 8}"))


@executes("isspacep")
def _is_space(lanes: Lanes) -> None:
    """Shared memory of another CTA of the cluster is .shared::cluster alone: cuda::barrier tells by
    it whether an arrival is remote."""
    words = lanes.read(1)
    tags = words >> np.uint64(TAG_SHIFT)
    space = plain_space(lanes)
    if space == "shared" and lanes.site.form.modifiers["space"] != "shared::cluster":
        ranks = words & np.uint64(OFFSET_MASK) & ~np.uint64((1 << RANK_SHIFT) - 1)
        lanes.write(0, (tags == _WINDOWS[space]) & (ranks == lanes.own_rank()))
        return
    if space in _WINDOWS:
        lanes.write(0, tags == _WINDOWS[space])
        return
    buffers = lanes.machine.space.buffers
    known = [FIRST_BUFFER_TAG + i for i, b in enumerate(buffers) if b.space == space]
    if space == "global":
        # Whatever is in no window is global, as on the chip.
        constant = [FIRST_BUFFER_TAG + i for i, b in enumerate(buffers) if b.space == "const"]
        lanes.write(0, ~np.isin(tags, [*_WINDOWS.values(), *constant]))
    else:
        lanes.write(0, np.isin(tags, known))


@executes("mapa")
def _map_address(lanes: Lanes) -> None:
    a, rank = lanes.read(1), lanes.read(2).astype(np.uint64)
    kept = a.astype(np.uint64) & np.uint64(~(0xFF << 24) & (2**64 - 1))
    lanes.write(0, (kept | rank << np.uint64(24)).astype(a.dtype))


@executes("getctarank")
def _rank_of_address(lanes: Lanes) -> None:
    lanes.write(0, (lanes.read(1).astype(np.uint64) >> np.uint64(24) & np.uint64(0xFF))
                .astype(np.uint32))
