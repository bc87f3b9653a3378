"""Requests for Hopper kernels and tensor maps that cannot be met are refused in four parts."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mmalab import emulate
from mmalab.cli.arguments import read_arguments
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "A.npy", np.zeros((64, 32), np.float32))
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00garbage")
    return tmp_path


@pytest.mark.parametrize(("spec", "given", "legal"), [
    ("tma:in:A.npy:box=8,8:l2=128B", "'l2=128B'", "l2_promotion=..."),
    ("tma:in:A.npy:box=8,8:swizzle", "'swizzle'", "swizzle=..."),
    ("tma:0:box=8,8:oob=nan", "'oob=nan'", "fill=..."),
    ("tma:0:box=8,8:box=4,4", "'box=4,4'", "box=8,8 or box=4,4"),
    ("tma:A.npy:box=8,8", "tma:A.npy", "tma:in:F.npy:box=64,128"),
    ("tma:0:box=8,,8", "box=", "box=64"), ("tma:0:box=,", "box=", "box=64"),
    ("tma:in:bad.npy:box=8,8", "bad.npy", "numpy.save"),
    ("tma:in:none.npy:box=8,8", "none.npy", "numpy.save"),
])
def test_what_is_wrong_in_a_tensor_map_is_named(folder: Path, spec: str, given: str,
                                                legal: str) -> None:
    """The one field that no map has, not the right ones beside it; nothing is taken silently."""
    with pytest.raises(UsageError) as caught:
        read_arguments(["in:A.npy", spec], folder)
    error = caught.value
    assert given in error.given
    assert any(legal in word for word in error.legal), error.legal
    assert error.rule
    assert error.where


@pytest.mark.parametrize(("columns", "k"), [(8, 64), (48, 64), (144, 60), (24, 62), (40, 62)])
def test_tiles_that_the_gathering_threads_do_not_fill_are_refused(columns: int, k: int) -> None:
    """Lines that no thread copies would be multiplied as they are."""
    plan = Plan((64, columns), 3, groups=1, store="direct", copy="threads", sms=1)
    with pytest.raises(UsageError, match="lines at a time") as caught:
        gemm(64, columns, k, plan=plan)
    nearest = int(caught.value.legal[-1])
    kernel = gemm(64, nearest, k, plan=Plan((64, nearest), 3, groups=1, store="direct",
                                            copy="threads", sms=1))
    rng = np.random.default_rng()
    args = [rng.standard_normal((rows, k)).astype(BF16) for rows in (64, nearest)]
    args.append(np.full((64, nearest), np.nan, BF16))
    assert emulate(kernel, args, target="sm_90a").findings == []
    (want,) = kernel.reference(args, "sm_90")
    assert np.array_equal(want.view(np.uint16), args[-1].view(np.uint16))
