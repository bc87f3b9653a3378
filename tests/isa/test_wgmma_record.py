"""The wgmma rows say "measured": the record of the chip has every type, without a mismatch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mmalab import isa

RECORD = Path(__file__).parents[2] / "records/h200/wgmma_equality.json"


@pytest.fixture(scope="module")
def record() -> Any:
    """The comparison on one H200."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def types_of(key: str) -> str:
    """A form without its N: ``sp k32 f32.f16.f16``."""
    head, _, shape = key.removeprefix("wgmma.mma_async.").partition("sync.aligned.m64n")
    return head + shape.partition("k")[2]


def test_nothing_differed(record: Any) -> None:
    """Twelve million words; probes (what the ISA leaves open) are counted apart."""
    assert record["mismatches"] == 0
    assert record["not_compared"] == []
    assert record["outputs"] > 12_000_000
    assert all(case["mismatches"] == 0 for case in record["cases"] if "probe" not in case)


def test_every_type_is_in_the_record(record: Any) -> None:
    """All types of the table, dense and sparse, from shared memory and from registers."""
    seen = {where: {types_of("wgmma.mma_async." + case["kernel"].split(" ")[1])
                    for case in record["cases"]
                    if case["kernel"].startswith("types") and f" A {where}" in case["kernel"]}
            for where in ("registers", "K")}
    keys = [key for key in isa.forms("wgmma.mma_async")
            if isa.find(key).family == "wgmma.mma_async"]
    assert {types_of(key) for key in keys} <= seen["registers"]
    assert seen["registers"] == seen["K"]
    assert {isa.find(key).evidence for key in keys} == {isa.Evidence.MEASURED}
    # every pair of types of the table's alternatives, beside its representatives
    assert len(seen["K"]) == 41


def test_first_ptx_versions() -> None:
    """What ptxas says: sparse products from 8.2, mixed signs of integers from 8.4."""
    head = "wgmma.mma_async{}.sync.aligned.m64n8k{}.s32.{}"
    for sparse, k, types, version in (("", 32, "s8.s8", (8, 0)), ("", 32, "s8.u8", (8, 4)),
                                      (".sp", 64, "u8.u8", (8, 2)), (".sp", 64, "u8.s8", (8, 4))):
        assert isa.find(head.format(sparse, k, types)).ptx == version


def test_every_n_of_four_types(record: Any) -> None:
    """What one N shows holds for the others: four types ran at all of theirs."""
    ran = {case["kernel"].split(" ")[2] for case in record["cases"]
           if case["kernel"].startswith("every n")}
    for key in isa.forms("wgmma.mma_async.sync"):
        if key.endswith((".f32.bf16.bf16", ".f16.f16.f16", ".f32.e4m3.e5m2", ".s32.s8.u8")):
            assert key.removeprefix("wgmma.mma_async.") in ran, key
