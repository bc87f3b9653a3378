"""Planners: what a choice costs, before anything is written or run.

==================  ============================================================================
``banks``           shared-memory wavefronts of one access pattern
``swizzle_search``  the swizzle or padding without conflicts, reads and writes together
``misread``         a tile written under one swizzle and read under another: what moves
``permutation``     somebody's formula: a bijection? how many passes? which swizzle is it?
``tmem``            the ledger of Tensor Memory, packed by its allocation rules
``pool``            its allocator with several CTAs: contention, leaks, deadlock
``occupancy``       CTAs per SM, Tensor Memory among the resources
``smem``            shared memory of a pipeline: how many stages fit
``tiles``           which CTA tile for one product: edges, waves, feeding
``registers``       accumulators against 255 registers, setmaxnreg's pool
``traffic``         bytes per FLOP of accumulators and operands
``block_formats``   MXFP8 ... NVFP4: bits, scales, columns, chips, error on one's own data
``decode``          few rows in a tile of 64; the roofline's knee
``chips``, ``rates``  products with their sources; peaks, identities, plausibility
``pictures``        ledger, allocator and decode curve as SVG
==================  ============================================================================

Results are frozen records; a plan that does not fit says so in a :class:`Misfit`, with what would.
The names below load their module on first use: counting banks needs no instruction table.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmalab.plan import (
        banks,
        block_formats,
        chips,
        decode,
        misread,
        occupancy,
        packing,
        permutation,
        pictures,
        pool,
        rates,
        registers,
        smem,
        tiles,
        tmem,
        traffic,
    )
    from mmalab.plan.misfit import Misfit
    from mmalab.plan.swizzle import SwizzleSearch, swizzle_search, swizzle_table

#: Names that are no module of their own, by the module that defines them.
_MEMBERS = {
    "Misfit": "misfit", "SwizzleSearch": "swizzle", "swizzle_search": "swizzle",
    "swizzle_table": "swizzle",
}

__all__ = [
    "Misfit", "SwizzleSearch", "banks", "block_formats", "chips", "decode", "misread", "occupancy",
    "packing", "permutation", "pictures", "pool", "rates", "registers", "smem", "swizzle_search",
    "swizzle_table", "tiles", "tmem", "traffic",
]


def __getattr__(name: str) -> Any:
    if name in _MEMBERS:
        value = getattr(importlib.import_module(f"{__name__}.{_MEMBERS[name]}"), name)
    elif name in __all__:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
