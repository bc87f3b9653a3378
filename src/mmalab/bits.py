"""Bit fields of machine words: one record per field, encode and decode from the same row.

    >>> start = Field(13, 0, "start_address", "address >> 4")
    >>> start.encode(0x123), start.decode(0xFFFF0123)
    (291, 291)
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.errors import UsageError

__all__ = ["Field"]


@dataclass(frozen=True, slots=True)
class Field:
    """Bits `hi` down to `lo` (inclusive) of a word."""

    hi: int
    lo: int
    name: str
    meaning: str = ""

    @property
    def width(self) -> int:
        """Number of bits."""
        return self.hi - self.lo + 1

    @property
    def mask(self) -> int:
        """The field's bits in place."""
        return ((1 << self.width) - 1) << self.lo

    def decode(self, word: int) -> int:
        """The field's value in `word`."""
        return (word >> self.lo) & ((1 << self.width) - 1)

    def encode(self, value: int) -> int:
        """The word that holds `value` in this field and zero elsewhere."""
        if not 0 <= value < 1 << self.width:
            raise UsageError(
                f"{self.name} = {value}",
                f"the field has {self.width} bits ({self.hi}:{self.lo})",
                legal=f"0 to {(1 << self.width) - 1}",
                where="mmalab.bits",
            )
        return value << self.lo
