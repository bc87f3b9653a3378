"""Tensor Memory's shapes and layouts: tables against the rules, places as bijections."""

from __future__ import annotations

import numpy as np
import pytest

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa import tensor_memory as tm


@pytest.mark.parametrize(("m", "n", "options"), [
    (256, 64, {"cta_group": 2}), (128, 64, {"cta_group": 2}),
    (128, 64, {"cta_group": 2, "sparse": True}), (128, 64, {}), (64, 64, {"ws": True}),
    (64, 64, {}), (32, 64, {"ws": True})])
def test_every_element_has_a_cell_of_its_own(m: int, n: int, options: dict[str, object]) -> None:
    """Layouts A to G place M x N elements in distinct (CTA, lane, column), in range."""
    path = tm.data_path(m, n, **options)  # type: ignore[arg-type]
    places = {path.place(row, col, m=m, n=n) for row in range(m) for col in range(n)}
    assert len(places) == m * n
    ctas, lanes, columns = (set(axis) for axis in zip(*places, strict=True))
    assert ctas == set(range(m // path.rows))
    assert lanes <= set(range(tm.LANES))
    assert columns == set(range(path.columns(n)))


def test_k04_lanes_of_m_64() -> None:
    """Layout F: 16 lanes of every 32: 0-15, 32-47, 64-79, 96-111 (K04)."""
    path = tm.data_path(64, 64)
    lanes = sorted({path.place(row, 0, m=64, n=64)[1] for row in range(64)})
    assert lanes == [*range(16), *range(32, 48), *range(64, 80), *range(96, 112)]
    whole = tm.data_path(128, 64)
    assert {whole.place(row, 0, m=128, n=64)[1] for row in range(128)} == set(range(128))


def test_k05_quarters() -> None:
    """Warp w reaches lanes 32 (w mod 4) on; eight warps split columns, not lanes (K05)."""
    assert [tm.warp_lanes(warp)[0] for warp in range(8)] == [0, 32, 64, 96] * 2
    lanes = np.concatenate([tm.warp_lanes(warp) for warp in range(4)])
    assert (lanes == np.arange(128)).all()


@pytest.mark.parametrize(("kind", "m", "n", "options", "near"), [
    ("f16", 128, 8, {}, None), ("f16", 64, 256, {}, None), ("f16", 32, 64, {"ws": True}, None),
    ("f16", 32, 64, {}, "M = 64"), ("i8", 128, 40, {}, "N = 32"), ("i8", 128, 24, {}, None),
    ("mxf4", 64, 64, {}, "M = 128"), ("mxf4", 256, 64, {"cta_group": 2}, None),
    ("mxf8f6f4", 128, 64, {"cta_group": 2, "sparse": True}, "M = 256"),
    ("f16", 256, 24, {"cta_group": 2}, "N = 16"), ("i8", 256, 48, {"cta_group": 2}, "N = 32"),
    ("mxf4", 128, 64, {"ws": True}, "without .ws"), ("f16", 64, 256, {"ws": True, "sparse": True},
                                                     "N = 128"),
])
def test_shapes(kind: str, m: int, n: int, options: dict[str, object], near: str | None) -> None:
    """Kinds x shapes as the manual's table has them, and the nearest legal one."""
    problem = tm.shape_problem(kind, m, n, **options)  # type: ignore[arg-type]
    assert (problem is None) is (near is None)
    if problem:
        assert near in problem[2]


@pytest.mark.parametrize("kind", tm.KINDS)
def test_every_kind_is_an_instruction(kind: str) -> None:
    """The spelling of a kind is a form of the table, also for pairs and sparse A."""
    row = tm.kind_of(kind)
    for options in ({}, {"cta_group": 2}, {"sparse": True}):
        block = row.blocks[-1] if row.blocks else 32
        form = isa.find(row.spelling(block=block, **options))  # type: ignore[arg-type]
        assert form.family == "tcgen05.mma"


def test_columns() -> None:
    """Scale factors fill 128 x 4 tiles; metadata is one or two words a lane."""
    assert [tm.scale_columns(rows, scales) for rows, scales in ((128, 4), (256, 4), (64, 1),
                                                                (128, 6))] == [4, 8, 4, 8]
    assert [tm.metadata_columns(kind) for kind in ("f16", "tf32", "f8f6f4", "mxf4")] == [1, 1, 2, 2]
    assert [tm.operand_columns("f16", 16, 64), tm.operand_columns("f8f6f4", 4, 32),
            tm.operand_columns("mxf4", 4, 64)] == [32, 8, 8]


def test_wrong_use() -> None:
    """No such kind, no such M, elements outside."""
    with pytest.raises(UsageError, match="legal: f16, tf32"):
        tm.kind_of("bf16")
    with pytest.raises(UsageError, match="no data path has it\n  legal: M = 64, M = 128"):
        tm.data_path(256, 64)
    with pytest.raises(UsageError, match="is outside of D"):
        tm.data_path(64, 64).place(64, 0, m=64, n=64)
    with pytest.raises(UsageError, match="is no multiple of 4"):
        tm.data_path(32, 66, ws=True)
