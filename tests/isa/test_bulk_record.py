"""Rows of copies and reductions that say "measured": the record of the chip has each, without a
difference."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mmalab import isa

RECORD = Path(__file__).parents[2] / "records/h200/tma_equality.json"
HINTS = re.compile(r"\.L2::cache_hint|\.multicast::cluster|\.cta_group::\d|\.tile(?=\.|$)")
FAMILIES = ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "cp.reduce.async.bulk")


def bare(key: str) -> str:
    """A form without what changes no byte: hints, multicast, the word for boxes as they are."""
    return HINTS.sub("", key)


def test_every_measured_form_ran() -> None:
    """Reductions of boxes in every operation; their rank changes where a box lies, as a store's."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["differ"] == {}
    assert sum(record["opcodes"].values()) == sum(record["kernels"].values())
    ran = {bare(opcode) for opcode in record["opcodes"]}
    without_rank = {re.sub(r"\.\dd", "", opcode) for opcode in ran}
    measured = [key for family in FAMILIES for key in isa.forms(family)
                if isa.find(key).family == family
                and isa.find(key).evidence is isa.Evidence.MEASURED]
    assert len({bare(key) for key in measured}) == 16 + 8 * 5 + 20
    for key in measured:
        if ".tensor" in key and "reduce" in key:
            assert re.sub(r"\.\dd", "", bare(key)) in without_rank, key
        else:
            assert bare(key) in ran, key


def test_what_did_not_run_says_so() -> None:
    for key in ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64",
                "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.im2col_no_offs.bulk_group",
                "cp.async.bulk.prefetch.tensor.2d.L2.global"):
        assert isa.find(key).evidence is isa.Evidence.ASSEMBLED
