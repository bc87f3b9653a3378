"""Tensor copies that an H200 made, replayed: fills, tf32, edges of stores, sums, interleaved boxes.

``records/h200/tma_vectors.npz`` holds what the device changed where the emulator of that day was
still wrong; the comparison at large is ``tools/gpu_tma.py`` and its record.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmalab.emulator import emulate
from mmalab.kernels.one_tensor_copy import one_tensor_copy
from mmalab.tensormap import Im2col, TensorMap

RECORDS = Path(__file__).resolve().parents[2] / "records" / "h200"
IMAGE = 4096


@cache
def vectors() -> dict[str, Any]:
    with np.load(RECORDS / "tma_vectors.npz") as file:
        return {name: file[name] for name in file.files}


INDEX: list[dict[str, Any]] = json.loads(str(vectors()["index"]))


def made_of(case: dict[str, Any], tensor: Any) -> TensorMap:
    """The map over the tensor."""
    fields = {name: tuple(value) if isinstance(value, list) else value
              for name, value in case["map"].items()}
    corner = None if case["im2col"] is None else Im2col(**{
        name: tuple(value) if isinstance(value, list) else value
        for name, value in case["im2col"].items()})
    return TensorMap(array=tensor, im2col_box=corner, **fields)


@pytest.mark.parametrize("number", range(len(INDEX)))
def test_what_the_device_made(number: int) -> None:
    """Shared memory and the tensor, byte for byte; the mbarrier counts the same bytes."""
    case, held = INDEX[number], vectors()
    tensor = held[f"{number}.tensor"].copy()
    image, words = held[f"{number}.image"], np.array([case["words"]], np.int32)
    out, done = np.full((1, IMAGE), 0xCB, np.uint8), np.zeros(1, np.uint32)
    run = emulate(one_tensor_copy(case["opcode"], cases=1, image=IMAGE),
                  [made_of(case, tensor), image[None], words, out, done])
    assert run.findings == []
    assert done[0] == 1
    np.testing.assert_array_equal(out[0], held[f"{number}.shared"] ^ image)
    stored = held.get(f"{number}.stored", np.zeros(1, np.uint8))
    np.testing.assert_array_equal(tensor, held[f"{number}.tensor"] ^ stored)


def test_the_vectors_are_many_kinds() -> None:
    """Nobody has emptied the file."""
    families = Counter(case["family"] for case in INDEX)
    assert families["nan"] >= 10
    assert min(families[name] for name in ("store", "reduce", "interleaved", "tiled")) >= 4


def test_the_comparison_at_large() -> None:
    """Hundreds of kernels ran on the device; what differed has since been repaired, and is said."""
    record = json.loads((RECORDS / "tma_equality.json").read_text(encoding="utf-8"))
    assert sum(record["kernels"].values()) > 600
    assert set(record["differ"]) <= {"reduce"}
    assert "repaired" in record["since"]
