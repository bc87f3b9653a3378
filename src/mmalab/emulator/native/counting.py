"""From what compiled code counts per site (runs, lanes, wavefronts) to the run's counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.machine import Machine
from mmalab.emulator.program import Site, Vec
from mmalab.emulator.types import width

__all__ = ["add_traffic"]

_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})


def _bytes_per_lane(site: Site) -> tuple[int, int]:
    """(read, written) bytes of global memory per active lane."""
    family, modifiers = site.form.family, site.form.modifiers
    if family not in _ACCESSES or modifiers.get("space", "global") != "global":
        return 0, 0
    if family in ("atom", "red"):
        size = width(modifiers["type"]) // 8
        return size, size
    op = site.operands[1 if family == "st" else 0]
    count = len(op.items) if isinstance(op, Vec) else 1
    size = count * width(modifiers["type"]) // 8
    return (0, size) if family == "st" else (size, 0)


def add_traffic(machine: Machine, runs: NDArray[np.int64], counted: NDArray[np.int64]) -> None:
    """Add bytes, wavefronts and tensor FLOPs of `runs` [sites] and `counted` [sites, 4]."""
    counters = machine.counters
    for index in np.nonzero(runs)[0].tolist():
        site = machine.program.sites[index]
        lanes, passes, ideal, bytes_ = counted[index].tolist()
        read, written = _bytes_per_lane(site)
        for name, amount in (
            ("global.bytes.read", lanes * read + bytes_), ("global.bytes.written", lanes * written),
            ("shared.wavefronts", passes), ("shared.wavefronts.ideal", ideal),
            (f"shared.wavefronts.{site.form.family}", passes),
            ("tensor.flops", int(runs[index]) * site.form.flops),
        ):
            if amount:
                counters[name] += amount
