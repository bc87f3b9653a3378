"""Which instruction multiplies what: one row for each pair of operand and accumulator type.

Everything else about a product follows from the instruction's form: K, targets, PTX version, how
many registers its fragments take.

    >>> recipe("e4m3", "f32").key, recipe("e4m3", "f32").k
    ('mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32', 32)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mmalab import isa
from mmalab.isa import Form
from mmalab.kernels.products import Product, chosen

__all__ = ["RECIPES", "Recipe", "recipe"]


@dataclass(frozen=True)
class Recipe(Product):
    """One product: `accumulator` is C's type, `target` the least that multiplies it."""

    target: str = "sm_80"

    @property
    def key(self) -> str:
        """The instruction."""
        types = f"{self.accumulator}.{self.dtype}.{self.dtype}.{self.accumulator}"
        return f"mma.sync.aligned.m16n8k{self.k}.row.col.{types}"

    @cached_property
    def form(self) -> Form:
        """Its record."""
        return isa.find(self.key)

    @property
    def result_bytes(self) -> int:
        """Bytes of an element of C."""
        return isa.type_bits(self.accumulator) // 8

    @property
    def unit(self) -> str:
        """The arithmetic unit without its chip."""
        return f"mma.{self.dtype}.{self.accumulator}"


RECIPES: tuple[Recipe, ...] = (
    Recipe("bf16", "f32", 16),
    Recipe("f16", "f32", 16),
    Recipe("f16", "f16", 16),
    Recipe("tf32", "f32", 8),
    Recipe("e4m3", "f32", 32, "sm_89"),
    Recipe("e4m3", "f16", 32, "sm_89"),
    Recipe("s8", "s32", 32),
)


def recipe(dtype: str, accumulate: str | None = None) -> Recipe:
    """The product of two `dtype` matrices; `accumulate` None is the widest (f32, s32 for s8).

    Raises:
        UsageError: no kernel multiplies these types.
    """
    return chosen(RECIPES, dtype, accumulate, family="mmalab.kernels.sm80_mma",
                  source="PTX ISA, mma.sync")
