"""Operands as the adder sees them: a magnitude, an exponent that is never normalised, a sign.

A tensor core does not normalise subnormal inputs before it aligns them, so a value is not enough:
the e4m3 word 0x01 (2^-9) must keep the exponent -6 of its encoding. Splitting it gives::

    >>> one = split("e4m3", np.array([0x01]))
    >>> int(one.magnitude[0]), int(one.exponent[0]), one.fraction_bits
    (1, -6, 3)

which reads 1 x 2^(-6 - 3). Zero has magnitude 0; NaN and Inf have magnitude 0 and their own flags.
:func:`mmalab.formats.take_apart` does the decoding; here the exponent moves to the leading one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats

__all__ = ["Split", "Words", "split"]

#: Arrays of raw words, unsigned integers.
Words = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Split:
    """Arrays of one shape: value = (-1)^negative x magnitude x 2^(exponent - fraction_bits)."""

    magnitude: NDArray[np.int64]
    exponent: NDArray[np.int64]
    negative: NDArray[np.bool_]
    nan: NDArray[np.bool_]
    inf: NDArray[np.bool_]
    fraction_bits: int

    def __getitem__(self, index: Any) -> Split:
        return Split(self.magnitude[index], self.exponent[index], self.negative[index],
                     self.nan[index], self.inf[index], self.fraction_bits)


def split(name: str, words: Words) -> Split:
    """Split raw words of the PTX type `name` into magnitude, encoding exponent and flags."""
    fmt = formats.get(name)
    parts = formats.take_apart(words, fmt)
    magnitude = np.where(parts.nan | parts.inf, 0, parts.significand.astype(np.int64))
    return Split(magnitude, parts.exponent + fmt.mantissa_bits, parts.sign, parts.nan, parts.inf,
                 fmt.mantissa_bits)
