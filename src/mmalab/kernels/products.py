"""The products that a family of kernels knows: one row per type of A and B and of their sums.

A family's rows say what else names its instruction; here is what all rows share, and how a caller's
types find theirs.

    >>> rows = (Product("bf16", "f32", 16), Product("f16", "f32", 16), Product("f16", "f16", 16))
    >>> chosen(rows, "f16", None, family="mmalab.kernels", source="PTX ISA").accumulator
    'f32'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mmalab import isa
from mmalab.errors import UsageError

__all__ = ["Product", "chosen"]


@dataclass(frozen=True)
class Product:
    """`dtype` of A and B, `accumulator`, K of the instruction."""

    dtype: str
    accumulator: str
    k: int

    @property
    def bytes(self) -> int:
        """Bytes of an element of A and B."""
        return isa.type_bits(self.dtype) // 8


P = TypeVar("P", bound=Product)


def chosen(rows: Sequence[P], dtype: str, accumulate: str | None, *, family: str,
           source: str) -> P:
    """The row of two `dtype` matrices; `accumulate` None is the first one's, the widest.

    Raises:
        UsageError: `family` does not multiply these types, or `source` has no such sums.
    """
    fitting = [row for row in rows if row.dtype == dtype]
    if not fitting:
        raise UsageError(f"dtype {dtype!r}", "these kernels do not multiply it",
                         legal=list(dict.fromkeys(row.dtype for row in rows)), where=family)
    for row in fitting:
        if accumulate in (None, row.accumulator):
            return row
    raise UsageError(f"accumulate={accumulate!r}", f"is no accumulator of {dtype} products",
                     legal=[row.accumulator for row in fitting], where=source)
