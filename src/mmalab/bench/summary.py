"""Many blocks of one subject as one line: medians, shares, energy, and every block behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mmalab.bench.bed import Block
from mmalab.bench.ceilings import READ_TB_S, class_per_clock, per_clock
from mmalab.bench.problem import Problem
from mmalab.bench.statistics import median, spread

__all__ = ["steady", "summary"]

#: Reasons that come and go at the ends of a block and change no clock.
_HARMLESS = {"idle", "application clocks"}


def steady(blocks: Mapping[str, Sequence[Block]]) -> list[int]:
    """The pairs that count: those in which every block was throttled for the usual reasons.

    A block during which the chip began to be slowed down for another reason than its neighbours
    compares two states of the chip, not two kernels.
    """
    pairs = [tuple(frozenset(block.reading.reasons) - _HARMLESS for block in pair)
             for pair in zip(*blocks.values(), strict=True)]
    (usual, _), = Counter(reasons for pair in pairs for reasons in pair).most_common(1)
    return [at for at, pair in enumerate(pairs) if set(pair) == {usual}] or list(range(len(pairs)))


def summary(problem: Problem, chip: str, sms: int, kernels: Sequence[str],
            blocks: Sequence[Block], unit: str = "", device: str = "") -> dict[str, Any]:
    """The medians of one subject's blocks, with every block behind them.

    ``share`` is of the tensor peak at the clock that the SMs counted, ``class_share`` of what the
    subject's class of instructions reaches there at most (None: the peak), ``bandwidth`` counts A,
    B and C once, and ``read_share`` is its share of what `device`'s memory delivers to kernels that
    only read; ``joules_per_tflop`` is mean power over rate, ``joules_per_gb`` over bandwidth.
    """
    seconds = median([block.seconds for block in blocks])
    rate = problem.flops / seconds / 1e12
    mhz = _median(blocks, lambda block: block.mhz)
    watts = _median(blocks, lambda block: block.reading.watts)
    bandwidth, roof = problem.bytes / seconds / 1e12, READ_TB_S.get(device)
    peak, ceiling = per_clock(problem, chip), class_per_clock(problem, chip, unit)
    return {
        "subject": blocks[0].subject, "kernels": list(kernels), "seconds": seconds,
        "tflops": rate, "bandwidth": bandwidth,
        "read_share": None if roof is None else bandwidth / roof,
        "spread": spread([block.seconds for block in blocks]), "mhz": mhz,
        "nvml_mhz": _median(blocks, lambda block: block.reading.nvml_mhz), "watts": watts,
        "share": _share(rate, sms, peak, mhz), "class_share": _share(rate, sms, ceiling, mhz),
        "joules_per_tflop": None if watts is None else watts / rate,
        "joules_per_gb": None if watts is None else watts / bandwidth / 1e3,
        "reasons": sorted({reason for block in blocks for reason in block.reading.reasons}),
    }


def _share(tflops: float, sms: int, per_clock: int | None, mhz: float | None) -> float | None:
    return tflops * 1e6 / (sms * per_clock * mhz) if per_clock and mhz else None


def _median(blocks: Sequence[Block], value: Callable[[Block], float | None]) -> float | None:
    known = [found for found in map(value, blocks) if found is not None]
    return median(known) if known else None

