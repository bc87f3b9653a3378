"""Problems: sizes, operands that are never zeros, poison that no result is, rotation beyond L2."""

from __future__ import annotations

import numpy as np
import pytest

from mmalab import formats
from mmalab.bench.arena import rotation
from mmalab.bench.duel import _made
from mmalab.bench.problem import OPERANDS, Problem, poison, pool
from mmalab.bench.row import Row, make_kernel
from mmalab.bench.subject import problem_of
from mmalab.bench.tables import TABLES, table_rows
from mmalab.errors import UsageError
from mmalab.kernels import sm80_mma


def test_sizes_and_defaults() -> None:
    p = Problem(8192, 4096, 1024, "e4m3")
    assert (p.accumulate, p.out, p.lda, p.ldb, p.ldc) == ("f32", "bf16", 1024, 1024, 4096)
    assert p.flops == 2 * 8192 * 4096 * 1024
    assert p.bytes == 8192 * 1024 + 4096 * 1024 + 2 * 8192 * 4096
    assert Problem(4, 4, 4, "bf16", lda=12).operand_bytes == (4 * 12 * 2, 32, 32)
    assert Problem(4, 4, 4, "e4m3", promote=True).title == "e4m3 promoted 4x4x4"


@pytest.mark.parametrize("wrong", [
    {"dtype": "f8"}, {"m": 0}, {"lda": 7}, {"dtype_b": "nothing"},
])
def test_what_is_no_problem(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Problem(**{"m": 8, "n": 8, "k": 8, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", OPERANDS)
def test_operands_are_random(dtype: str) -> None:
    """Hardly a zero, as many negative as positive, the spread of N(0, 1) in the type's units."""
    words = pool(dtype, np.random.default_rng(11), 1 << 16)
    values = words.view(formats.dtype_of(dtype)).astype(float)
    scale = 24.0 if dtype == "s8" else 1.0
    assert np.mean(values == 0) < 0.02
    assert abs(values.mean() / scale) < 0.02
    assert values.std() / scale == pytest.approx(1.0, abs=0.03)
    if dtype == "tf32":
        assert not (words & 0x1FFF).any()


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "s32"])
def test_poison_is_no_result(dtype: str) -> None:
    word = poison(dtype)
    value = word.view(formats.dtype_of(dtype)).astype(float)[0]
    # 2^16 products of two bytes stay far below.
    assert np.isnan(value) or value > 2**16 * 128 * 128


@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 4096), (1, 8192, 8192), (512, 512, 512)])
def test_rotation_leaves_the_cache(m: int, n: int, k: int) -> None:
    p, l2 = Problem(m, n, k), 60 << 20
    sets = rotation(p, l2)
    assert sets >= 2
    assert sets * p.bytes >= 3 * l2 or sets == 2


def test_a_kernel_says_its_problem() -> None:
    p = problem_of(sm80_mma.gemm(256, 128, 64, "s8"))
    assert (p.m, p.n, p.k, p.dtype, p.accumulate, p.out) == (256, 128, 64, "s8", "s32", "s32")
    assert problem_of(sm80_mma.gemm(256, 128, 64, "e4m3", promote_every=64)).promote
    with pytest.raises(UsageError, match="is not C = A x B"):
        problem_of(sm80_mma.one_mma())


def test_rows_are_data() -> None:
    """Every table's rows have titles of their own and an expected time."""
    rows = table_rows(TABLES)
    assert len({row.title for row in rows}) == len(rows)
    assert all(row.expected_seconds(pairs_burst=5, pairs_sustained=2) > 5 for row in rows)
    with pytest.raises(UsageError, match="is no table"):
        table_rows(["nonsense"])


def test_kernels_by_name() -> None:
    made = make_kernel("sm80_mma.gemm", 128, 128, 64, {"stages": 4, "warp_tile": (64, 64)})
    assert made.facts["stages"] == 4
    wgmma = make_kernel("sm90_wgmma.gemm", 256, 256, 64, {"dtype": "bf16", "stages": 3})
    assert wgmma.facts["stages"] == 3
    for name, arguments in (("nonsense.gemm", {}), ("sm80_mma.nonsense", {}),
                            ("sm80_mma.gemm", {"colour": 3}), ("sm80_mma.ladder", {})):
        with pytest.raises(UsageError):
            make_kernel(name, 128, 128, 64, arguments)


def test_a_row_at_another_size() -> None:
    assert Row("title", 1, 2, 3, "a.b").at(4, 5, 6).title == "4x5x6"


@pytest.mark.toolkit
def test_candidates_that_cannot_be_made_are_named() -> None:
    """The others are assembled for the chip; without any there is no row."""
    row = Row("row", 256, 128, 64, "sm80_mma.gemm", ({"stages": 4}, {"stages": 1}, {"colour": 3},
                                                         {"stages": 4, "dtype": "bf16"}))
    made, refused = _made(row, "sm_90")
    assert [(at, kernel.facts["stages"]) for at, kernel in made] == [(0, 4)]
    assert set(refused) == {1, 2, 3}
    assert refused[3] == "is candidate 0, word for word"
    with pytest.raises(UsageError, match="row: has no kernel: "):
        _made(Row("row", 255, 128, 64, "sm80_mma.gemm"), "sm_90")
