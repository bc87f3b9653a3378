"""emulate() with the sanitizer: one list of findings, each fault once, sorted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mmalab
from mmalab.findings import Finding, Where
from mmalab.sanitizer.run import merged

KERNEL = (Path(__file__).parent / "kernels" / "global_no_barrier.ptx").read_text()


def found(code, severity="error", line=1, **witness):
    return Finding(code, severity, "", Where(line=line), witness)


def test_the_public_emulate_finds_races():
    """mmalab.emulate is the sanitizing one, and its verdict follows."""
    words = np.zeros(64, np.uint32)
    run = mmalab.emulate(KERNEL, [words, words.copy()], block=64)
    assert (run.verdict, [finding.code for finding in run.findings]) == ("findings", ["data-race"])


def test_without_sanitizing_nothing_listens():
    """sanitize=False reports no race."""
    words = np.zeros(64, np.uint32)
    run = mmalab.emulate(KERNEL, [words, words.copy()], block=64, sanitize=False)
    assert (run.verdict, run.findings) == ("clean", [])


def test_a_fault_that_both_report_is_kept_once_with_the_models_witness():
    """The same code at the same line, from machine and model."""
    machine, model = found("barrier-count"), found("barrier-count", repair="32")
    assert merged([machine], [model], frozenset()) == [model]


def test_other_faults_of_the_machine_stay():
    """Another line, another code."""
    others = [found("barrier-count", line=2), found("deadlock", line=3)]
    assert merged(others, [found("barrier-count")], frozenset()) == [
        found("barrier-count"), *others]


def test_a_wild_access_is_not_uninitialised_as_well():
    """Out of bounds explains it."""
    wild = found("out-of-bounds")
    assert merged([wild], [found("uninitialised-read")], frozenset()) == [wild]


def test_an_early_read_of_a_race_is_not_uninitialised_as_well():
    """A register is: no race explains it."""
    memory, register = found("uninitialised-read", address=4), found(
        "uninitialised-read", register="%r1", line=1)
    assert merged([memory, register], [], frozenset({1})) == [register]


def test_errors_come_before_warnings_and_then_by_line():
    """Severity, then place."""
    findings = [found("lane-collision", "warning", 1), found("deadlock", "error", 9),
                found("data-race", "error", 2)]
    assert [f.where.line for f in merged(findings, [], frozenset())] == [2, 9, 1]
