"""What planners are asked: values of other kinds, and sizes beyond all chips, are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.plan import (
    banks,
    block_formats,
    chips,
    decode,
    misread,
    occupancy,
    rates,
    registers,
    smem,
    swizzle_search,
    swizzle_table,
    tiles,
    tmem,
    traffic,
)
from mmalab.plan.asked import asked

Ask = Callable[[Any], Any]

#: No size, no count, no name.
WILD = ["", "x", b"x", 1.5, float("nan"), 1 << 70, [], {}, object(), np.zeros(3), True]
SIZES: dict[str, Ask] = {
    "rows of Tensor Memory": lambda it: tmem.ledger(it, 256),
    "stages of Tensor Memory": lambda it: tmem.ledger(128, 256, stages=it),
    "columns": lambda it: tmem.admitted(256, capacity=it),
    "tile": lambda it: smem.stage_plan(it, 128, 64, "bf16", target="sm_90a"),
    "stages": lambda it: smem.stage_plan(128, 128, 64, "bf16", target="sm_90a", stages=it),
    "registers": lambda it: occupancy.occupancy(registers=it, shared=0, threads=128,
                                                target="sm_90a"),
    "accumulators": lambda it: registers.accumulators(64, it),
    "setmaxnreg": lambda it: registers.setmaxnreg_split((24, 240, 240), launch=it),
    "tokens": lambda it: decode.decode(it, target="sm_90a"),
    "scales": lambda it: block_formats.scale_offset(it, 0, 8),
    "operand": lambda it: block_formats.format_plan("mxfp8", rows=it, cols=128),
    "traffic": lambda it: traffic.traffic(it, 256, "bf16"),
    "products": lambda it: tiles.search(it, 576, 7168, "bf16"),
    "rows": lambda it: banks.ldmatrix(it, 64),
    "search": lambda it: swizzle_search(it, 64, "bf16"),
    "table": lambda it: swizzle_table(128, it, "bf16"),
    "comparison": lambda it: misread.misread(it, 64, "bf16", written="none", read="128B"),
}
NAMES: dict[str, Ask] = {
    "chip": chips.chip, "format": block_formats.block_format,
    "target": lambda it: occupancy.occupancy(registers=8, shared=0, threads=32, target=it),
    "peak": lambda it: rates.peak(it, "f16"), "weights": lambda it: decode.decode(
        8, target="sm_90a", n=64, k=64, weights=it),
    "swizzle": lambda it: banks.ldmatrix(8, 64, swizzle=it), "mode": lambda it: misread.misread(
        64, 64, "bf16", written=it, read="128B"),
}


@pytest.mark.parametrize("wild", WILD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", [*SIZES, *NAMES])
def test_what_is_of_another_kind_is_refused(name: str, wild: Any) -> None:
    """At once, with what was given, what would do, who says so."""
    with pytest.raises(UsageError) as caught:
        (SIZES | NAMES)[name](wild)
    assert caught.value.rule
    assert caught.value.legal
    assert caught.value.where


@pytest.mark.parametrize("data", ["x", ["a"], {}, object()], ids=lambda value: type(value).__name__)
def test_data_that_are_no_numbers(data: Any) -> None:
    """The error of a format on them is that of nothing."""
    with pytest.raises(UsageError, match="no array of numbers"):
        block_formats.format_plan("mxfp8", rows=1, cols=32, data=data)


def test_integers_of_numpy_are_counts() -> None:
    """And a float parameter takes integers; the function's name and text stay."""
    assert tmem.ledger(np.int64(128), 256).columns == 256
    assert rates.plausible(500, "f16", "H100").verdict == "plausible"

    @asked
    def told(rows: int, rate: float = 1.0, any_: object = None) -> tuple[int, float, object]:
        """Told."""
        return rows, rate, any_

    assert told(np.uint8(3), rate=2, any_="x") == (3, 2, "x")
    assert (told.__name__, told.__doc__) == ("told", "Told.")
