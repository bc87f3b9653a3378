"""Which wgmma multiplies what: one row for each pair of operand and accumulator type.

M is 64 and N any multiple of 8 (16 from 32 on for integers), so a recipe and N name an instruction.

    >>> recipe("e4m3").key(256)
    'wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3'
    >>> recipe("bf16").outputs
    ('f32', 'bf16', 'f16')
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa import Form
from mmalab.kernels.products import Product, chosen

__all__ = ["RECIPES", "Recipe", "recipe"]

_WHERE = "mmalab.kernels.sm90_wgmma"
#: Types that an accumulator is rounded to (or kept as) when C is written.
_OUTPUTS = {"f32": ("f32", "bf16", "f16"), "f16": ("f16",), "s32": ("s32",)}


@dataclass(frozen=True)
class Recipe(Product):
    """One product, of any N."""

    def check_out(self, out: str) -> None:
        """Refuse a type of C that the sums are not rounded to.

        Raises:
            UsageError: with those that they are.
        """
        if out not in self.outputs:
            raise UsageError(f"out={out!r}", f"is not what {self.accumulator} accumulators are"
                             " written as", legal=list(self.outputs), where=_WHERE)

    def key(self, n: int) -> str:
        """The instruction for `n` columns."""
        types = f"{self.accumulator}.{self.dtype}.{self.dtype}"
        return f"wgmma.mma_async.sync.aligned.m64n{n}k{self.k}.{types}"

    def form(self, n: int) -> Form:
        """Its record."""
        return isa.find(self.key(n))

    def tail(self, n: int) -> tuple[int, ...]:
        """The immediates behind scale-d: nothing negated, nothing transposed."""
        specs = self.form(n).operands[4:]
        return tuple(1 if spec.name in ("ia", "ib") else 0 for spec in specs)

    @property
    def unit(self) -> str:
        """The arithmetic unit without its chip."""
        return f"wgmma.{self.dtype}.{self.accumulator}"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The types that C may have."""
        return _OUTPUTS[self.accumulator]

    @property
    def register(self) -> str:
        """The type of an accumulator register: halves travel in pairs."""
        return "f32" if self.accumulator == "f32" else "b32"


RECIPES: tuple[Recipe, ...] = (
    Recipe("bf16", "f32", 16),
    Recipe("f16", "f32", 16),
    Recipe("f16", "f16", 16),
    Recipe("tf32", "f32", 8),
    Recipe("e4m3", "f32", 32),
    Recipe("e4m3", "f16", 32),
    Recipe("e5m2", "f32", 32),
    Recipe("e5m2", "f16", 32),
    Recipe("s8", "s32", 32),
)


def recipe(dtype: str, accumulate: str | None = None) -> Recipe:
    """The product of two `dtype` matrices; `accumulate` None is the widest (f32, s32 for s8).

    Raises:
        UsageError: no kernel multiplies these types.
    """
    return chosen(RECIPES, dtype, accumulate, family=_WHERE, source="PTX ISA, wgmma.mma_async")
