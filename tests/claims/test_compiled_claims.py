"""Claims of the compiler, by every installed release."""

from __future__ import annotations

import pytest

from mmalab.claims import rerun
from mmalab.claims.statements import recorded


@pytest.mark.toolkit
@pytest.mark.parametrize("name", [
    "A-097", "A-142", "B-005", "B-022", "B-046", "B-047", "B-052", "B-061", "B-065", "B-086",
    "B-090", "B-142", "B-155"])
def test_compiled_claims(name: str) -> None:
    """One of each kind of build gives the verdict on record, and says by which compiler."""
    [result] = rerun([name])
    assert result.verdict is recorded()[name], [
        check.what for check in result.answer.checks if not check.agrees]
    assert any(e.kind == "compiled" and "ptxas" in e.what for e in result.answer.evidence)
