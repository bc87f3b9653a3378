"""Small wrong Hopper kernels are found by name; their right twins, and unusual ones, are clean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mutants.hopper_snippets import START, bulk, expect, init, run, wait
from mutants.small_hopper import FAULTS, FILL, PROXY, UNUSUAL, Case, words
from mutants.verdicts import ANEW, codes, recorded

import mmalab
from mmalab.errors import UsageError

REDUCED = ("@{} cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%g1], [%s], 512;\n")
GROUP = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"


def test_reductions_of_several_lanes_into_several_places() -> None:
    """One lane, or lanes that reduce each their part."""
    apart = ("setp.lt.u32 %p4, %t, 32; shl.b32 %r3, %t, 4; add.u32 %r3, %r3, %s;\n"
             "mul.wide.u32 %rd3, %t, 16; add.u64 %rd3, %rd3, %g1;\n"
             + REDUCED.format("%p4").replace("[%g1], [%s], 512", "[%rd3], [%r3], 16"))
    for body in (REDUCED.format("%e"), apart):
        assert run(FILL + PROXY + "bar.sync 0;\n" + body + GROUP, words()).findings == []


def found(case: Case, schedule: str | int = "eager") -> Any:
    """Findings of one run; a launch that is refused counts as its own code."""
    return run(case.body, case.args(), **{**case.launch, "schedule": schedule}).findings


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found(name: str, schedule: str) -> None:
    """One of its codes, as an error."""
    wrong = FAULTS[name][0]
    told = found(wrong, schedule)
    errors = {f.code for f in told if f.severity == "error"}
    assert errors & set(wrong.codes), [str(f) for f in told]
    if schedule == "eager":
        assert recorded(name) == [codes(told), "-"], ANEW


@pytest.mark.parametrize("schedule", ["eager", "lazy", 1])
@pytest.mark.parametrize("name", FAULTS)
def test_the_twin_is_clean(name: str, schedule: str | int) -> None:
    """Nothing but notes."""
    told = found(FAULTS[name][1], schedule)
    assert [str(f) for f in told if f.severity != "note"] == []


@pytest.mark.parametrize("name", UNUSUAL)
def test_the_unusual_is_clean(name: str) -> None:
    """No finding under any schedule, and one result."""
    case = UNUSUAL[name]
    told = found(case, ["eager", "lazy", 1, 2])
    assert [str(f) for f in told if f.severity != "note"] == []
    assert recorded(name) == ["-"], ANEW


@pytest.mark.parametrize(("body", "code"), [
    (init(1) + START + expect(0, 512) + bulk(512) + "mov.b32 %r3, 2;\n" + wait(0, "%r3"),
     "illegal-value"),
    ("@%e st.shared.b64 [%b], 0;\n@%e mbarrier.inval.shared::cta.b64 [%b];\n".replace(
        "st.shared.b64 [%b], 0", "mbarrier.init.shared::cta.b64 [%b], 1")
     + init(1) + START + "ld.shared.b64 %rd5, [%b];\n", "mbarrier-lifetime"),
    (FILL + PROXY + "bar.sync 0;\nsetp.lt.u32 %p4, %t, 32;\n" + REDUCED.format("%p4") + GROUP,
     "async-overlap"),
])
def test_what_only_works_by_luck_is_a_warning(body: str, code: str) -> None:
    """A parity beyond its bit, a look at a barrier's bits, a sum that counts 32 times."""
    assert [(f.code, f.severity) for f in run(body, words()).findings] == [(code, "warning")]


@pytest.mark.parametrize("access", ["ld.global.b32 %r2, [%rd3]", "st.global.b32 [%rd3], %t",
                                    "st.global.v4.b32 [%rd3], {%t, %t, %t, %t}"])
@pytest.mark.parametrize("grid", [1, 4])
def test_accesses_behind_a_buffer(access: str, grid: int) -> None:
    """Also of several clusters that are compared with each other."""
    body = ("mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 64, 4096; mad.lo.u32 %r3, %t, 16, %r3;\n"
            "mul.wide.u32 %rd3, %r3, 1; add.u64 %rd3, %rd3, %g1;\n" + init(1) + START + access
            + ";\n")
    assert {f.code for f in run(body, words(), grid=grid).findings} == {"out-of-bounds"}


def test_a_matrix_wants_a_whole_warp() -> None:
    """The lanes that a block of 48 threads does not have would hold a part of it."""
    body = ("mov.f32 %f0, 0f00000000; mov.b32 %r1, 0;\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16"
            ".f32 {%f0, %f0, %f0, %f0}, {%r1, %r1}, {%r1}, {%f0, %f0, %f0, %f0};\n")
    assert run(body, block=64).findings == []
    [finding] = run(body, block=48).findings
    assert (finding.code, finding.severity) == ("divergent-collective", "warning")
    assert (finding.where.warp, "warp 1 has 16" in finding.message) == (1, True)


@pytest.mark.parametrize(("registers", "legal"), [(240, False), (176, False), (168, True)])
def test_registers_at_launch(registers: int, legal: bool) -> None:
    """384 threads with setmaxnreg: 65536 registers are 170 each."""
    known = f".reqntid 384 .maxnreg {registers}"
    body = "setmaxnreg.dec.sync.aligned.u32 40;\n"
    if legal:
        assert run(body, block=384, attributes=known).findings == []
    else:
        with pytest.raises(UsageError, match=r"cannot start"):
            run(body, block=384, attributes=known)


@pytest.mark.parametrize(("name", "words"), [
    ("multicast_peer_announces_nothing", "of CTA 1 got 512 bytes (line 21) that nobody announced"),
    ("announced_to_the_wrong_cta", "of CTA 0 got 512 bytes (line 21) that nobody announced"),
    ("arrives_at_its_own_barrier_instead_of_the_peers",
     "of CTA 1, but 1 on that of CTA 0 at the same offset"),
    ("state_of_an_old_phase", "warp 0 of CTA 0 waits (line 21) for its own arrival"),
    ("everybody_arrives_for_one", "one warp has arrived 32 times (line 16), and a phase takes 1"),
    ("dropped_arrivals_are_waited_for", "warp 2 of CTA 0 waits (line 24) for its own arrival"),
])
def test_a_deadlock_names_its_cause(name: str, words: str) -> None:
    """In the words of the report."""
    case = FAULTS[name][0]
    deadlock = run(case.body, case.args(), **case.launch).deadlock
    assert words in deadlock["summary"], deadlock["summary"]


def test_all_of_them_differ_and_their_codes_exist() -> None:
    """A twin is another text or launch; codes are those of the table."""
    for wrong, right in FAULTS.values():
        assert (wrong.body, wrong.launch) != (right.body, right.launch)
        assert set(wrong.codes) <= set(mmalab.findings.CODES)
    assert np.unique([wrong.body + str(wrong.launch) for wrong, _ in FAULTS.values()]).size == len(
        FAULTS)
