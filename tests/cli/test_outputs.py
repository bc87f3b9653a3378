"""What `run` says about its outputs: rows not written, rows of zeros, NaNs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmalab.cli.arguments import Argument
from mmalab.cli.outputs import described


def said(array: np.ndarray, type_: str = "f32", file: str = "y.npy") -> list[str]:
    """The lines about one output."""
    return described([Argument(array, Path(file), type=type_)])


def filled(shape: tuple[int, ...], word: int = 0xFFFFFFFF) -> np.ndarray:
    """Float32 of these bits."""
    return np.full(shape, word, np.uint32).view(np.float32)


def test_rows_that_were_not_written() -> None:
    """Whole rows by their ranges, single elements by the first of them."""
    array = filled((8, 4))
    array[:5] = 1
    array[2, 3] = filled((1,))[0]
    assert said(array) == [
        "y.npy (f32 8,4): rows 5-7 not written; 1 not written elsewhere, the first at 2,3"]


def test_rows_of_zeros_and_nans() -> None:
    """A NaN that was computed has other bits than the poison."""
    array = np.ones((6, 4), np.float32)
    array[[0, 2, 3]] = 0
    array[4] = np.nan
    array[5, 1] = np.nan
    assert said(array) == [
        "y.npy (f32 6,4): rows 0, 2-3 zero; rows 4 NaN; 1 NaN elsewhere, the first at 5,1"]


@pytest.mark.parametrize(("array", "type_", "words"), [
    (filled((4,)), "f32", "all not written"),
    (np.zeros(4, np.float32), "f32", "all zero"),
    (np.array([1, 0, 2], np.float32), "f32", None),
    (np.arange(1, 5, dtype=np.int32), "s32", None),
    (np.array([1, -1, -1, 4], np.int32), "s32", "elements 1-2 not written"),
    (np.array([0x3F80, 0x7FC0], np.uint16), "bf16", "elements 1 NaN"),
    (np.array([0x38, 0x7F], np.uint8), "e4m3", "elements 1 NaN"),
    (np.array([0xFF, 0x38], np.uint8), "e4m3", "elements 0 not written"),
    (np.zeros((0, 4), np.float32), "f32", None),
    (np.array(0, np.float32), "f32", "all zero"),
])
def test_types_and_shapes(array: np.ndarray, type_: str, words: str | None) -> None:
    """Nothing is said of numbers; words of narrow types are decoded."""
    lines = said(array, type_)
    assert [line.partition(": ")[2] for line in lines] == ([] if words is None else [words])


def test_a_file_that_was_there_before_is_no_poison() -> None:
    """inout: all ones may be what the caller had."""
    array = filled((2, 2))
    assert described([Argument(array, Path("y.npy"))]) == [
        "y.npy (float32 2,2): all NaN"]
    assert described([Argument(array)]) == []


def test_many_runs_are_cut() -> None:
    """The first four."""
    array = np.ones((20, 2), np.float32)
    array[::2] = 0
    assert said(array) == ["y.npy (f32 20,2): rows 0, 2, 4, 6 and 6 more runs zero"]
