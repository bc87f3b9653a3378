"""A right Hopper pipeline is clean; each of its mutants is found, and by the right name."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mutants.faults import MUTANTS
from mutants.hopper_pipeline import BLOCK, CLUSTER, GRID, SHARED, Fault, text
from mutants.verdicts import ANEW, codes, recorded

import mmalab
from mmalab import numerics

BF16 = np.dtype(ml_dtypes.bfloat16)
SCHEDULES: list[str | int] = ["eager", "lazy", 1]


def arguments(swizzle: str = "128B") -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
    """Tensor maps over fresh operands and a poisoned output."""
    rng = np.random.default_rng()
    a = rng.standard_normal((256, 256)).astype(BF16)
    b = rng.standard_normal((128, 256)).astype(BF16)
    c = np.full((256, 128), np.nan, BF16)
    tiled = mmalab.TensorMap.tiled
    maps = [tiled(a, box=(64, 128), swizzle="128B"), tiled(b, box=(64, 32), swizzle=swizzle),
            tiled(c, box=(64, 64), swizzle="128B")]
    return maps, a, b, c


def run(ptx: str, maps: list[Any], schedule: Any = "eager") -> Any:
    """One run; a mutant may end early, but not in an exception."""
    return mmalab.emulate(ptx, maps, grid=GRID, block=BLOCK, cluster=CLUSTER,
                          dynamic_shared=SHARED, schedule=schedule)


def serious(result: Any) -> list[str]:
    """Codes of the errors and warnings."""
    return [f.code for f in result.findings if f.severity != "note"]


@cache
def verdict(name: str) -> list[Any]:
    """What is found in a mutant."""
    return run(text(MUTANTS[name].fault), arguments()[0]).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_pipeline_is_clean_and_right(schedule: str | int) -> None:
    """No finding, and the bits of the chip's own sums, rounded to bfloat16."""
    maps, a, b, c = arguments()
    result = run(text(), maps, schedule)
    assert serious(result) == [], [str(f) for f in result.findings]
    sums = numerics.matmul(a, b.T, np.zeros(c.shape, np.float32), unit="sm_90.wgmma.bf16.f32")
    assert np.array_equal(c.view(np.uint16), sums.astype(BF16).view(np.uint16))


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_found(name: str) -> None:
    """One of the accepted codes is among the findings, as an error; all are in the table."""
    found = verdict(name)
    assert {f.code for f in found if f.severity != "note"} & set(MUTANTS[name].codes), name
    assert recorded(name) == [MUTANTS[name].what, codes(found)], ANEW


#: Mutants whose output is another where copies, stores and products happen late.
CONFIRMED = ("no_full_wait", "full_parity_never_flips", "stages_overlap", "release_before_done",
             "last_wait_too_loose", "sums_touched", "reuse_no_wait", "store_no_commit")


@pytest.mark.parametrize("name", CONFIRMED)
def test_a_late_schedule_confirms_the_mutant(name: str) -> None:
    """The output differs between schedules; the finding names those that say what is missing."""
    told = run(text(MUTANTS[name].fault), arguments()[0], ["eager", "lazy"]).findings
    [difference] = [f for f in told if f.code == "schedule-dependent"]
    assert difference.severity == "error"
    assert difference.witness["argument"] == 2
    assert len(set(difference.witness["values"].values())) == 2
    assert any(code in difference.message for code in MUTANTS[name].codes)


def test_swizzle_of_map_and_descriptor_differ() -> None:
    """B comes with the 64-byte swizzle in rows of 128 bytes, wgmma reads it as 128-byte."""
    maps, _, _, _ = arguments()
    b = np.zeros((128, 256), BF16)
    maps[1] = mmalab.TensorMap.tiled(b, box=(32, 64), swizzle="64B")
    assert "swizzle-mismatch" in serious(run(text(), maps))


def test_enough_mutants_each_with_one_fault() -> None:
    """At least thirty, each different PTX, each with words and codes that exist."""
    texts = {text(m.fault) for m in MUTANTS.values()}
    assert len(MUTANTS) >= 30
    assert len(texts | {text(Fault())}) == len(MUTANTS) + 1
    assert all(m.what and m.codes for m in MUTANTS.values())
    assert {c for m in MUTANTS.values() for c in m.codes} <= set(mmalab.findings.CODES)
