"""How wide is a unit's accumulator, and which unit explains recorded bits.

    >>> probe("sm_90.wgmma.e4m3.f32").exponent, probe("sm_90.mma.e4m3.f32").exponent
    (13, 23)

The same FP8 types on the same chip: wgmma forgets a 1 beside 2^14, mma.sync only beside 2^24.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.numerics.operands import Words
from mmalab.numerics.product import dot
from mmalab.numerics.unit import Unit
from mmalab.numerics.units import unit as find_unit
from mmalab.numerics.units import units

__all__ = ["Probe", "identify", "probe"]


@dataclass(frozen=True, slots=True)
class Probe:
    """`exponent`: the largest e for which 2^e + 1 x 1 keeps the 1; `bits` = e + 1 of accumulator.
    `lost` is what comes out for the next e ("16384 + 1 = 16384")."""

    unit: str
    exponent: int
    bits: int
    lost: str


def probe(unit: str | Unit) -> Probe:
    """The classic accumulator probe: c = 2^e, one product 1 x 1, e = 1, 2, 3 ...

    Raises:
        UsageError: integer units, which are exact, and FP64, whose probe says 52 by definition.
    """
    row = find_unit(unit)
    if row.acc not in ("f32", "f16"):
        raise UsageError(f"{row.name}: probe", "is for f32 and f16 accumulators",
                         legal="sm_90.wgmma.e4m3.f32",
                         where="mmalab.numerics")
    top = formats.get(row.acc).emax
    exponents = np.arange(1, min(top, 40))
    a = np.zeros((len(exponents), row.k))
    a[:, 0] = 1
    left, right = formats.encode(a, row.a), formats.encode(a, row.b)
    c = formats.encode(2.0**exponents, row.acc)
    one = 127 if row.scale == "ue8m0" else 0x38
    scale = np.full((len(c), row.k // row.scale_block), one, np.uint8) if row.scale else None
    words = dot(left, right, c, unit=row, raw=True, scale_a=scale, scale_b=scale)
    d = formats.decode(words, row.acc)
    first = int(np.argmax(d == 2.0**exponents))
    last = int(exponents[first]) - 1
    return Probe(row.name, last, last + 1, f"{2 ** (last + 1)} + 1 = {d[first]:.0f}")


def identify(a: Words, b: Words, c: Words, d: Words, *, a_type: str, b_type: str,
             acc: str) -> dict[str, float]:
    """Which units explain recorded dot products: name -> share of rows reproduced, best first.

    Args:
        a, b: raw words (batch, K); c, d: raw words (batch,).
        a_type, b_type, acc: PTX types of the words.

    Units that repeat another chip's arithmetic are listed too; those with the same parameters get
    the same share.
    """
    shares: dict[str, float] = {}
    for row in units():
        if (row.a, row.b, row.acc) != (a_type, b_type, acc) or row.scale:
            continue
        found = dot(a, b, c, unit=row, raw=True)
        shares[row.name] = float(np.mean(found == d))
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
