"""Findings with one cause are told once, and nothing that differs is lost."""

from __future__ import annotations

from typing import Any

from mmalab.findings import Finding, Where
from mmalab.sanitizer.families import folded


def pair(earlier: int, later: int, code: str = "missing-proxy-fence", missing: str = "no fence",
         **more: Any) -> Finding:
    """A finding about two accesses."""
    witness = {"earlier": {"line": earlier, "actor": "thread"},
               "later": {"line": later, "actor": "bulk store"}, "holds": "order",
               "missing": missing, "repair": f"fence after line {earlier}", "count": 2, **more}
    return Finding(code, "error", f"line {later}: {missing}. Repair: fence after line {earlier}",
                   Where((0, 0, 0), 0, 0, later), witness)


def test_stores_before_one_copy_are_one_finding() -> None:
    """They share the later end; the repair stands behind the last of them."""
    (only,) = folded([pair(10, 50), pair(20, 50), pair(30, 50)])
    assert "fence after line 30" in only.message
    assert only.message.endswith("(the same after lines 20, 30)")
    assert only.witness is not None
    assert only.witness["same"] == [[20, 50], [30, 50]]
    assert only.witness["count"] == 6


def test_reads_after_one_copy_are_one_finding() -> None:
    """They share the earlier end."""
    (only,) = folded([pair(10, 50), pair(10, 60)])
    assert only.message.endswith("(the same at line 60)")


def test_the_larger_family_takes_the_shared_pair() -> None:
    """A pair that could belong to two families belongs to the larger one."""
    told = folded([pair(10, 50), pair(20, 50), pair(30, 50), pair(30, 60)])
    assert [finding.where.line for finding in told] == [50, 60]


def test_other_codes_gaps_and_places_stay_apart() -> None:
    """Only what lacks the same edge at a common end is folded."""
    given = [pair(10, 50), pair(20, 60), pair(30, 50, missing="no order"),
             pair(40, 50, code="missing-barrier")]
    assert folded(given) == given


def test_order_and_single_findings_are_untouched() -> None:
    """What stands alone comes out as it went in, in its place."""
    plain = Finding("deadlock", "error", "nobody can run")
    assert folded([plain, pair(1, 2)]) == [plain, pair(1, 2)]


def test_one_instruction_at_many_lines() -> None:
    """Findings that differ in nothing but their lines are one."""
    def alone(line: int, owner: int) -> Finding:
        return Finding("cluster-lifetime", "error", f"'arrive' (line {line}) reaches CTA {owner}",
                       Where(line=line), {"owner": owner, "count": 1})
    told = folded([alone(4, 0), alone(8, 0), alone(9, 1)])
    assert [finding.where.line for finding in told] == [4, 9]
    assert told[0].message.endswith("(the same at line 8)")


def test_findings_that_name_one_family() -> None:
    """The steps through K of one wrong descriptor differ in their words and are told once."""
    steps = [Finding("descriptor-mismatch", "warning", f"start {16 * k:#x}", Where(line=10 + k),
                     {"family": "b 0x1000"}) for k in range(3)]
    other = Finding("descriptor-mismatch", "warning", "A", Where(line=10), {"family": "a 0x1000"})
    first, second = folded([*steps, other])
    assert first.message == "start 0x0 (the same at lines 11, 12)"
    assert second == other
