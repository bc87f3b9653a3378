"""The tour: every step shows what it should, and says so when it does not."""

from __future__ import annotations

import pytest

from mmalab.cli import tour as frame
from mmalab.cli import tour_tensor_memory
from mmalab.cli.tour_steps import Outcome
from mmalab.errors import ToolError, UsageError


@pytest.mark.toolkit
def test_every_step_goes_as_it_should(mmalab) -> None:
    """On any machine with the assembler all steps are ok, the caught bug included."""
    answer = mmalab("tour", "--json")
    assert [(stop["title"], stop["verdict"]) for stop in answer.json] == [
        (title, "ok") for title, _ in frame.STEPS]
    assert answer.code == 0


@pytest.mark.toolkit
def test_tensor_memory_s_steps() -> None:
    """Article B's probe has guardrails that let wrong counts in registers pass; check does not."""
    shown = tour_tensor_memory.guardrails()
    assert shown.data["found"] == [16, 48, 96, 1024]
    assert shown.data["handlers"]
    assert sum("accepted       tmem-size" in line for line in shown.lines) == 4
    columns = tour_tensor_memory.columns()
    assert columns.data == {"columns": 268, "allocated": 288, "two accumulators": 524}
    assert any("524 columns: Tensor Memory has 512" in line for line in columns.lines)


def no_tool() -> Outcome:
    raise ToolError("ptxas", "is not installed", legal="pip install 'mmalab[toolchain]'")


def wrong_use() -> Outcome:
    raise UsageError("x", "is wrong")


@pytest.mark.parametrize(("step", "verdict", "code"), [
    (lambda: Outcome(True, ("fine",)), "ok", 0),
    (lambda: Outcome(False, ("not fine",)), "failed", 1),
    (wrong_use, "failed", 1),
    (no_tool, "left out", 0)])
def test_verdicts(mmalab, monkeypatch: pytest.MonkeyPatch, step, verdict: str, code: int) -> None:
    """A wrong result or an error fails the tour; a missing tool leaves its step out."""
    monkeypatch.setattr(frame, "STEPS", (("one", step),))
    answer = mmalab("tour", "--json")
    assert (answer.json[0]["verdict"], answer.code) == (verdict, code)
    shown = mmalab("tour")
    assert shown.code == code
    assert f"1 {verdict}" in shown.out


def test_the_end_says_what_to_do_next(mmalab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment that the shell has not activated, first how to reach the command."""
    monkeypatch.setattr(frame, "STEPS", ())
    monkeypatch.setattr(frame.sys, "base_prefix", "/elsewhere")
    monkeypatch.setattr(frame.shutil, "which", lambda name: None)
    lines = mmalab("tour").out.splitlines()
    assert lines[2:4] == ["next:", f"  . {frame.sys.prefix}/bin/activate"]
    assert any("mmalab --ask" in line for line in lines)
    monkeypatch.setattr(frame.shutil, "which", lambda name: name)
    assert "activate" not in mmalab("tour").out
