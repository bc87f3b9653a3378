"""Operands as the adder sees them: a magnitude, an exponent that is never normalised, a sign.

A tensor core does not normalise subnormal inputs before it aligns them, so a value is not enough:
the e4m3 word 0x01 (2^-9) must keep the exponent -6 of its encoding. Splitting it gives::

    >>> one = split("e4m3", np.array([0x01]))
    >>> int(one.magnitude[0]), int(one.exponent[0]), one.fraction_bits
    (1, -6, 3)

which reads 1 x 2^(-6 - 3). Zero has magnitude 0; NaN and Inf have magnitude 0 and their own flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UsageError

__all__ = ["ENCODINGS", "Encoding", "Split", "encoding", "split", "word_dtype"]

Words = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Encoding:
    """Where the sign, exponent and fraction of a binary type lie in its word.

    `container` is the width of the word that carries an element in an array, `drop` the low bits
    that the hardware ignores (13 for tf32 in its 32-bit word). `specials` says what the top
    exponent means: "ieee" (Inf and NaN), "nan" (only the all-ones fraction is NaN), "none".
    """

    name: str
    container: int
    exponent_bits: int
    fraction_bits: int
    bias: int
    specials: Literal["ieee", "nan", "none"]
    drop: int = 0
    signed: bool = True

    @property
    def width(self) -> int:
        """Bits of the encoding itself, without the dropped ones."""
        return self.exponent_bits + self.fraction_bits + self.signed

    @property
    def minimum(self) -> int:
        """Exponent of subnormals and of the smallest normal number."""
        return 1 - self.bias

    @property
    def inf_word(self) -> int:
        """The word of +Inf ("ieee" types)."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits


#: The floating types of tensor-core operands and accumulators, by their PTX names.
ENCODINGS: dict[str, Encoding] = {
    row.name: row
    for row in (
        Encoding("f64", 64, 11, 52, 1023, "ieee"),
        Encoding("f32", 32, 8, 23, 127, "ieee"),
        Encoding("tf32", 32, 8, 10, 127, "ieee", drop=13),
        Encoding("bf16", 16, 8, 7, 127, "ieee"),
        Encoding("f16", 16, 5, 10, 15, "ieee"),
        Encoding("e5m2", 8, 5, 2, 15, "ieee"),
        Encoding("e4m3", 8, 4, 3, 7, "nan"),
        Encoding("e3m2", 8, 3, 2, 3, "none"),
        Encoding("e2m3", 8, 2, 3, 1, "none"),
        Encoding("e2m1", 8, 2, 1, 1, "none"),
        Encoding("ue4m3", 8, 4, 3, 7, "nan", signed=False),
        Encoding("ue8m0", 8, 8, 0, 127, "nan", signed=False),
    )
}


def encoding(name: str) -> Encoding:
    """The encoding of a PTX type name.

    Raises:
        UsageError: not a floating type of tensor-core operands.
    """
    found = ENCODINGS.get(name)
    if found is None:
        raise UsageError(f"type {name!r}", "is not a floating type of tensor cores",
                         legal=list(ENCODINGS))
    return found


def word_dtype(bits: int) -> np.dtype[np.unsignedinteger]:
    """The unsigned NumPy type of a `bits` wide word."""
    return np.dtype(f"u{bits // 8}")


@dataclass(frozen=True, slots=True)
class Split:
    """Arrays of one shape: value = (-1)^negative x magnitude x 2^(exponent - fraction_bits)."""

    magnitude: NDArray[np.int64]
    exponent: NDArray[np.int64]
    negative: NDArray[np.bool_]
    nan: NDArray[np.bool_]
    inf: NDArray[np.bool_]
    fraction_bits: int

    def __getitem__(self, index: object) -> Split:
        return Split(self.magnitude[index], self.exponent[index], self.negative[index],  # type: ignore[index]
                     self.nan[index], self.inf[index], self.fraction_bits)  # type: ignore[index]


def split(name: str, words: Words) -> Split:
    """Split raw words of type `name` into magnitude, encoding exponent and flags.

    ue4m3 ignores bit 7 and ue8m0 has no zero, as the scale hardware reads them.
    """
    code = encoding(name)
    word = np.asarray(words).astype(np.int64) >> code.drop
    fraction = word & ((1 << code.fraction_bits) - 1)
    field = (word >> code.fraction_bits) & ((1 << code.exponent_bits) - 1)
    negative = (word >> (code.width - 1)) & 1 == 1 if code.signed else np.zeros(word.shape, bool)
    if name == "ue8m0":
        nan = field == 255
        return Split(np.where(nan, 0, 1), field - code.bias, negative, nan,
                     np.zeros_like(nan), 0)
    top = field == (1 << code.exponent_bits) - 1
    nan, inf = np.zeros_like(top), np.zeros_like(top)
    if code.specials == "ieee":
        nan, inf = top & (fraction != 0), top & (fraction == 0)
    elif code.specials == "nan":
        nan = top & (fraction == (1 << code.fraction_bits) - 1)
    magnitude = fraction + ((field != 0).astype(np.int64) << code.fraction_bits)
    magnitude = np.where(nan | inf, 0, magnitude)
    return Split(magnitude, np.maximum(field, 1) - code.bias, negative, nan, inf,
                 code.fraction_bits)
