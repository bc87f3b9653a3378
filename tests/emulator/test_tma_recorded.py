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


#: Sums of a reduction without a map: memory before, the addend, memory after.
SUMS = """
8043061b 0060faca 001df4af  0035d000 08b60518 08b6054e  800bf835 00790e3b 006d1606
00029a0e ffe9dd65 7fffffff  8235aade 806b1e50 82430ea8  813bf000 807abf5a 81794fad
801cc0f2 001cfd8b 00003c99  804fab6b 8a18bfc0 8a18bfca  001b999a 0033617a 004efb14
8002b530 826e6383 826eba29  806e58cc 8bbe0965 8bbe0967  807abdad 80613000 80dbedad
002a3d80 0013720f 003daf8f  001abbda 880af31c 880af2e7  8a1bd9bf 005a494c 8a1bd9b4
0045b000 89b108b7 89b108a6  80385000 899b5e8d 899b5e9b  80515000 7fccda93 7fffffff
0034d60e 00512673 0085fc81  802a7352 801302f3 803d7645  0040b207 8c6b3754 8c6b3753
803db000 005c6d73 001ebd73  003d1000 0002750b 003f850b  80446810 7fffe000 7fffffff
"""


def test_reductions_without_a_map_keep_subnormals() -> None:
    """cp.reduce.async.bulk.add.f32 on an H200, seed 320911977 of the tool: every NaN the same."""
    before, addend, after = np.array([int(word, 16) for word in SUMS.split()],
                                     np.uint32).reshape(-1, 3).T.copy()
    image = np.zeros((1, IMAGE), np.uint8)
    image[0, : addend.nbytes] = addend.view(np.uint8)
    words = np.zeros((1, 10), np.int32)
    words[0, 9] = addend.nbytes
    emulate(one_tensor_copy("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", cases=1,
                            image=IMAGE),
            [before, image, words, np.zeros((1, IMAGE), np.uint8), np.zeros(1, np.uint32)])
    assert [hex(x) for x in before] == [hex(x) for x in after]


def test_the_comparison_at_large() -> None:
    """Hundreds of kernels ran on the device, and none differs; what did before is said."""
    record = json.loads((RECORDS / "tma_equality.json").read_text(encoding="utf-8"))
    assert sum(record["kernels"].values()) > 700
    assert record["kernels"]["bulk reduce"] == 80
    assert record["differ"] == {}
    assert "repaired" in record["earlier"]
