"""Code that nvcc and Triton compiled stays without findings: the model does not cry wolf."""

from __future__ import annotations

import re

import pytest
from corpus import inputs

from mmalab.sanitizer.run import emulate

#: Barriers by name, copies in a pipeline, mbarriers of cuda::barrier, flags, locks, look-back,
#: atomics built from compare-and-swap, warp reductions, replicated stores, multi-stage matmuls.
CLEAN = [f"{name}-sm_80-nvcc13.0" for name in (
    "named_barriers", "pipeline_primitives", "pipeline_block", "barrier_copy", "group_copy",
    "last_block_sum", "look_back_scan", "ticket_lock", "atomic_product", "atomic_halves",
    "block_scan", "butterflies", "tile_reduce", "local_sort", "gemm_f16")]
CLEAN += [f"{name}-sm_80-triton3.9.0" for name in (
    "reductions", "histogram", "split_k", "scans", "lock_update", "matmul_whole_f16_stages3",
    "matmul_whole_bf16_stages2", "attention_f16_causal")]


def findings(name: str, edit=lambda text: text):
    """What the exact model says about one corpus kernel, its text edited."""
    row = inputs.rows()[name]
    arguments = [argument.value for argument in inputs.build(row, 3)]
    text = edit((inputs.CORPUS / "ptx" / row["ptx"]).read_text())
    return emulate(text, arguments, entry=row["entry"], grid=row["grid"], block=row["block"],
                   dynamic_shared=row["dynamic_shared"]).findings


@pytest.mark.parametrize("name", CLEAN)
def test_compiled_code_is_clean(name):
    """No error and no warning."""
    assert [str(finding) for finding in findings(name) if finding.severity != "note"] == []


def without_barrier(number: int):
    """An edit that takes the numbered bar.sync out of a text."""
    def edit(text: str) -> str:
        parts = re.split(r"(bar\.sync\s+0;)", text)
        parts[2 * number + 1] = ""
        return "".join(parts)
    return edit


def test_a_word_that_one_thread_updates_needs_a_barrier_after_all_have_read_it():
    """Every warp loads the word that one thread then stores: without the barrier a race."""
    found = findings("lock_update-sm_80-triton3.9.0",
                     lambda text: re.sub(r"bar\.sync\s+0;(\s+add\.s32)", r"\1", text, count=1))
    assert {finding.code for finding in found} == {"data-race"}


def test_every_barrier_of_a_scan_is_needed():
    """Each bar.sync taken out of a block scan is missed."""
    name = "block_scan-sm_80-nvcc13.0"
    assert findings(name) == []
    entry = inputs.rows()[name]["entry"]
    text = (inputs.CORPUS / "ptx" / inputs.rows()[name]["ptx"]).read_text()
    start = text.index(f".entry {entry}")
    before = len(re.findall(r"bar\.sync\s+0;", text[:start]))
    inside = len(re.findall(r"bar\.sync\s+0;", text[start:text.index("\n}", start)]))
    assert inside
    for number in range(before, before + inside):
        codes = {finding.code for finding in findings(name, without_barrier(number))}
        assert "missing-barrier" in codes, number
