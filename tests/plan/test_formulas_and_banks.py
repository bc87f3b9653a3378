"""Bank conflicts of the collected cases: formulas, TF32 pitches, writes of asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mmalab.errors import UsageError
from mmalab.layouts import Swizzle
from mmalab.layouts.banks import wavefronts
from mmalab.plan import banks
from mmalab.plan.permutation import permutation


@pytest.mark.parametrize(("formula", "chunks", "bijective", "reads", "writes", "name"), [
    (lambda row, chunk: chunk ^ (row >> 1 & 3), 4, True, 1, 1, "Swizzle<2,4,3>"),
    (lambda row, chunk: chunk ^ (row & 7), 8, True, 1, 1, "Swizzle<3,4,3>"),
    (lambda row, chunk: chunk ^ (row & 3), 4, True, 2, 1, "Swizzle<2,4,2>"),
    (lambda row, chunk: chunk, 4, True, 4, 1, "Swizzle<0,4,1>"),
    (lambda row, chunk: chunk & 2, 4, False, 4, 1, None),
    (lambda row, chunk: (chunk + row) % 8, 8, True, 1, 1, None),
])
def test_l06_formulas(formula: Callable[[int, int], int], chunks: int, bijective: bool, reads: int,
                      writes: int, name: str | None) -> None:
    """Is it a bijection, how many passes do reads and writes take, which swizzle is it (L06)."""
    found = permutation(formula, rows=128, chunks=chunks)
    assert found.bijective is bijective
    assert found.reads[0] == reads * found.reads[1]
    assert (str(found.swizzle) if found.swizzle else None) == name
    if bijective:
        assert found.writes[0] == writes * found.writes[1]
        assert found.free is (reads == 1)


def test_l06_the_picture() -> None:
    """Which chunk lies where; clashes and holes are visible."""
    good = permutation(lambda row, chunk: chunk ^ (row >> 1 & 3), rows=8, chunks=4)
    assert good.picture().splitlines()[2] == "row   2: 1 0 3 2"
    bad = permutation(lambda _, chunk: chunk & 2, rows=1, chunks=4)
    assert bad.picture() == "row   0: ! . ! ."
    assert bad.clashes == (((0, 0), (0, 1)), ((0, 2), (0, 3)))
    with pytest.raises(UsageError, match="outside of its row\n  legal: 0 to 3"):
        permutation(lambda row, chunk: chunk + row, rows=2, chunks=4)
    with pytest.raises(UsageError, match="is empty"):
        permutation(lambda row, chunk: chunk + row, rows=0, chunks=4)


@pytest.mark.parametrize(("pitch", "row_major", "k_major"), [(32, 8, 4), (36, 1, 2), (40, 2, 1)])
def test_l03_tf32_needs_opposite_paddings(pitch: int, row_major: int, k_major: int) -> None:
    """32-bit loads of TF32 fragments: A wants pitch 36, k-major rows want 40 (L03)."""
    lane = np.arange(32)
    a = 4 * (lane // 4 * pitch + lane % 4)
    b = 4 * (lane % 4 * pitch + lane // 4)
    assert banks.access(a, 4).passes == row_major
    assert banks.access(b, 4).passes == k_major


def test_l04_writes_of_asynchronous_copies() -> None:
    """16 bytes a lane, quarter warps: 4 passes are ideal; a permutation can break the writes."""
    lane = np.arange(32)
    plain = lane // 4 * 64 + lane % 4 * 16
    assert banks.access(plain, 16).passes == banks.access(plain, 16).ideal == 4
    swizzled = Swizzle(2, 4, 3)(plain)
    assert banks.access(swizzled, 16).passes == 4
    padded = lane // 4 * 80 + lane % 4 * 16  # frees ldmatrix, hurts the copy
    assert banks.access(padded, 16).passes == 8
    assert int(wavefronts(np.arange(8) * 80, 16)[0]) == 1
