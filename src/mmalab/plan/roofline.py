"""The roofline of a product with few or many rows: seconds by memory, seconds by arithmetic.

Below the *knee* reading the weights takes longer than the arithmetic::

    seconds by memory = (weights + activations + results) / bandwidth
    seconds by math   = 2 M N K / peak
    knee              = peak x bytes per weight / (2 x bandwidth)        rows, weights alone

    >>> line = roofline(8, 2048, 1024, "bf16", on="B200")
    >>> line.bound, round(1e6 * line.seconds, 2), round(line.knee)
    ('memory', 0.53, 281)

Peaks and bandwidths are those of the data sheets (:mod:`mmalab.plan.chips`), so times are lower
bounds: launch, latency and tile quantisation come on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab import formats, isa
from mmalab.errors import UsageError
from mmalab.plan.asked import asked
from mmalab.plan.block_format_table import BlockFormat, block_format
from mmalab.plan.chips import Chip, chip
from mmalab.plan.rates import published_peak
from mmalab.plan.support import support

__all__ = ["Roofline", "crossover", "knee", "roofline"]

_WHERE = "mmalab.plan.roofline"


@dataclass(frozen=True, slots=True)
class Roofline:
    """One rows x n x k product on one chip.

    Bytes are read or written once; seconds are lower bounds at the published bandwidth and at the
    peak of `math`, the type that the tensor cores multiply. `knee` counts weights alone.
    """

    chip: str
    rows: int
    n: int
    k: int
    format: str
    math: str
    flops: float
    weight_bytes: float
    other_bytes: float
    memory_seconds: float
    math_seconds: float
    knee: float

    @property
    def bound(self) -> str:
        """``memory`` where bytes take longer, else ``math``."""
        return "memory" if self.memory_seconds >= self.math_seconds else "math"

    @property
    def seconds(self) -> float:
        """The larger of the two: a lower bound on the time."""
        return max(self.memory_seconds, self.math_seconds)

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / (self.weight_bytes + self.other_bytes)

    @property
    def l2_share(self) -> float:
        """Bytes touched / L2: at 1 and below, a loop over one problem is served by L2."""
        return (self.weight_bytes + self.other_bytes) / (float(chip(self.chip).l2) * 1e6)

    def __str__(self) -> str:
        return (f"{self.rows} x {self.n} x {self.k}, {self.format} weights, {self.math} products "
                f"on {self.chip}: {self.flops / 1e6:,.0f} MFLOP, "
                f"{(self.weight_bytes + self.other_bytes) / 1e6:,.1f} MB; memory "
                f"{1e6 * self.memory_seconds:.2f} us, math {1e6 * self.math_seconds:.2f} us: "
                f"{self.bound} bound; knee at {self.knee:.0f} rows")


def _math_type(row: Chip, fmt: BlockFormat, math: str | None) -> str:
    """What the tensor cores multiply: the format's element, or bf16 for weight-only formats."""
    if math is not None:
        return formats.get(math).name
    target = f"sm_{10 * row.capability[0] + row.capability[1]}"
    if row.limits is not None:
        names = [name for name in isa.targets.TARGETS if name.rstrip("af") == target]
        if support(fmt, names[-1:])[0].how == "native":
            element = fmt.element
            rates = {rate.dtype for rate in row.rates}
            if element in rates:
                return element
            if element in ("e5m2", "e2m3", "e3m2") and "e4m3" in rates:
                return "e4m3"  # one rate for the 8-bit container
    return "bf16" if any(rate.dtype == "bf16" for rate in row.rates) else "f16"


def knee(on: str | Chip, weights: str, *, math: str | None = None) -> float:
    """Rows at which arithmetic takes as long as reading the weights once.

    peak x bytes per weight / (2 x bandwidth); bytes with the block scales.

    Raises:
        UsageError: unknown chip, format or rate.
    """
    row, fmt = chip(on), block_format(weights)
    peak = published_peak(row, _math_type(row, fmt, math))
    return peak * fmt.bits / 8 / (2 * float(row.bandwidth) * 1e9)


@asked
def roofline(rows: int, n: int, k: int, weights: str, *, on: str | Chip, math: str | None = None,
             activations: str = "bf16", result: str = "bf16") -> Roofline:
    """Seconds by memory and by arithmetic of rows x n x k with weights (n x k) in a block format.

    `math` is the type that is multiplied; without it the weights' own where the chip has it, else
    bf16 (weight-only). Activations (rows x k) are read once, results (rows x n) written once.

    Raises:
        UsageError: unknown chip, format or rate, sizes that are not positive.
    """
    if min(rows, n, k) < 1:
        raise UsageError(f"{rows} x {n} x {k}", "is no product", legal="positive sizes",
                         where=_WHERE)
    row, fmt = chip(on), block_format(weights)
    multiplied = _math_type(row, fmt, math)
    flops = 2.0 * rows * n * k
    weight_bytes = n * k * fmt.bits / 8
    other = (rows * k * block_format(activations).bits + rows * n * formats.get(result).bits) / 8
    return Roofline(
        chip=row.name, rows=rows, n=n, k=k, format=fmt.name, math=multiplied, flops=flops,
        weight_bytes=weight_bytes, other_bytes=other,
        memory_seconds=(weight_bytes + other) / (float(row.bandwidth) * 1e9),
        math_seconds=flops / published_peak(row, multiplied),
        knee=knee(row, weights, math=multiplied),
    )


def crossover(n: int, k: int, first: tuple[str, str], second: tuple[str, str], *,
              on: str | Chip, most: int = 1 << 16) -> int | None:
    """The fewest rows at which `second` is the faster of two (weights, math) choices, by roofline.

    Weight-only NVFP4 against FP8 on an H200: ``crossover(n, k, ("nvfp4", "bf16"), ("fp8", "e4m3"),
    on="H200")``. None when it never is up to `most` rows. Decoding costs nothing here.
    """
    def slower(rows: int) -> bool:
        one = roofline(rows, n, k, first[0], on=on, math=first[1]).seconds
        return roofline(rows, n, k, second[0], on=on, math=second[1]).seconds < one

    if not slower(most):
        return None
    low, high = 0, most  # both times grow with the rows, the one with fewer bytes from below
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if slower(middle) else (middle, high)
    return high
