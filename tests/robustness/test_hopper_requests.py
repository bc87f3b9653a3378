"""Requests for Hopper kernels and tensor maps that cannot be met are refused in four parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

from mmalab import TensorMap, emulate
from mmalab.cli.arguments import read_arguments
from mmalab.cli.main import app
from mmalab.errors import UsageError
from mmalab.kernels.sm90_wgmma import Plan, gemm, skinny

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


def _told(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("words", [
    ("smem", "--encode", "start=0x400", "start=0x800", "lbo=1", "sbo=64"),
    ("tensormap", "--encode", "dtype=bf16", "dims=64,64", "strides=128", "box=8,8", "box=4,8"),
    ("tensormap", "--encode", "dtype=bf16", "dims=64,64", "strides=-128", "box=8,8"),
    ("smem", "0x4000004000010040", "--tile", "64"),
    ("smem", "0x4000004000010040", "--tile", "64,²"), ("smem", "--encode", "start=²"),
    ("tensormap", "00"), ("tensormap", "²" * 256), ("nonsense", "1"),
])
def test_descriptors_of_nonsense_are_refused(words: tuple[str, ...]) -> None:
    """Exit 2, and all four parts."""
    code, text = _told("descriptor", *words)
    assert code == 2, text
    assert "legal:" in text
    assert "see:" in text


def test_a_stride_that_is_refused_has_a_legal_neighbour() -> None:
    """A negative one has none beside it; the smallest there is, is told."""
    with pytest.raises(UsageError) as caught:
        TensorMap.tiled(np.zeros((64, 64), np.float32), box=(8, 8), strides=(-256,))
    assert caught.value.legal == ["16 (rows of 4 f32)"]


@pytest.mark.parametrize("data", ["00" * 128, "ff" * 128, "00" * 64])
def test_bytes_that_are_no_tensor_map_are_explained(data: str) -> None:
    """Exit 1 with what is wrong with them, also where no field has a value."""
    code, text = _told("descriptor", "tensormap", data)
    assert code == 1, text
    assert "legal" in text


@pytest.mark.parametrize("launch", [{"grid": 3, "block": 32, "cluster": 2},
                                    {"grid": 2, "block": 33, "cluster": 2}])
def test_launches_that_do_not_fit_name_one_that_does(launch: dict[str, int]) -> None:
    """The nearest whole number of clusters; the block that the kernel asks for."""
    text = (".version 8.6\n.target sm_90a\n.address_size 64\n"
            ".visible .entry k() .reqntid 32,1,1 { ret; }")
    with pytest.raises(UsageError) as caught:
        emulate(text, [], **launch)
    assert caught.value.legal in (["(4, 1, 1)"], ["(32, 1, 1)"])
    assert caught.value.where


@pytest.mark.parametrize("field", [{"sms": 0}, {"sms": -1}, {"band": 0}, {"band": 2.5},
                                   {"stages": "4"}, {"part": (64,)}, {"tile": 128},
                                   {"tile": (128, "256")}, {"cluster": None}])
def test_plans_of_what_are_no_numbers_are_refused(field: dict[str, Any]) -> None:
    """Named with the field; an SM count of 0 is no default."""
    with pytest.raises(UsageError, match=next(iter(field))) as caught:
        Plan(**field)
    assert caught.value.legal
    assert caught.value.where


@pytest.mark.parametrize("choice", [{"out": "f8"}, {"out": 8}, {"experts": -1}, {"experts": "2"},
                                    {"plan": (128, 256)}])
def test_products_of_what_is_no_choice_are_refused(choice: dict[str, Any]) -> None:
    """Before anything is computed from it."""
    with pytest.raises(UsageError, match=next(iter(choice))) as caught:
        gemm(128, 128, 128, **choice)
    assert caught.value.legal
    assert caught.value.where


@pytest.mark.parametrize("choice", [{"depth": 0}, {"depth": 2.5}, {"resident": 0}, {"split": 0}])
def test_skinny_products_of_what_is_no_count_are_refused(choice: dict[str, Any]) -> None:
    """In words, not by a division."""
    with pytest.raises(UsageError) as caught:
        skinny(8, 128, 128, **choice)
    assert caught.value.legal
    assert caught.value.where
