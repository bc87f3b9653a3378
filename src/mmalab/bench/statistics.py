"""What the blocks say: order of the contestants, ratios of neighbours, an interval around them.

Whoever runs second reads slower on a chip that heats up, so the order is A B B A A B B A ...: each
pair of neighbours holds both, and their order alternates. The ratio is the median over the pairs,
its interval comes from resampling the pairs::

    >>> order(3)
    ['A', 'B', 'B', 'A', 'A', 'B']
    >>> paired([1.0, 2.0, 2.0], [2.0, 2.0, 4.0])
    [2.0, 1.0, 2.0]
    >>> ratio([1.0, 2.0, 2.0], [2.0, 2.0, 4.0], seed=1).median
    2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmalab.errors import UsageError

__all__ = ["Ratio", "median", "order", "paired", "ratio", "spread"]

_RESAMPLES = 10_000
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """A median with its bootstrap interval (95 %), over `pairs` pairs."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def decided(self) -> bool:
        """Whether the interval leaves 1 out."""
        return not self.low <= 1.0 <= self.high

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def order(pairs: int) -> list[str]:
    """Who runs when: `pairs` pairs of A and B, the order reversed in every other one."""
    return [name for at in range(pairs) for name in ("AB" if at % 2 == 0 else "BA")]


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    return float(np.median(np.asarray(values, float)))


def spread(values: Sequence[float]) -> float:
    """Largest less smallest, as a share of the median."""
    return (max(values) - min(values)) / median(values)


def paired(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """``b / a`` of each pair: with seconds of each block, how many times faster A is than B."""
    if len(a) != len(b) or not a:
        raise UsageError(f"{len(a)} blocks of A, {len(b)} of B", "are no pairs",
                         legal="as many of each, one or more", where="mmalab.bench.statistics")
    return [y / x for x, y in zip(a, b, strict=True)]


def ratio(a: Sequence[float], b: Sequence[float], *, seed: int) -> Ratio:
    """How many times faster A is, from the seconds that each needs for the same work.

    Args:
        a, b: seconds per launch of the paired blocks, in order.
        seed: of the resampling, so that a record can be recomputed.
    """
    ratios = np.array(paired(a, b))
    picks = np.random.default_rng(seed).integers(0, len(ratios), (_RESAMPLES, len(ratios)))
    medians = np.median(ratios[picks], axis=1)
    low, high = np.quantile(medians, ((1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2))
    return Ratio(median(list(ratios)), float(low), float(high), len(ratios))
