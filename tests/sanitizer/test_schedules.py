"""Several schedules in one run: which outputs depend on them, who wrote those, and why."""

from __future__ import annotations

import secrets

import ml_dtypes
import numpy as np
import pytest
from mutants.hopper_snippets import START, bulk, expect, init, run, wait

import mmalab
from mmalab.errors import UsageError
from mmalab.findings import Finding, summary

#: A copy of 512 bytes of %g0 to shared memory; each thread stores one word of it to %g1.
COPY = init(1) + START + expect(0, 512) + bulk(512)
USE = ("shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; ld.shared.b32 %r2, [%r1];\n"
       "mul.wide.u32 %rd0, %t, 4; add.u64 %rd0, %rd0, %g1; st.global.b32 [%rd0], %r2;\n")
#: Before the copy, so that what it did not overwrite is known.
ZERO = "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; st.shared.b32 [%r1], 0;\n"
FENCE = "fence.proxy.async.shared::cta; bar.sync 0;\n"
#: Three float32 sums onto four words, whose result depends on their order.
REDUCE = (
    "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; setp.lt.u32 %p1, %t, 12; @!%p1 bra NO;\n"
    "mov.f32 %f0, 0f4CBEBC20; setp.ge.u32 %p2, %t, 4; @%p2 mov.f32 %f0, 0f3F800000;\n"
    "setp.ge.u32 %p2, %t, 8; @%p2 mov.f32 %f0, 0fCCBEBC20; st.shared.f32 [%r1], %f0; NO:\n"
    + FENCE + "@!%e bra OUT;\n" + "".join(
        f"add.u32 %r2, %s, {16 * at}; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"
        " [%g0], [%r2], 16;\n" for at in range(3))
    + "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; OUT:\n")


def arrays() -> list[np.ndarray]:
    """Random words without zeroes, and a poisoned output."""
    rng = np.random.default_rng(secrets.randbits(32))
    return [rng.integers(1, 1 << 32, 128, np.uint32), np.full(128, 7, np.uint32)]


def told(result: object) -> list[Finding]:
    """The findings about schedules."""
    return [f for f in result.findings if f.code == "schedule-dependent"]


def test_a_missing_wait_changes_the_output_and_is_proven():
    """The buffer, the first index, both values under their schedules, the writer, the cause."""
    data, out = arrays()
    result = run(ZERO + FENCE + COPY + USE, [data, out], schedule=["eager", "lazy"])
    [finding] = told(result)
    assert finding.severity == "error"
    assert finding.witness["argument"] == 1
    assert finding.witness["index"] == [0]
    assert finding.witness["elements"] == 128
    assert finding.witness["values"] == {"eager": str(data[0]), "lazy": "0"}
    assert finding.witness["written"]["lazy"]["text"].startswith("st.global.b32")
    assert "missing-mbarrier-wait" in finding.message
    race = next(f for f in result.findings if f.code == "missing-mbarrier-wait")
    assert f"line {race.where.line}" in finding.message
    assert np.array_equal(out, data), "outputs are those of the first schedule"


def test_with_the_wait_nothing_depends():
    """The clean twin, under seeds too; inputs and outputs as after one run."""
    data, out = arrays()
    before = data.copy()
    result = run(ZERO + FENCE + COPY + wait(0, 0) + USE, [data, out],
                 schedule=["eager", "lazy", 1, 2])
    assert result.findings == []
    assert np.array_equal(out, data)
    assert np.array_equal(data, before)


def test_the_outputs_are_those_of_the_first_schedule():
    """The other way round the late copy is the one that stays."""
    data, out = arrays()
    run(ZERO + FENCE + COPY + USE, [data, out], schedule=("lazy", "eager"))
    assert not out.any()


def test_an_array_behind_a_tensor_map():
    """A TMA store whose source is overwritten too early; values in the map's own type."""
    out = np.zeros((8, 64), ml_dtypes.bfloat16)
    made = mmalab.TensorMap.tiled(out, box=(64, 8))
    body = ("shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; st.shared.b32 [%r1], 0x3F803F80;\n"
            "st.shared.b32 [%r1+512], 0x3F803F80;\n" + FENCE
            + "@%e cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m0, {0, 0}], [%s];\n"
            "@%e cp.async.bulk.commit_group;\n{}bar.sync 0; st.shared.b32 [%r1], 0;\n"
            "@%e cp.async.bulk.wait_group 0;\n")
    [finding] = told(run(body.replace("{}", ""), [made], schedule="eager,lazy"))
    assert finding.witness["values"] == {"eager": "1", "lazy": "0"}
    assert finding.witness["index"] == [0, 0]
    right = body.replace("{}", "@%e cp.async.bulk.wait_group.read 0;\n")
    assert run(right, [made], schedule="eager,lazy").findings == []


def test_sums_in_any_order_are_a_warning():
    """Nothing is unordered, but float sums round: one warning, and the verdict is clean."""
    result = run(REDUCE, [np.zeros(4, np.float32)], schedule=["eager", *range(1, 9)])
    [finding] = told(result)
    assert finding.severity == "warning"
    assert "Nothing was found unordered" in finding.message
    assert result.verdict == "clean"


def test_a_deadlock_under_one_schedule_is_told_with_it():
    """Whether the flag is seen set depends on the copy: one schedule waits for ever."""
    body = (ZERO + FENCE + COPY + "ld.shared.b32 %r3, [%s]; setp.ne.u32 %p2, %r3, 0;\n"
            "@%p2 bra OUT;\n" + wait(1, 0) + "OUT:\n").replace(init(1), init(1, 1))
    data = arrays()[0]
    result = run(body, [data], schedule=["eager", "lazy"])
    deadlock = next(f for f in result.findings if f.code == "deadlock")
    assert deadlock.witness["schedule"] == "lazy"


def test_without_the_sanitizer_outputs_are_compared_all_the_same():
    """No race is known then, so the difference is all that is said."""
    data, out = arrays()
    result = run(ZERO + FENCE + COPY + USE, [data, out], schedule="eager,lazy", sanitize=False)
    assert [f.code for f in result.findings] == ["schedule-dependent"]


@pytest.mark.parametrize("schedule", [[], ["eager", "late"], "eager,", [True], [-1]])
def test_what_is_no_list_of_schedules(schedule):
    """Refused by name."""
    with pytest.raises(UsageError, match="schedule"):
        run("", [], schedule=schedule)


@pytest.mark.parametrize(("severities", "words"), [
    ([], "clean"), (["warning"], "clean (no errors, 1 warning)"),
    (["note", "warning", "warning"], "clean (no errors, 2 warnings, 1 note)"),
    (["error"], "findings (1 error)"), (["error", "error", "note"], "findings (2 errors, 1 note)"),
])
def test_the_verdict_in_words(severities, words):
    """Counts by severity, singular and plural."""
    assert summary([Finding("trap", severity, "") for severity in severities]) == words
