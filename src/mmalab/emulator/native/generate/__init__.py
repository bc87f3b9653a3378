"""Code generators, one file per instruction group; each adds itself to :data:`GENERATORS`.

A generator writes the primitive of one instruction form and returns True, or returns False when it
does not know these modifiers; the site is then executed by the NumPy executor of the same form,
which is the specification that the generator must equal bit for bit.
"""

from __future__ import annotations

from mmalab.emulator.native.generate import (
    approximate,
    arithmetic,
    atomics,
    bits,
    convert,
    integers,
    matrix,
    mbarriers,
    memory,
    moves,
    warps,
)
from mmalab.emulator.native.generate.registry import GENERATORS
from mmalab.emulator.native.generate.special import (
    KNOWN,
    cta_specials,
    special_place,
    warp_specials,
)

__all__ = ["GENERATORS", "KNOWN", "approximate", "arithmetic", "atomics", "bits", "convert",
           "cta_specials", "integers", "matrix", "mbarriers", "memory", "moves", "special_place",
           "warp_specials", "warps"]
