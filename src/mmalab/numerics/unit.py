"""The record of one arithmetic unit: how many products it fuses, to how many bits, rounded how.

    >>> from mmalab.numerics import unit
    >>> row = unit("sm_90.wgmma.e4m3.f32")
    >>> row.fraction, row.rounding, row.block(32)
    (13, 'RZ-E8M13', 32)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mmalab.errors import UsageError
from mmalab.numerics.accumulate import Rounding

__all__ = ["Algorithm", "Confidence", "Unit"]

#: tfs: truncated fused sum. groups: block-scaled FP4, exact groups of 16 then a fused sum. rewrite:
#: FP8 as two F16 sums and an IEEE add. integer: exact, wraps or clamps. bits: population counts.
#: fma: FP64 chain. ffma: FP32 chain on CUDA cores.
Algorithm = Literal["tfs", "groups", "rewrite", "integer", "bits", "fma", "ffma"]

#: How the row is known, weakest first: deduced; stated by a public model only; recorded on the chip
#: by others; compared with a chip by us; fixed by the ISA's definition.
Confidence = Literal["inferred", "matches-model", "recorded", "measured", "documented"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One row. `a`, `b`, `acc` are PTX types; `klass` is mma, mma884 (m8n8k4), wgmma or tcgen05.

    `splits` gives, for each K of an instruction, how many products one fused block holds.
    `variant` is what else the name carries: xor/and for b1, a rounding for f64, a scale type.
    `approximate` is empty for exact rows, else why the bits may differ from the chip's.
    """

    chip: str
    klass: str
    a: str
    b: str
    acc: str
    algorithm: Algorithm
    splits: tuple[tuple[int, int], ...]
    confidence: Confidence
    source: str
    kind: str = ""
    variant: str = ""
    saturate: bool = False
    fraction: int = 0
    rounding: Rounding = "RZ32"
    floor: int = 0
    scale: str = ""
    scale_block: int = 0
    approximate: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """``CHIP.CLASS.A[.B].ACC``, with the kind before the types and the variant after them."""
        types = [self.a] if self.a == self.b else [self.a, self.b]
        if self.kind.startswith("mxf4"):
            types = []
        parts = [self.chip, self.klass, self.kind, *types]
        parts += [self.variant if self.variant != "rn" else "", self.acc]
        return ".".join(filter(None, [*parts, "satfinite" if self.saturate else ""]))

    @property
    def k(self) -> int:
        """K of the largest instruction."""
        return max(size for size, _ in self.splits)

    def block(self, k: int) -> int:
        """Products fused at once by an instruction of this K.

        Raises:
            UsageError: the unit has no instruction of this K.
        """
        found = dict(self.splits).get(k)
        if found is None:
            raise UsageError(f"{self.name}: K = {k}", "no instruction of this unit has it",
                             legal=[str(size) for size, _ in self.splits], where="mmalab.numerics")
        return found

    def __str__(self) -> str:
        return self.name
